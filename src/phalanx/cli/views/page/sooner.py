"""Forecast the future of waiting jobs: their starts without changes, and with changes that could start a job sooner.

Both parts of this module simulate the cluster on a copy of its state. In the simulation, every job runs for the median
run time of similar jobs, and no further job is submitted. The scheduler's own code decides, so quotas, backfill,
reservations and preemption have the same effects as in the cluster.

The first part computes when waiting jobs are expected to start, and on which nodes. The page shows two results: the
expected start of each job with its uncertainty (`report.forecast`, many simulations), and a picture of future runs (one
simulation). The second part lists changes for one job, and simulates each change.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from phalanx import loop
from phalanx.cli.terminal.output import counted, duration
from phalanx.core.fold.fold import fold
from phalanx.errors import PhalanxError
from phalanx.model.event import Event, NodeSeen, Submitted
from phalanx.model.job import Job, Phase, Role
from phalanx.model.node import Node
from phalanx.model.plan import Plan, Start
from phalanx.model.reason import Reason, ReasonCode, StartForecast
from phalanx.report.forecast import ForecastRun, drawn_run_times, forecast, up_to_limits
from phalanx.report.status import queue_positions
from phalanx.simulator.run.forward import Assumptions, forward
from phalanx.state.cluster import Cluster, JobRecord, time_limit_s

FIRST_OF_QUEUE = 200  # the number of jobs of each queue for which a start is computed
_LONGEST_S = 366 * 86_400.0  # the page draws a run with at most this length


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRun:
    """The expected run of a job: its start and end (seconds since the epoch), the number of pods on each node, and True
    if its start is a backfill."""

    start_s: float
    end_s: float
    pods: Mapping[str, int]
    backfilled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The forecast that was made at the time `at_s`. `starts`: the expected start of each waiting job. `runs`: the next
    run of each job in one simulation. `ends_s`: the expected ends of running jobs, from median run times."""

    at_s: float
    starts: Mapping[str, StartForecast] = field(default_factory=dict)
    runs: Mapping[str, PlayedRun] = field(default_factory=dict)
    ends_s: Mapping[str, float] = field(default_factory=dict)


class MedianPlay(ForecastRun):
    """A simulation with median run times. It records the nodes on which each job starts."""

    def __init__(self, cluster: Cluster, now_s: float, jobs: Sequence[str]) -> None:
        [median] = drawn_run_times(cluster, 1) if cluster.ends.run_times else [up_to_limits(cluster)]
        super().__init__(cluster.copy(), cluster.policy, now_s, jobs, median)
        self.runs: dict[str, PlayedRun] = {}

    def step(self, events: list[Event]) -> Plan:
        plan = super().step(events)
        for action in plan.actions:
            if isinstance(action, Start) and action.job in self.asked and action.job not in self.runs:
                lasts_s = min(_LONGEST_S, self.run_time_s(self.book.jobs[action.job].job, 0.0))
                pods = Counter(placement.node for placement in action.placements)
                self.runs[action.job] = PlayedRun(
                    start_s=self.now_s, end_s=self.now_s + lasts_s, pods=pods, backfilled=action.backfilled
                )
        return plan


def outlook(cluster: Cluster, now_s: float) -> Outlook:
    """Return the forecast for the first `FIRST_OF_QUEUE` jobs of each queue. This simulates the cluster many times."""
    asked = [
        place.job
        for queue in cluster.tree.branches
        for place in queue_positions(cluster, queue, FIRST_OF_QUEUE)
        if place.job in cluster.jobs and cluster.jobs[place.job].phase is Phase.QUEUED
    ]
    asked = list(dict.fromkeys(asked))
    play = MedianPlay(cluster, now_s, asked)
    if asked:
        play.run()
    starts = forecast(cluster, cluster.policy, now_s, asked)
    return Outlook(at_s=now_s, starts=starts, runs=play.runs, ends_s=expected_ends(cluster, now_s))


def expected_ends(cluster: Cluster, now_s: float) -> dict[str, float]:
    """Return job id -> expected end (seconds since the epoch), for the running jobs with known run times or time
    limits."""
    found = {}
    for name, record in cluster.jobs.items():
        if record.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            ran_s = max(0.0, now_s - record.started_s)
            [lasts_s] = cluster.ends.run_times.expected_s(record.job, _limit_s(cluster, name), ran_s, (0.5,))
            if lasts_s < inf:
                found[name] = record.started_s + lasts_s
    return found


def _limit_s(cluster: Cluster, job: str) -> float | None:
    record = cluster.jobs[job]
    known = record.queue in cluster.tree.branches
    return time_limit_s(cluster, record.job) if known else record.job.limit_s


# --- changes that could start a job sooner ----------------------------------------------------------------------------

HORIZON_S = 7 * 86_400.0
PATIENCE_S = 10.0  # the maximum computing time of one simulation
_MORE_NODES = 2
_HOSTNAME = "kubernetes.io/hostname"
# the assumed run time of a job if neither run times of similar jobs nor a time limit are known
_UNLIMITED_RUN_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """A change that could start a job sooner. `key`: the name by which the page requests the simulation of this change.
    `what`: a text that describes the change. `command`: the command that makes the change or simulates it. `events`:
    the events that make the change in a copy of the cluster state."""

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


def played(cluster: Cluster, job: str, change: Alteration | None, now_s: float) -> dict[str, object]:
    """Return the start of the job with the change (seconds since the epoch; None if it does not start within
    `HORIZON_S`), the end of the simulation, and the jobs that are preempted for the job. `change`: None to simulate
    without a change."""
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
    """A condition that becomes True when the job has started. It ends the simulation."""

    def __init__(self, book: Cluster, job: str) -> None:
        self._book, self._job = book, job

    def __call__(self) -> bool:
        record = self._book.jobs.get(self._job)
        return record is None or _runs(record)


def _runs(record: JobRecord) -> bool:
    return record.phase is not Phase.QUEUED


# --- the changes ------------------------------------------------------------------------------------------------------


def _fewer_pods(record: JobRecord) -> Iterator[Alteration]:
    """Yield a change that would halve the number of pods in the job's largest role."""
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
    """Yield a change that would give the job a shorter time limit. If the job waits because of a reservation, the new
    limit lets the job end before the reservation begins. Otherwise the limit is halved."""
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
    """Yield a change that would give the job a higher priority than all other jobs."""
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
    """Yield a change that would add two nodes to the cluster. The new nodes are copies of the largest node on which a
    pod of the job could run. If no node is large enough, they are copies of the largest node of the cluster."""
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
        what=f"Two more nodes like {like.name}",
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
    """Return the simulated start of the job with the change that has the key `change`. If `change` is "", return its
    start without a change, and the list of possible changes. Raises PhalanxError."""
    found: Sequence[Alteration] = alterations(cluster, job, reason, now_s)
    if not change:
        offered = [{"key": one.key, "what": one.what, "command": one.command} for one in found]
        return {**played(cluster, job, None, now_s), "changes": offered}
    for one in found:
        if one.key == change:
            return played(cluster, job, one, now_s)
    raise PhalanxError(f"{change!r} is not a change that could be tried for {job}")
