"""The quota tree: which queue is under which, what each has, what is charged to it, and what a gang costs.

A *branch* is a queue's place in the tree; its `path` leads up to the unnamed root, whose pool is what the cluster has.
Amounts are kept by `Key`, (flavor, resource): what runs on a flavor's nodes counts under that flavor and, like all
else, under the empty flavor, "all nodes".

A `QueueUsage` is what is charged to a branch: `total` is what runs in the queue and below it. A queue *keeps* its
guarantee less what it lends. `claimed` is what the queue asks of its parent before its own keep is looked at: the use
of its own jobs, and what its children claim. A queue *claims* what is charged to it, but never less than it keeps:

    claim(q) = max(kept(q), own use(q) + sum of claim(child))        and        claim(root) <= pool

That is the availability rule of Kueue's KEP-79 ("hierarchical cohorts"), with what is withheld counted as used: a queue
within its keep asks nothing more of those above it, so its claim, and theirs, do not change. Charging costs the depth
of the tree times the resources asked.

A tree may contradict itself: `Branch.fault` says where and why, and holds for everything below. What runs there is
charged all the same, up to the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from phalanx.model.job import Job
from phalanx.model.node import parts_of
from phalanx.model.pod import MAX_AMOUNT, Amount, format_amount
from phalanx.model.queue import (
    BorrowingPolicy,
    Limits,
    Queue,
    QueueOrder,
    QueueState,
    Quota,
    ReclaimWithinCohort,
    quota_errors,
)
from phalanx.state.classes import Gang

ROOT = ""
BY_HOLDINGS = frozenset({QueueOrder.FAIR, QueueOrder.USAGE})  # who is next depends on what each queue has, or had

Key: TypeAlias = tuple[str, str]  # (flavor, resource); the empty flavor: of all nodes
Cost: TypeAlias = tuple[tuple[Key, Amount], ...]


class ResourceGroup(NamedTuple):
    """Flavors, in order, of which a pod is given one for these resources; for all resources if it names none."""

    flavors: tuple[str, ...]
    resources: frozenset[str] = frozenset()

    def covers(self, resource: str) -> bool:
        return not self.resources or resource in self.resources


class Charge(NamedTuple):
    """The charge of a started or nominated job: to its queue and all above, and to its user and group there.

    `jobs`: how many running jobs the charge counts as; 0 for pods that a started job has besides."""

    queue: str
    user: str
    group: str
    cost: Cost
    jobs: int = 1
    job: str = ""


class SubjectUsage:
    """The usage of one user, group or job in a queue and below: running jobs, and amounts by resource."""

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

    `total`: by key, by the queue and all below.
    `own`: of that, by the queue's own jobs, if it has children.
    `claimed`: by key, what is claimed of the branch.
    `users`, `groups`, `jobs`: kept only where a limit tells them apart."""

    __slots__ = ("claimed", "groups", "jobs", "own", "running", "total", "users")

    def __init__(self) -> None:
        self.total: dict[Key, Amount] = {}
        self.claimed: dict[Key, Amount] = {}
        self.own: dict[Key, Amount] = {}
        self.running = 0
        self.users: dict[str, SubjectUsage] = {}
        self.groups: dict[str, SubjectUsage] = {}
        self.jobs: dict[str, SubjectUsage] = {}

    def copy(self) -> QueueUsage:
        other = QueueUsage()
        other.total, other.claimed, other.running = dict(self.total), dict(self.claimed), self.running
        other.own = dict(self.own)
        other.users = {name: tally.copy() for name, tally in self.users.items()}
        other.groups = {name: tally.copy() for name, tally in self.groups.items()}
        other.jobs = {name: tally.copy() for name, tally in self.jobs.items()}
        return other

    def shown(self) -> tuple[object, ...]:
        """Return everything but zeros, to compare."""
        tallies = (
            {
                name: (each.running, {key: used for key, used in each.used.items() if used})
                for name, each in some.items()
            }
            for some in (self.users, self.groups, self.jobs)
        )
        amounts = ({key: used for key, used in each.items() if used} for each in (self.total, self.claimed, self.own))
        return (*amounts, self.running, *tallies)

    def add(self, charge: Charge, sign: int, branch: Branch) -> None:
        """Add the charge (`sign` 1) or take it back (-1), but for claims."""
        total = self.total
        for key, amount in charge.cost:
            total[key] = total.get(key, 0) + sign * amount
        self.running += sign * charge.jobs
        if branch.limits_users:
            _add(self.users, charge.user, charge, sign)
        if branch.limits_groups:
            _add(self.groups, charge.group, charge, sign)
        if branch.limits_jobs:
            _add(self.jobs, charge.job, charge, sign)


