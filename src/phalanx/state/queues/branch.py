"""A branch: the place of one queue in the queue tree, with its settings and its charges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.model.queue import BorrowingPolicy, Queue, QueueOrder, QueueState, Quota, ReclaimWithinCohort
from phalanx.state.queues.quota import (
    NO_LIMITS,
    BranchQuota,
    Charge,
    Cost,
    JobLimits,
    Key,
    QueueUsage,
    ResourceGroup,
    bounds_jobs,
    job_limits,
)

ROOT = ""


class QueueRelation(NamedTuple):
    """The relation of a preemptor's queue to another queue.

    `ours`, `theirs`: the preemptor's side and the victim's side, below the lowest branch that contains both queues. The
        preemptor's side is None if its queue is that branch itself.
    `way`: the branches from the other queue up to its side.
    `named`: the keys for which one of these branches has a guarantee."""

    ours: Branch | None
    theirs: Branch | None
    way: tuple[Branch, ...]
    named: frozenset[Key]


class Branch:
    """A queue's place in the tree, with its settings. "On the path" means in the queue or a queue above it.

    `queue`: None at the root.
    `starts_whole`: whether its jobs are placed whole, and not pod by pod.
    `fault`: why the queue cannot be used, and where; it holds for the branch and all branches below.
    `states`: the queues on the path that are not open, the nearest first.
    `flavors`: the resource groups of the queue, else of the nearest queue above that has any.
    `order`: the order of its jobs and children. `by_factors`: whether a queue on the path orders by factors.
    `strict`: the highest strict queue on the path.
    `preempts`, `reclaims`: whether its jobs may preempt, and may preempt jobs of other queues.
    `unbounded`: whether no bound on the path keeps a job from starting.
    `arena`: the highest branch on the path below which one order alone decides which job is next, as in one queue.
    `split`: whether the branch is an arena and a branch below belongs to another one.
    `request_class_queue`: the queue in the request classes of its jobs; the arena where the arena's queues are equal in
        all rules.
    `charged`: own job -> its charge.
    `relations`: queue -> its relation to this one, once it was asked for."""

    __slots__ = (
        *("account", "arena", "by_factors", "charged", "children", "fault", "flavors", "limits", "name", "order"),
        *("parent", "path", "preempts", "queue", "quota", "reclaims", "relations", "request_class_queue", "split"),
        *("starts_whole", "states", "strict", "unbounded"),
    )

    def __init__(self, name: str, queue: Queue | None, parent: Branch | None) -> None:
        self.name, self.queue, self.parent = name, queue, parent
        self.path: tuple[Branch, ...] = (self, *(parent.path if parent else ()))
        self.children: dict[str, Branch] = {}
        self.starts_whole = queue is None or queue.gang
        self.fault = ""
        self.states: tuple[Queue, ...] = parent.states if parent else ()
        self.flavors: tuple[ResourceGroup, ...] = parent.flavors if parent else ()
        self.limits: JobLimits = parent.limits if parent else NO_LIMITS
        self.order = QueueOrder.PRIORITY
        self.by_factors: bool = parent is not None and parent.by_factors
        self.strict: Branch | None = parent.strict if parent else None
        self.unbounded = self.split = False
        self.arena: Branch = self
        self.request_class_queue = name
        if queue is not None:
            if queue.state is not QueueState.OPEN:
                self.states = (queue, *self.states)
            self.flavors = _resource_groups(queue) or self.flavors
            self.limits = job_limits(queue, self.limits)
            self.order = queue.order
            self.by_factors = self.by_factors or queue.order is QueueOrder.MULTIFACTOR
            if self.strict is None and queue.strict:
                self.strict = self
        self.preempts: bool = queue is not None and queue.preemption.searches()
        self.reclaims: bool = queue is not None and queue.preemption.reclaim is not ReclaimWithinCohort.NEVER
        self.quota = BranchQuota(queue, {})
        self.account = QueueUsage(self.limits)
        self.charged: dict[str, Cost] = {}
        self.relations: dict[str, QueueRelation] = {}

    def treatment(self) -> tuple[object, ...]:
        """Return the settings that decide how jobs of the queue are received. If one of them changes, the jobs are
        received again."""
        limits = self.limits
        return (
            self.fault,
            self.states,
            limits.by_user,
            limits.by_group,
            limits.by_job,
            self.by_factors,
            self.order is QueueOrder.USAGE,
            limits.submissions,
            self.request_class_queue,
        )

    def is_bounded(self) -> bool:
        """Return whether a setting of the queue itself may keep a job in it or below from starting."""
        if (queue := self.queue) is None:
            return False
        limits = self.limits
        limited = limits.users or limits.groups or limits.jobs or bounds_jobs(queue.total)
        return bool(limited or self.quota.limit or self.flavors or queue.borrow is not BorrowingPolicy.ALL)

    @property
    def counts_firm(self) -> bool:
        """Return whether the guarantee bounds only the jobs that are not preemptible."""
        return self.queue is not None and self.queue.borrow is BorrowingPolicy.PREEMPTIBLE

    def usage_within_guarantee(self, account: QueueUsage) -> Mapping[Key, Amount]:
        """Return the usage that may not exceed the guarantee for a job that may not borrow."""
        return account.firm if self.counts_firm else account.total

    def relation_to(self, other: Branch) -> QueueRelation:
        """Return the relation of this queue to the other one."""
        relation = self.relations.get(other.name)
        if relation is None:
            relation = self.relations[other.name] = _relation(self, other)
        return relation

    def below(self) -> Iterator[Branch]:
        """Yield the branch and all below it, parents first."""
        found = [self]
        while found:
            branch = found.pop()
            yield branch
            found += branch.children.values()


class BranchMap(dict[str, Branch]):
    """Queue -> branch. A deleted queue, whose jobs may still run, has the root's branch."""

    def __missing__(self, queue: str) -> Branch:
        return self[ROOT]


