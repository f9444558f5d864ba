"""May this start, as far as the queue tree is concerned; on which flavors of nodes; and if not, what says no.

`QuotaLedger` is the tree's accounts with what this cycle has decided laid over them, with an undo log as the draft has.

`flavor_assignments` lists the ways in which a gang may be given flavors (one per role), best first, each either
affordable or with the one `QuotaShortfall` that binds. The walk goes through the flavors in the queue's order and stops
early at one that would need to borrow (or to preempt), if the queue's `Fungibility` says that it would rather do that
than look further; those it did not reach come last. Otherwise what fits within the guarantee comes before what borrows.
A gang that then finds no room is offered the next, so that a flavor that is only full does not hold it up.

Checked from the queue up: limits of amounts at every level; started jobs, users', groups' and jobs' limits at every
level; who may borrow; and at the root, whether others keep what is asked (`state.queue_tree`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, product
from typing import Any, NamedTuple

from phalanx.core.fold import charging
from phalanx.core.quota import partial
from phalanx.core.quota import shares as share
from phalanx.core.quota.partial import PartialAdmission
from phalanx.core.quota.shares import DominantShare
from phalanx.model.amount import Amount
from phalanx.model.job import Job, Placement
from phalanx.model.queue import BorrowingPolicy, Limits
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from phalanx.state.pending.bars import Bar, Rule, Toll
from phalanx.state.pending.bars import room as room_of
from phalanx.state.pending.line import Kind, LineKey
from phalanx.state.queue_tree import Branch, Charge, Cost, Key, QueueTree, QueueUsage, SubjectUsage, post_charge

COMBINATIONS = 64  # of flavors that a gang of several roles is tried with
TRIED = 8  # ways to leave groups out, with the same flavors
REMEMBERED = 256  # shares of a branch
NOTHING = SubjectUsage()
UNCHARGED = QueueUsage()
SLIVER = Fraction(1, 1000)  # the least that can be charged of anything


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaShortfall:
    """`asked` more is wanted of what `bar` bounds; `used` of `allowed` are charged. `tolls`: when to look again."""

    bar: Bar
    asked: Amount
    used: Amount
    allowed: int
    tolls: tuple[Toll, ...]


class FlavorAssignment(NamedTuple):
    """One way to give the roles flavors, and of optional groups to leave some out; `gang` is what is placed then.
    `borrows`: beyond the queue's guarantee. `quota_shortfall`: why it is not affordable now. `besides`: other ways to
    leave groups out with the same flavors, none of which is (`gang` is all of it there)."""

    flavors: tuple[str, ...]
    gang: Gang
    charge: Charge
    borrows: bool = False
    short: QuotaShortfall | None = None
    preemptible: bool = True
    besides: tuple[FlavorAssignment, ...] = ()


class QuotaLedger:
    """Accounts as they will be when what was decided in this cycle is folded in."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.of_jobs: dict[str, list[Charge]] = {}  # what this cycle has granted
        self.of_queues: dict[str, dict[str, None]] = {}  # queue -> its jobs among these
        self._ending: list[str] = []  # of these, the jobs that end
        self._looked_at = 0  # so many of these were asked whether they do
        self._over: dict[str, QueueUsage] = {}
        self.version = 0  # another whenever anything was charged, or taken back
        self._log: list[tuple[Charge, int]] = []
        self._entered = 0  # so much of the log is in the accounts: the rest when somebody asks
        # By branch, until something is charged to it: who has most of what its bars count (`core.reasons.no_quota`
        # remembers it here), and its shares, by what it would use besides.
        self.had: dict[str, dict[Bar, Any]] = {}
        self._shares: dict[str, dict[Cost, DominantShare]] = {}

    def account(self, branch: Branch) -> QueueUsage:
        if self._entered < len(self._log):
            for charge, sign in self._log[self._entered :]:
                self._enter(charge, sign)
            self._entered = len(self._log)
        return self._over.get(branch.name, branch.account)

    def room(self, bar: Bar) -> Amount:
        """How much more it lets in."""
        branch = self.tree.branch(bar.queue)
        return room_of(branch, self.account(branch), bar, self.tree.pool)

    def share(self, branch: Branch, extra: Cost = ()) -> DominantShare:
        """The branch's weighted dominant share among its siblings, with that besides."""
        known: DominantShare | None = None if self._log else branch.shares.get(extra)
        if known is not None:
            return known
        account = self.account(branch)
        if account is branch.account:
            if (known := branch.shares.get(extra)) is None:
                if len(branch.shares) >= REMEMBERED:
                    branch.shares.clear()
                known = branch.shares[extra] = share.dominant_share(branch, account, self.tree.pool, extra)
            return known
        shares = self._shares.setdefault(branch.name, {})
        known = shares.get(extra)
        if known is None:
            known = shares[extra] = share.dominant_share(branch, account, self.tree.pool, extra)
        return known

    def ending(self, cluster: Cluster) -> list[str]:
        """Of the jobs that this cycle has granted anything, those that have a time limit."""
        if self._looked_at < len(self.of_jobs):
            new = islice(self.of_jobs, self._looked_at, None)
            self._ending += [job for job in new if time_limit_s(cluster, cluster.jobs[job].job) is not None]
            self._looked_at = len(self.of_jobs)
        return self._ending

    def charge(self, charge: Charge, sign: int = 1) -> None:
        """`sign` -1: given back (a victim's)."""
        self._log.append((charge, sign))
        self._changed(charge)

    def grant(self, charge: Charge) -> None:
        """To the charge's job, for good."""
        self.charge(charge)
        self.of_jobs.setdefault(charge.job, []).append(charge)
        self.of_queues.setdefault(charge.queue, {})[charge.job] = None

    def mark(self) -> int:
        return len(self._log)

    def rewind(self, mark: int) -> None:
        """As it was at `mark`."""
        if self._entered - mark > mark:  # what stays is sooner entered anew than the rest taken back
            del self._log[mark:]
            for known in (self._over, self._shares, self.had):
                known.clear()
            self._entered = 0
            self.version += 1
        while len(self._log) > mark:
            charge, sign = self._log.pop()
            self._changed(charge)
            if self._entered > len(self._log):
                self._enter(charge, -sign)
                self._entered -= 1

    def _changed(self, charge: Charge) -> None:
        self.version += 1
        if self._shares or self.had:
            for branch in self.tree.branches[charge.queue].path:
                self._shares.pop(branch.name, None)
                self.had.pop(branch.name, None)

    def _enter(self, charge: Charge, sign: int) -> None:
        accounts = []
        for branch in self.tree.branches[charge.queue].path:
            account = self._over.get(branch.name)
            if account is None:
                account = self._over[branch.name] = branch.account.copy()
            accounts.append((branch, account))
        post_charge(accounts, charge, sign, keeps=self.tree.keeps)


