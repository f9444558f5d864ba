"""Fill a cluster: pods are submitted until they request more than it has, and never end (Weng et al., "Beware of
Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC'23, section 6).

The tasks of a trace are shuffled. Then copies of random tasks follow (uniformly, with replacement), until all tasks
together request `ratio` times the cluster's capacity. If the trace requests more, its end is cut off. One task is
submitted each second. The nodes are shuffled too, as in the study's program, which takes equal nodes in that order.
Otherwise a policy with many equal nodes would fill one kind of node after the other. `allocated` measures the allocated
part of the cluster at a given demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import TypeVar

from phalanx.model.pod import CPU, Shape
from phalanx.simulator.schedule import Schedule, capacity
from phalanx.simulator.workload.workload import Task, Workload, alone, of_resource

Item = TypeVar("Item")


def inflated(workload: Workload, ratio: float, seed: int) -> Workload:
    """Return the workload with the tasks and the node order described above. `ratio`: the demand relative to the
    capacity of the counted resource. A workload that requests none of it is only shuffled."""
    has = sum(amount for node in workload.nodes for name, amount in node.allocatable if name == workload.counted)
    random, found, asked = Random(f"{seed} inflating"), list[Task](), 0.0
    device_bytes = workload.device_bytes
    for task in drawn(workload.tasks, random):
        asks = of_resource(task.job.roles, workload.counted, device_bytes)
        if asked >= ratio * has or (len(found) >= len(workload.tasks) and not asked):
            break
        asked += asks
        found.append(staying(task, len(found), copy=len(found) >= len(workload.tasks)))
    return replace(workload, tasks=found, nodes=tuple(shuffled(workload.nodes, Random(f"{seed} nodes"))))


def shuffled(items: Iterable[Item], random: Random) -> list[Item]:
    """Return the items in random order (Fisher and Yates)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = int(random.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def drawn(tasks: Sequence[Task], random: Random) -> Iterator[Task]:
    """Yield each task once in random order, then random tasks for ever."""
    order = shuffled(tasks, random)
    yield from order
    while order:
        yield order[int(random.random() * len(order))]


def staying(task: Task, at: int, *, copy: bool) -> Task:
    """Return the task, submitted at the second `at` and running for ever. `copy`: give it a new id."""
    name = f"{task.job.id}-{at}" if copy else task.job.id
    job = replace(alone(task.job), id=name, submitted_s=float(at), limit_s=None, deadline_s=None, begin_s=None)
    return replace(task, job=job, run_s=inf, waited_s=None, follows="")


def allocated(schedule: Schedule, demand: float) -> float:
    """Return the allocated fraction of the cluster at the time when the submitted pods request `demand` times its
    capacity; at the end, if they never do."""
    workload, has = schedule.workload, capacity(schedule)
    came, placed, device_bytes = 0.0, 0.0, workload.device_bytes
    for fate in schedule.fates:
        asks = of_resource(fate.task.job.roles, workload.counted, device_bytes)
        if came >= demand * has:
            break
        came += asks
        placed += asks if fate.start_s is not None else 0.0
    return placed / has if has else 0.0


def frequencies(workload: Workload) -> tuple[tuple[Shape, float], ...]:
    """Return how often each kind of pod is in the workload. As in FGD, kinds differ in cpu, the counted resource and
    the constraints on nodes. A scheduler that knows similar workloads expects these frequencies."""
    counts: Counter[Shape] = Counter()
    for task in workload.tasks:
        for role in task.job.roles:
            asks = tuple(each for each in role.shape.requests if each[0] in {CPU, workload.counted})
            counts[replace(role.shape, requests=asks)] += role.count
    return tuple((shape, float(count)) for shape, count in counts.most_common())