def post_charge(accounts: Sequence[tuple[Branch, QueueUsage]], charge: Charge, sign: int, *, keeps: bool) -> None:
    """Add the charge (`sign` 1), or subtract it (-1), in the usages of all branches on a path, from the queue up.
    `keeps`: whether any queue keeps an amount; otherwise claims equal the totals and are not stored."""
    rising = charge.cost if keeps else ()
    branch, account = accounts[0]
    if branch.children:
        for key, amount in charge.cost:
            account.own[key] = account.own.get(key, 0) + sign * amount
    for branch, account in accounts:
        account.add(charge, sign)
        if rising:
            rising = _claim(branch, account, rising, sign)


def _claim(branch: Branch, account: QueueUsage, rising: Cost, sign: int) -> Cost:
    """Add the amounts `rising` to the claims on the branch. Return the amounts by which the claim of the branch on its
    parent changes."""
    claimed, kept, passed = account.claimed, branch.quota.kept, list[tuple[Key, Amount]]()
    for key, amount in rising:
        before = claimed.get(key, 0)
        claimed[key] = after = before + sign * amount
        floor: Amount = kept.get(key, 0)
        if change := _at_least(floor, after) - _at_least(floor, before):
            passed.append((key, change if change > 0 else -change))
    return tuple(passed)


def _at_least(floor: Amount, amount: Amount) -> Amount:
    return amount if amount > floor else floor


def _relation(ours: Branch, theirs: Branch) -> QueueRelation:
    above = {branch.name: at for at, branch in enumerate(ours.path)}
    way = tuple(takewhile(lambda branch: branch.name not in above, theirs.path))
    meet = above[theirs.path[len(way)].name]  # the two paths meet at the root at the latest
    side = ours.path[meet - 1] if meet else None
    named = frozenset[Key]().union(*(each.quota.guaranteed for each in (side, *way) if each is not None))
    return QueueRelation(side, way[-1] if way else None, way, named)


def _resource_groups(queue: Queue) -> tuple[ResourceGroup, ...]:
    found: dict[str, list[Quota]] = {}
    for quota in queue.quotas:
        if quota.flavor:
            found.setdefault(quota.group, []).append(quota)
    return tuple(
        ResourceGroup(
            tuple(quota.flavor for quota in each),
            frozenset(name for quota in each for name, _ in (*quota.guaranteed, *quota.limit) if group),
        )
        for group, each in found.items()
    )
