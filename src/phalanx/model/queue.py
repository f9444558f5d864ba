"""A queue: a node of the tree of queues, with its quota.

Kueue's ClusterQueue and Cohort, Volcano's and KAI's Queue, YuniKorn's queues.yaml and Slurm's accounts all become
queues of this tree. Jobs may be submitted to any queue. Queues without a `parent` are children of an unnamed root,
whose quota is the whole cluster.

For each flavor and resource, a queue has a guarantee (Kueue's nominal quota), a limit, and a lending limit on its
unused guarantee. The limit applies to the usage of the queue and all queues below it together. It is like Kueue's
borrowing limit, but it states the total amount instead of the amount above the guarantee. Amounts that are guaranteed
to no queue are divided in proportion to the weights of the queues. A quota does not limit resources that it does not
name.

The available amount of a queue is the sum of two amounts (KEP-79 of Kueue, "hierarchical cohorts"). The first is the
part of its guarantee that it does not lend. The second is the available amount of its parent, or the amount that its
own limit still allows if that is smaller.

No preemption takes place unless the settings of a queue enable it.
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
    """The rule that decides which jobs of its own queue a job may preempt (Kueue's withinClusterQueue)."""

    NEVER = "never"
    LOWER = "lower"  # jobs of lower priority
    LOWER_OR_NEWER = "lower-or-newer"  # also jobs of equal priority that were submitted later


class ReclaimWithinCohort(StrEnum):
    """The rule that decides which jobs of other queues a job may preempt (Kueue's reclaimWithinCohort). The rule
    applies only to queues that use more than their guarantee."""

    NEVER = "never"
    LOWER = "lower"  # jobs of lower priority
    LOWER_OR_EQUAL = "lower-or-equal"  # jobs of lower or equal priority (YuniKorn)
    ANY = "any"


class ReclaimFloor(StrEnum):
    """The limit on preemption from other queues. It bounds both how far the usage of the victim's queue may fall, and
    how far the usage of the preempting queue may grow."""

    # the preempting queue stays within its guarantee, and no victim's queue falls below its guarantee
    GUARANTEE = "guarantee"
    # The preempting queue may exceed its guarantee as long as its share stays below that of the victim's queue.
    FAIR_SHARE = "fair-share"


class Strategy(StrEnum):
    """The condition on the dominant shares of two queues under which jobs of one may preempt jobs of the other for
    fairness (Kueue's preemption strategies)."""

    # The share of the preemptor's queue, including the job, is below the share of the victim's queue before the
    # eviction (LessThanInitialShare).
    INITIAL_SHARE = "initial-share"
    # The share of the preemptor's queue, including the job, is at most the share of the victim's queue after the
    # eviction (LessThanOrEqualToFinalShare).
    FINAL_SHARE = "final-share"
    # First FINAL_SHARE, and then INITIAL_SHARE if FINAL_SHARE finds no victims (Kueue's default).
    FINAL_THEN_INITIAL = "final-then-initial"


class VictimOrder(StrEnum):
    """The order in which permitted victims are chosen (`core.preemption.victim_sets`)."""

    FAIREST = "fairest"  # each victim is the cheapest job of the queue that then has the highest share
    # the cheapest victims of all queues; if costs are equal, the victims are chosen as in FAIREST
    CHEAPEST = "cheapest"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePreemption:
    """The settings that decide which jobs a queue's jobs may preempt, and how its own jobs are protected from
    preemption.

    `within`, `reclaim`, `down_to`: the rules that decide which jobs the jobs of this queue may preempt. `victims`: the
    order in which victims are chosen.
    `borrowing`: whether jobs may preempt even while their own queue borrows (Kueue's borrowWithinCohort). Victims must
    then have a lower priority than the preemptor and, if `borrowing_threshold` is set, at most this priority.
    `reclaimable`: whether jobs of other queues may preempt jobs of this queue (Volcano's term).
    `min_run_s`: jobs of this queue cannot be preempted before they have run for this time.
    `grace_s`: the grace period of victims' pods; None: each pod has its own grace period.
    `hourly_budget`: the largest number of jobs of the queue that may be preempted in any hour.
    `delay_s`: how long a job of this queue must wait for capacity before it may preempt, so that an autoscaler can
    react first.
    `consolidate`: whether jobs of this queue may be moved to other nodes, and may cause other jobs to be moved, so that
    enough capacity is free on the same nodes.
    `fence`: whether jobs of this queue, and of the queues below it, may preempt only jobs in these queues.
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
        """Return whether jobs of the queue may preempt or move other jobs at all."""
        others = self.reclaim is not ReclaimWithinCohort.NEVER or self.borrowing
        return others or self.within is not WithinQueue.NEVER or self.consolidate


# Sorted (resource, amount) pairs. An amount of 0 is a bound, too. A resource without an entry has no bound.
Bounds: TypeAlias = tuple[tuple[str, int], ...]
Weights: TypeAlias = tuple[tuple[str, float], ...]
NO_PREEMPTION = QueuePreemption()


class QueueOrder(StrEnum):
    """The order of a queue's jobs and of its child queues."""

    # jobs of higher priority first, then jobs that were submitted earlier; all queues below are ordered as if they were
    # one queue
    PRIORITY = "priority"
    FIFO = "fifo"  # jobs that were submitted earlier first, regardless of priority
    FAIR = "fair"  # first the child with the lowest weighted dominant share; a queue's own jobs are ordered by priority
    # children that are within their guarantee first, then the queue with the higher priority, then as FAIR (KAI,
    # Volcano)
    TIERED = "tiered"
    FILL = "fill"  # the child with the highest priority (`priority`, `fenced`), then the least full child (YuniKorn)
    MULTIFACTOR = "multifactor"  # Slurm's weighted sum of age, size, fair share, queue, QOS and nice (`Policy.factors`)
    # first the account with the lowest past usage relative to its shares; the jobs of an account are ordered by
    # priority
    USAGE = "usage"


class QueueState(StrEnum):
    """The state of a queue, which decides whether the queue accepts and starts jobs (like the states UP, DOWN, DRAIN
    and INACTIVE of a Slurm partition). Running jobs continue in every state."""

    OPEN = "open"  # accepts jobs and starts them
    HELD = "held"  # accepts jobs and starts none
    DRAINING = "draining"  # accepts no new jobs; jobs that were submitted before still start
    CLOSED = "closed"  # accepts no jobs and starts none


class BorrowingPolicy(StrEnum):
    """The rule that decides which jobs of a queue may use more than the queue's guarantee."""

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

    `group`: the resource group (Kueue's resourceGroups). For each resource group that has a resource requested by the
    pod, the pod gets one flavor of that group. The pod's requests for resources of the group are charged to this
    flavor. Flavors without a group apply to all resources."""

    flavor: str = ""
    group: str = ""
    guaranteed: Bounds = ()
    limit: Bounds = ()
    # how much of the unused guarantee other queues may use; all of it for resources without an entry
    lend: Bounds = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility:
    """The rules that decide when the next flavor is tried (Kueue's flavorFungibility). A flavor that fits without
    borrowing or preemption always comes before a flavor that needs one of them."""

    borrow_before_next: bool = True  # borrow in this flavor before the next flavor is tried
    preempt_before_next: bool = False  # preempt in this flavor before the next flavor is tried
    prefer_preemption: bool = False  # preempt if every flavor requires borrowing or preemption


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one user, group or job, or of the whole queue. There is no limit if a field is None, or if a resource
    has no entry.

    `running`: the number of started jobs.
    `submitted`: the number of live jobs, pending or started.
    `wall_s`: the longest time limit that a job may have; a job without a time limit gets this limit.
    `named`: separate limits for single users or groups, by name. Only the fields `running` and `resources` of these
    limits are used."""

    running: int | None = None
    submitted: int | None = None
    resources: Bounds = ()
    wall_s: float | None = None
    named: tuple[tuple[str, Limits], ...] = ()

    def of(self, whose: str) -> Limits:
        """Return the limits of the user or group `whose`: its separate limits if it has any, otherwise these limits."""
        return dict(self.named).get(whose, self) if self.named else self


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTerms:
    """The rules by which the past usage of a queue's accounts is counted.

    `half_life_s`, `billing`: as in `Policy`.
    `entry_s`: a run time in seconds. When a job starts, its usage for this run time is added at once. Otherwise, all
    jobs that a cycle starts might be of the account that had the lowest usage before the cycle."""

    half_life_s: float
    billing: Weights
    entry_s: float = ENTRY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue and its settings.

    `gang`: whether each job is placed as a whole. If not, jobs are scheduled pod by pod, as by kube-scheduler. Then
    jobs that have started only in part may block each other for ever.
    `strict`: whether the first job blocks the jobs behind it (Kueue's StrictFIFO), unless the first job can never fit.
    `oversubscribed`: whether the guarantees of its children together may exceed its own guarantee. The guarantees of
    each level of the tree are then checked independently (KAI). If False, larger guarantees of the children are an
    error, and no job of the queue or of a queue below it starts.
    `weight`: the queue's dominant share is divided by this weight before it is compared with the shares of its
    siblings.
    `priority`: if siblings have equal shares, the queue with the highest priority is next. The priority is also a
    factor of `MULTIFACTOR`. In `FILL` order, it is added to the priority of each job when jobs of sibling queues are
    compared; if `fenced` is True, it replaces the priority of the job.
    `state_since_s`: the time at which the state was set (seconds since the epoch); a draining queue still starts jobs
    that were submitted before this time.
    `accounts`: for `MULTIFACTOR`, Slurm's shares of the users in the queue: (user, number of shares or
    `fair_tree.PARENT`); a user without an entry has one share. For `USAGE`, these are the shares of the accounts
    (`Job.association`); an account without shares comes last.
    `usage`: the rules for past usage in the queue; None: the rules of the policy, with `ENTRY_S` as `entry_s`.
    `start_timeout_s`: the longest time that a gang may take from the binding of its pods until all of them are ready.
    The package `kube` enforces this limit.
    `staleness_grace_s`: the longest time for which a gang of bare pods may run with fewer pods than its minimum; 0
    means that there is no limit. The package `kube` enforces this limit.
    """

    name: str
    parent: str = ""
    gang: bool = True
    quotas: tuple[Quota, ...] = ()
    oversubscribed: bool = False
    fungibility: FlavorFungibility = FlavorFungibility()
    weight: float = 1.0
    weights: Weights = ()  # a weight for each resource, used instead of `weight`
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
    """Yield those errors in the settings of a queue that do not depend on other queues. `flavors`: the existing
    flavors."""
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
