"""A gang as a tree: what of it must be placed together, and close to each other.

The leaves are roles, the inner units groups, the root is the job. A unit is placed when `minimum` of its members are,
each with its own minimum. What cannot be such a tree (a group that nobody declared, a cycle, a minimum beyond what
there is) is told in words by `gang_error`, so that the job is refused instead of misread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from phalanx.model.job import Group, Role
from phalanx.model.topology import TopologyRequest

MAX_PODS = 150_000  # in one job; as many as the largest cluster that Kubernetes is tested for has in all
MAX_ROLES = 1_000
MAX_GROUPS = 1_000
MAX_DEPTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTree:
    """A leaf has a `role` (its position in the job) and no members; `minimum` counts members, of a leaf: pods."""

    name: str
    closeness: TopologyRequest | None = None
    minimum: int = 0
    role: int = -1
    members: tuple[GangTree, ...] = ()

    def roles(self) -> Iterator[int]:
        """All roles in it."""
        if self.role >= 0:
            yield self.role
        for member in self.members:
            yield from member.roles()

    def required_roles(self) -> Iterator[int]:
        """The roles without whose minimum it cannot be placed."""
        if self.role >= 0:
            yield self.role
        elif self.minimum == len(self.members):
            for member in self.members:
                yield from member.required_roles()

    def optional(self) -> bool:
        """Whether members of it, or of a unit in it, may be left out."""
        fewer = self.role < 0 and self.minimum < len(self.members)
        return fewer or any(member.optional() for member in self.members)

    def requires_topology(self) -> bool:
        """Whether the pods of it, or of a unit in it, must be close to each other; not only should be."""
        near = self.closeness
        must = near is not None and ((near.required and near.level != "") or near.slice_pods > 1)
        return must or any(member.requires_topology() for member in self.members)

    def slice_pods(self, role: int) -> int:
        """How many pods of the role in it are in one slice: as the innermost unit says that says anything of where they
        go. Less than two: there are no slices."""
        inside = next((member for member in self.members if role in member.roles()), None)
        said = 0 if inside is None else inside.slice_pods(role)
        near = self.closeness
        if said or near is None or not (near.level or near.slice_level):
            return said
        return max(1, near.slice_pods)

    def placed(self, pods: Sequence[int]) -> bool:
        """Whether so many pods of each role are enough of it."""
        if self.role >= 0:
            return pods[self.role] >= self.minimum
        return sum(member.placed(pods) for member in self.members) >= self.minimum

    def spare(self, pods: Sequence[int]) -> Iterator[int]:
        """With so many pods of each role, the roles of members that can go and leave it enough: of a group the last."""
        whole = [member for member in self.members if member.placed(pods)]
        kept = whole[: self.minimum]
        for member in self.members:
            if member not in kept and self.minimum <= len(whole) and self.minimum < len(self.members):
                yield from member.roles()
            else:
                yield from member.spare(pods)

    def incomplete_members(self, pods: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """With so many pods of each role, the roles of each member that is not whole though its group needs it not."""
        for member in self.members:
            if self.minimum < len(self.members) and not member.placed(pods):
                yield tuple(member.roles())
            else:
                yield from member.incomplete_members(pods)


def gang_tree(roles: Sequence[Role], groups: Sequence[Group], closeness: TopologyRequest | None) -> GangTree:
    """The job as a unit. Nothing may be `gang_error` with it."""
    members: dict[str, list[GangTree]] = {"": [], **{group.name: [] for group in groups}}
    for at, role in enumerate(roles):
        leaf = GangTree(name=role.name, closeness=role.closeness, minimum=role.minimum, role=at)
        members[role.group].append(leaf)
    inside: dict[str, list[Group]] = {}
    for group in groups:
        inside.setdefault(group.parent, []).append(group)

    def unit(group: Group) -> GangTree:
        parts = (*members[group.name], *map(unit, inside.get(group.name, ())))
        least = len(parts) if group.minimum is None else group.minimum
        return GangTree(name=group.name, closeness=group.closeness, minimum=least, members=parts)

    return unit(Group(name="", closeness=closeness))


def gang_error(roles: Sequence[Role], groups: Sequence[Group], closeness: TopologyRequest | None) -> str:
    """What is wrong with the job's roles and groups, in one sentence; empty: nothing."""
    if len(roles) > MAX_ROLES or len(groups) > MAX_GROUPS:
        what, most = ("roles", MAX_ROLES) if len(roles) > MAX_ROLES else ("groups", MAX_GROUPS)
        return f"the job has {max(len(roles), len(groups))} {what}; the most is {most}"
    return next(gang_errors(roles, groups, closeness), "")


def gang_errors(roles: Sequence[Role], groups: Sequence[Group], closeness: TopologyRequest | None) -> Iterator[str]:
    for role in roles:
        if not 0 <= role.minimum <= role.count:
            yield f"role {role.name!r} has {role.count} pods and a minimum of {role.minimum}"
    if (pods := sum(role.count for role in roles)) > MAX_PODS:
        yield f"the job has {pods} pods; the most is {MAX_PODS}"
    if not groups and closeness is None and not any(role.group or role.closeness for role in roles):
        return
    yield from group_errors(roles, groups)
    asked = [("the job", closeness)]
    asked += [(f"role {role.name!r}", role.closeness) for role in roles]
    asked += [(f"the group {group.name!r}", group.closeness) for group in groups]
    for name, near in asked:
        if near is not None and (near.slice_pods < 0 or bool(near.slice_pods) != bool(near.slice_level)):
            yield f"{name}: slices of {near.slice_pods} pods at level {near.slice_level!r} need both, pods and level"


def group_errors(roles: Sequence[Role], groups: Sequence[Group]) -> Iterator[str]:
    """Groups that are not there, that contain themselves, or whose minimum is beyond what is in them."""
    counted = Counter(group.name for group in groups)
    twice = [name for name, count in counted.items() if count > 1 or not name]
    if twice:
        yield f"two groups are named {twice[0]!r}" if twice[0] else "a group has no name"
    strangers = [("role", role.name, role.group) for role in roles if role.group and role.group not in counted]
    strangers += [("group", each.name, each.parent) for each in groups if each.parent and each.parent not in counted]
    for kind, name, parent in strangers:
        yield f"{kind} {name!r} is in the group {parent!r}, which the job does not declare"
    parents = {group.name: group.parent for group in groups}
    for name in parents:
        path = [name]
        while parents.get(path[-1]) and len(path) <= MAX_DEPTH:
            path.append(parents[path[-1]])
        if name in path[1:]:
            yield f"the group {name!r} contains itself ({' in '.join(path[: path.index(name, 1) + 1])})"
        elif len(path) > MAX_DEPTH:
            yield f"the group {name!r} lies more than {MAX_DEPTH} groups deep"
    held = Counter([role.group for role in roles] + [group.parent for group in groups])
    for group in groups:
        if group.minimum is not None and not 0 <= group.minimum <= held[group.name]:
            yield f"the group {group.name!r} has {held[group.name]} members and a minimum of {group.minimum}"
