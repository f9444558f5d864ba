"""A queue: a node of the quota tree.

Kueue's ClusterQueue and Cohort, Volcano's and KAI's Queue, YuniKorn's queues.yaml and Slurm's accounts all become
queues of this tree. Jobs may be submitted to any queue. Queues without a `parent` are children of an unnamed root,
whose quota is the whole cluster.

For each flavor and resource, a queue has a guarantee (Kueue's nominal quota), a limit on the usage of itself and all
queues below it (like the borrowing limit, but absolute), and a lending limit on its unused guarantee. The amounts that
are guaranteed to no queue are divided by `weights`. A quota does not limit resources that it does not name.

The amount available to a queue is the part of its guarantee that it does not lend, plus the smaller of its headroom
below the limit and the amount available to its parent (KEP-79 of Kueue, "hierarchical cohorts").

Preemption is off unless a queue enables it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from phalanx.model.pod import MAX_AMOUNT, format_amount

HOUR_S = 3600.0  # the period of `hourly_budget`
STALENESS_GRACE_S = 60.0  # KAI's default
ENTRY_S = 300.0  # Kueue's default; Slurm updates usage at the same interval


class WithinQueue(StrEnum):
    """Which jobs of the same queue may be preempted (Kueue's withinClusterQueue)."""

    NEVER = "never"
    LOWER = "lower"  # jobs of lower priority
    LOWER_OR_NEWER = "lower-or-newer"  # jobs of lower priority, or of equal priority and submitted later


class ReclaimWithinCohort(StrEnum):
    """Which jobs of other queues that use more than their guarantee may be preempted (Kueue's reclaimWithinCohort)."""

    NEVER = "never"
    LOWER = "lower"  # jobs of lower priority
    LOWER_OR_EQUAL = "lower-or-equal"  # jobs of lower or equal priority (YuniKorn)
    ANY = "any"


class ReclaimFloor(StrEnum):
    """How much may be preempted from other queues. A floor limits how far the usage of the victims' queue may fall, and
    how far the usage of the preempting queue may grow."""

    GUARANTEE = "guarantee"  # the preempting queue stays within its guarantee, and the victims' queues keep theirs
    # The preempting queue may exceed its guarantee while its share stays below the share of the victim's queue.
    FAIR_SHARE = "fair-share"


class Strategy(StrEnum):
    """The condition on shares under which a queue may preempt for fairness (Kueue's preemption strategies)."""

    # The preemptor's share, with its job, is below the victim's share before the loss (LessThanInitialShare).
    INITIAL_SHARE = "initial-share"
    # The preemptor's share, with its job, is at most the victim's share after the loss (LessThanOrEqualToFinalShare).
    FINAL_SHARE = "final-share"
    # FINAL_SHARE first, and INITIAL_SHARE if that finds no victims (Kueue's default).
    FINAL_THEN_INITIAL = "final-then-initial"


class VictimOrder(StrEnum):
    """The order in which permitted victims are chosen (`core.preemption.victim_sets`)."""

    FAIREST = "fairest"  # each victim is of the queue that then has the highest share; within this queue, the cheapest
    CHEAPEST = "cheapest"  # the cheapest victims of all queues; among equally cheap victims, as FAIREST


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePreemption:
    """The rights of a queue's jobs to preempt other jobs, and the protection of its own jobs.

    `within`, `reclaim`, `down_to`: the rules that decide which jobs the jobs of this queue may preempt. `victims`: the
    order in which victims are chosen.
    `borrowing`: True if jobs may preempt even while their own queue borrows. Then victims must have a lower priority,
    and at most the priority `borrowing_threshold` if it is set (Kueue's borrowWithinCohort).
    `reclaimable`: True if jobs of other queues may preempt jobs of this queue (Volcano's term).
    `min_run_s`: jobs of this queue cannot be preempted before they have run for this time.
    `grace_s`: the grace period of victims' pods; None: each pod's own.
    `hourly_budget`: the largest number of jobs of the queue that are preempted in any hour.
    `delay_s`: a job of this queue preempts only after it has waited this long for capacity, so that an autoscaler can
    react first.
    `consolidate`: True if jobs of this queue may be moved, and may cause other jobs to be moved, to make free capacity
    contiguous.
    `fence`: True if jobs of this queue, and of the queues below it, may preempt only jobs in these queues.
    `excess_delay_s`: if the queue's limit is lowered below its usage, the excess usage is evicted after this time
    (YuniKorn's quota preemption); None: it is never evicted."""

    within: WithinQueue = WithinQueue.NEVER
    reclaim: ReclaimWithinCohort = ReclaimWithinCohort.NEVER
    down_to: ReclaimFloor = ReclaimFloor.GUARANTEE
    strategy: Strategy = Strategy.INITIAL_SHARE
    victims: VictimOrder = VictimOrder.FAIREST
    borrowing: bool = False
    borrowing_threshold: int | None = None
    reclaimable: bool = True
    min_run_s: float = 0.0
    grace_s: float | None = None
    hourly_budget: int | None = None
    delay_s: float = 0.0
    consolidate: bool = False
    fence: bool = False
    excess_delay_s: float | None = None

    def searches(self) -> bool:
        """Return whether jobs of the queue may preempt or move any job."""
        others = self.reclaim is not ReclaimWithinCohort.NEVER or self.borrowing
        return others or self.within is not WithinQueue.NEVER or self.consolidate


# Sorted (resource, amount) pairs. Zero is a bound of zero; a resource that is not named has no bound.
Bounds: TypeAlias = tuple[tuple[str, int], ...]
Weights: TypeAlias = tuple[tuple[str, float], ...]
NO_PREEMPTION = QueuePreemption()
PARENT = -1.0  # the shares of a user who is ranked by the usage of the whole queue (Slurm's `FairShare=parent`)


class QueueOrder(StrEnum):
    """The order of a queue's jobs and of its child queues."""

    PRIORITY = "priority"  # higher priority, then earlier submission; the jobs of all queues below are ordered together
    FIFO = "fifo"  # earlier submission, regardless of priority
    FAIR = "fair"  # the child with the lowest weighted dominant share first; a queue's own jobs by priority
    TIERED = "tiered"  # children within their guarantee, then by the priority of queues, then as FAIR (KAI, Volcano)
    FILL = "fill"  # the child with the highest priority (`priority`, `fenced`), then the least full child (YuniKorn)
    MULTIFACTOR = "multifactor"  # Slurm's sum of age, size, fair share, queue, QOS and nice (`Policy.factors`)
    USAGE = "usage"  # the account with the lowest past usage relative to its shares; its jobs by priority


class QueueState(StrEnum):
    """The state of a queue: whether it accepts and starts jobs, like the states of a Slurm partition (UP, DOWN, DRAIN,
    INACTIVE). Running jobs continue in every state."""

    OPEN = "open"  # accepts jobs and starts them
    HELD = "held"  # accepts jobs and starts none
    DRAINING = "draining"  # accepts no new jobs; jobs that were submitted before still start
    CLOSED = "closed"  # accepts no jobs and starts none


class BorrowingPolicy(StrEnum):
    """Which jobs of a queue may use more than its guarantee."""

    ALL = "all"
    PREEMPTIBLE = "preemptible"  # only preemptible jobs (KAI)
    NONE = "none"

    def allows(self, *, preemptible: bool) -> bool:
        """Return whether a job may use more than the guarantee. `preemptible`: whether the job may be preempted."""
        return self is BorrowingPolicy.ALL or (self is BorrowingPolicy.PREEMPTIBLE and preemptible)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quota of a queue on the nodes of one flavor; on all nodes if `flavor` is empty. A guarantee of `MAX_AMOUNT`
    covers every request.

    `group`: the resource group (Kueue's resourceGroups). A pod gets one flavor of each group that has a resource which
    the pod requests. The pod's requests of the resources in the group are charged to this flavor. Flavors without a
    group are for all resources."""

    flavor: str = ""
    group: str = ""
    guaranteed: Bounds = ()
    limit: Bounds = ()
    lend: Bounds = ()  # the part of the unused guarantee that other queues may use; all of it if not named


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility:
    """The rules for trying the next flavor (Kueue's flavorFungibility). A flavor that fits without borrowing or
    preemption always comes before a flavor that needs either."""

    borrow_before_next: bool = True  # borrow in this flavor before the next flavor is tried
    preempt_before_next: bool = False  # preempt in this flavor before the next flavor is tried
    prefer_preemption: bool = False  # if every flavor needs either: preempt in the first flavor, do not borrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one user, group or job, or of the whole queue. None, or a resource that is not named, means no limit.

    `running`: the number of started jobs.
    `submitted`: the number of live jobs, pending or started.
    `wall_s`: the longest time limit that a job may have; a job without a time limit gets this one.
    `named`: separate limits for single users or groups, by name. Only the fields `running` and `resources` of these
    limits are used."""

    running: int | None = None
    submitted: int | None = None
    resources: Bounds = ()
    wall_s: float | None = None
    named: tuple[tuple[str, Limits], ...] = ()

    def of(self, whose: str) -> Limits:
        """Return the limits of the user or group named `whose`."""
        return dict(self.named).get(whose, self) if self.named else self


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTerms:
    """The rules by which the past usage of a queue's accounts is counted.

    `half_life_s`, `billing`: as in `Policy`.
    `entry_s`: a job that starts counts at once as if it had run for this time. Without this, all jobs that start in one
    cycle could belong to the account that had the lowest usage before the cycle."""

    half_life_s: float
    billing: Weights
    entry_s: float = ENTRY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue and its settings.

    `gang`: False schedules pod by pod, as kube-scheduler does; then half-started jobs may block each other for ever.
    `strict`: True if the first job blocks the jobs behind it (Kueue's StrictFIFO), unless the first job can never fit.
    `oversubscribed`: True if the guarantees of its children together may exceed its own guarantee. Then the guarantees
    of each level of the tree apply independently (KAI). If False, such guarantees are an error, and no job of the queue
    or of a queue below it starts.
    `weight`: the weight of its share among its siblings.
    `priority`: among siblings with equal shares, the queue with the highest priority is next. It is also a factor of
    `MULTIFACTOR`. In `FILL` order, a job of the queue competes against jobs of sibling queues with the sum of its own
    priority and this priority; with `fenced`, with this priority alone.
    `state_since_s`: when the state was set; a draining queue still starts jobs that were submitted before.
    `accounts`: for `MULTIFACTOR`, Slurm's shares of the users in the queue: (user, shares or `PARENT`); a user who is
    not named has one share. For `USAGE`, the shares of the accounts (`Job.association`); an account without shares
    comes last.
    `usage`: the rules for past usage in the queue; None: the rules of the policy, with `ENTRY_S` as `entry_s`.
    `start_timeout_s`: the longest time from the binding of a gang until all its pods are ready. The package `kube`
    enforces it.
    `staleness_grace_s`: the longest time for which a gang of bare pods may run with fewer pods than its minimum; 0
    means for ever. The package `kube` enforces it.
    """

    name: str
    parent: str = ""
    gang: bool = True
    quotas: tuple[Quota, ...] = ()
    oversubscribed: bool = False
    fungibility: FlavorFungibility = FlavorFungibility()
    weight: float = 1.0
    weights: Weights = ()  # per resource, instead of `weight`
    order: QueueOrder = QueueOrder.PRIORITY
    strict: bool = False
    priority: int = 0
    fenced: bool = False
    borrow: BorrowingPolicy = BorrowingPolicy.ALL
    preemption: QueuePreemption = NO_PREEMPTION
    total: Limits = Limits()
    per_user: Limits = Limits()
    per_group: Limits = Limits()
    per_job: Limits = Limits()
    state: QueueState = QueueState.OPEN
    state_since_s: float = 0.0
    accounts: Weights = ()
    usage: UsageTerms | None = None
    start_timeout_s: float | None = None
    staleness_grace_s: float = STALENESS_GRACE_S


def quota_errors(queue: Queue, flavors: set[str]) -> Iterator[str]:
    """Yield the errors in a queue's own numbers, independent of other queues. `flavors`: the existing flavors."""
    whose = f"queue {queue.name!r}"
    seen: set[str] = set()
    for quota in queue.quotas:
        of = f" of flavor {quota.flavor!r}" if quota.flavor else ""
        if quota.flavor not in flavors:
            yield f"{whose} names the flavor {quota.flavor!r}, which does not exist"
        if quota.flavor in seen:
            yield f"{whose} names the flavor {quota.flavor!r} twice"
        seen.add(quota.flavor)
        yield from _amount_errors(whose, of, quota)
        limit = dict(quota.limit)
        for resource, amount in quota.guaranteed:
            if limit.get(resource, amount) < amount:
                less, more = format_amount(resource, limit[resource]), format_amount(resource, amount)
                yield f"{whose}: its limit of {less} {resource}{of} is below its guarantee of {more}"
    yield from _limit_errors(whose, queue)
    for name, weight in (("", queue.weight), *queue.weights):
        if not 0 <= weight < math.inf:
            yield f"{whose}: its weight{' of ' + name if name else ''} is {weight:g}; it must be a number from 0"


def _amount_errors(whose: str, of: str, quota: Quota) -> Iterator[str]:
    """Yield the errors in the amounts of one quota."""
    for what, bounds in (("guaranteed", quota.guaranteed), ("limit", quota.limit), ("lend", quota.lend)):
        for resource, amount in bounds:
            if not 0 <= amount <= MAX_AMOUNT:
                said = format_amount(resource, amount)
                yield f"{whose}: {what} {resource}{of} is {said}; it must be from 0 to {MAX_AMOUNT}"


def _limit_errors(whose: str, queue: Queue) -> Iterator[str]:
    """Yield the errors in the queue's limits."""
    listed = [("total", queue.total), ("user", queue.per_user), ("group", queue.per_group), ("job", queue.per_job)]
    listed += (*queue.per_user.named, *queue.per_group.named)
    for what, limits in listed:
        counts = [("running", limits.running), ("submitted", limits.submitted), ("wall time", limits.wall_s)]
        for name, amount in (*counts, *limits.resources):
            if amount is not None and not 0 <= amount <= MAX_AMOUNT:
                yield f"{whose}: its limit of {name} per {what} is {amount}; it must be from 0 to {MAX_AMOUNT}"
