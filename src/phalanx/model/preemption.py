"""What a queue's jobs may do to others that run, and what protects its own. All of it is off unless a queue says so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
