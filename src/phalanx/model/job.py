"""A job: the roles of its pods, and the tree of its roles and groups. The pods of its minimum start together or not at
all.

In this tree the leaves are roles, the inner nodes are groups, and the root is the job. A subtree counts as placed when
at least `minimum` of its members are placed. Each of these members must have its own minimum. `gang_error` reports an
invalid tree (an undeclared group, a cycle, a minimum above the number of members), so that the scheduler refuses the
job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from phalanx.model.node import SliceLayer, TopologyRequest
from phalanx.model.pod import Shape
from phalanx.model.reason import Reason


class Slot(NamedTuple):
    """A slot identifies the place of one pod in a job. A replacement of the pod has the same slot. `role`: the index
    in `Job.roles`. `ordinal`: the number of the pod in the role."""

    role: int
    ordinal: int


class Placement(NamedTuple):
    """A slot with its planned node. `devices`: the names of the devices of this node that the pod gets."""

    role: int
    ordinal: int
    node: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role is `count` pods of one shape. The job starts only if at least `minimum` of these pods are placed.

    `group`: the name of the group that contains the role; empty if it is directly in the job.
    `closeness`: the topology request of the role's pods."""

    name: str
    count: int
    minimum: int
    shape: Shape
    group: str = ""
    closeness: TopologyRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group is a set of roles and groups that belong together.

    `minimum`: the number of members that must be placed for the group to count as placed; None for all members. Members
    are the roles and groups directly in the group. Each of them must be placed with its own minimum.
    `parent`: the name of the group that contains this group; empty if it is directly in the job."""

    name: str
    parent: str = ""
    minimum: int | None = None
    closeness: TopologyRequest | None = None


class DependencyType(StrEnum):
    """The state that another job must have reached so that a dependency on it is met (the types of
    Slurm's `--dependency`)."""

    START = "start"  # the other job has started or ended
    OK = "ok"  # the other job has succeeded
    NOT_OK = "not-ok"  # the other job has failed or was deleted
    ANY = "any"  # the other job has ended, with any outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A dependency on the job with the id `job`."""

    job: str
    after: DependencyType = DependencyType.OK


class Outcome(StrEnum):
    """The outcome of a finished job."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DELETED = "deleted"


class GangSize(StrEnum):
    """The rule that decides when the surplus of a role is placed and released. The surplus consists of the pods above
    the minimum, up to the role's count."""

    # the job starts with as many pods as fit, and grows later; its surplus pods are preempted first
    ELASTIC = "elastic"
    # As ELASTIC, but surplus pods do not wait until the minimums of other jobs are placed. They are tried in the job
    # order.
    IN_TURN = "in-turn"
    FIXED_AT_START = "fixed-at-start"  # the job keeps the size with which it started (Kueue's partial admission)
    # The job starts with its minimum, grows either by all missing pods or not at all, and is preempted as a whole
    # (Kueue's elastic jobs).
    IN_STEPS = "in-steps"

    @property
    def grows(self) -> bool:
        """Return whether a running job may get more pods."""
        return self is not GangSize.FIXED_AT_START


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as its user submitted it.

    `id`: `namespace/name`, unique among live jobs.
    `blocked`: why the world does not allow the job to start, even if capacity is free (for example a hold, or missing
    members); None if it allows the start.
    `limit_s`: the time limit, after which the job is stopped.
    `estimate_s`: the expected run time, if a better estimate than the limit is known. Estimates only decide the order
    of backfill candidates; reservations are computed from limits.
    `begin_s`, `deadline_s`: the earliest start, and the time by which the job must be able to end (seconds since the
    epoch).
    `preemptible`, `preempts`: whether the job may be preempted, and whether it may preempt other jobs.
    `movable`: whether consolidation may move the job.
    `nodes_after_s`: how many seconds the job must wait before nodes are requested for it.
    `last_victim`: whether the job is preempted only after all other jobs that may be preempted (YuniKorn's
    allow-preemption: "false").
    `after`, `requires_any`: dependencies. If `requires_any` is True, one met dependency is enough; otherwise all must
    be met.
    `singleton`: a name; only one of the user's jobs with this name runs at a time.
    `array`, `array_cap`: at most `array_cap` jobs of the same user and array run at a time.
    `reservation`: the name of the requested advance reservation.
    `checkpoint_s`: the interval at which the job saves its work, so that a preemption loses at most the work of one
    interval; None: the job never saves its work.
    `account`: the account to which the job's usage is charged in its queue; empty: it is charged to the user.
    `preempted`: how often the job was already preempted before this scheduler received it, as the world has recorded
    it."""

    id: str
    queue: str
    roles: tuple[Role, ...]
    priority: int = 0
    submitted_s: float = 0.0
    blocked: Reason | None = None
    user: str = ""
    group: str = ""
    groups: tuple[Group, ...] = ()
    closeness: TopologyRequest | None = None
    size: GangSize = GangSize.ELASTIC
    preemptible: bool = True
    preempts: bool = True
    last_victim: bool = False
    movable: bool = True
    nodes_after_s: float = 0.0
    limit_s: float | None = None
    estimate_s: float | None = None
    begin_s: float | None = None
    deadline_s: float | None = None
    after: tuple[Dependency, ...] = ()
    requires_any: bool = False
    singleton: str = ""
    array: str = ""
    array_cap: int | None = None
    reservation: str = ""
    nice: int = 0
    qos: str = ""
    account: str = ""
    preempted: int = 0
    checkpoint_s: float | None = None

    @property
    def association(self) -> str:
        """Return the account or user to which the job's usage is charged in its queue (Slurm's association)."""
        return self.account or self.user


class Phase(StrEnum):
    """The phases of a live job. `core.fold.transitions` has the legal transitions. A finished job has no phase."""

    QUEUED = "queued"
    # the start was decided; now the Jobs are resumed, and the pods are bound when all of them exist
    STARTING = "starting"
    RUNNING = "running"  # every pod of the job's minimum was bound
    # the whole job was preempted; it holds its nodes until its pods are gone, and then waits again
    STOPPING = "stopping"


MAX_PODS = 150_000  # the largest number of pods of one job; Kubernetes is tested with clusters of this many pods
MAX_ROLES = 1_000
MAX_GROUPS = 1_000
MAX_DEPTH = 16  # the largest number of levels of nested groups, and of nested slices


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTree:
    """A subtree of a gang: a role, a group, or the whole job.

    `role`: the index of the role in the job; -1 for a group or the whole job.
    `minimum`: the number of members that must be placed; for a role, the number of pods."""

    name: str
    closeness: TopologyRequest | None = None
    minimum: int = 0
    role: int = -1
    members: tuple[GangTree, ...] = ()

    def roles(self) -> Iterator[int]:
        """Yield all roles in the subtree."""
        if self.role >= 0:
            yield self.role
        for member in self.members:
            yield from member.roles()

    def required_roles(self) -> Iterator[int]:
        """Yield the required roles: every placement of the subtree must include the minimum of each of them."""
        if self.role >= 0:
            yield self.role
        elif self.minimum == len(self.members):
            for member in self.members:
                yield from member.required_roles()

    def optional(self) -> bool:
        """Return whether the subtree can be placed without some of its members."""
        fewer = self.role < 0 and self.minimum < len(self.members)
        return fewer or any(member.optional() for member in self.members)

    def requires_topology(self) -> bool:
        """Return whether the subtree, or a member inside it, has a topology request that is required (not only
        preferred) or has slices."""
        near = self.closeness
        must = near is not None and ((near.required and near.level != "") or any(pods > 1 for pods, _ in near.slices))
        return must or any(member.requires_topology() for member in self.members)

    def slice_pods(self, role: int) -> int:
        """Return the number of pods of the role in one slice of the largest layer; 0 or 1 if the role has no slices.

        The number comes from the innermost topology request of the role that sets a level or slices."""
        inside = next((member for member in self.members if role in member.roles()), None)
        said = 0 if inside is None else inside.slice_pods(role)
        near = self.closeness
        if said or near is None or not (near.level or near.slices):
            return said
        return max((pods for pods, _ in near.slices), default=1)

    def placed(self, pods: Sequence[int]) -> bool:
        """Return whether the subtree counts as placed if `pods[role]` pods of each role are placed."""
        if self.role >= 0:
            return pods[self.role] >= self.minimum
        return sum(member.placed(pods) for member in self.members) >= self.minimum

    def spare(self, pods: Sequence[int]) -> Iterator[int]:
        """Yield the roles of the members that can be released while the subtree still counts as placed. In each group,
        the members that were listed last are released. `pods`: the number of pods of each role."""
        whole = [member for member in self.members if member.placed(pods)]
        kept = whole[: self.minimum]
        for member in self.members:
            if member not in kept and self.minimum <= len(whole) and self.minimum < len(self.members):
                yield from member.roles()
            else:
                yield from member.spare(pods)

    def incomplete_members(self, pods: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield a tuple of roles for each optional member that does not count as placed, because pods of its minimum
        are missing. `pods`: the number of pods of each role."""
        for member in self.members:
            if self.minimum < len(self.members) and not member.placed(pods):
                yield tuple(member.roles())
            else:
                yield from member.incomplete_members(pods)