class EmptyLedger(QuotaLedger):
    """The accounts if nothing ran at all: what they do not allow, nobody's going mends."""

    def account(self, branch: Branch) -> QueueUsage:
        claimed = self.tree.keeps_claimed.get(branch.name)
        if not claimed:
            return UNCHARGED
        account = QueueUsage()
        account.claimed = claimed
        return account


def never_allowed(tree: QueueTree, offer: FlavorAssignment) -> QuotaShortfall | None:
    """What would not allow the offer even if nothing else ran."""
    return shortfall(EmptyLedger(tree), tree.branches[offer.charge.queue], offer.charge, preemptible=offer.preemptible)


def flavor_assignments(
    cluster: Cluster, ledger: QuotaLedger, key: LineKey, job: Job, given: tuple[str, ...] = ()
) -> list[FlavorAssignment]:
    """The ways in which the line's first, `job`, may start, best first; never empty. `given`: the flavors that it has
    already, of which it only wants more."""
    branch = cluster.tree.branches[key.queue]
    pods, cost, jobs = key.gang.minimums, key.gang.due(), int(key.kind == Kind.JOB)
    if jobs and branch.queue is not None and not branch.queue.gang:
        pods, cost = (0,) * len(pods), ()  # they are charged one by one
    whole = Charge(key.queue, job.user, job.group, cost, jobs, job.id)
    if branch.unbounded:
        return [FlavorAssignment((), key.gang, whole)]
    if not branch.flavors:
        found = flavor_assignment(ledger, branch, (), key.gang, whole, preemptible=job.preemptible)
        return with_partial_admission(cluster, ledger, branch, found) if jobs and key.gang.optional else [found]
    every = []
    for flavors in [given] if given else flavor_combinations(branch, len(key.gang.roles)):
        charge = whole._replace(cost=charging.gang_cost(key.gang, pods, flavors))
        gang = cluster.with_flavors(key.gang, flavors)
        every.append(flavor_assignment(ledger, branch, flavors, gang, charge, preemptible=job.preemptible))
    if jobs and key.gang.optional:
        every = [fewer for each in every for fewer in with_partial_admission(cluster, ledger, branch, each)]
    return by_fungibility(branch, every)


