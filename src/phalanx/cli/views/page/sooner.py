"""Changes that could start a job sooner, each played forward on a copy of the cluster.

Every job runs for the median run time of jobs like it, and no job is submitted. The scheduler's own code decides in the
play, so quotas, backfill, reservations and preemption count as they will count then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from phalanx import loop
from phalanx.cli.terminal.output import counted, duration
from phalanx.core.fold.fold import fold
from phalanx.errors import PhalanxError
from phalanx.model.event import Event, NodeSeen, Submitted
from phalanx.model.job import Job, Phase, Role
from phalanx.model.node import Node
from phalanx.model.reason import Reason, ReasonCode
from phalanx.report.forecast import drawn_run_times, up_to_limits
from phalanx.simulator.run.forward import Assumptions, forward
from phalanx.state.cluster import Cluster, JobRecord, time_limit_s

HORIZON_S = 7 * 86_400.0
PATIENCE_S = 10.0  # the longest computing time of one play
_MORE_NODES = 2
_HOSTNAME = "kubernetes.io/hostname"
_UNLIMITED_RUN_S = 3600.0  # the assumed run time of a job without known run times and without a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """A change. `what`: a text that describes the change. `command`: the command that makes the change, or tries it in
    a simulation."""

    key: str
    what: str
    command: str
    events: tuple[Event, ...]


def alterations(cluster: Cluster, job: str, reason: Reason | None, now_s: float) -> list[Alteration]:
    """Return the changes that could start the job sooner."""
    record = cluster.jobs.get(job)
    if record is None or record.phase is not Phase.QUEUED:
        raise PhalanxError(f"there is no waiting job {job}. `phalanx jobs -A` lists the jobs that wait.")
    return [
        *_fewer_pods(record),
        *_shorter(cluster, record, reason, now_s),
        *_before_others(cluster, record),
        *_more_nodes(cluster, record),
    ]


def played(cluster: Cluster, job: str, change: Alteration | None, now_s: float) -> dict[str, Any]:
    """Return when the job starts with the change (seconds since the epoch; None: not within a week), and the jobs that
    are preempted for it."""
    copy = cluster.copy()
    if change is not None:
        fold(copy, change.events)
    [median] = drawn_run_times(copy, 1) if copy.ends.run_times else [up_to_limits(copy)]
    elapsed = {name: max(0.0, now_s - each.started_s) for name, each in copy.jobs.items() if _runs(each)}

    def run_time_s(one: Job) -> float | None:
        lasts_s = median(one, elapsed.get(one.id, 0.0))
        return lasts_s if lasts_s < inf else None

    give_up_s = time.monotonic() + PATIENCE_S
    done = _Started(copy, job)
    future = forward(
        copy,
        copy.policy,
        loop.step,
        now_s=now_s,
        until_s=now_s + HORIZON_S,
        assumptions=Assumptions(limit_s=run_time_s, run_s=_UNLIMITED_RUN_S),
        patient=lambda: time.monotonic() < give_up_s and not done(),
    )
    course = future.courses.get(job)
    start_s = course.starts_s[0] if course is not None and course.starts_s else None
    victims = sorted(name for name, each in future.courses.items() if any(one.by == job for one in each.evictions))
    return {"start_s": start_s, "until_s": future.until_s, "victims": victims}


class _Started:
    """A check that ends the play as soon as the job has started."""

    def __init__(self, book: Cluster, job: str) -> None:
        self._book, self._job = book, job

    def __call__(self) -> bool:
        record = self._book.jobs.get(self._job)
        return record is None or _runs(record)


def _runs(record: JobRecord) -> bool:
    return record.phase is not Phase.QUEUED


# --- the changes ------------------------------------------------------------------------------------------------------


def _fewer_pods(record: JobRecord) -> Iterator[Alteration]:
    """Yield the change to half of the pods in the job's largest role."""
    job = record.job
    largest = max(job.roles, key=lambda role: role.count, default=None)
    if largest is None or largest.count < 2 or job.groups:
        return
    fewer = largest.count // 2

    def smaller(role: Role) -> Role:
        return replace(role, count=fewer, minimum=min(role.minimum, fewer)) if role is largest else role

    altered = replace(job, roles=tuple(smaller(role) for role in job.roles))
    yield Alteration(
        key="pods",
        what=f"{counted(fewer, 'pod')} instead of {largest.count}",
        command=_delete_and(job, f"submit it again with parallelism {fewer}"),
        events=(Submitted(altered),),
    )


