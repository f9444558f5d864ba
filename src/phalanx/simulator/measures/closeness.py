"""Measure how close to each other the pods of gangs were placed: on how many nodes, and in how many domains of each
level.

A gang is a job with two or more pods when it first ran; the pods' nodes at that time count. Levels are those of the
run's topologies, and those that gangs request. A node without the label of a level (or of a coarser level) counts as a
domain of its own.

The distance of two pods is measured in *hops*: 0 on one node, 2 in one domain of the finest level (up to its switch and
down), and 2 more for each coarser level, in the first of the topologies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from phalanx.model.job import Job
from phalanx.model.node import Node, Topology
from phalanx.simulator.schedule.schedule import Schedule
from phalanx.simulator.schedule.statistic import mean

HOST = "kubernetes.io/hostname"
Domain = tuple[str, ...]
Gang = tuple[Job, Counter[str]]


def closeness(schedule: Schedule) -> dict[str, Any]:
    """Return the measures; empty for a cluster of one node, or if no gang ran."""
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
    """Yield the mean distance of the pairs of pods of each gang. `levels`: for each level, node -> its domain."""
    for _, places in gangs:
        every = pairs(places.total())
        apart = every - sum(map(pairs, places.values()))
        for domain_of in levels:
            apart += every - sum(map(pairs, gathered(places, domain_of).values()))
        yield 2.0 * apart / every


def pairs(count: int) -> int:
    return count * (count - 1) // 2


def gathered(places: Counter[str], domain_of: Mapping[str, Domain]) -> Counter[Domain]:
    """Return the number of pods in each domain."""
    found: Counter[Domain] = Counter()
    for node, count in places.items():
        found[domain_of.get(node, (node,))] += count
    return found


def started(schedule: Schedule) -> Iterator[Gang]:
    """Yield each gang, with the number of its pods on each node when it first ran."""
    known = bytearray(len(schedule.fates))
    for stint in schedule.stints:
        if stint.works and not known[stint.task]:
            known[stint.task] = 1
            if len(stint.placements) > 1:
                yield schedule.fates[stint.task].task.job, Counter(placement.node for placement in stint.placements)


def own_levels(jobs: Iterable[Job]) -> Iterator[Topology]:
    """Yield a topology for each level that a job requests, for levels that no other topology has."""
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
    """Yield (level, node -> domain). A domain is the values of the level's label and of all coarser labels. If several
    topologies have a level, the first counts. A level without any node is left out."""
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
