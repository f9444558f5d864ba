"""The verbs of scontrol that act on jobs and processes.

The first part of this module has the verbs notify, pidinfo, listpids, errnumstr and wait_job. The second part of the
module has the verbs hold, release, requeue, suspend, resume and top.
"""

from __future__ import annotations

import itertools
import os
import pwd
import re
import time
from collections.abc import Callable, Sequence

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.cluster.verbs.named import (
    line_of,
    named,
    parts_of,
    refusal,
    say_of,
    with_ended,
    without_job,
)
from phalanx.slurm.control import running
from phalanx.slurm.jobs.ask import BATCH
from phalanx.slurm.jobs.ended import recorded_of
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.options import Usage, say

_LOOK_S = 0.5


def notify(words: Sequence[str]) -> int:
    """Run `notify JOB TEXT`. Slurm writes the text to the terminal of srun or salloc. Phalanx only checks the job and
    the rights of the caller, and does not deliver the text."""
    if len(words) < 2:
        raise Usage("too few arguments for keyword:notify")
    if not int(_leading(words[0])):
        raise Usage(f"Invalid job_id {words[0]}job notify failure: No error")
    try:
        found = named(ApiClient.open(), _leading(words[0]))
    except Usage:
        raise Usage("job notify failure: Invalid job id specified") from None
    if not all(running.may(ApiClient.open(), job) for job in found):
        raise Usage("job notify failure: Invalid user id")
    if any(job.state == "PENDING" and job.ask.kind == BATCH for job in found):  # a script has no terminal
        raise Usage("job notify failure: Requested operation is presently disabled")
    return 0


def _leading(word: str) -> str:
    """Return the digits at the beginning of a job id, or "0" without digits. Slurm ignores the rest of the id."""
    return "".join(itertools.takewhile(str.isdecimal, word)) or "0"


def pid_of(words: Sequence[str]) -> int:
    """Run `pidinfo PID`, which shows the job of a process in Slurm. In Phalanx, `pidinfo` always fails, because the
    command cannot see the processes in pods."""
    if not words:
        raise Usage("missing argument for keyword:pidinfo")
    raise Usage("Failed to locate job for requested pid")


def pids_of(words: Sequence[str]) -> int:
    """Run `listpids`, which lists the processes of steps on this node in Slurm. In Phalanx the list is always empty,
    because the command cannot see the processes in pods."""
    job = words[0] if words else ""
    if job and not job[0].isdecimal():
        raise Usage(f'"{job}" does not look like a jobid')
    print("PID      JOBID    STEPID   LOCALID GLOBALID", flush=True)
    raise Usage(f"JobId={job} does not exist on node (null)." if job else "No job steps exist on this node.")


# error number of Slurm -> its text; only errors that users see
_ERRORS = {
    2000: "Invalid partition name specified", 2002: "Access/permission denied", 2003: "Job script not specified",
    2017: "Invalid job id specified", 2021: "Job/step already completing or completed",
}  # fmt: skip


def message_of(words: Sequence[str]) -> int:
    """Run `errnumstr NUMBER`: print the text of an error number of Slurm or of the operating system."""
    if not words:
        raise Usage("one arguments required for keyword:errnumstr")
    if not words[0].isdecimal():
        raise Usage("numeric arguments required for keyword:errnumstr")
    number = int(words[0][:9])
    print(_ERRORS.get(number) or os.strerror(number))
    return 0


def wait_for(words: Sequence[str]) -> int:
    """Run `wait_job JOB`: wait until the nodes of a starting job are ready. As in Slurm, the message for a pending job
    is that it is no longer running."""
    if not words:
        raise Usage("too few arguments for keyword:wait_job")
    if not words[0][:1].isdecimal():
        raise Usage(f"Invalid job_id {words[0]}")
    number = int(_leading(words[0]))
    if not number:
        raise Usage(f"Invalid job_id {words[0]}")
    api = ApiClient.open()
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


# --- hold, release, requeue, suspend, resume, top ---------------------------------------------------------------------


def hold(words: Sequence[str], reason: str, verb: str = "") -> int:
    """Hold or release the jobs with these ids or names. `words`: the ids and names. `reason`: the reason for which the
    jobs are held; "" to release them. `verb`: the keyword for error messages, if it is neither hold nor release."""
    if not words:
        raise Usage(f"too few arguments for keyword:{verb or ('hold' if reason else 'release')}")
    api, status = ApiClient.open(), 0
    for word in words:
        try:
            parts = [word] if "=" in word else re.split(r",(?![^\[]*\])", word)
            found = [job for part in parts for job in with_ended(api, part)]
        except Usage:
            say(f"Invalid job id specified for job {word}\nslurm_suspend error: Invalid job id specified")
            status = 1
            continue
        for job in shown_together(found):
            if why := _hold(api, [job, *_others(found, job)], reason, as_user=verb in ("uhold", "holdu")):
                say_of(job, why)
                if job.ask.task is None and "=" not in word:
                    say(f"slurm_suspend error: {why}")
                status = 1
        if "=" in word and status:
            say("slurm_suspend error: No error")
    return status


def _others(found: Sequence[JobInfo], first: JobInfo) -> list[JobInfo]:
    """Return the tasks that squeue shows in the same line as the task `first` of their array."""
    return [job for job in found if job.base == first.base and job.ask.task in first.others]