def _add(tallies: dict[str, SubjectUsage], name: str, charge: Charge, sign: int) -> None:
    tally = tallies.setdefault(name, SubjectUsage())
    tally.running += sign * charge.jobs
    for (flavor, resource), amount in charge.cost:
        if not flavor:
            tally.used[resource] = tally.used.get(resource, 0) + sign * amount
    if not tally.running and not any(tally.used.values()):
        del tallies[name]


class Branch:
    """A queue's place in the tree, and its settings by key. `queue` is None at the root. `states`: those of the queue
    and of all above that are not open, nearest first. `kept`, `guaranteed`: nothing is said of a key that is missing;
    `limit`: it is not bounded. `by_user`, `by_group`: somebody on the path limits users, groups; `by_factors`: or
    orders by factors. `flavors`: those that its jobs may be given, by resource group: the queue's own, else those of
    the nearest above that names any. `contested`: of what some child is guaranteed. `gated`: somebody on the path
    limits submitted jobs. `unbounded`: nothing on the path bounds what starts here; `caps_jobs`: somebody there bounds
    what one job may ask. `strict`: the highest strict queue on the path. `longest_s`: the longest time limit that the
    path allows a job (seconds). `order`: of its jobs and children.

    `charged`: the jobs of the queue itself that are charged to it, and with what.

    `preempts`: its jobs may have others give way; `reclaims`: those of other queues, so also to grow. `cells`: the
    queue under which its requests stand in cells, which is its arena's where nothing tells the arena's queues apart.

    `arena`: the highest branch above, itself included, up to which nothing but one order says who of all below is next,
    as if it were one queue. `split`: the branch is an arena, and some branch below is of another."""

    __slots__ = (
        *("account", "arena", "by_factors", "by_group", "by_user", "caps_jobs", "charged", "children", "contested"),
        *(
            "cells",
            "fault",
            "flavors",
            "limits_submissions",
            "guaranteed",
            "kept",
            "limit",
            "limits_groups",
            "limits_jobs",
            "limits_users",
        ),
        *(
            "longest_s",
            "name",
            "order",
            "parent",
            "path",
            "preempts",
            "queue",
            "reclaims",
            "shares",
            "split",
            "stated",
            "states",
        ),
        *("strict",),
        *("ties", "unbounded"),
    )

    def __init__(self, name: str, queue: Queue | None, parent: Branch | None) -> None:
        self.name, self.queue, self.parent = name, queue, parent
        self.path: tuple[Branch, ...] = (self, *(parent.path if parent else ()))
        self.children: dict[str, Branch] = {}
        self.guaranteed: dict[Key, int] = {}
        self.stated: set[Key] = set()  # guarantees that the queue states itself, and that are bounded
        self.limit: dict[Key, int] = {}
        self.kept: dict[Key, int] = {}
        self.fault = ""
        self.account = QueueUsage()
        self.charged: dict[str, Cost] = {}
        self.limits_users = queue is not None and _limits(queue.per_user)
        self.limits_groups = queue is not None and _limits(queue.per_group)
        self.limits_jobs = bool(queue and queue.per_job.resources)
        self.by_user: bool = self.limits_users or (parent is not None and parent.by_user)
        self.by_group: bool = self.limits_groups or (parent is not None and parent.by_group)
        factors = queue is not None and queue.order is QueueOrder.MULTIFACTOR
        self.by_factors: bool = factors or (parent is not None and parent.by_factors)
        self.states: tuple[Queue, ...] = parent.states if parent else ()
        named = _resource_groups(queue) if queue else ()
        self.flavors: tuple[ResourceGroup, ...] = named or (parent.flavors if parent else ())
        self.contested: set[Key] = set()
        stated = (queue.total, queue.per_user, queue.per_group) if queue else ()
        self.limits_submissions: bool = any(limits.submitted is not None for limits in stated) or bool(
            parent and parent.limits_submissions
        )
        self.unbounded = False
        self.caps_jobs: bool = self.limits_jobs or bool(parent and parent.caps_jobs)
        self.order = queue.order if queue is not None else QueueOrder.PRIORITY
        self.strict: Branch | None = parent.strict if parent else None
        if self.strict is None and queue is not None and queue.strict:
            self.strict = self
        self.preempts: bool = queue is not None and queue.preemption.searches()
        self.reclaims: bool = queue is not None and queue.preemption.reclaim is not ReclaimWithinCohort.NEVER
        self.arena: Branch = self
        self.cells = name
        self.split = False
        self.shares: dict[
            Cost, Any
        ] = {}  # its share with that besides, until an amount changes (`core.quota.flavor_assignment`)
        self.ties: dict[
            str, Any
        ] = {}  # by queue, how this one stands to it (`core.preemption.policy` remembers it here)
        walls = [limits.wall_s for limits in (*stated, queue.per_job) if limits.wall_s is not None] if queue else []
        if parent is not None and parent.longest_s is not None:
            walls.append(parent.longest_s)
        self.longest_s: float | None = min(walls, default=None)
        if queue is not None and queue.state is not QueueState.OPEN:
            self.states = (queue, *self.states)

    def treatment(self) -> tuple[object, ...]:
        """Return what decides how jobs of the queue are received; if it changes, they are received anew."""
        return (
            self.fault,
            self.states,
            self.by_user,
            self.by_group,
            self.caps_jobs,
            self.by_factors,
            self.order is QueueOrder.USAGE,
            self.limits_submissions,
            self.cells,
        )

    def below(self) -> Iterator[Branch]:
        """Yield the branch and all below it, parents first."""
        found = [self]
        while found:
            branch = found.pop()
            yield branch
            found += branch.children.values()


