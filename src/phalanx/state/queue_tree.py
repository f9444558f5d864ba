"""The queue tree: the parent, the quota and the usage of each queue, and the cost of a gang.

A *branch* is the place of a queue in the tree. Its `path` leads up to the unnamed root, whose pool is the capacity of
the cluster. Amounts are stored by `Key`, (flavor, resource). The usage of a pod on nodes of a flavor counts under that
flavor, and like all usage under the empty flavor, "all nodes".

A `QueueUsage` has the charges of a branch. `total` is the usage of all jobs in the queue and below it. A queue *keeps*
its guarantee less the amount that it lends. `claimed` is the usage of the queue's own jobs plus the claims of its
children. A queue *claims* that amount from its parent, but never less than it keeps:

    claim(q) = max(kept(q), own use(q) + sum of claim(child))        and        claim(root) <= pool

This is the availability rule of Kueue's KEP-79 ("hierarchical cohorts"), in which kept amounts count as used. A charge
within the keep of a queue changes neither its claim nor the claims above it. The cost of a charge is the depth of the
tree times the number of requested resources.

A tree may contradict itself. `Branch.fault` then says where and why; it holds for the branch and all branches below.
Jobs that run in such a branch are charged like others, up to the root.
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
# The next job depends on usage, now or in the past.
BY_HOLDINGS = frozenset({QueueOrder.FAIR, QueueOrder.TIERED, QueueOrder.FILL, QueueOrder.USAGE})

Key: TypeAlias = tuple[str, str]  # (flavor, resource); the empty flavor: all nodes
Cost: TypeAlias = tuple[tuple[Key, Amount], ...]


class ResourceGroup(NamedTuple):
    """Flavors in order of preference. A pod gets one of them for the resources of the group; no resources: for all."""

    flavors: tuple[str, ...]
    resources: frozenset[str] = frozenset()

    def covers(self, resource: str) -> bool:
        return not self.resources or resource in self.resources


class Charge(NamedTuple):
    """The charge of a started or nominated job: to its queue, to the queues above, and to its user and group in each.

    `jobs`: the number of running jobs that the charge counts as; 0 for further pods of a started job."""

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

    `total`: key -> usage of the queue and all queues below.
    `own`: key -> usage of the queue's own jobs; only if it has children.
    `claimed`: key -> own usage and claims of the children.
    `users`, `groups`, `jobs`: usage of each; only those that a limit of the queue is for."""

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
        """Return all amounts except zeros, for comparisons."""
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
        """Add the charge (`sign` 1) or give it back (-1). Claims are not changed."""
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
    """A queue's place in the tree, with its settings. "On the path" means in the queue or a queue above it.

    `queue`: None at the root.
    `states`: the queues on the path that are not open, the nearest first.
    `guaranteed`, `kept`, `limit`: key -> amount; a missing key has no guarantee, no keep, no limit.
    `stated`: the keys of bounded guarantees that the queue states itself.
    `by_user`, `by_group`, `by_factors`: whether a queue on the path limits users, limits groups, orders by factors.
    `flavors`: the resource groups of the queue, else of the nearest queue above that has any.
    `contested`: the keys of which a child has a guarantee.
    `limits_submissions`, `caps_jobs`: whether a queue on the path limits submitted jobs, limits the size of a job.
    `unbounded`: whether no bound on the path keeps a job from starting.
    `strict`: the highest strict queue on the path.
    `longest_s`: the longest time limit that the path allows a job (seconds).
    `order`: the order of its jobs and children.
    `charged`: own job -> its charge.
    `preempts`, `reclaims`: whether its jobs may preempt, and may preempt jobs of other queues.
    `request_class_queue`: the queue in the request classes of its jobs; the arena where the arena's queues are equal in
        all rules.
    `arena`: the highest branch on the path below which one order alone decides which job is next, as in one queue.
    `split`: whether the branch is an arena and a branch below belongs to another one.
    `shares`: charge -> the branch's share with it, until an amount changes (`core.quota.flavor_assignment`).
    `ties`: queue -> its relation to this one (`core.preemption.policy`)."""

    __slots__ = (
        *("account", "arena", "by_factors", "by_group", "by_user", "caps_jobs", "charged", "children"),
        *("contested", "fault", "flavors", "guaranteed", "kept", "limit", "limits_groups", "limits_jobs"),
        *("limits_submissions", "limits_users", "longest_s", "name", "order", "parent", "path", "preempts", "queue"),
        *("reclaims", "request_class_queue", "shares", "split", "stated", "states", "strict", "ties", "unbounded"),
    )

    def __init__(self, name: str, queue: Queue | None, parent: Branch | None) -> None:
        self.name, self.queue, self.parent = name, queue, parent
        self.path: tuple[Branch, ...] = (self, *(parent.path if parent else ()))
        self.children: dict[str, Branch] = {}
        self.guaranteed: dict[Key, int] = {}
        self.stated: set[Key] = set()
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
        self.request_class_queue = name
        self.split = False
        self.shares: dict[Cost, Any] = {}
        self.ties: dict[str, Any] = {}
        walls = [limits.wall_s for limits in (*stated, queue.per_job) if limits.wall_s is not None] if queue else []
        if parent is not None and parent.longest_s is not None:
            walls.append(parent.longest_s)
        self.longest_s: float | None = min(walls, default=None)
        if queue is not None and queue.state is not QueueState.OPEN:
            self.states = (queue, *self.states)

    def treatment(self) -> tuple[object, ...]:
        """Return the settings that decide how jobs of the queue are received. A change has the jobs received again."""
        return (
            self.fault,
            self.states,
            self.by_user,
            self.by_group,
            self.caps_jobs,
            self.by_factors,
            self.order is QueueOrder.USAGE,
            self.limits_submissions,
            self.request_class_queue,
        )

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


