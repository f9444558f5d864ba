"""The queue tree. It stores the parent, the quota and the usage of each queue, and the charges of jobs to their queues.

A *branch* is the place of a queue in the tree. Its `path` leads up to the unnamed root, whose quota is the capacity of
the cluster (the pool). Amounts are stored by `Key`, which is (flavor, resource). The usage of a pod on nodes of a
flavor is counted under this flavor. All usage is also counted under the empty flavor, which means all nodes.

A `QueueUsage` has the charges of a branch. `total` is the usage of all jobs in the queue and below it. A queue *keeps*
the part of its guarantee that it does not lend to other queues. `claimed` is the usage of the queue's own jobs plus the
claims of its children. A queue *claims* the amount in `claimed` from its parent, but never less than it keeps:

    claim(q) = max(kept(q), own use(q) + sum of claim(child))        and        claim(root) <= pool

This is the availability rule of Kueue's KEP-79 ("hierarchical cohorts"), in which kept amounts count as used. While the
charges of a queue stay within the amount that it keeps, neither its claim nor the claims of the queues above it change.
The time to add a charge is proportional to the depth of the tree times the number of requested resources.

The settings of a tree may contradict each other. Then `Branch.fault` states the error and its place. The fault applies
to the branch and to all branches below it. Jobs that already run in a branch with a fault are charged like other jobs,
in all branches up to the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.model.pod import Amount
from phalanx.model.queue import Queue, QueueOrder, quota_errors
from phalanx.state.queues.branch import ROOT, Branch, BranchMap, post_charge
from phalanx.state.queues.quota import BranchQuota, Charge, Key, QueueUsage, child_errors
from phalanx.state.queues.submitted import SubmittedJobs

# The orders in which the next job depends on the present or past usage of queues or users.
BY_HOLDINGS = frozenset({QueueOrder.FAIR, QueueOrder.TIERED, QueueOrder.FILL, QueueOrder.USAGE})


class QueueTree:
    """All branches, and the pool.

    `pool`: (flavor, resource) -> the capacity of the cluster.
    `keeps`: the keys for which at least one queue keeps a part of its guarantee. Only claims of these keys are compared
    with the pool. If no queue keeps anything, claims are equal to totals.
    `stricts`: the names of strict queues.
    `trimmed`: the names of queues whose pods are evicted if the queue exceeds its limit for too long.
    `keeps_claimed`: branch -> the amounts that its children claim from it when no job runs.
    `eased`: whether a charge was subtracted since the last plan, so that quota may have become free.
    `charged`, `subjects`: the queues, and the users, groups and jobs, whose charges have changed since the headroom was
    last computed. The headroom is the amounts that may still be charged.
    `outdated`: queues that changed since the tree was built.
    `submitted`: for each limit on submitted jobs, the live jobs that count against it."""

    def __init__(self) -> None:
        self.root = Branch(ROOT, None, None)
        self.branches = BranchMap({ROOT: self.root})
        self.pool: dict[Key, int] = {}
        self.keeps: frozenset[Key] = frozenset()
        self.stricts: set[str] = set()
        self.trimmed: set[str] = set()
        self.stale = self.pool_stale = False
        self.keeps_claimed: dict[str, dict[Key, Amount]] = {}
        self.eased = False
        self.charged: dict[str, None] = {}
        self.subjects: dict[tuple[str, str], None] = {}
        self.outdated: list[str] = []
        self.submitted = SubmittedJobs()

    def outdate(self, *queues: str) -> None:
        """Record that these queues have changed, so that the tree must be built again."""
        self.stale = True
        self.outdated += queues

    def branch(self, queue: str) -> Branch:
        """Return the branch of the queue. For a deleted queue, whose jobs may still run, return the branch of the
        root."""
        return self.branches[queue]

    def strict_above(self, queue: str) -> Branch | None:
        """Return the strict queue that is highest on the queue's path; None if no queue on the path is strict."""
        return self.branches[queue].strict

    def charge(self, charge: Charge, sign: int) -> None:
        """Add the charge to its queue and to all queues above. `sign`: 1 to add the charge, -1 to subtract it."""
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
                branch.account.add(charge, sign)
        self.note_charged(charge)
        if sign < 0:
            self.eased = True

    def note_charged(self, charge: Charge) -> None:
        """Record that the headroom of the charge's queue, and of all queues above it, must be computed again."""
        own = self.branches[charge.queue]
        for branch in own.path:
            self.charged[branch.name] = None
        if own.rules.limits.by_user or own.rules.limits.by_group or own.rules.limits.by_job:
            self.subjects["user", charge.user] = self.subjects["group", charge.group] = None
            self.subjects["job", charge.job] = None

    def build(self, queues: Mapping[str, Queue], flavors: Iterable[str]) -> None:
        """Build the tree from the queues, without charges. After that, the caller must charge the running jobs and set
        the pool."""
        self.root = Branch(ROOT, None, None)
        self.branches = BranchMap({ROOT: self.root})
        known = {"", *flavors}
        for name in queues:
            _add_branch(self, queues, name)
        if len(self.root.children) == 1:
            (only,) = self.root.children.values()
            if only.order not in BY_HOLDINGS:
                self.root.order = only.order  # if the root has only one child, it gets the order of this child
        for branch in reversed(list(self.root.below())):
            _add_quota(branch, known)
        self.keeps = frozenset(
            key for branch in self.branches.values() for key, kept in branch.quota.kept.items() if kept
        )
        for branch in self.root.below():
            above = branch.parent
            branch.fault = branch.fault or (above.fault if above is not None else "")
            branch.unbounded = above is None or (not self.keeps and above.unbounded and not branch.is_bounded())
            rules, limits = branch.rules, branch.rules.limits
            excludes = branch.fault or rules.states or limits.submissions or limits.longest_s is not None
            branch.restricts = bool(not branch.unbounded or excludes)
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
        """Remove all charges."""
        for name, branch in self.branches.items():
            branch.account = QueueUsage(branch.rules.limits)
            branch.account.claimed.update(self.keeps_claimed.get(name, ()))
            branch.charged.clear()

    def copy(self) -> QueueTree:
        other = QueueTree()
        queues = {name: branch.queue for name, branch in self.branches.items() if branch.queue is not None}
        other.build(queues, {flavor for flavor, _ in self.pool})
        for name, branch in self.branches.items():
            other.branches[name].account, other.branches[name].charged = branch.account.copy(), dict(branch.charged)
        other.pool, other.eased, other.outdated = dict(self.pool), self.eased, list(self.outdated)
        other.stale, other.pool_stale, other.submitted = self.stale, self.pool_stale, self.submitted.copy()
        return other

    def _claim_keeps(self) -> None:
        """Add the amounts that queues keep to the claims on their parents. Call this method before any job is
        charged."""
        for branch in reversed(list(self.root.below())):
            if branch.parent is not None:
                claimed = branch.parent.account.claimed
                for key in {**branch.quota.kept, **branch.account.claimed}:
                    claim = max(branch.quota.kept.get(key, 0), branch.account.claimed.get(key, 0))
                    claimed[key] = claimed.get(key, 0) + claim
        self.keeps_claimed = {name: dict(each.account.claimed) for name, each in self.branches.items()}