class BranchMap(dict[str, Branch]):
    """The branches by queue. A queue that is not there, whose jobs may still run, has the root's."""

    def __missing__(self, queue: str) -> Branch:
        return self[ROOT]


class QueueTree:
    """All branches, and the pool.

    `pool`: what the cluster has, by key.
    `keeps`: some queue keeps anything, so that claims differ from totals."""

    def __init__(self) -> None:
        self.root = Branch(ROOT, None, None)
        self.branches = BranchMap({ROOT: self.root})
        self.pool: dict[Key, int] = {}
        self.keeps = False
        self.stricts: set[str] = set()  # names of strict queues
        self.stale = self.pool_stale = False
        self.keeps_claimed: dict[str, dict[Key, Amount]] = {}  # by branch, what is claimed of it when nothing runs
        self.eased = False  # something was given back since the last plan
        # What was charged or given back since the headroom was last measured: queues, and the subjects of limits.
        self.charged: dict[str, None] = {}
        self.subjects: dict[tuple[str, str], None] = {}
        self.outdated: list[str] = []  # queues that were told since the tree was built

    def outdate(self, *queues: str) -> None:
        """Note that these queues changed since the tree was built."""
        self.stale = True
        self.outdated += queues

    def branch(self, queue: str) -> Branch:
        """Return the queue's branch; the root's for a queue that is not there, whose jobs may still run."""
        return self.branches[queue]

    def strict_above(self, queue: str) -> Branch | None:
        """Return the highest strict queue on the queue's path; None if there is none."""
        return self.branches[queue].strict

    def charge(self, charge: Charge, sign: int) -> None:
        """`sign` 1: charged from now on; -1: given back."""
        own = self.branches[charge.queue]
        path = own.path
        if sign > 0:
            own.charged[charge.job] = charge.cost
        else:
            own.charged.pop(charge.job, None)
        if self.keeps:
            post_charge([(branch, branch.account) for branch in path], charge, sign, keeps=True)
        else:
            for branch in path:
                branch.account.add(charge, sign, branch)
        for branch in path:
            branch.shares.clear()
        self.note_charged(charge)
        if sign < 0:
            self.eased = True

    def note_charged(self, charge: Charge) -> None:
        """The headroom of its queue, and of those above, is to be measured anew."""
        own = self.branches[charge.queue]
        for branch in own.path:
            self.charged[branch.name] = None
        if own.by_user or own.by_group or own.caps_jobs:
            self.subjects["user", charge.user] = self.subjects["group", charge.group] = None
            self.subjects["job", charge.job] = None

    def build(self, queues: Mapping[str, Queue], flavors: Iterable[str]) -> None:
        """Anew from the queues; nothing is charged yet. Whoever calls charges what runs, and tells the pool."""
        self.root = Branch(ROOT, None, None)
        self.branches = BranchMap({ROOT: self.root})
        known = {"", *flavors}
        for name in queues:
            _add_branch(self, queues, name)
        if len(self.root.children) == 1:
            (only,) = self.root.children.values()
            if only.order not in BY_HOLDINGS:
                self.root.order = only.order  # with nobody to compare it with, its own order decides
        for branch in reversed(list(self.root.below())):
            _resolve(branch, known)
        self.keeps = any(any(branch.kept.values()) for branch in self.branches.values())
        for branch in self.root.below():
            if branch.parent is not None:
                branch.fault = branch.fault or branch.parent.fault
                branch.unbounded = not self.keeps and branch.parent.unbounded and not _bounds(branch)
            else:
                branch.unbounded = True
            _join_arena(branch)
            branch.cells = _cells(branch)
        self.stricts = {name for name, queue in queues.items() if queue.strict}
        self.keeps_claimed = {}
        if self.keeps:
            self._claim_keeps()
        self.stale = False
        self.eased = True

    def clear(self) -> None:
        """Give back all charges."""
        for name, branch in self.branches.items():
            branch.account = QueueUsage()
            branch.account.claimed.update(self.keeps_claimed.get(name, ()))
            branch.charged.clear()
            branch.shares.clear()

    def copy(self) -> QueueTree:
        other = QueueTree()
        queues = {name: branch.queue for name, branch in self.branches.items() if branch.queue is not None}
        other.build(queues, {flavor for flavor, _ in self.pool})
        for name, branch in self.branches.items():
            other.branches[name].account, other.branches[name].charged = branch.account.copy(), dict(branch.charged)
        other.pool, other.eased, other.outdated = dict(self.pool), self.eased, list(self.outdated)
        other.stale, other.pool_stale = self.stale, self.pool_stale
        return other

    def _claim_keeps(self) -> None:
        """Enter what queues keep as claims on their parents, before anything runs."""
        for branch in reversed(list(self.root.below())):
            if branch.parent is not None:
                claimed = branch.parent.account.claimed
                for key in {**branch.kept, **branch.account.claimed}:
                    claim = max(branch.kept.get(key, 0), branch.account.claimed.get(key, 0))
                    claimed[key] = claimed.get(key, 0) + claim
        self.keeps_claimed = {name: dict(each.account.claimed) for name, each in self.branches.items()}


