"""Filling a cluster up: pods come until they ask more than it has, and stay (Weng et al., "Beware of Fragmentation:
Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC'23, section 6).

The tasks of a trace are shuffled; then copies of tasks drawn from them (uniformly, with replacement) follow, until what
all ask together is `ratio` times the cluster's capacity. If the trace asks more than that, its end is cut off. One
comes each second, none ever ends. The nodes stand in an order by chance too, as in the study's program, where equal
nodes are taken in that order: a policy for which many nodes are equal would otherwise fill one kind of node after the
other, as the list has them. What is measured is how much of the cluster is allocated when the pods that have come so
far, placed or not, ask so much of it: `allocated`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import TypeVar

from phalanx.model.pod import CPU, Shape
from phalanx.simulator.schedule.schedule import Schedule
from phalanx.simulator.schedule.sweep import capacity
from phalanx.simulator.workload.workload import Task, Workload, alone, of_resource

Item = TypeVar("Item")


def inflated(workload: Workload, ratio: float, seed: int) -> Workload:
    """Such tasks, and the nodes in their order. `ratio` of what the nodes have of the counted resource; a workload that
    asks none of it is only shuffled."""
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
    """In an order by chance (Fisher and Yates)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = int(random.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def drawn(tasks: Sequence[Task], random: Random) -> Iterator[Task]:
    """Each once, in an order by chance, then any of them, without end."""
    order = shuffled(tasks, random)
    yield from order
    while order:
        yield order[int(random.random() * len(order))]


def staying(task: Task, at: int, *, copy: bool) -> Task:
    """The task, coming at that second and running for ever."""
    name = f"{task.job.id}-{at}" if copy else task.job.id
    job = replace(alone(task.job), id=name, submitted_s=float(at), limit_s=None, deadline_s=None, begin_s=None)
    return replace(task, job=job, run_s=inf, waited_s=None, follows="")


def allocated(schedule: Schedule, demand: float) -> float:
    """The part of the cluster that is allocated when what has come asks `demand` times the cluster; at the end, if it
    never does."""
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
    """How often each kind of pod is in the workload, told apart by cpu, the counted resource and where it may go, as
    FGD tells them apart: what a scheduler that has seen such workloads before expects."""
    counts: Counter[Shape] = Counter()
    for task in workload.tasks:
        for role in task.job.roles:
            asks = tuple(each for each in role.shape.requests if each[0] in {CPU, workload.counted})
            counts[replace(role.shape, requests=asks)] += role.count
    return tuple((shape, float(count)) for shape, count in counts.most_common())
