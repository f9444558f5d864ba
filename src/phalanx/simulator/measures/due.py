"""Compute the fair part of each party: its max-min fair part of the cluster, by the weights of the queue tree.

The part of a queue is divided among its children in proportion to their weights. No child gets more than its demand;
the rest goes to its siblings. A party that is not a queue of the policy (a user, or a queue of the trace under a policy
with one queue) has weight 1 at the root. Guarantees and limits are ignored, because they are means to fairness and not
its measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import TypeAlias, TypeVar

from phalanx.model.queue import Queue

LEAST = 1e-9  # the lowest weight: a queue of weight 0 gets only what no other queue demands
ITSELF = ("", 1.0)  # the place of an inner queue's own jobs, among its children

Child = TypeVar("Child", str, tuple[str, float])
Line: TypeAlias = tuple[tuple[str, float], ...]  # (queue, weight), from below the root to a party


def lines_of(parties: Iterable[str], queues: Sequence[Queue], default: str, counted: str) -> dict[str, Line]:
    """Return each party's path in the tree. `default`: the queue of jobs that name none. `counted`: the resource by
    whose weights parts are divided."""
    known = {queue.name: queue for queue in queues}
    found: dict[str, Line] = {}
    for party in parties:
        line: list[tuple[str, float]] = []
        queue = known.get(party or default)
        while queue is not None and len(line) < len(known):
            line.append((queue.name, max(LEAST, dict(queue.weights).get(counted, queue.weight))))
            queue = known.get(queue.parent)
        found[party] = tuple(reversed(line)) or ((party, 1.0),)
    return found


def due(lines: Mapping[str, Line], demand: Mapping[str, float], has: float) -> dict[str, float]:
    """Return the fair part of `has` for each party with a demand."""
    children: dict[tuple[str, float], list[str]] = {}
    for party in sorted(demand):
        children.setdefault(lines[party][0] if lines[party] else ITSELF, []).append(party)
    wanted = {child: fsum(demand[party] for party in within) for child, within in children.items()}
    found: dict[str, float] = {}
    for child, part in fair_parts(wanted, {child: child[1] for child in children}, has).items():
        within = children[child]
        if len(within) == 1:
            found[within[0]] = part
        else:
            below = {party: lines[party][1:] for party in within}
            found |= due(below, {party: demand[party] for party in within}, part)
    return found


def fair_parts(demand: Mapping[Child, float], weights: Mapping[Child, float], has: float) -> dict[Child, float]:
    """Divide `has` max-min fairly: in proportion to the weights, but no child gets more than its demand."""
    parts: dict[Child, float] = {}
    among = fsum(weights[child] for child in demand)
    for child in sorted(demand, key=lambda child: (demand[child] / weights[child], child)):
        parts[child] = min(demand[child], has * weights[child] / among) if among > 0 else 0.0
        has, among = has - parts[child], among - weights[child]
    return parts


def shares(lines: Mapping[str, Line]) -> dict[str, float]:
    """Return the fair fraction of the cluster for each party if every party demands more."""
    return due(lines, dict.fromkeys(lines, 2.0), 1.0)
