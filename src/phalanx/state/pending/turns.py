"""In which order lines come up that need not contend: those that sleep in crowds (`state.pending.watching`), and those
of strict queues.

A crowd wakes as one, whatever queues its lines are in; so each arena (`state.queue_tree`: queues among which nothing
but their order decides) keeps its lines of each crowd sorted, and the contest reads from the front as far as it needs.
Of a strict queue only the head counts; all its lines are kept in order, and the contest reads them from the front."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import TypeAlias

from phalanx.model.queue import QueueOrder
from phalanx.state.classes import Gang
from phalanx.state.pending.line import Entry, LineKey
from phalanx.state.pending.ordered import Ordered
from phalanx.state.pending.sleepers import Place

Turn: TypeAlias = tuple[Place, LineKey]
# The number tells those apart whose place is the same.
Front: TypeAlias = tuple[Place, int, Gang]
Waiter: TypeAlias = tuple[Place, int, LineKey]

PLACE = itemgetter(0)


class Row(list[Turn]):
    """In order. `gone`: how many of them stand no more. They are taken out when they are half of all, since to find one
    means to look at turns that nobody has looked at for long. The first stands."""

    __slots__ = ("gone",)

    def __init__(self, turns: Iterable[Turn] = (), gone: int = 0) -> None:
        super().__init__(turns)
        self.gone = gone


class Turns:
    """`of`: by arena and gang, the crowd's lines there in order of their first bids. No two have the same place.
    `arenas`: queue -> its arena. Which crowd comes first in its arena is kept in a heap by the places of their first
    lines; entries that are not true any more are passed over, and dropped before they outweigh the rest."""

    __slots__ = ("_fronts", "_place_of", "_tickets", "arenas", "of")

    def __init__(self) -> None:
        self.of: dict[str, dict[Gang, Row]] = {}
        self.arenas: Mapping[str, str] = {}
        self._fronts: dict[str, list[Front]] = {}  # by arena
        self._tickets = 0
        self._place_of: dict[LineKey, Place] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._place_of

    def put(self, key: LineKey, foremost: float, first: Entry) -> Place:
        """`foremost`: what the queue's order counts most, the same for all in the line. Its place."""
        place = (foremost, first.arrival_s, key.kind, first.tie)
        known = self._place_of.get(key)
        if known == place:
            return known
        if known is not None:
            self.drop(key)
        self._place_of[key] = place
        self._insert(key, place)
        return place

    def fronts(self, arena: str) -> Iterator[tuple[Place, Gang]]:
        """The crowds of the arena in the order of their first lines, with their places."""
        crowds, last = self.of.get(arena, {}), None
        for place, _, gang in in_order(self._fronts.get(arena, [])):
            row = crowds.get(gang)
            if row is not None and row[0][0] is place and place is not last:
                last = place
                yield place, gang

    def stands(self, turn: Turn) -> bool:
        """It is the line's turn still."""
        return self._place_of.get(turn[1]) is turn[0]

    def move(self, key: LineKey, first: Entry) -> Place:
        """Another is the line's first now. Its place."""
        return self.put(key, self._place_of[key][0], first)

    def drop(self, key: LineKey) -> None:
        """It sleeps for another reason, or is no more."""
        place = self._place_of.pop(key, None)
        if place is not None:
            arena = self.arenas.get(key.queue, "")
            crowds = self.of[arena]
            turns = crowds[key.gang]
            first = turns[0]
            turns.gone += 1
            if 2 * turns.gone > len(turns):
                turns[:], turns.gone = filter(self.stands, turns), 0
            while turns and not self.stands(turns[0]):
                del turns[0]
                turns.gone -= 1
            if not turns:
                del crowds[key.gang]
                if not crowds:
                    del self.of[arena], self._fronts[arena]
            elif turns[0] is not first:
                self._come_to_front(arena, turns[0][0], key.gang)

    def arrange(self, arenas: Mapping[str, str]) -> None:
        """The queue tree is another."""
        self.arenas = arenas
        self.of, self._fronts = {}, {}
        for key, place in self._place_of.items():
            self._insert(key, place)

    def copy(self) -> Turns:
        other = Turns()
        other.arenas = self.arenas
        other.of = {
            arena: {gang: Row(turns, turns.gone) for gang, turns in crowds.items()} for arena, crowds in self.of.items()
        }
        other._place_of = dict(self._place_of)
        other._fronts = {arena: list(fronts) for arena, fronts in self._fronts.items()}
        other._tickets = self._tickets
        return other

    def _insert(self, key: LineKey, place: Place) -> None:
        arena = self.arenas.get(key.queue, "")
        crowds = self.of.setdefault(arena, {})
        turns = crowds.get(key.gang)
        if turns is None:
            crowds[key.gang] = Row([(place, key)])
            self._come_to_front(arena, place, key.gang)
        elif turns[-1][0] < place:  # as for most: who is submitted is the latest
            turns.append((place, key))
        else:
            insort(turns, (place, key), key=PLACE)
            if turns[0][0] is place:
                self._come_to_front(arena, place, key.gang)

    def _come_to_front(self, arena: str, place: Place, gang: Gang) -> None:
        """That is the place of the crowd's first line now."""
        fronts, crowds = self._fronts.setdefault(arena, []), self.of[arena]
        self._tickets += 1
        heappush(fronts, (place, self._tickets, gang))
        if len(fronts) > 2 * len(crowds) + 64:
            fronts[:] = [(row[0][0], at, each) for at, (each, row) in enumerate(crowds.items())]
            heapify(fronts)