def _shorter(cluster: Cluster, record: JobRecord, reason: Reason | None, now_s: float) -> Iterator[Alteration]:
    """Yield the change to a shorter time limit. If the job waits because of a reservation, it would end before that
    begins; otherwise the limit is halved."""
    job, limit_s = record.job, time_limit_s(cluster, record.job)
    at_s = None
    if reason is not None and reason.code is ReasonCode.RESERVED:
        at_s = reason.numbers.get("start_s" if "reservation" in reason.numbers else "until_s")
    shorter_s = at_s - now_s - 60 if at_s is not None else (limit_s or 0) / 2
    shorter_s = shorter_s // 60 * 60
    if shorter_s < 60 or (limit_s is not None and shorter_s >= limit_s):
        return
    instead = f" instead of {duration(limit_s)}" if limit_s is not None else ""
    yield Alteration(
        key="limit",
        what=f"A time limit of {duration(shorter_s)}{instead}",
        command=_annotate(job, "phalanx.dev/time-limit", f"{int(shorter_s)}s"),
        events=(Submitted(replace(job, limit_s=shorter_s)),),
    )


def _before_others(cluster: Cluster, record: JobRecord) -> Iterator[Alteration]:
    """Yield the change to a priority above the priority of every other job."""
    job = record.job
    highest = max((each.job.priority for each in cluster.jobs.values() if each is not record), default=0)
    if highest < job.priority:
        return
    yield Alteration(
        key="priority",
        what=f"Priority {highest + 1} instead of {job.priority}",
        command=_delete_and(job, f"submit it again with a PriorityClass of value {highest + 1}"),
        events=(Submitted(replace(job, priority=highest + 1)),),
    )


def _more_nodes(cluster: Cluster, record: JobRecord) -> Iterator[Alteration]:
    """Yield the addition of two nodes. They are like the largest node that could hold a pod of the job; if no node
    could, like the largest node."""
    nodes = [node for node in cluster.columns.nodes if node is not None]
    wanted = [dict(role.shape.requests) for role in record.job.roles]

    def fits(node: Node) -> bool:
        has = dict(node.allocatable)
        return all(has.get(name, 0) >= amount for asks in wanted for name, amount in asks.items())

    like = max(nodes, key=lambda node: (fits(node), node.ready, dict(node.allocatable).get("cpu", 0)), default=None)
    if like is None:
        return
    events = tuple(NodeSeen(_another(like, f"{like.name}-more-{number}")) for number in range(_MORE_NODES))
    yield Alteration(
        key="nodes",
        what=f"Two nodes more like {like.name}",
        command=f"phalanx whatif --add-nodes {_MORE_NODES}x{like.name}",
        events=events,
    )


def _another(node: Node, name: str) -> Node:
    labels = tuple((key, name if key == _HOSTNAME else text) for key, text in node.labels)
    return replace(node, name=name, labels=labels, unschedulable=False, ready=True, used=())


def _annotate(job: Job, key: str, value: str) -> str:
    namespace, _, name = job.id.partition("/")
    return f"kubectl annotate job -n {namespace} {name} --overwrite {key}={value}"


def _delete_and(job: Job, then: str) -> str:
    namespace, _, name = job.id.partition("/")
    return f"kubectl delete job -n {namespace} {name}  # then {then}"


def answer(cluster: Cluster, job: str, change: str, reason: Reason | None, now_s: float) -> dict[str, Any]:
    """Return the start of the job with the change of that key. Without a key, return its start as it is, and the
    changes that could be tried. Raises PhalanxError."""
    found: Sequence[Alteration] = alterations(cluster, job, reason, now_s)
    if not change:
        offered = [{"key": one.key, "what": one.what, "command": one.command} for one in found]
        return {**played(cluster, job, None, now_s), "changes": offered}
    for one in found:
        if one.key == change:
            return played(cluster, job, one, now_s)
    raise PhalanxError(f"{change!r} is no change that could be tried for {job}")
