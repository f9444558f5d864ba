"""Sleeping lines that backfill must know of though nothing changes for them: in each queue the one that would be next,
since it may be given a reservation; and those that are held back by somebody's reservation, to be looked at again when
that changes.

What is kept about an awake line is out of date, and is passed over; a line that goes back to sleep as it was takes its
former place."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from phalanx.model.demand import Gang
from phalanx.model.line import Bid, LineKey

Place: TypeAlias = tuple[float, float, int, str | int]  # `core.order.Rank`: lower is sooner

INFINITE_S = float("inf")


class Sleepers:
    """`held`: by what they ask, lines that are held back, each with its time limit (s), shortest first. `first`: whose
    reservation held them back, and when it was expected to start. `stirred`: room has grown since."""

    def __init__(self) -> None:
        self.held: dict[Gang, list[tuple[float, int, LineKey]]] = {}
        self.first: tuple[Bid, float] | None = None
        self.stirred = False
        self._heaps: dict[tuple[str, bool], list[tuple[Place, int, LineKey]]] = {}  # by queue, and whether held
        self._of: dict[LineKey, tuple[int, Place, bool]] = {}
        self._tickets = 0

    def sleep(self, key: LineKey, place: Place, *, held: bool) -> None:
        """The line sleeps for want of room, its first bid in that place; `held`: there is some, but it is kept."""
        self.forget(key)
        self._tickets += 1
        self._of[key] = (self._tickets, place, held)
        self._push(key)
        if held:
            limit_s = INFINITE_S if key.terms.limit_s is None else key.terms.limit_s
            insort(self.held.setdefault(key.gang, []), (limit_s, self._tickets, key))

    def sleep_on(self, key: LineKey) -> None:
        """It was awake for a moment, and nothing has changed for it."""
        if key in self._of:
            self._push(key)

    def move(self, key: LineKey, place: Place) -> None:
        """Another is the line's first now."""
        if key in self._of:
            self.sleep(key, place, held=self._of[key][2])

    def forget(self, key: LineKey) -> None:
        """It sleeps for another reason, or is no more."""
        ticket, _, held = self._of.pop(key, (0, None, False))
        if held:
            limit_s = INFINITE_S if key.terms.limit_s is None else key.terms.limit_s
            lines = self.held[key.gang]
            del lines[bisect_left(lines, (limit_s, ticket))]
            if not lines:
                del self.held[key.gang]

    def is_held(self, key: LineKey) -> bool:
        return key in self._of and self._of[key][2]

    def best(self, awake: Container[LineKey], count: int) -> Iterator[LineKey]:
        """Of every queue the first so many that are held, and that are not, each in order.

        They are counted apart because those that are held have room: they may start, and then somebody must be left
        to be given the reservation."""
        for kind, heap in list(self._heaps.items()):
            found: list[tuple[Place, int, LineKey]] = []
            while heap and len(found) < count:
                entry = heappop(heap)
                if self._stands(entry) and entry[2] not in awake and (not found or found[-1] != entry):
                    found.append(entry)
            for entry in found:
                heappush(heap, entry)
                yield entry[2]
            if not heap:
                del self._heaps[kind]

    def all_held(self) -> list[LineKey]:
        return [key for lines in self.held.values() for _, _, key in lines]

    def copy(self) -> Sleepers:
        other = Sleepers()
        other.held = {gang: list(lines) for gang, lines in self.held.items()}
        other.first, other.stirred, other._tickets = self.first, self.stirred, self._tickets
        other._heaps = {kind: list(heap) for kind, heap in self._heaps.items()}
        other._of = dict(self._of)
        return other

    def _push(self, key: LineKey) -> None:
        ticket, place, held = self._of[key]
        heap = self._heaps.setdefault((key.queue, held), [])
        heappush(heap, (place, ticket, key))
        if len(heap) > 2 * len(self._of) + 64:
            heap[:] = sorted({entry[1]: entry for entry in heap if self._stands(entry)}.values(), key=lambda e: e[:2])
            heapify(heap)

    def _stands(self, entry: tuple[Place, int, LineKey]) -> bool:
        known = self._of.get(entry[2])
        return known is not None and known[0] == entry[1]