class QueueTree:
    """All branches, and the pool.

    `pool`: key -> capacity of the cluster.
    `keeps`: whether any queue keeps an amount, so that claims differ from totals.
    `stricts`: the names of strict queues.
    `trimmed`: the names of queues whose usage above their limit is evicted.
    `keeps_claimed`: branch -> its claims when no job runs.
    `eased`: whether a charge was given back since the last plan.
    `charged`, `subjects`: queues, and users, groups and jobs, whose charges changed since the headroom was computed.
    `outdated`: queues that changed since the tree was built."""

    def __init__(self) -> None:
        self.root = Branch(ROOT, None, None)
        self.branches = BranchMap({ROOT: self.root})
        self.pool: dict[Key, int] = {}
        self.keeps = False
        self.stricts: set[str] = set()
        self.trimmed: set[str] = set()
        self.stale = self.pool_stale = False
        self.keeps_claimed: dict[str, dict[Key, Amount]] = {}
        self.eased = False
        self.charged: dict[str, None] = {}
        self.subjects: dict[tuple[str, str], None] = {}
        self.outdated: list[str] = []

    def outdate(self, *queues: str) -> None:
        """Note that these queues changed since the tree was built."""
        self.stale = True
        self.outdated += queues

    def branch(self, queue: str) -> Branch:
        """Return the queue's branch; the root's for a deleted queue, whose jobs may still run."""
        return self.branches[queue]

    def strict_above(self, queue: str) -> Branch | None:
        """Return the highest strict queue on the queue's path; None if there is none."""
        return self.branches[queue].strict

    def charge(self, charge: Charge, sign: int) -> None:
        """Make the charge (`sign` 1) or give it back (-1)."""
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
        """Note that the headroom of the charge's queue and of the queues above must be computed again."""
        own = self.branches[charge.queue]
        for branch in own.path:
            self.charged[branch.name] = None
        if own.by_user or own.by_group or own.caps_jobs:
            self.subjects["user", charge.user] = self.subjects["group", charge.group] = None
            self.subjects["job", charge.job] = None

    def build(self, queues: Mapping[str, Queue], flavors: Iterable[str]) -> None:
        """Build the tree from the queues, without charges. The caller then charges running jobs and sets the pool."""
        self.root = Branch(ROOT, None, None)
        self.branches = BranchMap({ROOT: self.root})
        known = {"", *flavors}
        for name in queues:
            _add_branch(self, queues, name)
        if len(self.root.children) == 1:
            (only,) = self.root.children.values()
            if only.order not in BY_HOLDINGS:
                self.root.order = only.order  # without siblings, its own order decides
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
            branch.request_class_queue = _request_class_queue(branch)
        self.stricts = {name for name, queue in queues.items() if queue.strict}
        self.trimmed = {name for name, queue in queues.items() if queue.preemption.excess_delay_s is not None}
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
        """Enter the kept amounts as claims on the parents, before any job is charged."""
        for branch in reversed(list(self.root.below())):
            if branch.parent is not None:
                claimed = branch.parent.account.claimed
                for key in {**branch.kept, **branch.account.claimed}:
                    claim = max(branch.kept.get(key, 0), branch.account.claimed.get(key, 0))
                    claimed[key] = claimed.get(key, 0) + claim
        self.keeps_claimed = {name: dict(each.account.claimed) for name, each in self.branches.items()}


