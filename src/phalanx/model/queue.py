"""A queue: a node of the one quota tree.

Kueue's ClusterQueue and Cohort, Volcano's and KAI's Queue, YuniKorn's queues.yaml and Slurm's accounts are all this
tree. Jobs may be submitted to any queue of it; queues whose `parent` is empty are the children of an unnamed root,
whose quota is what the cluster has.

Per flavor and resource a queue has a guarantee (Kueue's nominal quota), a limit for all that runs in it and below it
(borrowing limit, but absolute), and how much of an unused guarantee other queues may use (lending limit). Per resource
its `weights` divide what nobody is guaranteed. A resource that a quota does not name is not bounded by it.

What is available to a queue is what it does not lend, plus the smaller of its headroom below the limit and what is
available to its parent (KEP-79 of Kueue, "hierarchical cohorts").

Preemption is off unless a queue turns it on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from phalanx.model.pod import MAX_AMOUNT, format_amount

HOUR_S = 3600.0  # of `hourly_budget`
STALENESS_GRACE_S = 60.0  # as KAI has it
ENTRY_S = 300.0  # as Kueue has it, and how often Slurm brings usage forward


class WithinQueue(StrEnum):
    """Which jobs of the same queue may be preempted (Kueue's withinClusterQueue)."""

    NEVER = "never"
    LOWER = "lower"  # of lower priority
    LOWER_OR_NEWER = "lower-or-newer"  # of lower priority, or of equal priority and submitted later


class ReclaimWithinCohort(StrEnum):
    """Which jobs of other queues that use more than their guarantee may be preempted (Kueue's reclaimWithinCohort)."""

    NEVER = "never"
    LOWER = "lower"  # of lower priority
    ANY = "any"


class ReclaimFloor(StrEnum):
    """Down to what other queues may be preempted, and up to what the preempting queue may go."""

    GUARANTEE = "guarantee"  # the queue stays within its guarantee, victims' queues keep theirs
    FAIR_SHARE = "fair-share"  # also beyond the guarantees, while its share stays below the victim's


class Strategy(StrEnum):
    """How much poorer the queue must be to take from another for fairness (Kueue's preemption strategies)."""

    INITIAL_SHARE = (
        "initial-share"  # its share with the job is below the other's before the loss (LessThanInitialShare)
    )
    FINAL_SHARE = "final-share"  # at most the other's after the loss (LessThanOrEqualToFinalShare)
    FINAL_THEN_INITIAL = "final-then-initial"  # the second, and where that does not do, the first (Kueue's default)


class VictimOrder(StrEnum):
    """The order of victims among those who may be asked (`core.preemption.victim_sets`)."""

    FAIREST = "fairest"  # of the queue whose share is highest just then; of each the cheapest
    CHEAPEST = "cheapest"  # the cheapest, of whatever queue; of those that cost the same the fairest


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePreemption:
    """The rights of a queue's jobs to preempt, and what protects its own.

    `within`, `reclaim`, `down_to`: whom jobs of this queue may preempt; `victims`: whom first.
    `borrowing`: they may preempt also while their own queue borrows: victims of lower priority, at most
        `borrowing_threshold` if one is set (Kueue's borrowWithinCohort).
    `reclaimable`: jobs of other queues may preempt those of this one (Volcano's word).
    `min_run_s`: jobs of this queue are spared until they have run that long.
    `grace_s`: pods of its victims get that long to end; None: as each pod says.
    `hourly_budget`: at most so many of the queue's jobs are preempted in any hour.
    `delay_s`: a job of this queue preempts only after it has waited that long for capacity, so that an autoscaler can
        answer first.
    `consolidate`: jobs of this queue may be moved, and may have others moved, to make free capacity contiguous."""

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

    def searches(self) -> bool:
        """Return whether jobs of such a queue may have others give way, or moved."""
        others = self.reclaim is not ReclaimWithinCohort.NEVER or self.borrowing
        return others or self.within is not WithinQueue.NEVER or self.consolidate


# (resource, amount) pairs, sorted, in which zero means zero; a resource that is not named is not bounded.
Bounds: TypeAlias = tuple[tuple[str, int], ...]
Weights: TypeAlias = tuple[tuple[str, float], ...]
NO_PREEMPTION = QueuePreemption()
PARENT = -1.0  # shares of a user that stands in for its whole queue (Slurm's `FairShare=parent`)


class QueueOrder(StrEnum):
    """Which of a queue's jobs, and of its children's, comes next."""

    PRIORITY = "priority"  # higher priority, then earlier submission, all below as one
    FIFO = "fifo"  # earlier submission, whatever the priority
    FAIR = "fair"  # the child with the lowest weighted dominant share first; its own jobs by priority
    MULTIFACTOR = "multifactor"  # Slurm's sum of age, size, fair share, queue, class and nice (`Policy.factors`)
    USAGE = "usage"  # the account that has used least in the past, by its shares; its own jobs by priority


class QueueState(StrEnum):
    """The state of a queue, in which it takes and starts jobs or not, as the states of a Slurm partition: UP, DOWN,
    DRAIN, INACTIVE. Running jobs go on in all of them."""

    OPEN = "open"  # takes jobs and starts them
    HELD = "held"  # takes jobs and starts none
    DRAINING = "draining"  # takes no new jobs; what was submitted before still starts
    CLOSED = "closed"  # takes none and starts none


class BorrowingPolicy(StrEnum):
    """Which jobs of a queue may use more than its guarantee."""

    ALL = "all"
    PREEMPTIBLE = "preemptible"  # only those that may be preempted (KAI)
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota is what a queue has of one flavor's nodes; of all nodes if `flavor` is empty. Guaranteed `MAX_AMOUNT`,
    it has a right to all that it asks for."""

    flavor: str = ""
    guaranteed: Bounds = ()
    limit: Bounds = ()
    lend: Bounds = ()  # of what is guaranteed and unused, so much may be lent; not named: all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility:
    """When the next flavor is tried (Kueue's flavorFungibility). A flavor that fits without borrowing or preemption
    comes before all that need one of them."""

    borrow_before_next: bool = True  # borrow in this flavor rather than look at the next
    preempt_before_next: bool = False  # preempt in this flavor rather than look at the next
    prefer_preemption: bool = False  # if every flavor needs one of both: preempt in the first rather than borrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one user, group or job, or of the queue as a whole; None and what is not named: no limit.

    `running`: started jobs.
    `submitted`: live jobs, waiting or started.
    `wall_s`: the longest time limit that a job may state; a job that states none gets this one.
    `named`: those of single users, or groups, instead of these; of running jobs and resources alone."""

    running: int | None = None
    submitted: int | None = None
    resources: Bounds = ()
    wall_s: float | None = None
    named: tuple[tuple[str, Limits], ...] = ()

    def of(self, whose: str) -> Limits:
        """Return the limits of that user or group."""
        return dict(self.named).get(whose, self) if self.named else self


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTerms:
    """How the past usage of the accounts in a queue is counted.

    `half_life_s`, `billing`: as in `Policy`.
    `entry_s`: a job that starts counts at once as if it had run that long, so that of many which may start at the same
        time not all are of the account that had used least before."""

    half_life_s: float
    billing: Weights
    entry_s: float = ENTRY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue and its settings.

    `gang`: False schedules pod by pod, as kube-scheduler does; jobs may then deadlock each other half-started.
    `strict`: the first job holds up those behind it (Kueue's StrictFIFO), unless it can never fit.
    `oversubscribed`: its children may be guaranteed more together than it is; each level's guarantee counts by itself
        (KAI). Else that is a contradiction, and nothing of it starts.
    `priority`: orders queues among their siblings where shares are equal, and is a factor of `MULTIFACTOR`.
    `state_since_s`: when the state was set; a draining queue still starts what was submitted before.
    `accounts`: Slurm's shares of the users in the queue, (user, shares or `PARENT`), for `MULTIFACTOR`; a user who is
        not named has one share. For `USAGE`: of the accounts (`Job.association`), of which one without shares is last.
    `usage`: how past usage counts in the queue; None: as the policy says, with an entry of `ENTRY_S`.
    `start_timeout_s`: how long the pods of a gang may take to become ready once all are bound; the world enforces it.
    `staleness_grace_s`: how long a gang of bare pods may run with fewer pods than its minimum; 0: for ever. The world
        enforces it.
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
    """Yield what is wrong with a queue's own numbers, whatever is around it."""
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
    """Yield what is wrong with the amounts of one quota."""
    for what, bounds in (("guaranteed", quota.guaranteed), ("limit", quota.limit), ("lend", quota.lend)):
        for resource, amount in bounds:
            if not 0 <= amount <= MAX_AMOUNT:
                said = format_amount(resource, amount)
                yield f"{whose}: {what} {resource}{of} is {said}; it must be from 0 to {MAX_AMOUNT}"


def _limit_errors(whose: str, queue: Queue) -> Iterator[str]:
    """Yield what is wrong with the queue's limits."""
    listed = [("total", queue.total), ("user", queue.per_user), ("group", queue.per_group), ("job", queue.per_job)]
    listed += (*queue.per_user.named, *queue.per_group.named)
    for what, limits in listed:
        counts = [("running", limits.running), ("submitted", limits.submitted), ("wall time", limits.wall_s)]
        for name, amount in (*counts, *limits.resources):
            if amount is not None and not 0 <= amount <= MAX_AMOUNT:
                yield f"{whose}: its limit of {name} per {what} is {amount}; it must be from 0 to {MAX_AMOUNT}"
