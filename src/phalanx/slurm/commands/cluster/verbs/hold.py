"""scontrol hold, release, requeue, suspend, resume and top."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Sequence

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.cluster.verbs.named import DENIED, named
from phalanx.slurm.control import running
from phalanx.slurm.jobs.ask import BATCH
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.view import Job
from phalanx.slurm.options import Usage, say


def hold(words: Sequence[str], reason: str) -> int:
    """`reason`: why they wait from now on; empty: they are released."""
    if not words:
        raise Usage("too few arguments for keyword:hold")
    api, status = Api.open(), 0
    for job in [job for word in words for job in named(api, word)]:
        if not job.live:
            say(f"Job has already finished for job {job.id}\nslurm_suspend error: Job has already finished")
            status = 1
        elif not running.may(api, job) or (job.reason == "JobHeldAdmin" and not _may_release(api, job)):
            say(f"{DENIED}{job.id}\nslurm_suspend error: Access/permission denied")
            status = 1
        elif job.state != "PENDING":
            continue  # Slurm takes it, and it changes nothing unless the job is requeued
        else:
            said = (reason if os.getuid() == job.ask.uid else "JobHeldAdmin") if reason else None
            change = {"metadata": {"annotations": {"phalanx.dev/hold": said}}}
            api.within(job.namespace).patch(path_of(job.number, job.ask), change)
    return status


def _may_release(api: Api, job: Job) -> bool:
    """Return whether the user may end the hold of an administrator: those who may hold the jobs of others."""
    me = pwd.getpwuid(os.getuid()).pw_name
    return os.getuid() == 0 or running.may_as(site.load(api), me, job)


def to_running(words: Sequence[str], do: Callable[[Api, Job], str]) -> int:
    """`do` says why it cannot be done, if so."""
    if not words:
        raise Usage("scontrol: error: too few arguments for keyword")
    api, status = Api.open(), 0
    for word in [part for some in words for part in re.split(r",(?![^\[]*\])", some)]:
        try:
            found = named(api, word)
        except Usage:
            missing = "Unexpected message received" if do in (suspend, resume) else "Invalid job id specified"
            say(f"{missing} for job {word}")
            status = 1
            continue
        for job in found:
            try:
                wrong = do(api, job)
            except (PhalanxError, OSError) as error:
                wrong = str(error)
            if wrong:
                say(f"{wrong} for job {job.id}")
                status = 1
    return status


def requeue(api: Api, job: Job, reason: str = "") -> str:
    if not running.may(api, job):
        return "Access/permission denied"
    if job.state == "PENDING":
        return "Job is pending execution"
    if not job.ask.requeue or job.ask.kind != BATCH or job.state not in ("RUNNING", "SUSPENDED"):
        return "Requested operation is presently disabled"
    running.requeue(api, job, reason)
    return ""


def requeue_held(api: Api, job: Job) -> str:
    return requeue(api, job, "JobHeldUser" if os.getuid() == job.ask.uid else "JobHeldAdmin")


def suspend(api: Api, job: Job) -> str:
    if os.getuid() != 0:
        return "Access/permission denied"
    if job.state == "PENDING":
        return "Job is pending execution"
    if job.state != "RUNNING":
        return "Job has already finished" if job.state != "SUSPENDED" else "Job is not running"
    running.suspend(api, job)
    return ""


def resume(api: Api, job: Job) -> str:
    if os.getuid() != 0:
        return "Access/permission denied"
    if job.state != "SUSPENDED":
        return "Job is not suspended"
    running.resume(api, job)
    return ""


def top(words: Sequence[str]) -> int:
    """Only for administrators, as in Slurm unless it is configured otherwise."""
    if os.getuid() != 0:
        raise Usage("\n".join(f"Access/permission denied for job {word}" for word in words))
    raise Usage("scontrol: error: top is not supported by Phalanx: update the job's Priority (docs/guide/slurm.md)")
