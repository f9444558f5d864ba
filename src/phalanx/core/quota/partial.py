"""Partial admission: choose the optional members of a gang that are left out if quota does not allow all members.

A group may require fewer members than it has; the members beyond its minimum are optional. Before placement, this
module leaves out members for which quota is short. Placement may then leave out further members for which nodes are
short. This module leaves out one member after the other, the costliest first, until quota allows the remaining members.
Then it puts back each member that quota still allows. Perhaps no nodes are free for the remaining members, but for some
members that were left out. So further choices are offered, one for each kind of member (members with equal requests are
of one kind). Each further choice keeps members of its kind as long as possible.

A gang from which members are left out still has all of its roles, at the same positions, but the roles of the left-out
members have no pods. Placement counts a member without pods as placed. So the minimum of each group is raised by the
number of its members without pods.
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

# Choices are offered for at most this many kinds of members, and each choice tries to put back at most this many
# members. For a gang of many roles, both numbers are smaller (`trial_limit`).
TRIES = 32
# for a gang of many roles, the limit `TRIES` is lowered so that its product with the number of roles is at most this
# number
ROLES = 4096


class OptionalMember(NamedTuple):
    """A member (`unit`) of a group (`group`) that can run without some of its members. `alike`: a key that is equal for
    members of the group with equal requests."""

    group: GangTree
    unit: GangTree
    alike: Hashable


class PartialAdmission(NamedTuple):
    """A choice of members to leave out.

    `groups`: group -> number of its members that are left out.
    `roles`: the roles that are left out.
    `pods`: for each role, its minimum; 0 if it is left out."""

    groups: Counter[str]
    roles: frozenset[int]
    pods: tuple[int, ...]


QuotaCheck: TypeAlias = Callable[[PartialAdmission], bool]


def partial_admissions(gang: Gang, allows: QuotaCheck) -> Iterator[PartialAdmission]:
    """Yield choices of members to leave out, for a gang that quota does not allow as a whole. The first choice leaves
    out as few members as possible. Then one choice follows for each kind of optional member, which leaves out members
    of other kinds first. If quota is short even without all removable optional members, each choice leaves out all
    removable members."""
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
    """Leave out members from the beginning of `members`, and only as many as necessary, until quota allows the gang;
    return this choice. If quota never allows the gang, return the choice that leaves out all of `members`."""
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
    """Return the largest number of members, and of kinds of members, that are tried for the gang."""
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
    """Return the members that may be left out together: for each group, the first members in the list, as many
    as the group has above its minimum."""
    left = Counter[str]()
    found = []
    for member in members:
        if left[member.group.name] < len(member.group.members) - member.group.minimum:
            left[member.group.name] += 1
            found.append(member)
    return found


def same_request(gang: Gang, unit: GangTree) -> Hashable:
    """Return a key that is equal for members with equal requests."""
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
    """Return the gang without the members that the choice `left_out` leaves out."""
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
    """For each resource, divide the request of the subtree by the request of the whole gang; return the largest
    quotient."""
    whole, asked = gang.asked, Counter[str]()
    for at in unit.roles():
        for resource, amount in gang.demands[at].asks:
            asked[resource] += amount * gang.minimums[at]
    return max((amount / whole[resource] for resource, amount in asked.items() if whole[resource]), default=0.0)