def with_partial_admission(
    cluster: Cluster, ledger: QuotaLedger, branch: Branch, whole: FlavorAssignment
) -> list[FlavorAssignment]:
    """The offers of a gang of which groups may be left out, of which quota allows none with more; if it allows none at
    all, those of the least that the gang can start with."""
    if whole.short is None:
        return [whole]
    seen: dict[frozenset[int], FlavorAssignment] = {frozenset(): whole}

    def offered(way: PartialAdmission) -> FlavorAssignment:
        if way.roles not in seen:
            charge = whole.charge._replace(cost=charging.gang_cost(whole.gang, way.pods, whole.flavors))
            seen[way.roles] = flavor_assignment(
                ledger, branch, whole.flavors, whole.gang, charge, preemptible=whole.preemptible
            )
        return seen[way.roles]

    found = {way.roles: way for way in partial.partial_admissions(whole.gang, lambda way: offered(way).short is None)}
    ways = [way for way in found.values() if offered(way).short is None] or list(found.values())
    first, *others = [
        offered(way)._replace(gang=partial.reduced_gang(cluster, whole.gang, way)) for way in islice(ways, TRIED)
    ]
    besides = tuple(each for roles, each in seen.items() if each.short is not None and roles != ways[0].roles)
    return [first._replace(besides=besides), *others]


def capped_gang(cluster: Cluster, ledger: QuotaLedger, offer: FlavorAssignment) -> Gang:
    """The offer's gang with no more pods above the minimum than quota has room for: role by role, each pod in turn."""
    gang = offer.gang
    if gang.rigid or (branch := ledger.tree.branches[offer.charge.queue]).unbounded:
        return gang
    pods = [role.minimum for role in gang.roles]
    for at, role in enumerate(gang.roles):
        low, high = role.minimum, max(role.minimum, role.count)
        while low < high:
            middle = (low + high + 1) // 2
            wanted = charging.gang_cost(gang, [*pods[:at], middle, *pods[at + 1 :]], offer.flavors)
            if shortfall(ledger, branch, offer.charge._replace(cost=wanted), preemptible=offer.preemptible):
                high = middle - 1
            else:
                low = middle
        pods[at] = low
    roles = tuple(replace(role, count=count) for role, count in zip(gang.roles, pods, strict=True))
    return cluster.interned.gang(roles, gang.groups, gang.closeness, gang.size)


def charge_for(offer: FlavorAssignment, placements: Sequence[Placement]) -> Charge:
    """What the queue is charged with when the offer is taken and so many pods are placed."""
    minimums = offer.gang.minimums
    if len(minimums) == 1 and len(placements) == minimums[0]:
        return offer.charge
    pods = [0] * len(minimums)
    for placement in placements:
        pods[placement.role] += 1
    return charge_for_pods(offer, pods)


