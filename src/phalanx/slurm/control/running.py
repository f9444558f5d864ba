"""Signals to a job that runs, suspending it (SIGSTOP to all its processes), and sending it back into the queue."""

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
from phalanx.slurm.cluster.api import SECRETS, Api
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import ASK, PREFIX
from phalanx.slurm.jobs.names import path_of, secret_of
from phalanx.slurm.jobs.view import SUSPENDED, Job

_REQUEUE_S = 121  # a requeued job waits as long as in Slurm
_PLACE_S = 5.0
ALL, STEPS, SCRIPT, LAUNCHER = "all", "steps", "batch", "launcher"


def send(api: Api, job: Job, number: int, what: str) -> None:
    """Send the signal to the tasks of all steps, to the script, or to both. Raises PhalanxError."""
    from phalanx.slurm.jobs.steps.pods import channel
    from phalanx.slurm.jobs.steps.pods.place import allocation

    place = allocation(api.within(job.namespace), job.number, _PLACE_S)
    for index in range(len(place.nodes)):
        link = place.channel(index)
        link.send(channel.SIGNAL, msgspec.json.encode({"signal": number, "what": what}))
        with suppress(channel.Broken):
            link.receive()
        link.close()


def suspend(api: Api, job: Job) -> None:
    send(api, job, signal.SIGSTOP, ALL)
    change = {"metadata": {"annotations": {SUSPENDED: str(time.time())}}}
    api.within(job.namespace).patch(path_of(job.number, job.ask), change)


def resume(api: Api, job: Job) -> None:
    change = {"metadata": {"annotations": {SUSPENDED: None}}}
    api.within(job.namespace).patch(path_of(job.number, job.ask), change)
    send(api, job, signal.SIGCONT, ALL)


def requeue(api: Api, job: Job, hold: str = "") -> None:
    """Requeue the job: it waits again, with the same number and a higher SLURM_RESTART_COUNT."""
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


def send_cause(api: Api, job: Job, number: int) -> None:
    """Signal to the script's launcher why the job is about to end: SIGHUP for a requeue, SIGQUIT for a node that is
    taken down (also if the job is requeued)."""
    with suppress(OSError, PhalanxError):
        send(api, job, number, LAUNCHER)


def may(api: Api, job: Job) -> bool:
    """Return True if the caller owns the job, is root, operator or administrator, or coordinates the job's account. The
    API server makes the final decision."""
    return os.getuid() in (0, job.ask.uid) or may_as(site.load(api), pwd.getpwuid(os.getuid()).pw_name, job)


def is_operator(here: Site) -> bool:
    """Return whether the caller is an operator or an administrator."""
    return here.admins.get(pwd.getpwuid(os.getuid()).pw_name, "None") != "None"


def may_as(here: Site, user: str, job: Job) -> bool:
    """Return whether the user may change the job: by an admin level, or as a coordinator of the job's account."""
    from phalanx.slurm.accounts.tree import coordinators

    return here.admins.get(user, "None") != "None" or user in coordinators(here, job.ask.account)