def post_charge(accounts: Sequence[tuple[Branch, QueueUsage]], charge: Charge, sign: int, *, keeps: bool) -> None:
    """Enter a charge in the usages of a path, the queue's own first. `keeps`: some queue keeps anything; else claims
    are the totals, and are not kept."""
    rising = charge.cost if keeps else ()
    branch, account = accounts[0]
    if branch.children:
        for key, amount in charge.cost:
            account.own[key] = account.own.get(key, 0) + sign * amount
    for branch, account in accounts:
        account.add(charge, sign, branch)
        if rising:
            rising = _claim(branch, account, rising, sign)


def _claim(branch: Branch, account: QueueUsage, rising: Cost, sign: int) -> Cost:
    """Enter what is claimed of the branch; return by how much its own claim on its parent changes."""
    claimed, kept, passed = account.claimed, branch.kept, list[tuple[Key, Amount]]()
    for key, amount in rising:
        before = claimed.get(key, 0)
        claimed[key] = after = before + sign * amount
        floor: Amount = kept.get(key, 0)
        if change := _at_least(floor, after) - _at_least(floor, before):
            passed.append((key, change if change > 0 else -change))
    return tuple(passed)


def _at_least(floor: Amount, amount: Amount) -> Amount:
    return amount if amount > floor else floor


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


