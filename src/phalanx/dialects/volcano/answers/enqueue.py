"""Compute which waiting PodGroups Volcano would admit to its queue (phase Inqueue).

Phalanx starts a gang only when all of its minimum has nodes, so this step decides nothing here. It is answered because
users and tools read the phase: a PodGroup that stays Pending asks for more than its queue or the cluster can have.

A PodGroup without `minResources` is always taken up. Any other PodGroup is taken up if two sums are small enough: its
`minResources` plus the amounts of PodGroups that run or were taken up before. The sum over its queue must be within the
queue's capability (plugins proportion and capacity), and the sum over the cluster within 1.2 times the amounts of all
nodes (plugin overcommit).


Source: pkg/scheduler/{actions/enqueue,plugins/overcommit,plugins/proportion} of v1.15.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from phalanx.dialects.frame.pod_requests import Asked

OVERCOMMIT: Final = 1.2  # the default of overcommit-factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A PodGroup. `queue`: its queue in the tree. `asks`: its minResources. `holds`: the amounts that its pods hold.
    `waits`: True if its phase is Pending. `rank`: its sort key in the order of jobs; the lowest comes first."""

    key: str
    queue: str
    asks: Asked
    holds: Asked
    waits: bool
    rank: tuple[float, str, str]


def taken_up(
    claimants: Sequence[Claimant], total: Asked, limits: Mapping[str, Asked], paths: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the keys of waiting PodGroups that are taken up. `total`: the amounts of all nodes. `limits`: queue -> its
    capability. `paths`: queue -> the queue and all queues above it; without an entry, only the queue itself counts."""
    used: dict[str, Asked] = {"": {}}
    for each in claimants:
        if not each.waits:  # for the queues only the minResources count, for the cluster also pods beyond them
            _add(used, ("",), _larger(each.asks, each.holds))
            _add(used, paths.get(each.queue, (each.queue,)), each.asks or each.holds)
    for each in sorted((one for one in claimants if one.waits), key=lambda one: one.rank):
        path = paths.get(each.queue, (each.queue,))
        if _fits(each.asks, used, total, limits, path):
            _add(used, ("", *path), each.asks)
            yield each.key


def _fits(
    asks: Asked, used: Mapping[str, Asked], total: Asked, limits: Mapping[str, Asked], path: Sequence[str]
) -> bool:
    """Return whether `asks` plus `used` is within the amounts of the cluster and the capability of each queue of the
    path."""
    for resource, amount in asks.items():
        if amount and used[""].get(resource, 0) + amount > OVERCOMMIT * total.get(resource, 0):
            return False
        for queue in path:
            most = limits.get(queue, {}).get(resource, total.get(resource, 0))
            if amount and used.get(queue, {}).get(resource, 0) + amount > most:
                return False
    return True


def _larger(one: Asked, other: Asked) -> Asked:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


def _add(used: dict[str, Asked], queues: Sequence[str], amounts: Asked) -> None:
    for queue in queues:
        total = used.setdefault(queue, {})
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, 0) + amount