def _add_branch(tree: QueueTree, queues: Mapping[str, Queue], name: str) -> Branch:
    """Return the queue's branch. If this branch or a branch above it does not exist yet, create it. A queue without a
    path to the root becomes a child of the root, and its branch has a fault."""
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
    """Put the branch into the arena of its parent if one job order decides between all of their jobs; otherwise the
    branch is a separate arena. The branch is a separate arena in these cases: its order differs from that of its
    parent; the order depends on usage (FAIR and similar orders, USAGE); a child of the parent has a guarantee; the
    branch is a strict queue, because such a queue has no candidate while its head waits; or the branch has a priority
    or is fenced, and there is a FILL queue above, which includes this priority in its comparisons
    (`shares.seen_priority`)."""
    parent, queue = branch.parent, branch.queue
    if parent is None:
        return
    alike = parent.order is branch.order and branch.order not in BY_HOLDINGS and not parent.quota.contested
    if queue is not None and (queue.priority or queue.fenced):
        alike = alike and all(each.order is not QueueOrder.FILL for each in parent.path)
    if alike and not (queue is not None and queue.strict):
        branch.arena = parent.arena
    else:
        parent.arena.split = True


def _request_class_queue(branch: Branch) -> str:
    """Return the queue name for the keys of the branch's request classes (`Branch.request_class_queue`)."""
    plain = branch.unbounded and branch.order is not QueueOrder.MULTIFACTOR and not branch.rules.by_factors
    if branch.queue is None or not plain or branch.rules.preempts or not branch.rules.starts_whole:
        return branch.name
    arena = branch.arena.queue
    return branch.arena.name if arena is None or (arena.gang and not branch.arena.rules.preempts) else branch.name


def _add_quota(branch: Branch, flavors: set[str]) -> None:
    """Compute the quota of the branch, and the error in its own settings if there is one. The quotas of its children
    must already have been computed."""
    below = {name: child.quota for name, child in branch.children.items()}
    branch.quota = BranchQuota(branch.queue, below)
    if branch.order is QueueOrder.TIERED:
        children = (child.queue for child in branch.children.values() if child.queue is not None)
        branch.quota.contested |= {("", resource) for queue in children for resource, _ in queue.weights}
    if branch.queue is None or branch.fault:
        return
    faults = list(quota_errors(branch.queue, flavors))
    if not branch.queue.oversubscribed:
        faults += child_errors(branch.name, branch.quota, below)
    branch.fault = "; ".join(faults)