def _limits(limits: Limits) -> bool:
    return limits.running is not None or bool(limits.resources) or bool(limits.named)


def _bounds(branch: Branch) -> bool:
    """Return whether the queue itself bounds what starts in it and below."""
    queue = branch.queue
    assert queue is not None
    limited = branch.limits_users or branch.limits_groups or branch.limits_jobs or _limits(queue.total)
    return bool(limited or branch.limit or branch.flavors or queue.borrow is not BorrowingPolicy.ALL)


def _add_branch(tree: QueueTree, queues: Mapping[str, Queue], name: str) -> Branch:
    """Return the queue's branch, made with those above it. A queue without a way to the root hangs below the root, with
    a fault."""
    way: list[str] = []
    fault, at = "", name
    while at not in tree.branches:
        way.append(at)
        at = queues[at].parent
        if at in way:
            circle = " > ".join((*way[way.index(at) :], at))
            fault = f"queue {at!r} is below itself ({circle})"
        elif at not in queues and at:
            fault = f"the parent {at!r} of queue {way[-1]!r} does not exist"
        if fault:
            at = ROOT
    for step in reversed(way):
        parent = tree.branches[at]
        branch = tree.branches[step] = parent.children[step] = Branch(step, queues[step], parent)
        branch.fault = fault
        at = step
    return tree.branches[name]


def _join_arena(branch: Branch) -> None:
    """Give the branch its parent's arena, if one order alone decides between the parent's children. In FAIR order
    shares decide, in USAGE order what was used, and guarantees where there are any; a strict queue is closed by
    itself."""
    parent = branch.parent
    if parent is None:
        return
    strict = branch.queue is not None and branch.queue.strict
    alike = parent.order is branch.order and branch.order not in BY_HOLDINGS
    if alike and not parent.contested and not strict:
        branch.arena = parent.arena
    else:
        parent.arena.split = True


def _cells(branch: Branch) -> str:
    """The queue under which its requests stand in cells."""
    plain = branch.unbounded and branch.order is not QueueOrder.MULTIFACTOR and not branch.by_factors
    if branch.queue is None or not plain or branch.preempts or not branch.queue.gang:
        return branch.name
    arena = branch.arena.queue
    return branch.arena.name if arena is None or (arena.gang and not branch.arena.preempts) else branch.name


