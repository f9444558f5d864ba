"""Limits of users and groups on a queue and all below it, as YuniKorn counts them.

A user's limit is the one under the user's name, or else the one of `*`, which each user has separately. A group's
limit is for all members together. An application counts for one group only: the search goes from its queue up to the
root, and takes the first group that a limit names and that the user is in, or else the group `*` if a limit names it.
All applications of the group `*` share one limit.

Source: pkg/scheduler/ugm of apache/yunikorn-core (1.9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from phalanx.dialects.yunikorn.checks import amounts
from phalanx.dialects.yunikorn.configuration import ANYBODY, Limit, QueueBranch
from phalanx.model.queue import Limits, Queue

# full name of a queue -> the groups that its limits name, then those of each queue above it
LimitedGroups = Mapping[str, tuple[tuple[str, ...], ...]]
_NOBODY = Limits()


def limits_of(limits: Sequence[Limit]) -> tuple[Limits, Limits]:
    """Return the limits per user, and the limits per group."""
    users = {name: _read(limit) for limit in limits for name in limit.users}
    groups = {name: _read(limit) for limit in limits for name in limit.groups}
    rest = users.pop(ANYBODY, _NOBODY)
    return replace(rest, named=tuple(users.items())), Limits(named=tuple(groups.items()))


def limited_groups(roots: Sequence[QueueBranch]) -> LimitedGroups:
    """Return the groups whose limits count for each queue."""
    return dict(entry for root in roots for entry in _groups(root, "", ()))


def counted_group(limited: LimitedGroups, queue: str, groups: Sequence[str]) -> str:
    """Return the group for which an application in the queue counts; empty: none. `queue`: the full name."""
    for named in limited.get(queue, ()):
        if found := next((name for name in named if name in groups), ANYBODY if ANYBODY in named else ""):
            return found
    return ""


def with_limits(queue: Queue, limits: Sequence[Limit]) -> Queue:
    """Return the queue with the limits of its users and groups."""
    if not limits:
        return queue
    users, groups = limits_of(limits)
    return replace(queue, per_user=users, per_group=groups)


def _read(limit: Limit) -> Limits:
    most = {"cpu" if name == "vcore" else name: amount for name, amount in amounts(limit.max_resources).items()}
    return Limits(running=limit.max_applications or None, resources=tuple(sorted(most.items())))


def _groups(
    queue: QueueBranch, prefix: str, above: tuple[tuple[str, ...], ...]
) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
    name = f"{prefix}{queue.name}".lower()
    own = tuple(group for limit in queue.limits for group in limit.groups)
    here = (own, *above) if own else above
    yield name, here
    for child in queue.queues:
        yield from _groups(child, f"{name}.", here)
