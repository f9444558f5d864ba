"""When what runs is expected to end, in order: what backfill and forecasts walk.

A job that states a time limit ends at the latest when it has run that long; one that states none never ends as far as
anyone can tell. A job that is on its way out ends as soon as it can: now. The list is kept sorted as jobs start and
end, so that no decision has to sort what runs. What others derive from the entries of a job (which rows it holds) they
may keep in `derived`, from which a job is dropped when what it holds changes; and what they foresee from all of them in
`foreseen`, which is forgotten when any is another.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

LEAVING_S = float("-inf")


class ExpectedEnds:
    """`order`: (seconds since the epoch, job), sorted; ends that are past are those of jobs overdue."""

    __slots__ = ("derived", "foreseen", "of", "order")

    def __init__(self) -> None:
        self.order: list[tuple[float, str]] = []
        self.of: dict[str, float] = {}
        self.derived: dict[str, Any] = {}
        self.foreseen: Any = None

    def set(self, job: str, end_s: float) -> None:
        """It is expected to end then; `LEAVING_S`: as soon as it can."""
        if job in self.of:
            self.drop(job)
        self.foreseen = None
        self.of[job] = end_s
        insort(self.order, (end_s, job))

    def drop(self, job: str) -> None:
        """It holds nothing any more, or nobody knows when it ends."""
        end_s = self.of.pop(job, None)
        if end_s is not None:
            self.foreseen = None
            del self.order[bisect_left(self.order, (end_s, job))]
            self.derived.pop(job, None)

    def copy(self) -> ExpectedEnds:
        other = ExpectedEnds()
        other.order, other.of = list(self.order), dict(self.of)
        return other
