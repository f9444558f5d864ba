"""How close to each other the pods of gangs came to lie: on how many nodes, and in how many domains of each level.

A gang is a job that had two pods or more when it first ran; where they were then is what counts. Levels are those of
the topologies under which it was played, and those that gangs themselves name. A node that lacks the label of a level
(or of a coarser one) is in no domain of it, and counts as one of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from phalanx.model.job import Job
from phalanx.model.node import Node
from phalanx.model.topology import Topology
from phalanx.simulator.schedule import Schedule
from phalanx.simulator.statistic import mean

Domain = tuple[str, ...]


def closeness(schedule: Schedule) -> dict[str, Any]:
    """Nothing of a cluster of one node, and where no gang ran."""
    nodes = schedule.workload.nodes
    gangs = list(started(schedule)) if len(nodes) > 1 else []
    if not gangs:
        return {}
    hosts = [float(len(places)) for _, places in gangs]
    found: dict[str, Any] = {
        "gangs": len(gangs),
        "one_node_ratio": mean([float(each == 1) for each in hosts]),
        "mean_nodes_per_gang": mean(hosts),
    }
    by_level = {}
    for level, domain_of in domains((*schedule.topologies, *own_levels(job for job, _ in gangs)), nodes):
        counts = [float(len({domain_of.get(node, (node,)) for node in places})) for _, places in gangs]
        by_level[level] = {
            "one_domain_ratio": mean([float(each == 1) for each in counts]),
            "mean_domains_per_gang": mean(counts),
        }
    return {**found, "by_level": by_level} if by_level else found


def started(schedule: Schedule) -> Iterator[tuple[Job, set[str]]]:
    """Each gang, and the nodes on which it first ran."""
    known = bytearray(len(schedule.fates))
    for stint in schedule.stints:
        if stint.works and not known[stint.task]:
            known[stint.task] = 1
            if len(stint.placements) > 1:
                yield schedule.fates[stint.task].task.job, {placement.node for placement in stint.placements}


def own_levels(jobs: Iterable[Job]) -> Iterator[Topology]:
    """Each level that a job names is a hierarchy of its own where no topology has it."""
    for job in jobs:
        for each in (
            job.closeness,
            *(role.closeness for role in job.roles),
            *(group.closeness for group in job.groups),
        ):
            if each is not None:
                yield from (Topology(levels=(level,)) for level in (each.level, each.slice_level) if level)


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
