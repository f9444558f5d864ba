"""Partial admission: if quota does not allow all members of a gang, choose which optional members are left out.

A group may require fewer members than it has; the members beyond its minimum are optional. If quota is short, this
module leaves out optional members before the gang is placed. If nodes are short, placement may then leave out further
members. The module leaves out one member after the other, the costliest first, until quota allows the remaining
members. Then it puts back each member that quota still allows. The nodes may have no capacity for the remaining
members, but capacity for members that were left out. So the module offers further choices, one for each kind of member.
(Members with equal requests are of one kind.) Each further choice leaves out members of its own kind last.

The reduced gang still has all of its roles, at the same positions, but the roles of members that are left out have no
pods. Placement treats a member without pods as placed. So the minimum of each group is raised by the number of its
members that are left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeAlias

from phalanx.model.job import GangTree
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster

# At most this many kinds of members get a choice of their own. For each choice, at most this many members are put back
# one by one to test whether quota allows it. For a gang of many roles, both limits are lower (`trial_limit`).
TRIES = 32
# the limit times the number of the gang's roles is at most this number
ROLES = 4096


class OptionalMember(NamedTuple):
    """A member (`unit`) of a group (`group`) that may start with fewer members than it has. `alike`: a key that is
    equal for members of the group with equal requests."""

    group: GangTree
    unit: GangTree
    alike: Hashable


class PartialAdmission(NamedTuple):
    """A choice of the members that are left out.

    `groups`: group -> number of its members that are left out.
    `roles`: the roles that are left out.
    `pods`: for each role, its minimum; 0 if it is left out."""

    groups: Counter[str]
    roles: frozenset[int]
    pods: tuple[int, ...]


QuotaCheck: TypeAlias = Callable[[PartialAdmission], bool]


def partial_admissions(gang: Gang, allows: QuotaCheck) -> Iterator[PartialAdmission]:
    """Yield choices of members to leave out. The first choice leaves out the costliest members first. Then one choice
    follows for each kind of optional member; it leaves out members of other kinds first. Each choice leaves out only as
    many members as necessary. If quota is short even without all removable members, each choice leaves out all of them.
    Precondition: quota does not allow the whole gang."""
    members = optional_members(gang)
    firsts = {each.alike: each for each in reversed(members)}
    for kept in (None, *islice(firsts.values(), trial_limit(gang))):
        last = set() if kept is None else set(kept.unit.roles())
        yield fullest_admission(
            gang, removable_members(sorted(members, key=lambda each: last <= set(each.unit.roles()))), allows
        )


def minimum_admission(gang: Gang, allows: QuotaCheck) -> PartialAdmission:
    """Return the first choice of `partial_admissions` that quota allows; if quota allows no choice, return the first
    choice."""
    found = list(partial_admissions(gang, allows))
    return next((way for way in found if allows(way)), found[0])


def fullest_admission(gang: Gang, members: Sequence[OptionalMember], allows: QuotaCheck) -> PartialAdmission:
    """Return a choice that leaves out only as many of `members` as necessary, the first ones first, so that quota
    allows the gang. If quota does not allow the gang even without all of `members`, return the choice that leaves out
    all of them."""
    count = bisect_left(
        range(len(members)), True, lo=1, key=lambda count: allows(partial_admission(gang, members[:count]))
    )
    left, refused = list(members[:count]), set[Hashable]()
    if not allows(partial_admission(gang, left)):
        return partial_admission(gang, left)
    for member in left[-2 : -2 - trial_limit(gang) : -1]:
        rest = [each for each in left if each is not member]
        if member.alike not in refused and allows(partial_admission(gang, rest)):
            left = rest
        else:
            refused.add(member.alike)
    return partial_admission(gang, left)


def trial_limit(gang: Gang) -> int:
    """Return the limit for this gang: `TRIES`, or less for a gang of many roles."""
    return min(TRIES, ROLES // len(gang.roles))


def optional_members(gang: Gang) -> list[OptionalMember]:
    """Return the optional members, the costliest first."""
    assert gang.tree is not None
    groups = [each for each in inner_groups(gang.tree) if each.minimum < len(each.members)]
    found = [
        OptionalMember(group, unit, (group.name, same_request(gang, unit)))
        for group in groups
        for unit in group.members
    ]
    return sorted(found, key=lambda each: largest_part(gang, each.unit))[::-1]


def removable_members(members: Sequence[OptionalMember]) -> list[OptionalMember]:
    """Return members that may all be left out together. From each group these are the first members in the list, up to
    the number of members above the group's minimum."""
    left = Counter[str]()
    found = []
    for member in members:
        if left[member.group.name] < len(member.group.members) - member.group.minimum:
            left[member.group.name] += 1
            found.append(member)
    return found


def same_request(gang: Gang, unit: GangTree) -> Hashable:
    """Return a key of the member; two members have equal keys if they have equal requests."""
    near = unit.closeness
    if unit.role >= 0:
        return near, gang.demands[unit.role], unit.minimum, gang.roles[unit.role].count
    return near, unit.minimum, tuple(same_request(gang, member) for member in unit.members)


def partial_admission(gang: Gang, left_out: Sequence[OptionalMember]) -> PartialAdmission:
    """Return the choice that leaves out the members `left_out`."""
    roles = frozenset(role for member in left_out for role in member.unit.roles())
    pods = tuple(0 if at in roles else minimum for at, minimum in enumerate(gang.minimums))
    return PartialAdmission(Counter(member.group.name for member in left_out), roles, pods)


def reduced_gang(cluster: Cluster, gang: Gang, left_out: PartialAdmission) -> Gang:
    """Return the reduced gang, without the members that the choice `left_out` leaves out."""
    roles = tuple(
        replace(role, count=0, minimum=0) if at in left_out.roles else role for at, role in enumerate(gang.roles)
    )
    groups = tuple(
        replace(group, minimum=group.minimum + left_out.groups[group.name]) if group.minimum is not None else group
        for group in gang.groups
    )
    return cluster.interned.gang(roles, groups, gang.closeness, gang.size)


def inner_groups(unit: GangTree) -> Iterator[GangTree]:
    """Yield the groups in the subtree. If the root of the subtree is a group, it is included."""
    if unit.role < 0:
        yield unit
        for member in unit.members:
            yield from inner_groups(member)


def largest_part(gang: Gang, unit: GangTree) -> float:
    """Return how large the subtree is within the gang. For each resource, the request of the subtree is divided by the
    request of the whole gang; the result is the largest of these quotients."""
    whole, asked = gang.asked, Counter[str]()
    for at in unit.roles():
        for resource, amount in gang.demands[at].asks:
            asked[resource] += amount * gang.minimums[at]
    return max((amount / whole[resource] for resource, amount in asked.items() if whole[resource]), default=0.0)
