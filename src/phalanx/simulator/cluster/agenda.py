"""The virtual clock: what happens when, and in which order at equal times.

Submissions come from a list in their own order; everything else is put on a heap of (time, kind, order of being put).
At equal times the kinds below decide, lowest first. It is a real semantic, not a detail: in a log whose times are whole
seconds, another order changes the start of one job in a hundred or more. The order is that of the simulator behind the
tables that we reproduce (Gaussier, Glesser, Reis, Trystram, SC'15):

- submissions precede ends, and each of both is a scheduling pass of its own;
- ends are in the order in which the jobs started;
- when an estimate is over and its job is not, the new one is known to the first pass of that instant; it is no reason
  for a pass of its own;
- an end which the scheduler could *foresee*, since it comes at the very limit that it was told, is known at once: with
  the first thing that happens at that instant, and in its pass. That is a submission, or some other's end, or the first
  of such ends in its own turn (and then all others that were foreseen are known as well)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from heapq import heappop, heappush
from math import inf
from typing import Generic, TypeVar

What = TypeVar("What")


class Kind(IntEnum):
    """Order at equal times."""

    OUTLIVED = -2  # an estimate is over, and its job is not
    FORESEEN = -1  # a job ends at the limit that the scheduler was told
    SUBMISSION = 0
    NODE = 1  # one fails, or is back
    MESSAGE = 2  # an event that was late arrives
    POD = 3  # a job's pods are ready, or gone
    END = 4
    RESTART = 5  # of the scheduler
    WAKE = 6  # the plan asked to be looked at again


class Agenda(Generic[What]):
    """`submissions`: (time, what), sorted by time. `now_s`: the time of what was last taken."""

    def __init__(self, submissions: Sequence[tuple[float, What]]) -> None:
        self.now_s = submissions[0][0] if submissions else 0.0
        self._submissions = submissions
        self._next = 0
        self._next_s = submissions[0][0] if submissions else inf
        self._heap: list[tuple[float, int, int, What]] = []
        self._order = 0
        self._foreseen = (-inf, 0)  # the first end of this instant that was foreseen: when, and its order

    def put(self, at_s: float, kind: int, what: What, order: int = 0) -> int:
        """Never in the past: what is put for a time that is over happens now. Returns its order among those of its time
        and kind; `order`: that of what was put before and this replaces."""
        if not order:
            self._order += 1
            order = self._order
        heappush(self._heap, (at_s if at_s > self.now_s else self.now_s, kind, order, what))
        return order

    def take(self) -> tuple[int, What] | None:
        """Return what happens next; None: nothing ever will."""
        heap, next_s = self._heap, self._next_s
        if heap and (heap[0][0] < next_s or (heap[0][0] == next_s and heap[0][1] < Kind.SUBMISSION)):
            self.now_s, kind, order, what = heappop(heap)
            if kind == Kind.FORESEEN and self._foreseen[0] != self.now_s:
                self._foreseen = (self.now_s, order)
            return kind, what
        if next_s == inf:
            return None
        self.now_s, what = self._submissions[self._next]
        self._next += 1
        self._next_s = self._submissions[self._next][0] if self._next < len(self._submissions) else inf
        return 0, what

    def joins_next(self, kind: int) -> bool:
        """Return whether what was taken is known with what happens next: a new estimate; and an end that was foreseen,
        if that is at the same instant, and before the turn of the first such end."""
        if kind == Kind.OUTLIVED or self._next_s == self.now_s:
            return True
        if not self._heap or self._heap[0][0] > self.now_s:
            return False
        _, following, order, _ = self._heap[0]
        return following < Kind.END or (following == Kind.END and order < self._foreseen[1])

    def left(self) -> int:
        """How much there is still to come."""
        return len(self._heap) + len(self._submissions) - self._next

    def next_s(self) -> float:
        """When that will be; infinity: never."""
        return min(self._next_s, self._heap[0][0]) if self._heap else self._next_s
