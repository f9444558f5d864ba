"""Change existing jobs: cancel them, hold them, release them, and set their nice value.

`phalanx cancel`, `phalanx hold`, `phalanx release`, `phalanx nice` and the page call this module. A job starts and ends
as a whole, so each function changes all objects of a job.
"""

from __future__ import annotations

import asyncio
from typing import Any

from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.cluster.jobs.standing import HELD, OVER, QUEUED, member_state, state_of
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import JOBS, PODS
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB, is_sent
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import HOLD, NICE
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS

_KINDS = frozenset({JOBS, PODS, *FRAMEWORK_KINDS})
MOST_NICE = 2**31 - 1


def require_whole(job: FoundJob, does: str, name: str) -> None:
    """Raise PhalanxError if the user named only a part of a job. `does`: the verb in the message that describes the
    effect on the job (`end`). `name`: the verb of the command (`cancel`)."""
    if job.part:
        raise PhalanxError(
            f"{job} is a part of job {job.id}, and jobs {does} only as a whole: {name} {job.id}. Nothing was done."
        )


async def cancel_job(connection: Connection, job: FoundJob) -> None:
    """Delete the objects of a job that have not ended. The objects of a running job remain until its pods have ended.
    Raises ApiError."""
    await asyncio.gather(*(_delete(connection, member) for member in job.members if member_state(member) not in OVER))


async def _delete(connection: Connection, member: Member) -> None:
    meta = member.obj["metadata"]
    # Foreground deletion keeps the object of a running Job until its pods have ended. Until then the nodes stay charged
    # to the Job, and its exit code can be read.
    policy = "Background" if member_state(member) == QUEUED else "Foreground"
    body = {"propagationPolicy": policy, "preconditions": {"uid": meta["uid"]}}
    try:
        await connection.delete(member.kind, meta["name"], meta["namespace"], body)
    except ApiRefusal as error:
        if error.code not in {404, 409}:  # the object was deleted, or another object with the same name was created
            raise


def takes_words(member: Member) -> bool:
    """Return True if Phalanx reads labels and annotations of this object itself. In this cluster, a Volcano Job is
    scheduled through its PodGroup. So Phalanx reads labels and annotations of the Volcano Job itself only if another
    cluster runs the Job."""
    return member.kind in _KINDS and (member.kind != VOLCANO_JOB.kind or is_sent(member.obj))


def require_changeable(job: FoundJob, verb: str, *, waits: bool) -> None:
    """Raise PhalanxError if the job's state does not allow the change. `verb`: the past participle of the change, for
    the message (`held`). `waits`: True if only waiting jobs can be changed."""
    require_whole(job, "start", "name")
    if (state := state_of(job)) in OVER:
        raise PhalanxError(f"{job.id} is {state}: it cannot be {verb}. Nothing was changed.")
    if waits and state not in {QUEUED, HELD}:
        raise PhalanxError(f"{job.id} is {state}, and only waiting jobs can be {verb}. Nothing was changed.")
    if wrong := next((one for one in job.members if not takes_words(one)), None):
        raise PhalanxError(
            f"{job.id} is a {wrong.kind.name} of {wrong.kind.group}, which has no such setting. Nothing was changed."
        )


async def set_hold(connection: Connection, job: FoundJob, *, held: bool) -> None:
    """Hold a job, or release it. Raises ApiError."""
    await _annotate(connection, job, HOLD, "true" if held else None)


async def set_nice(connection: Connection, job: FoundJob, nice: int) -> None:
    """Set the nice value of a job; 0 removes it. Raises ApiError."""
    await _annotate(connection, job, NICE, str(nice) if nice else None)


async def _annotate(connection: Connection, job: FoundJob, key: str, value: str | None) -> None:
    for member in job.members:
        meta: dict[str, Any] = {"annotations": {key: value}}
        if key in (member.obj["metadata"].get("labels") or {}):  # a label would take precedence over the annotation
            meta["labels"] = {key: None}
        await connection.patch(member.kind, member.name, {"metadata": meta}, job.namespace)