class Heads:
    """Lines of strict queues. `orders`: the queues of which it is kept who is next -> by which order."""

    __slots__ = ("_arenas", "_kept", "_lines", "_tickets", "orders")

    def __init__(self) -> None:
        self.orders: Mapping[str, QueueOrder] = {}
        self._arenas: Mapping[str, str] = {}
        self._lines: dict[str, Ordered[Waiter]] = {}  # by arena
        self._kept: dict[LineKey, Waiter] = {}  # in these
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: LineKey, first: Entry) -> None:
        """The line's first is that."""
        arena = self._arenas.get(key.queue, "")
        order = self.orders.get(arena)
        if order is None:
            return
        self.drop(key)
        self._tickets += 1
        foremost = 0.0 if order is QueueOrder.FIFO else -float(key.priority)
        waiter = self._kept[key] = (foremost, first.arrival_s, key.kind, first.tie), self._tickets, key
        if arena not in self._lines:
            self._lines[arena] = Ordered()
        self._lines[arena].add(waiter)

    def drop(self, key: LineKey) -> None:
        """It is no more."""
        waiter = self._kept.pop(key, None)
        if waiter is not None:
            self._lines[self._arenas.get(key.queue, "")].remove(waiter)

    def of(self, queue: str) -> Iterator[Turn]:
        """Its lines, in order."""
        return ((place, key) for place, _, key in self._lines.get(queue, ()))

    def arrange(
        self, arenas: Mapping[str, str], orders: Mapping[str, QueueOrder], firsts: Mapping[LineKey, Entry]
    ) -> None:
        """The queue tree is another. `firsts`: of all lines."""
        self._arenas, self.orders = arenas, orders
        self._lines, self._kept = {}, {}
        for key, first in firsts.items():
            self.put(key, first)

    def copy(self) -> Heads:
        other = Heads()
        other.orders, other._arenas, other._tickets = self.orders, self._arenas, self._tickets
        other._lines = {arena: lines.copy() for arena, lines in self._lines.items()}
        other._kept = dict(self._kept)
        return other


def in_order(heap: list[Front]) -> Iterator[Front]:
    """What is in the heap, the least first, and none of it looked at before it is asked for."""
    frontier = [(heap[0], 0)] if heap else []
    while frontier:
        entry, at = heappop(frontier)
        yield entry
        for child in (2 * at + 1, 2 * at + 2):
            if child < len(heap):
                heappush(frontier, (heap[child], child))
