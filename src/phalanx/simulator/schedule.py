"""The result of a run: when each job started and ended, and which nodes it had.

The result has one `Fate` for each task (a job of the trace), in the order of the trace. It has one `Stint` for each
span of time in which a job held the same pods on the same nodes. After the run, all measures are computed from the
fates and stints.

The module also computes the bill: the price of all nodes of node groups, and which part of their capacity was used.

The statistical functions for measures are in this module too: means, percentiles, Jain's index, confidence intervals of
paired differences. Sums are exact (`math.fsum`), so results do not depend on the order of summation.

The module also divides a schedule into spans of time without changes (`spans`), and finds the times at which jobs
waited (`waits`).

All amounts are in the workload's counted resource (processors, GPUs)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import fsum, sqrt
from typing import NamedTuple

from phalanx.model.job import Outcome, Placement
from phalanx.model.node import Node, Topology
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason
from phalanx.simulator.workload import Task, Workload, of_resource, of_role

MICROSECONDS = 1_000_000


class Fate:
    """The result of one task.

    `work_s`: the run time that the task needs if it has all its pods, including any delay by a simulated fault.
    `ran_s`: the run time until the task ended or was stopped at its requested limit; lost run time is not included.
    `start_s`, `end_s`: the times of its first start and its end; None if it never started or never ended.
    `lost_s`: the run time that was lost by preemptions and failures. `preemptions`: how often the whole job was
    preempted.
    `cascade`: the length of the chain of preemptions that ended with the task's last preemption. (In a chain, each
    preempted job later preempts another job.)
    `told`: the last reported reason why it waits. `reason`: the reason why it waits at the end of the run; empty if it
    does not wait then."""

    __slots__ = (
        *(
            "cascade",
            "end_s",
            "index",
            "lost_s",
            "outcome",
            "preemptions",
            "ran_s",
            "reason",
            "start_s",
            "starts",
            "task",
        ),
        *("told", "work_s"),
    )

    def __init__(self, index: int, task: Task) -> None:
        self.index, self.task, self.work_s = index, task, task.run_s
        self.start_s: float | None = None
        self.end_s: float | None = None
        self.ran_s = 0.0
        self.starts = self.preemptions = self.cascade = 0
        self.lost_s = 0.0
        self.outcome: Outcome | None = None
        self.told: Reason | None = None
        self.reason = ""


class Stint(NamedTuple):
    """A span of time in which a task held the same pods. `works`: whether the task ran; otherwise pods were missing or
    still starting."""

    task: int
    start_s: float
    end_s: float
    placements: Sequence[Placement]
    works: bool


class Rental(NamedTuple):
    """A node of a node group for which `price_per_hour` was paid from `start_s` to `end_s`."""

    node: Node
    price_per_hour: float
    start_s: float
    end_s: float


@dataclass(slots=True, kw_only=True)
class Schedule:
    """The result of a run.

    `queues`, `topologies`: the queues and topologies of the run.
    `cascades`: for each preemption, the length of the chain of preemptions that ends with it.
    `rentals`: the nodes of node groups for which a price was paid.
    `passes`: the number of scheduling passes. `decisions_s`: how long each decision took, in seconds.
    `wall_s`: how long the run took on this machine. `peak_rss_bytes`: the peak memory of the process until the end of
    the run.
    `interrupted`: whether the run was stopped before its end."""

    workload: Workload
    policy: str
    estimates: str
    seed: int
    fates: Sequence[Fate]
    stints: Sequence[Stint]
    queues: Sequence[Queue] = ()
    default_queue: str = ""
    topologies: Sequence[Topology] = ()
    rentals: Sequence[Rental] = ()
    passes: int = 0
    decisions_s: Sequence[float] = ()
    cascades: Sequence[int] = ()
    wall_s: float = 0.0
    peak_rss_bytes: int = 0
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes that the cluster had at any time."""
        rented = {rental.node.name: rental.node for rental in self.rentals}
        return (*self.workload.nodes, *rented.values())

    def finished(self) -> Iterator[Fate]:
        return (fate for fate in self.fates if fate.end_s is not None)

    def sha256(self) -> str:
        """Return the hash of the schedule. The hashed text has one line `id start end` for each task, in the order of
        the trace. Times are in whole microseconds; `-` means that the task never started or ended. Equal schedules have
        equal hashes on every machine and Python version."""
        found = hashlib.sha256()
        for fate in self.fates:
            found.update(f"{fate.task.job.id} {instant(fate.start_s)} {instant(fate.end_s)}\n".encode())
        return found.hexdigest()