def _resolve(branch: Branch, flavors: set[str]) -> None:
    """Find the branch's guarantees, limits and keep, with its children's known; and what is wrong with them."""
    below: dict[Key, int] = {}
    for child in branch.children.values():
        for key, amount in child.guaranteed.items():
            below[key] = below.get(key, 0) + amount
    branch.contested = {key for key, amount in below.items() if amount}
    if branch.queue is None:
        branch.guaranteed = below
        return
    faults = list(quota_errors(branch.queue, flavors))
    for quota in branch.queue.quotas:
        for resource, amount in quota.guaranteed:
            branch.guaranteed[quota.flavor, resource] = _sane(amount)
        for resource, amount in quota.limit:
            branch.limit[quota.flavor, resource] = _sane(amount)
    branch.stated = {key for key, amount in branch.guaranteed.items() if amount < MAX_AMOUNT}
    for resource, amount in branch.queue.total.resources:
        branch.limit["", resource] = min(_sane(amount), branch.limit.get(("", resource), MAX_AMOUNT))
    _add_children(branch, below)
    if not branch.queue.oversubscribed:
        faults += _child_errors(branch, below)
    lends = {(quota.flavor, resource): amount for quota in branch.queue.quotas for resource, amount in quota.lend}
    for key, amount in branch.guaranteed.items():
        if key in lends:
            branch.kept[key] = max(0, amount - _sane(lends[key]))
    if faults and not branch.fault:
        branch.fault = "; ".join(faults)


def _add_children(branch: Branch, below: Mapping[Key, int]) -> None:
    """Add what the queue does not state itself: the sum of its children's guarantees, and of all nodes the sum over its
    flavors."""
    for key, amount in below.items():
        branch.guaranteed.setdefault(key, amount)
    flavored: dict[Key, int] = {}
    for (flavor, resource), amount in branch.guaranteed.items():
        if flavor:
            flavored["", resource] = flavored.get(("", resource), 0) + amount
    for key, amount in flavored.items():
        if key not in branch.stated:
            branch.guaranteed[key] = max(amount, branch.guaranteed.get(key, 0))


def _child_errors(branch: Branch, below: Mapping[Key, int]) -> Iterator[str]:
    """Yield where the children of a queue are guaranteed more than the queue states for itself."""
    for key in sorted(branch.stated):
        if below.get(key, 0) > branch.guaranteed[key]:
            parts = [
                f"{each.name} {format_amount(key[1], each.guaranteed[key])}"
                for each in branch.children.values()
                if key in each.guaranteed
            ]
            of = f" of flavor {key[0]!r}" if key[0] else ""
            yield (
                f"queue {branch.name!r} is guaranteed {format_amount(key[1], branch.guaranteed[key])} {key[1]}{of}, "
                f"but its children are guaranteed {format_amount(key[1], below[key])} ({', '.join(parts)})"
            )


def _sane(amount: int) -> int:
    return max(0, min(amount, MAX_AMOUNT))


def gang_cost(
    gang: Gang, pods: Sequence[int], flavors: tuple[str, ...] = (), groups: tuple[ResourceGroup, ...] = ()
) -> Cost:
    """Return what so many pods of each role cost, by key: of all nodes, and of the flavor of each resource. `groups`:
    the resource groups of the queue."""
    if not flavors and gang.minimums == tuple(pods):
        return gang.due()
    total: dict[Key, Amount] = {}
    for role, (demand, count) in enumerate(zip(gang.demands, pods, strict=True)):
        given = parts_of(flavors[role]) if role < len(flavors) else ()
        named = [(flavor, next((each for each in groups if flavor in each.flavors), None)) for flavor in given]
        for resource, amount in demand.costs if count else ():
            for flavor in ("", *(flavor for flavor, group in named if group is None or group.covers(resource))):
                total[flavor, resource] = total.get((flavor, resource), 0) + amount * count
    return tuple(sorted(total.items()))


def queue_time_limit_s(job: Job, branch: Branch) -> float | None:
    """Return how long the job may run (seconds): its own limit, else the longest that its branch allows; None: no
    limit."""
    return job.limit_s if job.limit_s is not None else branch.longest_s
