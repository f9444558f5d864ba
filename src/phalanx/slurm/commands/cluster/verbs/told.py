"""scontrol notify, wait_job and pidinfo."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence

from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.cluster.verbs.named import named
from phalanx.slurm.control import running
from phalanx.slurm.jobs.ask import BATCH
from phalanx.slurm.jobs.ended import recorded_of
from phalanx.slurm.jobs.view import jobs
from phalanx.slurm.options import Usage, say

_LOOK_S = 0.5


def notify(words: Sequence[str]) -> int:
    """Carry out `notify JOB TEXT`. Slurm writes the text to the terminal of srun or salloc; a batch job has no
    terminal."""
    if len(words) < 2:
        raise Usage("too few arguments for keyword:notify")
    if not int(_leading(words[0])):
        raise Usage(f"Invalid job_id {words[0]}job notify failure: No error")
    try:
        found = named(Api.open(), _leading(words[0]))
    except Usage:
        raise Usage("job notify failure: Invalid job id specified") from None
    if not all(running.may(Api.open(), job) for job in found):
        raise Usage("job notify failure: Invalid user id")
    if any(job.state == "PENDING" and job.ask.kind == BATCH for job in found):  # a script has no terminal
        raise Usage("job notify failure: Requested operation is presently disabled")
    return 0


def _leading(word: str) -> str:
    """Return the digits at the beginning of a job id; Slurm ignores the rest."""
    return "".join(itertools.takewhile(str.isdecimal, word)) or "0"


def pid_of(words: Sequence[str]) -> int:
    """Carry out `pidinfo PID`, which shows the job of a process. It fails, because processes in pods are not visible to
    the command."""
    if not words:
        raise Usage("missing argument for keyword:pidinfo")
    raise Usage("Failed to locate job for requested pid")


def pids_of(words: Sequence[str]) -> int:
    """Carry out `listpids`, which lists the processes of steps on this node. The list is empty, because processes in
    pods are not visible to the command."""
    job = words[0] if words else ""
    if job and not job[0].isdigit():
        raise Usage(f'"{job}" does not look like a jobid')
    print("PID      JOBID    STEPID   LOCALID GLOBALID", flush=True)
    raise Usage(f"JobId={job} does not exist on node (null)." if job else "No job steps exist on this node.")


# Error numbers of Slurm, of the errors that users see.
_ERRORS = {
    2000: "Invalid partition name specified", 2002: "Access/permission denied", 2003: "Job script not specified",
    2017: "Invalid job id specified", 2021: "Job/step already completing or completed",
}  # fmt: skip


def message_of(words: Sequence[str]) -> int:
    """errnumstr NUMBER: the text of an error of the system, or of Slurm."""
    if not words:
        raise Usage("one arguments required for keyword:errnumstr")
    if not words[0].isdigit():
        raise Usage("numeric arguments required for keyword:errnumstr")
    number = int(words[0][:9])
    print(_ERRORS.get(number) or os.strerror(number))
    return 0


def wait_for(words: Sequence[str]) -> int:
    """wait_job JOB: until the nodes of a job that starts are ready. As in Slurm, a job that waits is not running."""
    if not words:
        raise Usage("too few arguments for keyword:wait_job")
    if not words[0][:1].isdigit():
        raise Usage(f"Invalid job_id {words[0]}")
    number = int(_leading(words[0]))
    if not number:
        raise Usage(f"Invalid job_id {words[0]}")
    api = Api.open()
    while True:
        found = [job for job in jobs(api, [number], places=False) if number in (job.number, job.base)]
        if not found and not recorded_of([number]):
            say(f"scontrol: Problem running job {number}")
            return 1
        states = {job.state for job in found}
        if "RUNNING" in states:
            say(f"scontrol: Nodes are ready for job {number}")
            return 0
        if "CONFIGURING" not in states:
            say(f"scontrol: Job {number} no longer running")
            return 1
        time.sleep(_LOOK_S)  # the user asked to wait without a limit
