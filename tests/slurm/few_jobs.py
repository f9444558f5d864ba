"""Jobs that wait or run, alone or in an array."""

from __future__ import annotations

from msgspec.structs import replace

from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import JobInfo

PLAIN = Ask(name="j", user="u", uid=0, gid=0, group="u", account="a", partition="p")


WAITS, RUNS = JobInfo(number=7, ask=PLAIN, state="PENDING"), JobInfo(number=8, ask=PLAIN, state="RUNNING", nodes=("n",))


TASKS = [
    JobInfo(number=11, ask=replace(PLAIN, array=10, task=1), state="PENDING"),
    JobInfo(number=12, ask=replace(PLAIN, array=10, task=2), state="RUNNING", nodes=("n",)),
]


PAIR = [
    JobInfo(number=11, ask=replace(PLAIN, array=10, task=1), state="PENDING", held=True),
    JobInfo(number=12, ask=replace(PLAIN, array=10, task=2), state="PENDING", held=True),
]