def instant(at_s: float | None) -> str:
    return "-" if at_s is None else str(round(at_s * MICROSECONDS))


HOUR_S = 3600.0


def bill(schedule: Schedule) -> dict[str, float]:
    """Return the measures of the bill; empty if the cluster has no node groups.

    `bill`: the price of all nodes of node groups, for the time from arrival to removal. `node_hours`: the sum of the
    times between arrival and removal, in hours. `nodes_added`: the number of nodes that arrived. `paid_use_ratio`: the
    amount of the counted resource that jobs held on nodes of groups, divided by the paid amount (both multiplied by
    hours)."""
    workload = schedule.workload
    if not workload.groups:
        return {}
    hours = [(rental, (rental.end_s - rental.start_s) / HOUR_S) for rental in schedule.rentals]
    counted, unit = workload.counted, workload.unit
    paid = fsum(dict(rental.node.allocatable).get(counted, 0) / unit * time for rental, time in hours)
    return {
        "bill": round(fsum(rental.price_per_hour * time for rental, time in hours), 6),
        "node_hours": round(fsum(time for _, time in hours), 6),
        "nodes_added": len(hours),
        "paid_use_ratio": held_on_rentals(schedule) / paid if paid else 0.0,
    }


def held_on_rentals(schedule: Schedule) -> float:
    """Return the amount of the counted resource that jobs held on nodes of groups, multiplied by the hours for which
    they held it."""
    workload, found = schedule.workload, []
    rented = {rental.node.name for rental in schedule.rentals}
    for stint in schedule.stints:
        roles = schedule.fates[stint.task].task.job.roles
        each = [of_role(role, workload.counted, workload.device_bytes) / workload.unit for role in roles]
        held = fsum(each[placed.role] for placed in stint.placements if placed.node in rented)
        found.append(held * (stint.end_s - stint.start_s) / HOUR_S)
    return fsum(found)


# Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom. For more degrees of freedom than listed, the
# normal quantile is used.
T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
NORMAL_95 = 1.960


def mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the percentile of sorted values: the value below which the fraction `part` (0 to 1) of the values lies,
    with linear interpolation."""
    if not ordered:
        return 0.0
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def jain(values: Sequence[float]) -> float:
    """Return Jain's index (Σx)² / (n Σx²): it is 1 if all values are equal, and 1/n if only one value is not 0 (Jain,
    Chiu, Hawe 1984). Return 1 if there are no values."""
    squares = fsum(value * value for value in values)
    return fsum(values) ** 2 / (len(values) * squares) if squares else 1.0


def half_width_95(values: Sequence[float]) -> float:
    """Return half the width of the 95 % confidence interval of the mean; 0 for a single value. If the values are paired
    differences, the interval is that of the mean difference."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    variance = fsum((value - middle) ** 2 for value in values) / (len(values) - 1)
    quantile = T_95[len(values) - 2] if len(values) - 2 < len(T_95) else NORMAL_95
    return quantile * sqrt(variance / len(values))


class SweepSpan(NamedTuple):
    """A span of time in which no job started, ended or was submitted. `busy`: the amount of the counted resource that
    jobs held. `least`: the size of the smallest waiting job; None if no job waited."""

    start_s: float
    end_s: float
    busy: float
    least: float | None