def post_charge(accounts: Sequence[tuple[Branch, QueueUsage]], charge: Charge, sign: int, *, keeps: bool) -> None:
    """Enter a charge in the usages of a path, the queue's own first. `keeps`: whether any queue keeps an amount;
    otherwise claims equal the totals and are not stored."""
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
    """Add to the claims of the branch; return the change of its own claim on its parent."""
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
    """Return whether a setting of the queue itself may keep a job in it or below from starting."""
    queue = branch.queue
    assert queue is not None
    limited = branch.limits_users or branch.limits_groups or branch.limits_jobs or _limits(queue.total)
    return bool(limited or branch.limit or branch.flavors or queue.borrow is not BorrowingPolicy.ALL)


def _add_branch(tree: QueueTree, queues: Mapping[str, Queue], name: str) -> Branch:
    """Return the queue's branch; make it, and those above it, if they are missing. A queue without a way to the root
    becomes a child of the root, with a fault."""
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
    """Give the branch its parent's arena, if one order alone decides between the parent's children. This is not so in
    FAIR order (shares decide), in USAGE order (past usage decides), where a child has a guarantee, and for a strict
    queue, which leaves the contest by itself."""
    parent = branch.parent
    if parent is None:
        return
    strict = branch.queue is not None and branch.queue.strict
    alike = parent.order is branch.order and branch.order not in BY_HOLDINGS
    if alike and not parent.contested and not strict:
        branch.arena = parent.arena
    else:
        parent.arena.split = True


def _request_class_queue(branch: Branch) -> str:
    """Return the queue in the request classes of its jobs (`Branch.request_class_queue`)."""
    plain = branch.unbounded and branch.order is not QueueOrder.MULTIFACTOR and not branch.by_factors
    if branch.queue is None or not plain or branch.preempts or not branch.queue.gang:
        return branch.name
    arena = branch.arena.queue
    return branch.arena.name if arena is None or (arena.gang and not branch.arena.preempts) else branch.name


def _resolve(branch: Branch, flavors: set[str]) -> None:
    """Compute the guarantees, limits, keep and fault of the branch. Those of its children are known."""
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
    """Add guarantees that the queue does not state itself: the sum of its children's, and for all nodes the sum over
    its flavors."""
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
    """Yield an error for each key of which the children are guaranteed more than the queue states for itself."""
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
    """Return the cost of `pods[role]` pods of each role, by key: for all nodes, and for the flavor of each resource.
    `groups`: the resource groups of the queue."""
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
    """Return the time limit of the job (seconds): its own, else the longest that its branch allows; None: no limit."""
    return job.limit_s if job.limit_s is not None else branch.longest_s
