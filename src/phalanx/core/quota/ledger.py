"""The ledger: the charges of all queues, with the decisions of this cycle. Like the draft, it has an undo log.

A charge is checked from the job's queue up to the root. At every level, the limits on amounts, on running jobs, and on
users, groups and single jobs are checked. If the queue may not borrow, its guarantee is checked too. Some queues keep a
part of their guarantee for themselves (`state.queues.tree`). So finally the limits of the queues above and the capacity
of the cluster are checked again, and the kept amounts count as used. The result is None if all limits allow the charge.
Otherwise it is a `QuotaShortfall` with the first limit that does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from phalanx.core.quota import shares as share
from phalanx.core.quota.shares import DominantShare
from phalanx.model.pod import Amount
from phalanx.model.queue import Limits
from phalanx.state.cluster import Cluster, time_limit_s
from phalanx.state.queues.bounds import Bound, Rule
from phalanx.state.queues.branch import Branch, post_charge
from phalanx.state.queues.quota import Charge, Cost, Key, QueueUsage, SubjectUsage
from phalanx.state.queues.tree import QueueTree

REMEMBERED = 256  # at most this many computed shares are stored for one branch
NOTHING = SubjectUsage()
UNCHARGED = QueueUsage()

# if a bound with one of these rules does not allow a job, the preemption of other jobs can help
RECLAIM_RULES = {Rule.LIMIT, Rule.GUARANTEE, Rule.POOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaShortfall:
    """A limit that does not allow a charge, with the compared amounts. `bound`: which limit. `allowed`: the value of
    the limit. `used`: the amount that is already charged. `asked`: the amount that the new charge would add."""

    bound: Bound
    asked: Amount
    used: Amount
    allowed: int


class QuotaLedger:
    """The charges of all queues: the charges in the cluster state, plus the changes by the decisions of this cycle.

    `of_jobs`: job -> the charges that this cycle has granted to it. `of_queues`: queue -> those of its jobs
    that `of_jobs` has.
    `version`: a number that changes with every charge."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.of_jobs: dict[str, list[Charge]] = {}
        self.of_queues: dict[str, dict[str, None]] = {}
        self._ending: list[str] = []  # jobs of `of_jobs` with a time limit
        self._looked_at = 0  # the number of jobs in `of_jobs` that `ending` has already checked for a time limit
        self._over: dict[str, QueueUsage] = {}
        self.version = 0
        self._log: list[tuple[Charge, int]] = []
        # The number of log entries whose charges are already in `_over`. The other entries are added when an account is
        # read.
        self._entered = 0
        # A cache for `core.reasons.no_quota`: queue -> bound of this queue -> the largest consumers. It is emptied with
        # each charge.
        self.had: dict[str, dict[Bound, Any]] = {}

    def account(self, branch: Branch) -> QueueUsage:
        """Return the usage of the branch."""
        if self._entered < len(self._log):
            for charge, sign in self._log[self._entered :]:
                self._enter(charge, sign)
            self._entered = len(self._log)
        return self._over.get(branch.name, branch.account)

    def share(self, branch: Branch, extra: Cost = ()) -> DominantShare:
        """Return the weighted dominant share that the branch would have among its siblings if `extra` were also
        charged."""
        account = self.account(branch)
        known: DominantShare | None = account.shares.get(extra)
        if known is None:
            if len(account.shares) >= REMEMBERED:
                account.shares.clear()
            known = account.shares[extra] = share.dominant_share(branch, account, self.tree.pool, extra)
        return known

    def ending(self, cluster: Cluster) -> list[str]:
        """Return the jobs that this cycle has granted and that have a time limit."""
        if self._looked_at < len(self.of_jobs):
            new = islice(self.of_jobs, self._looked_at, None)
            self._ending += [job for job in new if time_limit_s(cluster, cluster.jobs[job].job) is not None]
            self._looked_at = len(self.of_jobs)
        return self._ending

    def charge(self, charge: Charge, sign: int = 1) -> None:
        """Add the charge (`sign` 1), or remove it (`sign` -1), for example if it is the charge of a victim."""
        self._log.append((charge, sign))
        self.version += 1
        self.had.clear()

    def grant(self, charge: Charge) -> None:
        """Add the charge of a job that starts in this cycle."""
        self.charge(charge)
        self.of_jobs.setdefault(charge.job, []).append(charge)
        self.of_queues.setdefault(charge.queue, {})[charge.job] = None

    def mark(self) -> int:
        """Return a mark for `rewind`."""
        return len(self._log)

    def copy_at(self, mark: int) -> QuotaLedger:
        """Return a ledger with the charges that this ledger had at the mark."""
        other = QuotaLedger(self.tree)
        other._log = self._log[:mark]
        return other

    def since(self, mark: int) -> list[Charge]:
        """Return the charges that were added or released since `mark`."""
        return [charge for charge, _ in self._log[mark:]]

    def rewind(self, mark: int) -> None:
        """Restore the charges to their state at the mark."""
        if len(self._log) > mark:
            self.version += 1
            self.had.clear()
        # if more charges must be undone than remain, drop all and add the remaining charges again
        if self._entered - mark > mark:
            del self._log[mark:]
            self._over.clear()
            self._entered = 0
        while len(self._log) > mark:
            charge, sign = self._log.pop()
            if self._entered > len(self._log):
                self._enter(charge, -sign)
                self._entered -= 1

    def _enter(self, charge: Charge, sign: int) -> None:
        accounts = []
        for branch in self.tree.branches[charge.queue].path:
            account = self._over.get(branch.name)
            if account is None:
                account = self._over[branch.name] = branch.account.copy()
            accounts.append((branch, account))
        post_charge(accounts, charge, sign, keeps=bool(self.tree.keeps))