def charge_for_pods(offer: FlavorAssignment, pods: Sequence[int]) -> Charge:
    """The same, for so many pods of each role."""
    if tuple(pods) == offer.gang.minimums:
        return offer.charge
    return offer.charge._replace(cost=charging.gang_cost(offer.gang, pods, offer.flavors))


def flavor_combinations(branch: Branch, roles: int) -> Iterator[tuple[str, ...]]:
    """The flavors of each role, in the queue's order; at most `COMBINATIONS`."""
    return islice(product(branch.flavors, repeat=roles), COMBINATIONS)


def flavor_assignment(
    ledger: QuotaLedger, branch: Branch, flavors: tuple[str, ...], gang: Gang, charge: Charge, *, preemptible: bool
) -> FlavorAssignment:
    short = shortfall(ledger, branch, charge, preemptible=preemptible)
    borrows = (
        short is None and bool(branch.guaranteed) and key_beyond_guarantee(ledger, branch, charge.cost) is not None
    )
    return FlavorAssignment(
        flavors=flavors, gang=gang, charge=charge, borrows=borrows, short=short, preemptible=preemptible
    )


def by_fungibility(branch: Branch, found: Sequence[FlavorAssignment]) -> list[FlavorAssignment]:
    """In the order in which the queue would have them (Kueue's flavorFungibility)."""
    assert branch.queue is not None  # the root names no flavors
    wish = branch.queue.fungibility
    stop = len(found)
    for at, each in enumerate(found):
        fits = each.short is None and not each.borrows
        if fits or (each.borrows and wish.borrow_before_next) or (each.short and wish.preempt_before_next):
            stop = at
            break
    classes: dict[int, list[FlavorAssignment]] = {0: [], 1: [], 2: []}
    for each in [*found[stop + 1 :], *found[:stop]]:
        fits = each.short is None
        classes[0 if fits and not each.borrows else 1 if fits != wish.prefer_preemption else 2].append(each)
    return [*found[stop : stop + 1], *classes[0], *classes[1], *classes[2]]


def shortfall(ledger: QuotaLedger, branch: Branch, charge: Charge, *, preemptible: bool) -> QuotaShortfall | None:
    """The first number, from the queue up, that does not allow the charge; None if all do."""
    for each in branch.path:
        if short := branch_shortfall(ledger, each, charge, preemptible=preemptible):
            return short
    return pool_shortfall(ledger, branch, charge.cost) if ledger.tree.keeps else None


def branch_shortfall(
    ledger: QuotaLedger, branch: Branch, charge: Charge, *, preemptible: bool
) -> QuotaShortfall | None:
    queue, account = branch.queue, ledger.account(branch)
    if queue is None:
        return None
    for key, asked in charge.cost:
        allowed = branch.limit.get(key)
        if allowed is not None and account.total.get(key, 0) + asked > allowed:
            return quota_shortfall(Bar(branch.name, Rule.LIMIT, key), asked, account.total.get(key, 0), allowed)
    if queue.total.running is not None and account.running + charge.jobs > queue.total.running:
        return quota_shortfall(Bar(branch.name, Rule.RUNNING), charge.jobs, account.running, queue.total.running)
    if branch.limits_users:
        tally = account.users.get(charge.user, NOTHING)
        if found := subject_shortfall(
            branch.name, queue.per_user, tally, charge, charge.user, Rule.USER, Rule.USER_RUNNING
        ):
            return found
    if branch.limits_groups:
        tally = account.groups.get(charge.group, NOTHING)
        if found := subject_shortfall(
            branch.name, queue.per_group, tally, charge, charge.group, Rule.GROUP, Rule.GROUP_RUNNING
        ):
            return found
    if branch.limits_jobs:
        tally = account.jobs.get(charge.job, NOTHING)
        if found := subject_shortfall(branch.name, queue.per_job, tally, charge, charge.job, Rule.JOB):
            return found
    if queue.borrow is BorrowingPolicy.ALL or (queue.borrow is BorrowingPolicy.PREEMPTIBLE and preemptible):
        return None
    if (over := key_beyond_guarantee(ledger, branch, charge.cost)) is None:
        return None
    used = account.total.get(over, 0)
    return quota_shortfall(
        Bar(branch.name, Rule.GUARANTEE, over), dict(charge.cost)[over], used, branch.guaranteed[over]
    )


