"""scontrol notify, wait_job and pidinfo."""

from __future__ import annotations

import time
from collections.abc import Sequence

from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.cluster.verbs.named import named
from phalanx.slurm.control import running
from phalanx.slurm.jobs.ended import recorded_of
from phalanx.slurm.jobs.view import jobs
from phalanx.slurm.options import Usage, say

_LOOK_S = 0.5


def notify(words: Sequence[str]) -> int:
    """notify JOB TEXT: Slurm writes the text to the terminal of srun or salloc, and of a batch job nowhere."""
    if len(words) < 2:
        raise Usage("too few arguments for keyword:notify")
    try:
        found = named(Api.open(), words[0])
    except Usage:
        raise Usage("job notify failure: Invalid job id specified") from None
    if not all(running.may(Api.open(), job) for job in found):
        raise Usage("job notify failure: Invalid user id")
    return 0


def pid_of(words: Sequence[str]) -> int:
    """pidinfo PID: which job a process is of. Processes in pods are not seen from here."""
    if not words:
        raise Usage("missing argument for keyword:pidinfo")
    raise Usage("Failed to locate job for requested pid")


def wait_for(words: Sequence[str]) -> int:
    """wait_job JOB: until its nodes are ready, which they are as soon as it runs."""
    if not words:
        raise Usage("too few arguments for keyword:wait_job")
    api, number = Api.open(), int(words[0]) if words[0].isdigit() else 0
    while True:
        found = [job for job in jobs(api, [number], places=False) if job.number == number] if number else []
        if not found and not (number and recorded_of([number])):
            say(f"scontrol: Problem running job {words[0]}")
            return 1
        if not found or not found[0].live:
            say(f"scontrol: Job {words[0]} no longer running")
            return 1
        if found[0].state == "RUNNING":
            return 0
        time.sleep(_LOOK_S)  # a user asked to wait for as long as it takes
