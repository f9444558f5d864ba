"""The quota of a queue, the charges of its jobs, and its usage, which is the sum of these charges.

`BranchQuota` has the guarantees and limits of a queue. A `QueueUsage` has the amounts that a queue is charged for its
jobs, and the amounts that its children claim from it (`state.queues.tree` defines claims). It also has the usage of
single users, groups and jobs.

Amounts are stored by `Key`, which is (flavor, resource). The usage of a pod on nodes of a flavor is counted under this
flavor. All usage is also counted under the empty flavor, which means all nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from phalanx.model.node import parts_of
from phalanx.model.pod import MAX_AMOUNT, Amount, format_amount
from phalanx.model.queue import Queue
from phalanx.state.classes import Gang
from phalanx.state.queues.rules import NO_LIMITS, JobLimits, ResourceGroup

Key: TypeAlias = tuple[str, str]  # (flavor, resource); the empty flavor means all nodes
Cost: TypeAlias = tuple[tuple[Key, Amount], ...]


class BranchQuota:
    """The quota of a branch.

    `guaranteed`, `kept`, `limit`: key (flavor, resource) -> amount. `kept` is the part of the guarantee that the queue
    does not lend. If a key is missing in one of these mappings, the queue has no guarantee, keeps nothing, or has no
    limit for this key.
    `stated`: the keys for which the settings of the queue itself state a guarantee below `MAX_AMOUNT`.
    `contested`: the keys for which a child has a guarantee; in `TIERED` order also the keys for which a child has a
    weight."""

    __slots__ = ("contested", "guaranteed", "kept", "limit", "stated")

    def __init__(self, queue: Queue | None, children: Mapping[str, BranchQuota]) -> None:
        below = total_guaranteed(children)
        self.contested = {key for key, amount in below.items() if amount}
        self.guaranteed: dict[Key, int] = {}
        self.stated: set[Key] = set()
        self.limit: dict[Key, int] = {}
        self.kept: dict[Key, int] = {}
        if queue is None:
            self.guaranteed = below
            return
        for quota in queue.quotas:
            for resource, amount in quota.guaranteed:
                self.guaranteed[quota.flavor, resource] = _sane(amount)
            for resource, amount in quota.limit:
                self.limit[quota.flavor, resource] = _sane(amount)
        self.stated = {key for key, amount in self.guaranteed.items() if amount < MAX_AMOUNT}
        for resource, amount in queue.total.resources:
            self.limit["", resource] = min(_sane(amount), self.limit.get(("", resource), MAX_AMOUNT))
        self._add_children(below)
        lends = {(quota.flavor, resource): amount for quota in queue.quotas for resource, amount in quota.lend}
        for key, amount in self.guaranteed.items():
            if key in lends:
                self.kept[key] = max(0, amount - _sane(lends[key]))

    def _add_children(self, below: Mapping[Key, int]) -> None:
        """Add the guarantees that the queue does not state itself. For each key, the guarantee is the sum of the
        guarantees of its children. For the empty flavor, which means all nodes, it is at least the sum of the
        guarantees for single flavors."""
        for key, amount in below.items():
            self.guaranteed.setdefault(key, amount)
        flavored: dict[Key, int] = {}
        for (flavor, resource), amount in self.guaranteed.items():
            if flavor:
                flavored["", resource] = flavored.get(("", resource), 0) + amount
        for key, amount in flavored.items():
            if key not in self.stated:
                self.guaranteed[key] = max(amount, self.guaranteed.get(key, 0))


def total_guaranteed(quotas: Mapping[str, BranchQuota]) -> dict[Key, int]:
    """Return for each (flavor, resource) the sum of the guarantees of these quotas."""
    total: dict[Key, int] = {}
    for quota in quotas.values():
        for key, amount in quota.guaranteed.items():
            total[key] = total.get(key, 0) + amount
    return total


def child_errors(name: str, quota: BranchQuota, children: Mapping[str, BranchQuota]) -> Iterator[str]:
    """Yield an error for each (flavor, resource) for which the guarantees of the children together exceed the guarantee
    that the queue states."""
    below = total_guaranteed(children)
    for key in sorted(quota.stated):
        if below.get(key, 0) > quota.guaranteed[key]:
            parts = [
                f"{child} {format_amount(key[1], each.guaranteed[key])}"
                for child, each in children.items()
                if key in each.guaranteed
            ]
            of = f" of flavor {key[0]!r}" if key[0] else ""
            yield (
                f"queue {name!r} is guaranteed {format_amount(key[1], quota.guaranteed[key])} {key[1]}{of}, "
                f"but its children are guaranteed {format_amount(key[1], below[key])} ({', '.join(parts)})"
            )


def _sane(amount: int) -> int:
    return max(0, min(amount, MAX_AMOUNT))


class Charge(NamedTuple):
    """The charge of a started or nominated job. It is added to the usage of the job's queue and of all queues above it.
    In each of these queues, it is also added to the usage of the job's user and group.

    `jobs`: the number of running jobs that the charge adds: 1 for a job, 0 for further pods of a started job.
    `preemptible`: whether the job may be preempted."""

    queue: str
    user: str
    group: str
    cost: Cost
    jobs: int = 1
    job: str = ""
    preemptible: bool = True


def gang_cost(
    gang: Gang, pods: Sequence[int], flavors: tuple[str, ...] = (), groups: tuple[ResourceGroup, ...] = ()
) -> Cost:
    """Return the amounts that a queue is charged for `pods[role]` pods of each role, by (flavor, resource). Each amount
    is listed under the empty flavor, which stands for all nodes. If a role has a flavor for the resource, the amount is
    also listed under this flavor.
    `groups`: the resource groups of the queue."""
    if not flavors and gang.minimums == tuple(pods):
        return gang.due
    total: dict[Key, Amount] = {}
    for role, (demand, count) in enumerate(zip(gang.demands, pods, strict=True)):
        given = parts_of(flavors[role]) if role < len(flavors) else ()
        named = [(flavor, next((each for each in groups if flavor in each.flavors), None)) for flavor in given]
        for resource, amount in demand.costs if count else ():
            for flavor in ("", *(flavor for flavor, group in named if group is None or group.covers(resource))):
                total[flavor, resource] = total.get((flavor, resource), 0) + amount * count
    return tuple(sorted(total.items()))


class SubjectUsage:
    """The usage of one user, group or job in a queue and all queues below it: the number of running jobs, and amounts
    by resource."""

    __slots__ = ("running", "used")

    def __init__(self) -> None:
        self.running = 0
        self.used: dict[str, Amount] = {}

    def copy(self) -> SubjectUsage:
        other = SubjectUsage()
        other.running, other.used = self.running, dict(self.used)
        return other


class QueueUsage:
    """The usage that is charged to a branch.

    `total`: key (flavor, resource) -> usage of the queue and all queues below.
    `firm`: key -> usage of the jobs that are not preemptible; it is a part of `total`.
    `own`: key -> usage of the queue's own jobs; only counted if the queue has children and a queue of the tree keeps a
    part of its guarantee for itself.
    `claimed`: key -> usage of the queue's own jobs plus the claims of its children (`state.queues.tree`).
    `users`, `groups`, `jobs`: the usage of each user, of each group and of each job. Each of these three is only
    counted if the queue has limits of this kind (`limits`).
    `shares`: a cache of `core.quota.ledger`: extra charge -> the dominant share that the branch would have with this
    charge. The cache is emptied when an amount changes."""

    __slots__ = ("claimed", "firm", "groups", "jobs", "limits", "own", "running", "shares", "total", "users")

    def __init__(self, limits: JobLimits = NO_LIMITS) -> None:
        self.limits = limits
        self.total: dict[Key, Amount] = {}
        self.firm: dict[Key, Amount] = {}
        self.claimed: dict[Key, Amount] = {}
        self.own: dict[Key, Amount] = {}
        self.running = 0
        self.users: dict[str, SubjectUsage] = {}
        self.groups: dict[str, SubjectUsage] = {}
        self.jobs: dict[str, SubjectUsage] = {}
        self.shares: dict[Cost, Any] = {}

    def copy(self) -> QueueUsage:
        other = QueueUsage(self.limits)
        other.total, other.claimed, other.running = dict(self.total), dict(self.claimed), self.running
        other.own, other.firm = dict(self.own), dict(self.firm)
        other.users = {name: tally.copy() for name, tally in self.users.items()}
        other.groups = {name: tally.copy() for name, tally in self.groups.items()}
        other.jobs = {name: tally.copy() for name, tally in self.jobs.items()}
        return other

    def shown(self) -> tuple[object, ...]:
        """Return a value that has all amounts that are not 0. Two usages are equal if these values are equal."""
        tallies = (
            {
                name: (each.running, {key: used for key, used in each.used.items() if used})
                for name, each in some.items()
            }
            for some in (self.users, self.groups, self.jobs)
        )
        kinds = (self.total, self.firm, self.claimed, self.own)
        amounts = ({key: used for key, used in each.items() if used} for each in kinds)
        return (*amounts, self.running, *tallies)

    def add(self, charge: Charge, sign: int) -> None:
        """Add the charge to all amounts except `claimed` and `own`. `sign`: 1 to add the charge, -1 to subtract it."""
        self.shares.clear()
        total, limits = self.total, self.limits
        for key, amount in charge.cost:
            total[key] = total.get(key, 0) + sign * amount
            if not charge.preemptible:
                self.firm[key] = self.firm.get(key, 0) + sign * amount
        self.running += sign * charge.jobs
        if limits.users:
            _add(self.users, charge.user, charge, sign)
        if limits.groups:
            _add(self.groups, charge.group, charge, sign)
        if limits.jobs:
            _add(self.jobs, charge.job, charge, sign)


def _add(tallies: dict[str, SubjectUsage], name: str, charge: Charge, sign: int) -> None:
    tally = tallies.setdefault(name, SubjectUsage())
    tally.running += sign * charge.jobs
    for (flavor, resource), amount in charge.cost:
        if not flavor:
            tally.used[resource] = tally.used.get(resource, 0) + sign * amount
    if not tally.running and not any(tally.used.values()):
        del tallies[name]