class EmptyLedger(QuotaLedger):
    """A ledger of a cluster in which no job runs. If not even this ledger allows a charge, the charge can never be
    allowed."""

    def account(self, branch: Branch) -> QueueUsage:
        """Return the usage that the branch would have if no job ran: only the amounts that queues keep for
        themselves."""
        claimed = self.tree.keeps_claimed.get(branch.name)
        if not claimed:
            return UNCHARGED
        account = QueueUsage()
        account.claimed = claimed
        return account


def shortfall(ledger: QuotaLedger, branch: Branch, charge: Charge) -> QuotaShortfall | None:
    """Check the charge against all limits from the queue up to the root. Return the shortfall of the first limit that
    does not allow the charge; None if all limits allow it."""
    for each in branch.path:
        if short := branch_shortfall(ledger, each, charge):
            return short
    if not ledger.tree.keeps:
        return None
    return kept_shortfall(ledger, branch, charge.cost) or pool_shortfall(ledger, branch, charge.cost)


def branch_shortfall(ledger: QuotaLedger, branch: Branch, charge: Charge) -> QuotaShortfall | None:
    """Check the charge against the limits of one branch (a queue in the tree). Return the shortfall of the first limit
    that does not allow the charge; None if all limits allow it."""
    queue, account = branch.queue, ledger.account(branch)
    if queue is None:
        return None
    for key, asked in charge.cost:
        allowed = branch.quota.limit.get(key)
        if allowed is not None and account.total.get(key, 0) + asked > allowed:
            return quota_shortfall(Bound(branch.name, Rule.LIMIT, key), asked, account.total.get(key, 0), allowed)
    if queue.total.running is not None and account.running + charge.jobs > queue.total.running:
        return quota_shortfall(Bound(branch.name, Rule.RUNNING), charge.jobs, account.running, queue.total.running)
    if branch.rules.limits.users:
        tally = account.users.get(charge.user, NOTHING)
        if found := subject_shortfall(
            branch.name, queue.per_user.of(charge.user), tally, charge, charge.user, Rule.USER, Rule.USER_RUNNING
        ):
            return found
    if branch.rules.limits.groups:
        tally = account.groups.get(charge.group, NOTHING)
        if found := subject_shortfall(
            branch.name, queue.per_group.of(charge.group), tally, charge, charge.group, Rule.GROUP, Rule.GROUP_RUNNING
        ):
            return found
    if branch.rules.limits.jobs:
        tally = account.jobs.get(charge.job, NOTHING)
        if found := subject_shortfall(branch.name, queue.per_job, tally, charge, charge.job, Rule.JOB):
            return found
    if queue.borrow.allows(preemptible=charge.preemptible):
        return None
    usage = branch.usage_within_guarantee(account)
    if (over := key_beyond_guarantee(branch, usage, charge.cost)) is None:
        return None
    bound, asked = Bound(branch.name, Rule.GUARANTEE, over), dict(charge.cost)[over]
    return quota_shortfall(bound, asked, usage.get(over, 0), branch.quota.guaranteed[over])


def is_firm(branch: Branch, bound: Bound) -> bool:
    """Return whether only the usage of jobs that are not preemptible is compared with the bound."""
    return bound.rule is Rule.GUARANTEE and branch.counts_firm


def may_end(tree: QueueTree, bound: Bound) -> bool:
    """Return whether the preemption of other jobs can help if this bound does not allow a job."""
    return bound.rule in RECLAIM_RULES and not is_firm(tree.branches[bound.queue], bound)


