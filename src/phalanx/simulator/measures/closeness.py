"""How close to each other the pods of gangs came to lie: on how many nodes, and in how many domains of each level.

A gang is a job that had two pods or more when it first ran; where they were then is what counts. Levels are those of
the topologies under which it was played, and those that gangs themselves name. A node that lacks the label of a level
(or of a coarser one) is in no domain of it, and counts as one of its own.

Two pods are so many *hops* apart: none on one node, two in one domain of the finest level (up to its switch and down
again), two more for each level further up that they must go, in the first of the topologies."""

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
    """Nothing of a cluster of one node, and where no gang ran."""
    nodes = schedule.workload.nodes
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
    """Of each gang: the mean over its pairs of pods. `levels`: each node's domain in each level above it."""
    for _, places in gangs:
        every = pairs(places.total())
        apart = every - sum(map(pairs, places.values()))
        for domain_of in levels:
            apart += every - sum(map(pairs, gathered(places, domain_of).values()))
        yield 2.0 * apart / every


def pairs(count: int) -> int:
    return count * (count - 1) // 2


def gathered(places: Counter[str], domain_of: Mapping[str, Domain]) -> Counter[Domain]:
    """How many pods are in each domain."""
    found: Counter[Domain] = Counter()
    for node, count in places.items():
        found[domain_of.get(node, (node,))] += count
    return found


def started(schedule: Schedule) -> Iterator[Gang]:
    """Each gang, and how many of its pods first ran on which nodes."""
    known = bytearray(len(schedule.fates))
    for stint in schedule.stints:
        if stint.works and not known[stint.task]:
            known[stint.task] = 1
            if len(stint.placements) > 1:
                yield schedule.fates[stint.task].task.job, Counter(placement.node for placement in stint.placements)


def own_levels(jobs: Iterable[Job]) -> Iterator[Topology]:
    """Each level that a job names is a hierarchy of its own where no topology has it."""
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
    """Each level, with the nodes' domains: the values of its label and all coarser ones. A level of several topologies
    is that of the first; one in whose domains no node is, is none."""
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