class SweepWait(NamedTuple):
    """A span of time in which a task waited: before its first start, or after it was stopped."""

    task: int
    start_s: float
    end_s: float


def sizes(schedule: Schedule) -> list[float]:
    """Return the total amount of the counted resource that each task requests."""
    workload, of_roles, found = schedule.workload, dict[int, float](), list[float]()
    device_bytes = workload.device_bytes
    for fate in schedule.fates:
        roles = fate.task.job.roles  # many tasks share one tuple of roles, so its identity is a fast key
        size = of_roles.get(id(roles))
        if size is None:
            size = of_roles[id(roles)] = of_resource(roles, workload.counted, device_bytes) / workload.unit
        found.append(size)
    return found


def held(schedule: Schedule) -> list[float]:
    """Return the amount of the counted resource that each stint holds."""
    workload, fates = schedule.workload, schedule.fates
    whole, found, device_bytes = sizes(schedule), list[float](), workload.device_bytes
    for stint in schedule.stints:
        roles = fates[stint.task].task.job.roles
        if len(stint.placements) == (roles[0].count if len(roles) == 1 else sum(role.count for role in roles)):
            found.append(whole[stint.task])
        else:
            each = [of_role(role, workload.counted, device_bytes) / workload.unit for role in roles]
            found.append(sum(each[placement.role] for placement in stint.placements))
    return found


def capacity(schedule: Schedule) -> float:
    """Return the total amount of the counted resource on all nodes that the cluster had at any time."""
    workload = schedule.workload
    return sum(dict(node.allocatable).get(workload.counted, 0) for node in schedule.nodes) / workload.unit


def window(schedule: Schedule) -> tuple[float, float]:
    """Return the time of the first submission and the time at which the last job ended."""
    first_s = min((fate.task.job.submitted_s for fate in schedule.fates), default=0.0)
    return first_s, max((stint.end_s for stint in schedule.stints), default=first_s)


def waits(schedule: Schedule) -> Iterator[SweepWait]:
    """Yield all spans in which a task waited, including spans that last until the end of the window."""
    _, until_s = window(schedule)
    by_task: dict[int, list[Stint]] = {}
    for stint in schedule.stints:
        by_task.setdefault(stint.task, []).append(stint)
    for fate in schedule.fates:
        since_s = fate.task.job.submitted_s
        for stint in by_task.get(fate.index, ()):
            if stint.start_s > since_s:
                yield SweepWait(fate.index, since_s, stint.start_s)
            since_s = stint.end_s
        if fate.end_s is None and until_s > since_s:
            yield SweepWait(fate.index, since_s, until_s)


def spans(schedule: Schedule) -> Iterator[SweepSpan]:
    """Yield the spans of time without changes that together form the window of the run."""
    size, holds = sizes(schedule), held(schedule)
    # (time, change of the held amount, index of the wait that begins, or -1)
    changes: list[tuple[float, float, int]] = []
    for stint, amount in zip(schedule.stints, holds, strict=True):
        changes += ((stint.start_s, amount, -1), (stint.end_s, -amount, -1))
    waiting = list(waits(schedule))
    changes += ((wait.start_s, 0.0, at) for at, wait in enumerate(waiting))
    changes += ((wait.end_s, 0.0, -1) for wait in waiting)
    changes.sort()
    heap: list[tuple[float, float]] = []  # (size, end of the wait) of the waiting tasks
    busy, since_s = 0.0, changes[0][0] if changes else 0.0
    for at_s, change, began in changes:
        if at_s > since_s:
            while heap and heap[0][1] <= since_s:
                heappop(heap)
            yield SweepSpan(since_s, at_s, busy, heap[0][0] if heap else None)
            since_s = at_s
        busy += change
        if began >= 0:
            heappush(heap, (size[waiting[began].task], waiting[began].end_s))
