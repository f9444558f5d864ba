"""Partial admission: choose the optional members of a gang that are left out if quota does not allow all members.

A group may require fewer members than it has. Before placement, this module leaves out members for which quota is
short. Later, placement leaves out members for which nodes are short. This module leaves members out, the costliest
first, until quota allows the remaining members, and then puts back each member that quota allows after all. It may
happen that the remaining members find no nodes, although other members would. So further choices are offered, one for
each kind of member (members with equal requests are of one kind). In each of them, members of this kind are left out
last.

If members are left out, the gang keeps all roles at the same positions, but the roles of these members have no pods. A
member without pods counts as placed, so the minimum of its group rises by the number of members without pods.
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

# The largest number of kinds of members that are tried, and of members that each choice tries to put back. It is
# smaller in a gang of many roles.
TRIES = 32
ROLES = 4096  # the largest number of roles that are examined for one of these limits


class OptionalMember(NamedTuple):
    """An optional member of a group. `alike`: a key that is equal for members with equal requests."""

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
    out as few members as possible. Then one choice follows for each kind of optional member: in it, members of that
    kind are left out last. If quota allows no choice, yield the one with the fewest remaining members."""
    members = optional_members(gang)
    firsts = {each.alike: each for each in reversed(members)}
    for kept in (None, *islice(firsts.values(), trial_limit(gang))):
        last = set() if kept is None else set(kept.unit.roles())
        yield fullest_admission(
            gang, removable_members(sorted(members, key=lambda each: last <= set(each.unit.roles()))), allows
        )


def minimum_admission(gang: Gang, allows: QuotaCheck) -> PartialAdmission:
    """Return a choice of `partial_admissions` that quota allows; if there is none, the first choice."""
    found = list(partial_admissions(gang, allows))
    return next((way for way in found if allows(way)), found[0])


def fullest_admission(gang: Gang, members: Sequence[OptionalMember], allows: QuotaCheck) -> PartialAdmission:
    """Return the choice that leaves out as few of the members as quota allows, from the first member on; all of them,
    if quota allows no choice."""
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
    """Return the largest number of members that are tried for the gang."""
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
    """Return the members that may be left out together: for each group its first members in the list, but only as many
    as the group can do without."""
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
    """Return the admission that leaves these members out."""
    roles = frozenset(role for member in left_out for role in member.unit.roles())
    pods = tuple(0 if at in roles else minimum for at, minimum in enumerate(gang.minimums))
    return PartialAdmission(Counter(member.group.name for member in left_out), roles, pods)


def reduced_gang(cluster: Cluster, gang: Gang, left_out: PartialAdmission) -> Gang:
    """Return the gang without the members that are left out."""
    roles = tuple(
        replace(role, count=0, minimum=0) if at in left_out.roles else role for at, role in enumerate(gang.roles)
    )
    groups = tuple(
        replace(group, minimum=group.minimum + left_out.groups[group.name]) if group.minimum is not None else group
        for group in gang.groups
    )
    return cluster.interned.gang(roles, groups, gang.closeness, gang.size)


def inner_groups(unit: GangTree) -> Iterator[GangTree]:
    """Yield the groups in the subtree, including the subtree's own root."""
    if unit.role < 0:
        yield unit
        for member in unit.members:
            yield from inner_groups(member)


def largest_part(gang: Gang, unit: GangTree) -> float:
    """Return the subtree's part of the gang's total request, for the resource of which this part is largest."""
    whole, asked = gang.asked, Counter[str]()
    for at in unit.roles():
        for resource, amount in gang.demands[at].asks:
            asked[resource] += amount * gang.minimums[at]
    return max((amount / whole[resource] for resource, amount in asked.items() if whole[resource]), default=0.0)
