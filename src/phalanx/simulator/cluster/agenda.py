"""The virtual clock. It stores the future happenings, and orders happenings that have the same time. A *happening* is a
change in the simulated cluster, for example a submission or the end of a job.

Submissions are read from a sorted list. All other happenings are on a heap of (time, kind, order of insertion). Of
several happenings at the same time, the happening with the lowest kind (`AgendaKind`) comes first. This order is
important: in a log with whole seconds, another order changes the start of at least one job in a hundred. The order is
that of the simulator with which the published tables were computed (Gaussier, Glesser, Reis, Trystram, SC'15):

- Submissions precede ends. There is a separate scheduling pass for each submission and each end.
- Jobs that end at the same time are handled in the order in which they started.
- If a job runs longer than its estimate, it gets a new estimate at once. The new estimate causes no scheduling pass,
  but is reported with the next pass.
- If a job ends exactly at the time limit that the scheduler knows, its end is called *foreseen*. A foreseen end is
  reported in the same pass as the first other happening at that time, such as a submission or another end. If all
  happenings at that time are foreseen ends, they are reported together."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from heapq import heappop, heappush
from math import inf
from typing import Generic, TypeVar

What = TypeVar("What")


class AgendaKind(IntEnum):
    """The kinds of happenings, in their order at equal times: the lowest value comes first."""

    OUTLIVED = -2  # a job still runs at the end of its estimated run time
    FORESEEN = -1  # a job ends exactly at the time limit that the scheduler knows
    SUBMISSION = 0
    NODE = 1  # a node fails or is repaired
    MESSAGE = 2  # a delayed event arrives
    POD = 3  # the pods of a job have become ready, or are gone
    END = 4
    RESTART = 5  # the scheduler restarts
    WAKE = 6  # a scheduling pass that a plan has requested for this time


class Agenda(Generic[What]):
    """The future happenings. `submissions`: (time, submission), sorted by time. `now_s`: the time of the last taken
    happening, which is the present time."""

    def __init__(self, submissions: Sequence[tuple[float, What]]) -> None:
        self.now_s = submissions[0][0] if submissions else 0.0
        self._submissions = submissions
        self._next = 0
        self._next_s = submissions[0][0] if submissions else inf
        self._heap: list[tuple[float, int, int, What]] = []
        self._order = 0
        self._foreseen = (-inf, 0)  # (time, order) of the first foreseen end at the present time

    def put(self, at_s: float, kind: int, what: What, order: int = 0) -> int:
        """Add a happening; if `at_s` is in the past, it happens now. Return its number; of happenings with the same
        time and kind, the lowest number comes first. `order`: 0 for a new number, or the number of an earlier happening
        that this happening replaces."""
        if not order:
            self._order += 1
            order = self._order
        heappush(self._heap, (at_s if at_s > self.now_s else self.now_s, kind, order, what))
        return order

    def take(self) -> tuple[int, What] | None:
        """Remove the next happening and return (kind, happening); None if no happening is left."""
        heap, next_s = self._heap, self._next_s
        if heap and (heap[0][0] < next_s or (heap[0][0] == next_s and heap[0][1] < AgendaKind.SUBMISSION)):
            self.now_s, kind, order, what = heappop(heap)
            if kind == AgendaKind.FORESEEN and self._foreseen[0] != self.now_s:
                self._foreseen = (self.now_s, order)
            return kind, what
        if next_s == inf:
            return None
        self.now_s, what = self._submissions[self._next]
        self._next += 1
        self._next_s = self._submissions[self._next][0] if self._next < len(self._submissions) else inf
        return 0, what

    def joins_next(self, kind: int) -> bool:
        """Return whether the last taken happening is reported in the same scheduling pass as the next happening.
        `kind`: the kind of the last taken happening, which is OUTLIVED or FORESEEN. OUTLIVED stands for a job that has
        got a new estimate, which is always reported together with the next happening. A foreseen end is reported with
        the next happening if both are at the same time. This does not apply if the next happening is a restart, a
        requested scheduling pass, or an end that was planned after the first foreseen end of this time."""
        if kind == AgendaKind.OUTLIVED or self._next_s == self.now_s:
            return True
        if not self._heap or self._heap[0][0] > self.now_s:
            return False
        _, following, order, _ = self._heap[0]
        return following < AgendaKind.END or (following == AgendaKind.END and order < self._foreseen[1])

    def left(self) -> int:
        """Return the number of future happenings."""
        return len(self._heap) + len(self._submissions) - self._next

    def next_s(self) -> float:
        """Return the time of the next happening; infinity if there is none."""
        return min(self._next_s, self._heap[0][0]) if self._heap else self._next_s
