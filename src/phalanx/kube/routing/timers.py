"""Timers of gangs: when a gang must be reconciled although none of its objects has changed."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush


class GangTimers:
    """The timers: each gang has at most one. A new time replaces the earlier time. Times are in seconds since the
    epoch."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._due_s: dict[str, float] = {}  # gang -> the time in its valid entry

    def set(self, gang: str, at_s: float) -> None:
        """Set the gang's timer to `at_s` (seconds since the epoch); 0 leaves the timer unchanged."""
        if at_s and self._due_s.get(gang) != at_s:
            self._due_s[gang] = at_s
            heappush(self._heap, (at_s, gang))

    @property
    def next_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now_s: float) -> Iterator[str]:
        """Yield the gangs whose time has come, each once."""
        while self._heap and self._heap[0][0] <= now_s:
            at_s, gang = heappop(self._heap)
            if self._due_s.get(gang) == at_s:
                del self._due_s[gang]
                yield gang
