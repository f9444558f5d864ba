"""The queue tree as the settings of its queues define it: guarantees, limits, and kept quota (R9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.model.queue import Queue

ROOT = ""
Bounds = tuple[int | None, ...]  # one for each resource; None: not bounded
Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """The queues as a tree.

    `path`: queue -> the queue and those above it, the root excluded.
    `guaranteed`, `limit`, `keeps`: queue -> its amounts.
    `stated`: queue -> the guarantee in its own settings.
    `counting`: queue -> the resources that count among its children.
    `lendable`: queue -> the amounts that its children share."""

    children: dict[str, list[str]]
    path: dict[str, list[str]]
    guaranteed: dict[str, Bounds]
    stated: dict[str, Bounds]
    limit: dict[str, Bounds]
    keeps: dict[str, Amounts]
    counting: dict[str, list[int]]
    lendable: dict[str, Amounts]


def tree_of(queues: Mapping[str, Queue], resources: tuple[str, ...], capacity: Amounts) -> Tree:
    """Return the tree. `capacity`: the amounts of all nodes."""
    below = {name: [each.name for each in queues.values() if each.parent == name] for name in (ROOT, *queues)}
    guaranteed = {name: _guaranteed(queues, below, resources, name) for name in queues}
    stated = {name: _bounds(queue, "guaranteed", resources) for name, queue in queues.items()}
    lendable = {ROOT: capacity}
    for name, bounds in stated.items():
        lendable[name] = tuple(has if own is None else own for own, has in zip(bounds, capacity, strict=True))
    return Tree(
        children=below,
        path={name: _path(queues, name) for name in queues},
        guaranteed=guaranteed,
        stated=stated,
        limit={name: _bounds(queue, "limit", resources) for name, queue in queues.items()},
        keeps={name: _keeps(queue, resources) for name, queue in queues.items()},
        counting={name: _counting([guaranteed[child] for child in below[name]], len(resources)) for name in below},
        lendable=lendable,
    )


def _path(queues: Mapping[str, Queue], queue: str) -> list[str]:
    names = []
    while queue:
        names.append(queue)
        queue = queues[queue].parent
    return names


def _bounds(queue: Queue, kind: str, resources: tuple[str, ...]) -> Bounds:
    stated = dict(getattr(queue.quotas[0], kind)) if queue.quotas else {}
    return tuple(stated.get(resource) for resource in resources)


def _guaranteed(
    queues: Mapping[str, Queue], below: dict[str, list[str]], resources: tuple[str, ...], name: str
) -> Bounds:
    """R9: return the guarantee of a queue. If the queue states none, it is the sum of the children's; None: no queue
    states any."""
    found = list(_bounds(queues[name], "guaranteed", resources))
    children = [_guaranteed(queues, below, resources, child) for child in below[name]]
    for at, amount in enumerate(found):
        sums = [each[at] or 0 for each in children if each[at] is not None]
        if amount is None and sums:
            found[at] = sum(sums)
    return tuple(found)


def _keeps(queue: Queue, resources: tuple[str, ...]) -> Amounts:
    """R9: return the amounts that a queue keeps: `guaranteed - lend`. Without a lending limit the queue lends
    everything."""
    pairs = zip(_bounds(queue, "guaranteed", resources), _bounds(queue, "lend", resources), strict=True)
    return tuple(max(0, (amount or 0) - lend) if lend is not None else 0 for amount, lend in pairs)


def _counting(guarantees: list[Bounds], resources: int) -> list[int]:
    """R15: return the resources of which a child has a guarantee; if no child has any, all resources."""
    some = [at for at in range(resources) if any(each[at] for each in guarantees)]
    return some or list(range(resources))