def gang_tree(roles: Sequence[Role], groups: Sequence[Group], closeness: TopologyRequest | None) -> GangTree:
    """Return the tree of a job's roles and groups. `gang_error` must have found no error in them."""
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
    """Return the first error in the job's roles and groups as a sentence; "" if there is none."""
    if len(roles) > MAX_ROLES or len(groups) > MAX_GROUPS:
        what, most = ("roles", MAX_ROLES) if len(roles) > MAX_ROLES else ("groups", MAX_GROUPS)
        return f"the job has {max(len(roles), len(groups))} {what}; at most {most} are allowed"
    return next(gang_errors(roles, groups, closeness), "")


def gang_errors(roles: Sequence[Role], groups: Sequence[Group], closeness: TopologyRequest | None) -> Iterator[str]:
    """Yield all errors in the job's roles, groups and topology requests."""
    for role in roles:
        if not 0 <= role.minimum <= role.count:
            yield f"role {role.name!r} has {role.count} pods and a minimum of {role.minimum}"
    if (pods := sum(role.count for role in roles)) > MAX_PODS:
        yield f"the job has {pods} pods; at most {MAX_PODS} are allowed"
    if not groups and closeness is None and not any(role.group or role.closeness for role in roles):
        return
    yield from group_errors(roles, groups)
    asked = [("the job", closeness)]
    asked += [(f"role {role.name!r}", role.closeness) for role in roles]
    asked += [(f"the group {group.name!r}", group.closeness) for group in groups]
    for name, near in asked:
        if near is not None:
            yield from slice_errors(name, near.slices)


