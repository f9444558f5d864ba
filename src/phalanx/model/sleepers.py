"""Sleeping lines that backfill must know of though nothing changes for them: in each arena (`model.tree`) the one that
would be next, since it may be given a reservation; and those that are held back by somebody's reservation, to be looked
at again when that changes.

What is kept about an awake line is out of date, and is passed over; a line that goes back to sleep as it was takes its
former place."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from phalanx.model.demand import Gang
from phalanx.model.line import Bid, Kind, LineKey

Place: TypeAlias = tuple[float, float, int, str | int]  # `core.order.Rank`: lower is sooner

INFINITE_S = float("inf")


class Sleepers:
    """`held`: by what they ask, lines that are held back, each with its time limit (s), shortest first. `first`: whose
    reservation held them back, and when it was expected to start. `stirred`: room has grown since. `arenas`: queue ->
    its arena."""

    def __init__(self) -> None:
        self.held: dict[Gang, list[tuple[float, int, LineKey]]] = {}
        self.first: tuple[Bid, float] | None = None
        self.stirred = False
        self.arenas: Mapping[str, str] = {}
        self._heaps: dict[tuple[str, bool, bool], list[tuple[Place, int, LineKey]]] = {}  # see `_kind`
        self._of: dict[LineKey, tuple[int, Place, bool]] = {}
        self._tickets = 0

    def __bool__(self) -> bool:
        return bool(self._of)

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

    def best(self, awake: Container[LineKey], count: int, passed_over: Callable[[LineKey], bool]) -> Iterator[LineKey]:
        """Of every arena the first so many that are held, and that are not, each in order; not those that are awake, or
        to be passed over.

        They are counted apart because those that are held have room: they may start, and then somebody must be left
        to be given the reservation."""
        for kind, heap in list(self._heaps.items()):
            found, passed = list[tuple[Place, int, LineKey]](), list[tuple[Place, int, LineKey]]()
            while heap and len(found) < count:
                entry = heappop(heap)
                if self._stands(entry) and entry[2] not in awake and (not found or found[-1] != entry):
                    (passed if passed_over(entry[2]) else found).append(entry)
            for entry in (*found, *passed):
                heappush(heap, entry)
            yield from (key for _, _, key in found)
            if not heap:
                del self._heaps[kind]

    def arrange(self, arenas: Mapping[str, str]) -> None:
        """The queue tree is another."""
        self.arenas = arenas
        self._heaps.clear()
        for key in self._of:
            self._push(key)

    def all_held(self) -> list[LineKey]:
        return [key for lines in self.held.values() for _, _, key in lines]

    def copy(self) -> Sleepers:
        other = Sleepers()
        other.held = {gang: list(lines) for gang, lines in self.held.items()}
        other.first, other.stirred, other._tickets = self.first, self.stirred, self._tickets
        other.arenas = self.arenas
        other._heaps = {kind: list(heap) for kind, heap in self._heaps.items()}
        other._of = dict(self._of)
        return other

    def _push(self, key: LineKey) -> None:
        ticket, place, held = self._of[key]
        heap = self._heaps.setdefault(self._kind(key, held=held), [])
        heappush(heap, (place, ticket, key))
        if len(heap) > 2 * len(self._of) + 64:
            heap[:] = sorted({entry[1]: entry for entry in heap if self._stands(entry)}.values(), key=lambda e: e[:2])
            heapify(heap)

    def _kind(self, key: LineKey, *, held: bool) -> tuple[str, bool, bool]:
        """Who is next is kept by arena, apart for those that are held, and for replacements, which come before all."""
        return self.arenas.get(key.queue, ""), key.kind == Kind.REPLACEMENT, held

    def _stands(self, entry: tuple[Place, int, LineKey]) -> bool:
        known = self._of.get(entry[2])
        return known is not None and known[0] == entry[1]