def subject_shortfall(
    queue: str,
    limits: Limits,
    tally: SubjectUsage,
    charge: Charge,
    whose: str,
    amounts: Rule,
    running: Rule | None = None,
) -> QuotaShortfall | None:
    """What one user, group or job may have."""
    if running is not None and limits.running is not None and tally.running + charge.jobs > limits.running:
        return quota_shortfall(Bar(queue, running, whose=whose), charge.jobs, tally.running, limits.running)
    if limits.resources:
        cost = dict(charge.cost)
        for resource, allowed in limits.resources:
            asked, used = cost.get(("", resource), 0), tally.used.get(resource, 0)
            if asked and used + asked > allowed:
                return quota_shortfall(Bar(queue, amounts, ("", resource), whose), asked, used, allowed)
    return None


def quota_shortfall(bar: Bar, asked: Amount, used: Amount, allowed: int) -> QuotaShortfall:
    return QuotaShortfall(bar=bar, asked=asked, used=used, allowed=allowed, tolls=(Toll(bar, asked),))


def key_beyond_guarantee(ledger: QuotaLedger, branch: Branch, cost: Cost) -> Key | None:
    """Of what the charge would take the branch beyond its guarantee; None: it stays within. What no guarantee names
    does not count."""
    total = ledger.account(branch).total
    for key, asked in cost:
        allowed = branch.guaranteed.get(key)
        if allowed is not None and total.get(key, 0) + asked > allowed:
            return key
    return None


def pool_shortfall(ledger: QuotaLedger, branch: Branch, cost: Cost) -> QuotaShortfall | None:
    """Whether the root's pool has what is asked beyond the keeps on the way, others' keeps counted as used."""
    pool, path = ledger.tree.pool, branch.path
    root = ledger.account(path[-1])
    for key, asked in cost:
        claimed = root.claimed.get(key, 0)
        if claimed + asked <= pool.get(key, 0):
            continue
        rising, tolls = asked, []
        for each in path[:-1]:
            before, kept = ledger.account(each).claimed.get(key, 0), each.kept.get(key, 0)
            rising = max(kept, before + rising) - max(kept, before)
            if kept:
                tolls.append(Toll(Bar(each.name, Rule.KEEP, key), max(0, kept - before) + SLIVER))
        if rising and claimed + rising > pool.get(key, 0):
            bar = Bar(path[-1].name, Rule.POOL, key)
            tolls.append(Toll(bar, rising))
            return QuotaShortfall(bar=bar, asked=rising, used=claimed, allowed=pool.get(key, 0), tolls=tuple(tolls))
    return None


def within_guarantee(ledger: QuotaLedger, branch: Branch, contested: set[Key], cost: Cost) -> bool:
    """Whether the branch stays within what is its by right, of all that it or a sibling is guaranteed."""
    total = ledger.account(branch).total
    return all(total.get(key, 0) + asked <= branch.guaranteed.get(key, 0) for key, asked in cost if key in contested)


def time_limit_s(cluster: Cluster, job: Job) -> float | None:
    """How long the job may run (seconds): what it states, else the least that the limits of its queue and of those
    above allow; None: as long as it likes."""
    if job.limit_s is not None:
        return job.limit_s
    return queue_time_limit_s(job, cluster.tree.branches[cluster.queue_of(job)])


def queue_time_limit_s(job: Job, branch: Branch) -> float | None:
    """The same; `branch` is that of its queue."""
    return job.limit_s if job.limit_s is not None else branch.longest_s
