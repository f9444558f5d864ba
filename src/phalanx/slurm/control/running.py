"""Send signals to running jobs, suspend and resume jobs (SIGSTOP and SIGCONT to all their processes), and requeue
jobs."""

from __future__ import annotations

import base64
import os
import pwd
import signal
import time
from contextlib import suppress

import msgspec

from phalanx.client.moment import write_moment
from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import SECRETS, ApiClient
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import ASK, PREFIX
from phalanx.slurm.jobs.names import path_of, secret_of
from phalanx.slurm.jobs.view import SUSPENDED, JobInfo

_REQUEUE_S = 121  # as in Slurm, a requeued job may not start before this time has passed
_PLACE_S = 5.0
ALL, STEPS, SCRIPT, LAUNCHER = "all", "steps", "batch", "launcher"


def send(api: ApiClient, job: JobInfo, number: int, what: str) -> None:
    """Send the signal `number` to processes of the job. `what`: STEPS for the tasks of all steps, SCRIPT for the batch
    script, ALL for both, LAUNCHER for the process that started the script. Raises PhalanxError."""
    from phalanx.slurm.jobs.steps.pods import channel
    from phalanx.slurm.jobs.steps.pods.place import allocation

    place = allocation(api.within(job.namespace), job.number, _PLACE_S)
    for index in range(len(place.nodes)):
        link = place.channel(index)
        link.send(channel.SIGNAL, msgspec.json.encode({"signal": number, "what": what}))
        with suppress(channel.Broken):
            link.receive()
        link.close()


def suspend(api: ApiClient, job: JobInfo) -> None:
    send(api, job, signal.SIGSTOP, ALL)
    change = {"metadata": {"annotations": {SUSPENDED: str(time.time())}}}
    api.within(job.namespace).patch(path_of(job.number, job.ask), change)


def resume(api: ApiClient, job: JobInfo) -> None:
    change = {"metadata": {"annotations": {SUSPENDED: None}}}
    api.within(job.namespace).patch(path_of(job.number, job.ask), change)
    send(api, job, signal.SIGCONT, ALL)


def requeue(api: ApiClient, job: JobInfo, hold: str = "") -> None:
    """Stop the job and put it back into the queue, with the same job number and a SLURM_RESTART_COUNT that is higher by
    1. `hold`: the reason of the hold if the job must be held; "" otherwise."""
    send_cause(api, job, signal.SIGHUP)
    api = api.within(job.namespace)
    ask = msgspec.structs.replace(job.ask, restarts=job.ask.restarts + 1, begin_s=time.time() + _REQUEUE_S)
    count = base64.b64encode(str(ask.restarts).encode()).decode()
    api.patch(f"{SECRETS}/{secret_of(job.number, job.ask)}", {"data": {f"PHALANX_RESTARTS_{job.number}": count}})
    steps: dict[str, str | None] = {f"{PREFIX}step.{number}": None for number in job.steps}
    words = {
        "phalanx.dev/admitted": None,
        "phalanx.dev/begin": write_moment(ask.begin_s or 0.0),
        "phalanx.dev/hold": hold or None,
        ASK: msgspec.json.encode(ask).decode(),
        SUSPENDED: None,
        **steps,
    }
    api.patch(path_of(job.number, job.ask), {"metadata": {"annotations": words}, "spec": {"suspend": True}})


def send_cause(api: ApiClient, job: JobInfo, number: int) -> None:
    """Send a signal to the launcher of the script that states why the job will end: SIGHUP if the job is requeued,
    SIGQUIT if its node is taken down, also if the job is requeued for this reason."""
    with suppress(OSError, PhalanxError):
        send(api, job, number, LAUNCHER)


def may(api: ApiClient, job: JobInfo) -> bool:
    """Return True if the caller may change the job: if the caller is its user, root, an operator, an administrator, or
    a coordinator of the job's account. The API server makes the final decision."""
    return os.getuid() in (0, job.ask.uid) or may_as(site.load(api), pwd.getpwuid(os.getuid()).pw_name, job)


def is_operator(here: Site) -> bool:
    """Return whether the caller is an operator or an administrator."""
    return here.admins.get(pwd.getpwuid(os.getuid()).pw_name, "None") != "None"


def may_as(here: Site, user: str, job: JobInfo) -> bool:
    """Return whether the user may change the job, because the user has an admin level or is a coordinator of the job's
    account."""
    from phalanx.slurm.accounts.tree import coordinators

    return here.admins.get(user, "None") != "None" or user in coordinators(here, job.ask.account)
