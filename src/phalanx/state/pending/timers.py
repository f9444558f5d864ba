"""One heap of timers. A timer is the time at which a cycle examines an item again, even if no event has come before.

An item is a request that is not eligible before that time, a job whose deadline passes at that time, or a request class
whose search for victims may succeed then. An item has at most one timer. The heap may also have entries of timers that
were changed or dropped since. Such entries are skipped when they are due, and removed when they are more than half of
the heap."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator
from heapq import heapify, heappop, heappush

NEVER_S = float("inf")


class Timers:
    """The timers. Times are in seconds since the epoch."""

    __slots__ = ("_heap", "_number", "_of")

    def __init__(self) -> None:
        self._of: dict[Hashable, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._number = 0

    def __contains__(self, item: object) -> bool:
        return item in self._of

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._of)

    def set(self, item: Hashable, at_s: float) -> None:
        """Set the only timer of the item to that time; `NEVER_S`: remove its timer."""
        if at_s == NEVER_S:
            self.drop(item)
            return
        self._number += 1
        self._of[item] = (at_s, self._number)
        heappush(self._heap, (at_s, self._number, item))
        if len(self._heap) > 2 * len(self._of) + 64:
            self._heap = [(at_s, number, each) for each, (at_s, number) in self._of.items()]
            heapify(self._heap)

    def drop(self, item: Hashable) -> None:
        """Remove the timer of the item."""
        self._of.pop(item, None)

    def due(self, now_s: float) -> list[Hashable]:
        """Return the items whose time has come, earliest first, and remove their timers."""
        found = []
        while self._heap and self._heap[0][0] <= now_s:
            at_s, number, item = heappop(self._heap)
            if self._of.get(item) == (at_s, number):
                del self._of[item]
                found.append(item)
        return found

    def next_s(self, without: Container[Hashable] = ()) -> float | None:
        """Return the time of the next timer whose item is not in `without`; None: there is none."""
        heap = self._heap
        while heap and self._of.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        if not heap or heap[0][2] not in without:
            return heap[0][0] if heap else None
        return min((at_s for item, (at_s, _) in self._of.items() if item not in without), default=None)

    def copy(self) -> Timers:
        """Return a copy that shares no state."""
        other = Timers()
        other._of, other._heap, other._number = dict(self._of), list(self._heap), self._number
        return other
