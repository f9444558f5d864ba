"""Request an allocation for salloc or srun, wait until it is granted, and end it with an exit code. An allocation is
submitted like a batch job without a script."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.jobs.ask import CANCELLED, Ask
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.steps.booking import JobSteps
from phalanx.slurm.jobs.steps.pods import channel
from phalanx.slurm.jobs.steps.pods.channel import Channel
from phalanx.slurm.jobs.steps.pods.place import Allocation, allocation
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.notation.hostlist import compress
from phalanx.slurm.options import Usage, say
from phalanx.slurm.submission.asked.forms import check_forms, named_cluster, read_files
from phalanx.slurm.submission.asked.request import request
from phalanx.slurm.submission.asked.size import FAILED
from phalanx.slurm.submission.creation import hardware, submit
from phalanx.slurm.submission.het import grouped, of_groups, submit_het, together

_AGAIN_S, _TELL_S, _OVER_S = 0.03, 1.5, 3.0
_HELD = "Job is in held state, pending scheduler release"
_NOT_NOW = "Requested partition configuration not available now"
_OVER = "Job/step already completing or completed"
_NEVER = {"PartitionNodeLimit": _NOT_NOW, "PartitionTimeLimit": _NOT_NOW, "PartitionDown": "Partition in DOWN state"}
_FAILS = {"salloc": "Job submit/allocate failed: ", "srun": "Unable to allocate resources: "}


class Aborted(Exception):
    """The error if a signal arrived while the job was pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A granted allocation. `hold`: the connection to the step daemon that keeps the allocation while it is open; None
    with --no-shell, because such an allocation does not end with the command. `groups`: the environment variables about
    all components of a heterogeneous job; empty for other jobs."""

    place: Allocation
    job: JobInfo
    hold: Channel | None
    site: site.Site
    groups: Mapping[str, str]


def grant(name: str, kind: str, parts: Sequence[dict[str, str | None]], job_name: str, line: str) -> Granted:
    """Submit the request for an allocation, and wait until it is granted. `name`: salloc or srun. `kind`: the value of
    `Ask.kind`. `parts`: the options of each component. `job_name`: the default name of the job. `line`: the command
    line. Raises Usage, PhalanxError."""
    said = parts[0]
    api = ApiClient.open()
    here = site.load(api)
    asked = []
    try:
        for one in parts if name != "srun" else ():  # srun has checked its options already
            check_forms(name, one)
        for one in together([], [{"job-name": job_name, **parts[0]}, *map(dict, parts[1:])], {}):
            read_files(name, one)
            named_cluster(name, one, here)
            asked.append(request(one, here, hardware(api, here, one), None, [], line))
            asked[-1].ask.kind, asked[-1].ask.requeue = kind, False
        if "immediate" in said and asked[0].ask.hold == "PartitionDown":
            raise Usage(f"{FAILED}Partition in DOWN state")
        number, *_ = submit_het(api, here, asked, "", []) if len(asked) > 1 else submit(api, here, asked[0], "", [])
    except Usage as error:
        raise Usage(translated(error.text, name), error.status) from None
    quiet = "quiet" in said
    try:
        with _interruptible():
            job = _wait(api, number, name, quiet, said)
            place = allocation(api, number)
            groups = _groups(api, number, [one.ask for one in asked]) if len(asked) > 1 else {}
    except Aborted:
        say(f"{name}: Job aborted due to signal") if name == "salloc" else None
        cancel(api, number)
        raise Usage("", 1) from None
    except BaseException:
        _give_back(number)
        raise
    JobSteps.forget(str(number))
    if name == "salloc" and not quiet:
        say(f"salloc: Granted job allocation {number}")
    hold = None
    if "no-shell" not in said:
        try:
            hold = place.channel(place.head)
            hold.send(channel.HOLD)
            hold.receive()
        except BaseException:
            _give_back(number)
            raise
    return Granted(place=place, job=job, hold=hold, site=here, groups=groups)


def _give_back(number: int) -> None:
    """Cancel an allocation that failed or was interrupted. The function opens a new connection, because a signal may
    have interrupted a call on the first connection."""
    with suppress(PhalanxError):  # the caller reports the earlier error
        cancel(ApiClient.open(), number)


def _groups(api: ApiClient, number: int, asks: Sequence[Ask]) -> dict[str, str]:
    """Wait until each component has nodes. Return the environment variables about all components, with their nodes."""
    found = of_groups(number, asks)
    for at, ask in enumerate(asks):
        listed = compress(allocation(api, number + at).nodes, ordered=True)
        own = {"JOB_NODELIST": listed, "NODELIST": listed, "JOBID": str(number + at), "NNODES": str(ask.node_count),
               "NODE_ALIASES": "(null)"}  # fmt: skip
        found |= grouped(at, own)
    return found


def translated(text: str, name: str) -> str:
    """Return an error message of sbatch in the form that the command `name` prints."""
    if text.startswith(FAILED):
        return f"{name}: error: {_FAILS[name]}{text.removeprefix(FAILED)}"
    return "\n".join(
        f"{name}: error: {_FAILS[name]}{line.removeprefix(FAILED)}"
        if line.startswith(FAILED)
        else line.replace("sbatch:", f"{name}:", 1)
        for line in text.splitlines()
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise Aborted inside the `with` block when SIGINT, SIGTERM or SIGHUP arrives. A signal that was already ignored
    at the start of the command, such as SIGHUP under `nohup`, stays ignored."""

    def stop(number: int, frame: object) -> None:
        raise Aborted

    listened = [
        one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN
    ]
    before = {number: signal.signal(number, stop) for number in listened}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(api: ApiClient, number: int, name: str, quiet: bool, said: Mapping[str, str | None]) -> JobInfo:
    began_s, told = time.monotonic(), False
    limit_s = float(said["immediate"] or 1) if "immediate" in said else None
    while True:
        found = [job for job in jobs(api, [number]) if job.number == number]
        if not found or found[0].state == "DEADLINE":
            raise Usage("\n".join(_cancelled(name, number, quiet=quiet, told=told)))
        job = found[0]
        if job.state != "PENDING":
            if told and not quiet:
                say(f"{name}: job {number} has been allocated resources")
            return job
        waited_s = time.monotonic() - began_s
        if limit_s is not None and waited_s > limit_s:
            cancel(api, number)
            raise Usage(f"{name}: error: {_FAILS[name]}Requested nodes are busy")
        never = job.held or job.reason in _NEVER or job.reason.startswith("Job's account not permitted")
        if not told and (waited_s > _TELL_S or never):
            told = True
            if never and not quiet:
                say(f"{name}: {_HELD if job.held else _NEVER.get(job.reason, _NOT_NOW)}")
            if not quiet:
                say("\n".join(_queued(name, number)))
        time.sleep(_AGAIN_S if waited_s < 1 else 0.2)