def subject_shortfall(
    queue: str,
    limits: Limits,
    tally: SubjectUsage,
    charge: Charge,
    whose: str,
    amounts: Rule,
    running: Rule | None = None,
) -> QuotaShortfall | None:
    """Check the charge against the queue's limits for one user, one group or one job (the subject). Return the
    shortfall of the first limit that does not allow the charge; None if all limits allow it.

    `tally`: the usage of the subject. `whose`: the name of the subject.
    `amounts`, `running`: the `Rule` that the shortfall names, for a limit on amounts and for a limit on running
    jobs."""
    if running is not None and limits.running is not None and tally.running + charge.jobs > limits.running:
        return quota_shortfall(Bound(queue, running, whose=whose), charge.jobs, tally.running, limits.running)
    if limits.resources:
        cost = dict(charge.cost)
        for resource, allowed in limits.resources:
            asked, used = cost.get(("", resource), 0), tally.used.get(resource, 0)
            if asked and used + asked > allowed:
                return quota_shortfall(Bound(queue, amounts, ("", resource), whose), asked, used, allowed)
    return None


def quota_shortfall(bound: Bound, asked: Amount, used: Amount, allowed: int) -> QuotaShortfall:
    return QuotaShortfall(bound=bound, asked=asked, used=used, allowed=allowed)


def key_beyond_guarantee(branch: Branch, usage: Mapping[Key, Amount], cost: Cost) -> Key | None:
    """Return the first key (flavor, resource) for which usage plus cost would exceed the guarantee of the branch; None
    if there is no such key. Keys without a guarantee are ignored."""
    for key, asked in cost:
        allowed = branch.quota.guaranteed.get(key)
        if allowed is not None and usage.get(key, 0) + asked > allowed:
            return key
    return None


def kept_shortfall(ledger: QuotaLedger, branch: Branch, cost: Cost) -> QuotaShortfall | None:
    """Check the charge against the limits from the queue up to the root, where the amounts that queues keep for
    themselves count as used. Return the shortfall of the first limit that does not allow the charge; None if all limits
    allow it. An amount that a queue keeps counts as used in all queues above it, because it cannot be lent to other
    queues."""
    for key, asked in cost:
        rising = asked
        for each in branch.path:
            claimed, kept = ledger.account(each).claimed.get(key, 0), each.quota.kept.get(key, 0)
            allowed = each.quota.limit.get(key)
            if allowed is not None and rising and claimed + rising > allowed:
                return QuotaShortfall(
                    bound=Bound(each.name, Rule.LIMIT, key), asked=rising, used=claimed, allowed=allowed
                )
            rising = max(kept, claimed + rising) - max(kept, claimed)
    return None


def pool_shortfall(ledger: QuotaLedger, branch: Branch, cost: Cost) -> QuotaShortfall | None:
    """Check the charge against the capacity of the cluster (the pool). Return the shortfall; None if the capacity is
    enough. A resource is only checked if at least one queue keeps an amount of it for itself. Kept amounts count as
    used even if no job uses them. So a charge adds nothing to the usage of the pool as long as it is within the amounts
    that the job's queue, or a queue above it, keeps."""
    pool, path = ledger.tree.pool, branch.path
    root = ledger.account(path[-1])
    for key, asked in cost:
        claimed = root.claimed.get(key, 0)
        if key not in ledger.tree.keeps or claimed + asked <= pool.get(key, 0):
            continue
        rising = asked
        for each in path[:-1]:
            before, kept = ledger.account(each).claimed.get(key, 0), each.quota.kept.get(key, 0)
            rising = max(kept, before + rising) - max(kept, before)
        if rising and claimed + rising > pool.get(key, 0):
            bound = Bound(path[-1].name, Rule.POOL, key)
            return QuotaShortfall(bound=bound, asked=rising, used=claimed, allowed=pool.get(key, 0))
    return None


def within_guarantee(ledger: QuotaLedger, branch: Branch, contested: set[Key], cost: Cost) -> bool:
    """Return whether the usage of the branch plus `cost` is within the branch's guarantee, for each key (flavor,
    resource) in `contested`."""
    total = ledger.account(branch).total
    return all(
        total.get(key, 0) + asked <= branch.quota.guaranteed.get(key, 0) for key, asked in cost if key in contested
    )


def missing_amount(short: QuotaShortfall) -> float:
    """Return by how much the usage must fall so that the limit allows the charge."""
    return float(short.used + short.asked - short.allowed)