def slice_errors(name: str, layers: Sequence[SliceLayer]) -> Iterator[str]:
    """Yield the errors in the slice layers of a topology request. `name`: the name of the role, group or job, for the
    message."""
    if len(layers) > MAX_DEPTH:
        yield f"{name}: {len(layers)} layers of slices; at most {MAX_DEPTH} are allowed"
    for pods, level in layers:
        if pods < 1 or not level:
            yield f"{name}: slices of {pods} pods at level {level!r} need both, pods and level"
    for outer, inner in pairwise(layers):
        if inner.pods > 0 and outer.pods % inner.pods:
            yield (
                f"{name}: slices of {outer.pods} pods ({outer.level}) do not consist of whole slices of {inner.pods} "
                f"({inner.level})"
            )


def group_errors(roles: Sequence[Role], groups: Sequence[Group]) -> Iterator[str]:
    """Yield the errors in the groups: a name that is missing, used twice or not declared, a group that contains itself
    or is nested too deeply, or a minimum that is impossible with the number of members."""
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
            yield f"the group {name!r} is nested more than {MAX_DEPTH} groups deep"
    held = Counter([role.group for role in roles] + [group.parent for group in groups])
    for group in groups:
        if group.minimum is not None and not 0 <= group.minimum <= held[group.name]:
            yield f"the group {group.name!r} has {held[group.name]} members and a minimum of {group.minimum}"


def pods_by_role(slots: Collection[Slot | Placement], roles: int) -> list[int]:
    """Return the number of slots, or placements, of each role. `roles`: the number of roles."""
    if roles == 1:
        return [len(slots)]
    pods = [0] * roles
    for slot in slots:
        pods[slot.role] += 1
    return pods