def _cancelled(name: str, number: int, *, quiet: bool, told: bool) -> Iterator[str]:
    """Yield the lines that Slurm prints about a job that was cancelled before it started. `told`: True if the lines of
    `_queued` were printed already."""
    if not quiet and not told:
        yield from _queued(name, number)
    if name == "salloc":
        yield f"{name}: Job allocation {number} has been revoked."
    if not quiet:
        yield f"{name}: Job has been cancelled"
    yield f"{name}: error: {_FAILS[name]}{_OVER}"


def _queued(name: str, number: int) -> Iterator[str]:
    """Yield the lines that Slurm prints about a pending job."""
    if name == "salloc":
        yield f"{name}: Pending job allocation {number}"
    yield f"{name}: job {number} queued and waiting for resources"


def finish(granted: Granted, code: int) -> None:
    """End the allocation, and wait up to three seconds until its job has ended. `code`: the exit code for the job."""
    if granted.hold is None:
        return
    with suppress(OSError):  # the pod may have ended already
        granted.hold.send(channel.FINISH, str(code).encode())
        granted.hold.receive()
    granted.hold.close()
    api, number, until_s = ApiClient.open(), granted.place.number, time.monotonic() + _OVER_S
    while any(job.live for job in jobs(api, [number])) and time.monotonic() < until_s:
        time.sleep(_AGAIN_S)  # so that the next command sees the job as ended


def cancel(api: ApiClient, number: int) -> None:
    try:
        path = path_of(number)
        api.patch(path, {"metadata": {"annotations": {CANCELLED: str(os.getuid())}}})
        api.delete(path, propagationPolicy="Background")
    except RequestRefused as error:
        if error.code != 404:
            raise
