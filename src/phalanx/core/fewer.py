"""A gang of which groups may be left out, as far as a queue has room for it.

A group may ask for fewer of its members than it has. What nodes leave out is found when the gang is placed; what quota
leaves out is decided before, here: all of the gang is asked for first, then fewer and fewer members of its groups, the
costliest left out first, down to the least that it can start with.

A gang with members left out has the same roles, in the same places. Those left out have no pods; a member without pods
counts as placed, so its group must have that many more of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import NamedTuple

from phalanx.model.cluster import Cluster
from phalanx.model.demand import Gang
from phalanx.model.unit import Unit

WAYS = 64  # looked at


class Way(NamedTuple):
    """`groups`: how many members of each are left out. `roles`: those left out. `pods`: the minimums of the rest."""

    groups: Counter[str]
    roles: frozenset[int]
    pods: tuple[int, ...]


def ways(gang: Gang) -> Iterator[Way]:
    """The ways in which its groups may do with fewer members, the fewest left out first; not with all."""
    assert gang.tree is not None
    groups = [each for each in inner(gang.tree) if each.minimum < len(each.members)]
    counts = product(*(range(len(each.members) - each.minimum + 1) for each in groups))
    for left_out in islice(sorted(counts, key=sum), 1, WAYS):
        yield way(gang, groups, left_out)


def least(gang: Gang) -> Way:
    """The least that it can start with."""
    assert gang.tree is not None
    groups = [each for each in inner(gang.tree) if each.minimum < len(each.members)]
    return way(gang, groups, [len(each.members) - each.minimum for each in groups])


def way(gang: Gang, groups: list[Unit], left_out: tuple[int, ...] | list[int]) -> Way:
    roles = set[int]()
    for group, count in zip(groups, left_out, strict=True):
        costly = sorted(enumerate(group.members), key=lambda each: (-part(gang, each[1]), -each[0]))
        for _, member in costly[:count]:
            roles.update(member.roles())
    pods = tuple(0 if at in roles else minimum for at, minimum in enumerate(gang.minimums))
    counted = Counter({group.name: count for group, count in zip(groups, left_out, strict=True)})
    return Way(+counted, frozenset(roles), pods)


def without(cluster: Cluster, gang: Gang, left_out: Way) -> Gang:
    roles = tuple(
        replace(role, count=0, minimum=0) if at in left_out.roles else role for at, role in enumerate(gang.roles)
    )
    groups = tuple(
        replace(group, minimum=group.minimum + left_out.groups[group.name]) if group.minimum is not None else group
        for group in gang.groups
    )
    return cluster.interned.gang(roles, groups, gang.closeness, gang.size)


def inner(unit: Unit) -> Iterator[Unit]:
    """The groups in it, itself included."""
    if unit.role < 0:
        yield unit
        for member in unit.members:
            yield from inner(member)


def part(gang: Gang, unit: Unit) -> float:
    """The largest part of what the gang asks of any resource that the unit does."""
    whole, asked = gang.asked(), Counter[str]()
    for at in unit.roles():
        for resource, amount in gang.demands[at].asks:
            asked[resource] += amount * gang.minimums[at]
    return max((amount / whole[resource] for resource, amount in asked.items() if whole[resource]), default=0.0)
