"""Walk through a schedule in time: the waiting and running jobs between two changes.

All amounts are in the workload's counted resource (processors, GPUs)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from phalanx.simulator.schedule.schedule import Schedule, Stint
from phalanx.simulator.workload.workload import of_resource, of_role


class SweepSpan(NamedTuple):
    """A span of time without changes. `busy`: the held amount. `least`: the request of the smallest waiting job; None
    if none waits."""

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
    """Return the total request of each task."""
    workload, of_roles, found = schedule.workload, dict[int, float](), list[float]()
    device_bytes = workload.device_bytes
    for fate in schedule.fates:
        roles = fate.task.job.roles  # tasks share role tuples, and comparing identities is faster than values
        size = of_roles.get(id(roles))
        if size is None:
            size = of_roles[id(roles)] = of_resource(roles, workload.counted, device_bytes) / workload.unit
        found.append(size)
    return found


def held(schedule: Schedule) -> list[float]:
    """Return the amount that each stint holds."""
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
    """Return the capacity of the cluster: of all nodes that it had at any time."""
    workload = schedule.workload
    return sum(dict(node.allocatable).get(workload.counted, 0) for node in schedule.nodes) / workload.unit


def window(schedule: Schedule) -> tuple[float, float]:
    """Return the times of the first submission and of the last end."""
    first_s = min((fate.task.job.submitted_s for fate in schedule.fates), default=0.0)
    return first_s, max((stint.end_s for stint in schedule.stints), default=first_s)


def waits(schedule: Schedule) -> Iterator[SweepWait]:
    """Yield all spans in which a task waited, including those that last until the end of the window."""
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
    """Yield the window, cut at every change."""
    size, holds = sizes(schedule), held(schedule)
    changes: list[tuple[float, float, int]] = []  # (time, change of the held amount, index of a new wait; -1: none)
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
