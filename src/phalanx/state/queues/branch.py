"""A branch: the place of one queue in the queue tree, with its rules and its charges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.model.queue import BorrowingPolicy, Queue, QueueOrder
from phalanx.state.queues.quota import BranchQuota, Charge, Cost, Key, QueueUsage
from phalanx.state.queues.rules import NO_RULES, QueueRules, bounds_jobs, queue_rules

ROOT = ""


class QueueRelation(NamedTuple):
    """The relation between a preemptor's queue and the queue of a possible victim in the queue tree.

    `ours`, `theirs`: the preemptor's side and the victim's side. Each side is a child of the lowest common ancestor of
    both queues, and contains one of the two queues. If the preemptor's queue is this ancestor itself, `ours` is None;
    if the victim's queue is this ancestor, `theirs` is None.
    `way`: the branches on the path from the victim's queue up to the victim's side.
    `named`: the pairs (flavor, resource) for which the preemptor's side or a branch in `way` has a guarantee."""

    ours: Branch | None
    theirs: Branch | None
    way: tuple[Branch, ...]
    named: frozenset[Key]


class Branch:
    """A queue's place in the tree, with its rules. The *path* of a queue is the queue itself and all queues above it.

    `queue`: the queue, or None for the root.
    `rules`: the settings that apply to the queue's jobs; they come from the queue and from the queues above it.
    `fault`: the error in the settings that prevents the queue from starting jobs, and its place; empty if there is no
    error. It applies to the branch and to all branches below it.
    `order`: the order of its jobs and children.
    `strict`: the highest strict queue on the path.
    `unbounded`: whether no limit or quota on the path can prevent the start of a job.
    `restricts`: whether a setting on the path may prevent the start of a job even while no other job runs
    (`core.reasons.queue_settings`).
    `arena`: the highest branch on the path whose jobs are in one job order with the jobs of this branch, as if all of
    them were in one queue.
    `split`: whether the branch is an arena, and at least one branch below it belongs to another arena.
    `request_class_queue`: the queue name in the keys of the request classes of its jobs. Usually it is the branch
    itself. It is the arena of the branch if jobs of both are started as a whole and may preempt no job, and if no
    limit, quota or priority factor applies to the jobs of the branch.
    `charged`: job of the queue itself -> the amounts that the queue is charged for the job.
    `relations`: name of another queue -> the result of `relation_to` for that queue; a cache."""

    __slots__ = (
        *("account", "arena", "charged", "children", "fault", "name", "order", "parent", "path", "queue", "quota"),
        *("relations", "request_class_queue", "restricts", "rules", "split", "strict", "unbounded"),
    )

    def __init__(self, name: str, queue: Queue | None, parent: Branch | None) -> None:
        self.name, self.queue, self.parent = name, queue, parent
        self.path: tuple[Branch, ...] = (self, *(parent.path if parent else ()))
        self.children: dict[str, Branch] = {}
        self.rules: QueueRules = NO_RULES if queue is None else queue_rules(queue, parent.rules if parent else NO_RULES)
        self.order = QueueOrder.PRIORITY if queue is None else queue.order
        self.strict: Branch | None = parent.strict if parent else None
        if self.strict is None and queue is not None and queue.strict:
            self.strict = self
        self.fault = ""
        self.unbounded = self.restricts = self.split = False
        self.arena: Branch = self
        self.request_class_queue = name
        self.quota = BranchQuota(queue, {})
        self.account = QueueUsage(self.rules.limits)
        self.charged: dict[str, Cost] = {}
        self.relations: dict[str, QueueRelation] = {}

    def treatment(self) -> tuple[object, ...]:
        """Return the settings that decide to which request classes the queue's jobs belong. If one of these settings
        changes, the jobs are assigned to request classes again."""
        rules, limits = self.rules, self.rules.limits
        return (
            self.fault,
            rules.states,
            limits.by_user,
            limits.by_group,
            limits.by_job,
            rules.by_factors,
            self.order is QueueOrder.USAGE,
            limits.submissions,
            self.request_class_queue,
        )

    def is_bounded(self) -> bool:
        """Return whether a limit or quota of the queue itself may prevent the start of a job in this queue or below
        it."""
        if (queue := self.queue) is None:
            return False
        limits = self.rules.limits
        limited = limits.users or limits.groups or limits.jobs or bounds_jobs(queue.total)
        return bool(limited or self.quota.limit or self.rules.flavors or queue.borrow is not BorrowingPolicy.ALL)

    @property
    def counts_firm(self) -> bool:
        """Return whether only the jobs that are not preemptible must stay within the guarantee."""
        return self.queue is not None and self.queue.borrow is BorrowingPolicy.PREEMPTIBLE

    def usage_within_guarantee(self, account: QueueUsage) -> Mapping[Key, Amount]:
        """Return the usage that counts against the guarantee. A job that may not borrow can start only if this usage
        plus the charge of the job is within the guarantee."""
        return account.firm if self.counts_firm else account.total

    def relation_to(self, other: Branch) -> QueueRelation:
        """Return how this queue (the preemptor's) is related to the other queue. The result is cached."""
        relation = self.relations.get(other.name)
        if relation is None:
            relation = self.relations[other.name] = _relation(self, other)
        return relation

    def below(self) -> Iterator[Branch]:
        """Yield the branch itself and all branches below it; each parent comes before its children."""
        found = [self]
        while found:
            branch = found.pop()
            yield branch
            found += branch.children.values()


class BranchMap(dict[str, Branch]):
    """A mapping from queues to branches. For a queue that does not exist, it returns the root's branch, because jobs of
    a deleted queue may still run."""

    def __missing__(self, queue: str) -> Branch:
        return self[ROOT]


def post_charge(accounts: Sequence[tuple[Branch, QueueUsage]], charge: Charge, sign: int, *, keeps: bool) -> None:
    """Add the charge to the usage of all branches on a path, from the queue up to the root. `sign`: 1 to add the
    charge, -1 to subtract it. `keeps`: whether at least one queue of the tree keeps a part of its guarantee for itself.
    If no queue does, the claims of queues (`state.queues.tree`) are equal to their totals, and are not stored."""
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
    """Add the amounts `rising` to the claims on the branch. `sign`: 1 to add the amounts, -1 to subtract them. The
    claims on a branch are the usage of its own jobs plus the claims of its children. Return the amounts by which the
    claim of the branch on its parent changes."""
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
    meet = above[theirs.path[len(way)].name]  # the two paths meet at the root or below it
    side = ours.path[meet - 1] if meet else None
    named = frozenset[Key]().union(*(each.quota.guaranteed for each in (side, *way) if each is not None))
    return QueueRelation(side, way[-1] if way else None, way, named)
