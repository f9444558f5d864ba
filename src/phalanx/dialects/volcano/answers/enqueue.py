"""Which waiting PodGroups Volcano would take up (phase Inqueue).

Phalanx starts a gang only when all of its minimum has nodes, so this step decides nothing here. It is answered because
users and tools read the phase: a PodGroup that stays Pending asks for more than its queue or the cluster can have.

A PodGroup without `minResources` is always taken up. Another one is taken up if its `minResources`, with what is
allocated and what others that were taken up still lack, is within the queue's capability (plugins proportion and
capacity), and within the cluster's free amounts and a fifth of all more (plugin overcommit).


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
    """A PodGroup. `queue`: its queue in the tree. `asks`: its minResources. `holds`: what its pods were given.
    `waits`: its phase is Pending. `rank`: the place in the order of jobs, lower first."""

    key: str
    queue: str
    asks: Asked
    holds: Asked
    waits: bool
    rank: tuple[float, str, str]


def taken_up(
    claimants: Sequence[Claimant], total: Asked, limits: Mapping[str, Asked], paths: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the keys of waiting PodGroups that are taken up. `total`: what all nodes have. `limits`: queue -> its
    capability. `paths`: queue -> the queue and all above it; a queue without a path is alone."""
    used: dict[str, Asked] = {"": {}}
    for each in claimants:
        if not each.waits:  # in its queue, pods above its minResources do not count
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
    """Return whether the amounts are within the cluster's and each queue's, in the resources that are asked for."""
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