def _hold(api: ApiClient, of: Sequence[JobInfo], reason: str, *, as_user: bool = False) -> str:
    """Hold the jobs `of` with this reason, or release them if the reason is "". Return the reason if the change is
    refused; "" otherwise.
    `as_user`: True for uhold: the user of the job may release the hold, even if an administrator has set it."""
    job = of[0]
    if not job.live:
        return "Job has already finished"
    if why := refusal(api, job):
        return why
    if job.reason == "JobHeldAdmin" and not _may_release(api, job):
        # a hold by the user does not replace a hold by an administrator.
        return "" if reason else "Access/permission denied"
    if job.state != "PENDING":
        return ""  # Slurm accepts a hold of a running job; it would only have an effect after a requeue
    held = (reason if as_user or os.getuid() == job.ask.uid else "JobHeldAdmin") if reason else None
    for one in of:
        change = {"metadata": {"annotations": {"phalanx.dev/hold": held}}}
        api.within(one.namespace).patch(path_of(one.number, one.ask), change)
    return ""


def _may_release(api: ApiClient, job: JobInfo) -> bool:
    """Return whether the caller may release a job that an administrator holds. A user may do so if the user may hold
    jobs of other users."""
    me = pwd.getpwuid(os.getuid()).pw_name
    return os.getuid() == 0 or running.may_as(site.load(api), me, job)


def to_running(verb: str, words: Sequence[str], do: Callable[[ApiClient, JobInfo], str]) -> int:
    """Call `do` for each job of these ids, and return the exit code. `verb`: the keyword for error messages. `do`: a
    function that acts on a job, and returns the reason for a failure, or ""."""
    if not words:
        raise Usage(f"too few arguments for keyword:{verb}")
    api, status = ApiClient.open(), 0
    for word in words:
        try:
            parts = parts_of(word)
        except Usage as error:
            say(error.text)
            status = 1
            continue
        for part in parts:
            status = _to_running_part(api, part, do) or status
    return status


def _to_running_part(api: ApiClient, part: str, do: Callable[[ApiClient, JobInfo], str]) -> int:
    """Call `do` for each job with this id, and return the exit code."""
    by_name = do in (requeue, requeue_held)
    try:
        found = named(api, part)
    except Usage:
        say(without_job(part) if by_name else _missing(api, part))
        return 1
    wrong = _done(api, found, do)
    for why, failed in wrong.items():
        one = shown_together(failed)[0]
        if by_name:
            say_of(line_of(api, one) if one.state == "PENDING" else one, why)
            continue
        base = str(one.base) if failed == found and "_" not in part else one.id
        say(f"{why} for job {(base if len(failed) > 1 else failed[0].id).replace('[', '').replace(']', '')}")
    return int(bool(wrong))


def _missing(api: ApiClient, part: str) -> str:
    """Return Slurm's message about a task to suspend that does not exist. If its array exists, users other than root
    get "Access/permission denied"."""
    base = part.partition("_")[0]
    why = "Unexpected message received"
    if os.getuid() != 0 and base != part and jobs(api, [int(base)], places=False):
        why = "Access/permission denied"
    return f"{why} for job {part.replace('[', '').replace(']', '')}"


def _done(
    api: ApiClient, found: Sequence[JobInfo], do: Callable[[ApiClient, JobInfo], str]
) -> dict[str, list[JobInfo]]:
    """Call `do` for each job. Return the jobs for which `do` failed: reason -> jobs."""
    wrong: dict[str, list[JobInfo]] = {}
    for job in found:
        try:
            why = do(api, job)
        except (PhalanxError, OSError) as error:
            why = str(error)
        if why:
            wrong.setdefault(why, []).append(job)
    return wrong


def requeue(api: ApiClient, job: JobInfo, reason: str = "") -> str:
    if not running.may(api, job):
        return "Access/permission denied"
    if job.state == "PENDING":
        return "Job is pending execution"
    if not job.ask.requeue or job.ask.kind != BATCH or job.state not in ("RUNNING", "SUSPENDED"):
        return "Requested operation is presently disabled"
    running.requeue(api, job, reason)
    return ""


def requeue_held(api: ApiClient, job: JobInfo) -> str:
    return requeue(api, job, "JobHeldUser" if os.getuid() == job.ask.uid else "JobHeldAdmin")


def suspend(api: ApiClient, job: JobInfo) -> str:
    if os.getuid() != 0:
        return "Access/permission denied"
    if job.state == "PENDING":
        return "Job is pending execution"
    if job.state != "RUNNING":
        return "Job has already finished" if job.state != "SUSPENDED" else "Job is not running"
    running.suspend(api, job)
    return ""


def resume(api: ApiClient, job: JobInfo) -> str:
    if os.getuid() != 0:
        return "Access/permission denied"
    if job.state != "SUSPENDED":
        return "Job is not suspended"
    running.resume(api, job)
    return ""


def top(words: Sequence[str]) -> int:
    """Raise Usage for `top`. In Slurm, by default only administrators may use it; Phalanx does not support it."""
    if not words:
        raise Usage("too few arguments for keyword:top")
    if os.getuid() != 0:
        raise Usage("\n".join(f"Access/permission denied for job {word}" for word in words))
    raise Usage("scontrol: error: top is not supported by Phalanx: update the job's Priority (docs/guide/slurm.md)")
