"""Measure how well the jobs of a schedule were placed on the nodes: fragmentation, closeness of gangs, and compaction.

*Fragmentation* is the amount of free devices that typical pods of the workload cannot use.

Fragmentation is defined as in FGD (Weng et al., "Beware of Fragmentation", ATC'23, section 3). A *typical* pod is drawn
at random from the most frequent pod shapes that together make up 95 % of the workload's pods. The free amount of a node
counts as fragmented for a pod if the pod does not fit on the node, or if it requests none of the counted resource. The
fragmented amount is averaged over typical pods, summed over the nodes, and divided by the cluster's capacity. The
measure is the mean of the result over `SAMPLES` evenly spaced times of the run. Free parts of a shared device count as
free amounts.

*Stranded* is the free amount of the counted resource that cannot be used, because too little of the node's other
resources is free. The amount of another resource that is needed for one unit of the counted resource is computed from
the requests of the workload's pods. (The authors of Borg, EuroSys'15, use the word for resources that are unusable
because another resource of the machine is fully allocated.)

*Closeness* measures on how many nodes, and in how many domains of each topology level, the pods of a gang were placed.

A job counts as a gang if it had two or more pods when it first ran. Closeness is computed from the nodes of its pods at
that time. All levels of the run's topologies, and all levels that gangs request, are measured. A node without the label
of a level (or of a coarser level) counts as a domain of its own.

The distance of two pods is measured in *hops*: 0 if they are on one node, 2 if they are in one domain of the finest
level (up to its switch and down again), and 2 more for each coarser level at which they are in different domains. Only
the levels of the first topology are considered.

*Cell compaction* is the smallest part of the cluster's nodes onto which the running jobs could have been packed.

The authors of Borg compare schedulers by this measure (Verma et al., EuroSys'15, section 5.1). All jobs that ran at the
busiest time of the schedule are packed again with the same policy on fewer nodes. So the smallest number of nodes is
found on which all these jobs fit. The nodes are removed in a random order; the result is the 90th percentile over
several orders. When jobs are packed again, all jobs are in one queue without limits, in the order of their submission.
Each job has the same number of pods as at the busiest time. The smallest number of nodes is found by bisection, which
assumes that jobs that fit on some nodes also fit on more nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phalanx.model.event import Event, NodeSeen, QueueSeen, Submitted
from phalanx.model.job import Job, Placement
from phalanx.model.node import Node, Topology
from phalanx.model.plan import Start
from phalanx.model.pod import Shape
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import Queue
from phalanx.simulator.run.feasible import Nobody
from phalanx.simulator.run.play import LoopStep, shuffled
from phalanx.simulator.schedule import Schedule, capacity, mean, percentile, spans, window
from phalanx.simulator.workload import alone, of_share
from phalanx.state.cluster import Cluster

SAMPLES = 200
TYPICAL = 0.95

Free = dict[str, NDArray[np.float64]]  # resource -> the free amount of each node


def fragmentation(schedule: Schedule) -> dict[str, float]:
    """Return the measures of fragmentation; empty for a cluster of one node, because there is no choice of nodes."""
    if len(schedule.nodes) < 2 or not capacity(schedule):
        return {}
    counted, has = schedule.workload.counted, capacity(schedule) * schedule.workload.unit
    shapes, ratios = typical(schedule), beside(schedule)
    in_pieces, idle, in_want = 0.0, 0.0, 0.0
    for free in sampled(schedule):
        in_pieces += fragmented(free, shapes, counted)
        in_want += stranded(free, ratios, counted)
        idle += float(np.maximum(free[counted], 0.0).sum())
    return {
        "fragmentation": in_pieces / SAMPLES / has,
        "fragmentation_of_idle": in_pieces / idle if idle else 0.0,
        "stranded": in_want / SAMPLES / has,
    }


def typical(schedule: Schedule) -> list[tuple[dict[str, float], float]]:
    """Return (requests, probability) of each typical pod."""
    counts = counts_of(schedule)
    enough, total, found = TYPICAL * counts.total(), 0, list[tuple[Shape, int]]()
    for shape, count in counts.most_common():
        if total >= enough:
            break
        found.append((shape, count))
        total += count
    device_bytes = schedule.workload.device_bytes
    return [(asks(shape, device_bytes), count / total) for shape, count in found]


def counts_of(schedule: Schedule) -> Counter[Shape]:
    """Return the number of pods of each shape."""
    counts: Counter[Shape] = Counter()
    for fate in schedule.fates:
        for role in fate.task.job.roles:
            counts[role.shape] += role.count
    return counts


def beside(schedule: Schedule) -> dict[str, float]:
    """Return a mapping: resource other than the counted resource -> the amount that pods request per unit of the
    counted resource. Pods without a request for the counted resource are left out."""
    counted, device_bytes = schedule.workload.counted, schedule.workload.device_bytes
    asked: Counter[str] = Counter()
    for shape, count in counts_of(schedule).items():
        wanted = asks(shape, device_bytes)
        if wanted.get(counted, 0.0) > 0:
            asked.update({name: amount * count for name, amount in wanted.items()})
    return {name: amount / asked[counted] for name, amount in asked.items() if name != counted and amount > 0}


def asks(shape: Shape, device_bytes: float) -> dict[str, float]:
    found: dict[str, float] = {name: float(amount) for name, amount in shape.requests}
    if (share := shape.share) is not None:
        found[share.resource] = found.get(share.resource, 0.0) + of_share(share, device_bytes)
    return found


def sampled(schedule: Schedule) -> Iterator[Free]:
    """Yield the free amounts of each node at `SAMPLES` evenly spaced times of the run."""
    since_s, until_s = window(schedule)
    row_of = {node.name: row for row, node in enumerate(schedule.nodes)}
    free = capacities(schedule)
    device_bytes = schedule.workload.device_bytes
    each = [[asks(role.shape, device_bytes) for role in fate.task.job.roles] for fate in schedule.fates]
    changes = [(stint.start_s, -1.0, at) for at, stint in enumerate(schedule.stints)]
    changes += [(stint.end_s, 1.0, at) for at, stint in enumerate(schedule.stints)]
    changes.sort()
    next_change = 0
    for sample in range(SAMPLES):
        at_s = since_s + (until_s - since_s) * (sample + 0.5) / SAMPLES
        while next_change < len(changes) and changes[next_change][0] <= at_s:
            _, sign, at = changes[next_change]
            stint = schedule.stints[at]
            for placement in stint.placements:
                for name, amount in each[stint.task][placement.role].items():
                    if name in free and placement.node in row_of:
                        free[name][row_of[placement.node]] += sign * amount
            next_change += 1
        yield free


def capacities(schedule: Schedule) -> Free:
    nodes = [dict(node.allocatable) for node in schedule.nodes]
    names = sorted({name for node in nodes for name in node})
    return {name: np.array([node.get(name, 0) for node in nodes], np.float64) for name in names}


def fragmented(free: Free, shapes: list[tuple[dict[str, float], float]], counted: str) -> float:
    """Return the free amount of the resource `counted` that a typical pod cannot use. The result is the mean over all
    typical pods."""
    there = np.maximum(free[counted], 0.0)
    found = 0.0
    for asked, likelihood in shapes:
        fits = np.full(len(there), asked.get(counted, 0.0) > 0)
        for name, amount in asked.items():
            fits &= free.get(name, np.zeros(len(there))) >= amount
        found += likelihood * float(there[~fits].sum())
    return found


def stranded(free: Free, ratios: Mapping[str, float], counted: str) -> float:
    """Return the free amount of the resource `counted` that cannot be used because too little of another resource is
    free on the node. `ratios`: the result of `beside`."""
    there = np.maximum(free[counted], 0.0)
    enough = there.copy()
    for name, per_unit in ratios.items():
        np.minimum(enough, np.maximum(free.get(name, np.zeros(len(there))), 0.0) / per_unit, out=enough)
    return float((there - enough).sum())


HOST = "kubernetes.io/hostname"
Domain = tuple[str, ...]
Gang = tuple[Job, Counter[str]]


def closeness(schedule: Schedule) -> dict[str, object]:
    """Return the measures of closeness; empty for a cluster of one node, or if no gang ran."""
    nodes = schedule.nodes
    gangs = list(started(schedule)) if len(nodes) > 1 else []
    if not gangs:
        return {}
    hosts = [float(len(places)) for _, places in gangs]
    levels = list(domains((*schedule.topologies, *own_levels(job for job, _ in gangs)), nodes))
    first = schedule.topologies[0].levels if schedule.topologies else ()
    found: dict[str, Any] = {
        "gangs": len(gangs),
        "one_node_ratio": mean([float(each == 1) for each in hosts]),
        "mean_nodes_per_gang": mean(hosts),
        "mean_hops": mean(list(hops(gangs, [of for level, of in levels if level in first and level != HOST]))),
    }
    by_level = {}
    for level, domain_of in levels:
        counts = [float(len(gathered(places, domain_of))) for _, places in gangs]
        by_level[level] = {
            "one_domain_ratio": mean([float(each == 1) for each in counts]),
            "mean_domains_per_gang": mean(counts),
        }
    return {**found, "by_level": by_level} if by_level else found


def hops(gangs: Iterable[Gang], levels: Sequence[Mapping[str, Domain]]) -> Iterator[float]:
    """Yield for each gang the mean distance between two of its pods. `levels`: for each level, node -> its domain."""
    for _, places in gangs:
        every = pairs(places.total())
        apart = every - sum(map(pairs, places.values()))
        for domain_of in levels:
            apart += every - sum(map(pairs, gathered(places, domain_of).values()))
        yield 2.0 * apart / every


def pairs(count: int) -> int:
    return count * (count - 1) // 2


def gathered(places: Counter[str], domain_of: Mapping[str, Domain]) -> Counter[Domain]:
    """Return the number of pods in each domain. `places`: node -> number of pods."""
    found: Counter[Domain] = Counter()
    for node, count in places.items():
        found[domain_of.get(node, (node,))] += count
    return found


def started(schedule: Schedule) -> Iterator[Gang]:
    """Yield each gang that ran, with the number of its pods on each node at its first run."""
    known = bytearray(len(schedule.fates))
    for stint in schedule.stints:
        if stint.works and not known[stint.task]:
            known[stint.task] = 1
            if len(stint.placements) > 1:
                yield schedule.fates[stint.task].task.job, Counter(placement.node for placement in stint.placements)


def own_levels(jobs: Iterable[Job]) -> Iterator[Topology]:
    """Yield a topology of one level for each level that a job requests. So levels that are in no topology of the run
    are measured, too."""
    for job in jobs:
        for each in (
            job.closeness,
            *(role.closeness for role in job.roles),
            *(group.closeness for group in job.groups),
        ):
            if each is not None:
                levels = (each.level, *(level for _, level in each.slices))
                yield from (Topology(levels=(level,)) for level in levels if level)


def domains(topologies: Iterable[Topology], nodes: Sequence[Node]) -> Iterator[tuple[str, Mapping[str, Domain]]]:
    """Yield pairs of a level and a mapping: node -> domain. A domain is identified by the values of the level's label
    and of all coarser labels. If several topologies have the same level, the first topology with this level is used. A
    level to which no node belongs is left out."""
    labels = {node.name: dict(node.labels) for node in nodes}
    told = set[str]()
    for topology in topologies:
        for depth, level in enumerate(topology.levels, 1):
            if level not in told:
                told.add(level)
                path = topology.levels[:depth]
                domain_of = {
                    node: tuple(own[key] for key in path) for node, own in labels.items() if own.keys() >= set(path)
                }
                if domain_of:
                    yield level, domain_of


CELL = "cell"
PART = 0.9  # the result of compaction is this quantile of the values for all random orders


def compaction(
    schedule: Schedule, policy: Policy, step: LoopStep, orders: int, stopped: Callable[[], bool] = lambda: False
) -> dict[str, float]:
    """Return the measures of cell compaction; empty for a cluster of one node, if no job ran, or if `stopped` returns
    True. `orders`: the number of random orders in which nodes are removed."""
    nodes, jobs = schedule.nodes, busiest(schedule)
    if len(nodes) < 2 or not jobs:
        return {}
    anew = replace(policy, backfill=Backfill.GREEDY, default_queue=CELL)
    parts = list[float]()
    for order in range(orders):
        left = shuffled(nodes, Random(f"{schedule.seed} compaction {order}"))
        needed = fewest(jobs, left, anew, step)
        parts.append(needed / len(left))
        if stopped():
            return {}
    return {"compacted_cell_ratio": percentile(sorted(parts), PART), "compacted_jobs": len(jobs)}


def fewest(jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy, step: LoopStep) -> int:
    """Return the smallest n for which all jobs fit on the first n nodes. If the jobs do not fit even on all nodes,
    return the number of all nodes."""
    return bisect_left(range(len(nodes)), True, key=lambda count: fits(jobs, nodes[:count], policy, step))


def busiest(schedule: Schedule) -> list[Job]:
    """Return the jobs that ran at the busiest time of the schedule, each with the pods that it had at that time. If
    several times are equally busy, the earliest is used."""
    span = max(spans(schedule), key=lambda span: span.busy, default=None)
    if span is None:
        return []
    there = [stint for stint in schedule.stints if stint.start_s <= span.start_s < stint.end_s]
    there.sort(key=lambda stint: stint.task)
    jobs = ((schedule.fates[stint.task].task.job, stint.placements) for stint in there)
    return [held_by(job, placements, float(rank)) for rank, (job, placements) in enumerate(jobs)]


def held_by(job: Job, placements: Sequence[Placement], at_s: float) -> Job:
    """Return a copy of the job that requests exactly the pods in `placements`. `at_s`: the submission time of the copy.
    If a role had no pods, the copy has no groups."""
    counts = Counter(placement.role for placement in placements)
    roles = tuple(replace(job.roles[at], count=count, minimum=count) for at, count in sorted(counts.items()))
    whole = len(roles) == len(job.roles)
    if not whole:
        roles = tuple(replace(role, group="") for role in roles)
    return replace(
        alone(job),
        queue="",
        roles=roles,
        groups=job.groups if whole else (),
        submitted_s=at_s,
        begin_s=None,
        deadline_s=None,
        limit_s=None,
    )


def fits(jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy, step: LoopStep) -> bool:
    """Return whether all jobs start together on these nodes."""
    cluster, now_s, started = Cluster(), float(len(jobs)), 0
    events: Sequence[Event] = (*map(NodeSeen, nodes), QueueSeen(Queue(name=CELL)), *map(Submitted, jobs))
    plan = step(cluster, events, policy, now_s, Nobody())
    started += sum(isinstance(action, Start) for action in plan.actions)
    while plan.wake_s == now_s and plan.actions:
        plan = step(cluster, (), policy, now_s, Nobody())
        started += sum(isinstance(action, Start) for action in plan.actions)
    return started == len(jobs)
