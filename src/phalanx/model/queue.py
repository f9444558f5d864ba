"""A queue: a node of the one quota tree.

Kueue's ClusterQueue and Cohort, Volcano's and KAI's Queue, YuniKorn's queues.yaml and Slurm's accounts are all this
tree. Jobs may be submitted to any queue of it; queues whose `parent` is empty are the children of an unnamed root,
whose quota is what the cluster has.

Per flavor (a class of nodes) and resource a queue has what is its by right (`guaranteed`), its ceiling for all that
runs in it and below it (`limit`), and how much of an unused guarantee others may use (`lend`); per resource its
`weights` divide what nobody has by right. What a flavor's quota does not name is not bounded by it.

What a queue sees as available is what it does not lend, plus the smaller of its room below the limit and what its
parent sees (KEP-79 of Kueue, "hierarchical cohorts").

What a queue's jobs may do to others that run, and what protects its own. All of it is off unless a queue says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

HOUR_S = 3600.0  # of `hourly_budget`


class WithinQueue(StrEnum):
    """Victims in the same queue."""

    NEVER = "never"
    LOWER = "lower"  # of lower priority
    LOWER_OR_NEWER = "lower-or-newer"  # of lower priority, or of equal priority and submitted later


class ReclaimWithinCohort(StrEnum):
    """Victims in other queues, which use more than is theirs."""

    NEVER = "never"
    LOWER = "lower"  # of lower priority
    ANY = "any"


class ReclaimFloor(StrEnum):
    """How far others can be pushed back, and how far the queue may go itself by pushing."""

    GUARANTEE = "guarantee"  # the queue stays within its guarantee, victims' queues keep theirs
    FAIR_SHARE = "fair-share"  # also beyond the guarantees, while its share stays below the victim's


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePreemption:
    """`within`, `reclaim` and `down_to` say whom jobs of this queue may preempt. `borrowing`: they may preempt also
    while their own queue borrows: victims of lower priority, at most `borrowing_threshold` if one is set.

    `min_run_s`, `grace_s` and `hourly_budget` protect jobs that run in this queue: they are spared until they have run
    that long; their pods get that long to end (None: as each pod says); and at most so many of the queue's jobs are
    preempted in any hour. `delay_s`: a job of this queue preempts only after it has waited that long for room, so that
    an autoscaler can answer first. `consolidate`: its jobs may be moved, and may have others moved, to make room whole.
    """

    within: WithinQueue = WithinQueue.NEVER
    reclaim: ReclaimWithinCohort = ReclaimWithinCohort.NEVER
    down_to: ReclaimFloor = ReclaimFloor.GUARANTEE
    borrowing: bool = False
    borrowing_threshold: int | None = None
    min_run_s: float = 0.0
    grace_s: float | None = None
    hourly_budget: int | None = None
    delay_s: float = 0.0
    consolidate: bool = False


# (resource, amount) pairs, sorted, in which zero means zero; a resource that is not named is not bounded.
Bounds: TypeAlias = tuple[tuple[str, int], ...]
Weights: TypeAlias = tuple[tuple[str, float], ...]


NO_PREEMPTION = QueuePreemption()
PARENT = -1.0  # shares of a user that stands in for its whole queue (Slurm's `FairShare=parent`)


class QueueOrder(StrEnum):
    """Which of its jobs, and of its children's, comes next."""

    PRIORITY = "priority"  # higher priority, then earlier submission, all below as one
    FIFO = "fifo"  # earlier submission, whatever the priority
    FAIR = "fair"  # the child with the lowest weighted dominant share first; its own jobs by priority
    MULTIFACTOR = "multifactor"  # Slurm's sum of age, size, fair share, queue, class and nice (`Policy.factors`)


class QueueState(StrEnum):
    """As the states of a Slurm partition: UP, DOWN, DRAIN, INACTIVE. Running jobs go on in all of them."""

    OPEN = "open"  # takes jobs and starts them
    HELD = "held"  # takes jobs and starts none
    DRAINING = "draining"  # takes no new jobs; what was submitted before still starts
    CLOSED = "closed"  # takes none and starts none


class BorrowingPolicy(StrEnum):
    """Whose jobs may use more than the guarantee."""

    ALL = "all"
    PREEMPTIBLE = "preemptible"  # only those that may be preempted (KAI)
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a queue has of one flavor's nodes; an empty `flavor`: of all nodes."""

    flavor: str = ""
    guaranteed: Bounds = ()
    limit: Bounds = ()
    lend: Bounds = ()  # of what is guaranteed and unused, so much may be lent; not named: all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility:
    """When the next flavor is tried. As in Kueue, a flavor that fits without either comes before all that need one."""

    borrow_before_next: bool = True  # borrow in this flavor rather than look at the next
    preempt_before_next: bool = False  # preempt in this flavor rather than look at the next
    prefer_preemption: bool = False  # if every flavor needs one of both: preempt in the first rather than borrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one user, group or job, or the queue as a whole, may have; None and what is not named: no limit. `wall_s`
    bounds the time limit that a job may state (one that states none gets this as its own)."""

    running: int | None = None
    submitted: int | None = None
    resources: Bounds = ()
    wall_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """`gang=False` schedules pod by pod, as kube-scheduler does: jobs may then deadlock each other half-started.

    `strict`: its first job holds up those behind it (one that can never fit does not). `priority` orders queues among
    their siblings where shares are equal, and is a factor of `MULTIFACTOR`. `state_since_s`: when its state was set
    (seconds since the epoch): what was submitted before still starts while it is draining. `accounts`: Slurm shares of
    the users that run in it, (user, shares or `PARENT`), for `MULTIFACTOR`; a user who is not named has one.
    `start_timeout_s`: how long a gang's pods may take, once bound, until each was ready; a world holds it to that."""

    name: str
    parent: str = ""
    gang: bool = True
    quotas: tuple[Quota, ...] = ()
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
    start_timeout_s: float | None = None
