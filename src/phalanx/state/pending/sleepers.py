"""Sleeping lines that backfill must know of though nothing changes for them: in each arena (`state.queue_tree`) the one
that would be next, since it may be given a reservation; and those that are held back by somebody's reservation, to be
looked at again when that changes.

Who is next is kept in order from when that is first asked: where nobody states a time limit it never is. What is kept
about a line holds while it is awake too, and is passed over then; so going back to sleep as it was costs nothing.

Lines that sleep in crowds (`state.pending.turns`) are in an order of their own beside the others: when much room was
freed nearly all of them may be drawn, and then none is to be found among all the lines that wait."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable, Mapping
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TypeAlias

from phalanx.state.classes import Gang
from phalanx.state.pending.line import Bid, Kind, LineKey
from phalanx.state.pending.ordered import Ordered

Place: TypeAlias = tuple[float, float, int, str | int]  # `core.order.rank.Rank`: lower is sooner
# The number tells those apart whose place is the same; the last: whether it sleeps in a crowd.
Sleeper: TypeAlias = tuple[Place, int, LineKey, bool]
HeldLine: TypeAlias = tuple[float, int, LineKey]  # its time limit (s); the number tells those of the same apart
Sort: TypeAlias = tuple[str, int, bool]  # see `_sort`
Kept: TypeAlias = dict[Sort, tuple[Ordered[Sleeper], Ordered[Sleeper]]]  # those that sleep alone, and in crowds

INFINITE_S = float("inf")
APART = (Kind.REPLACEMENT, Kind.GROWTH)


class Sleepers:
    """`held`: by what they ask, lines that are held back, each with its time limit (s), shortest first. `first`: whose
    reservation held them back, and when it was expected to start. `stirred`: room has grown since. `arenas`: queue ->
    its arena. `in_crowds`: the lines that sleep in crowds; `sleep` is to be told when a line is, or is not any more."""

    def __init__(self, in_crowds: Container[LineKey]) -> None:
        self.in_crowds = in_crowds
        self.held: dict[Gang, list[HeldLine]] = {}
        self.first: tuple[Bid, float] | None = None
        self.stirred = False
        self.arenas: Mapping[str, str] = {}
        self._of: dict[LineKey, Place] = {}
        self._ticket_of: dict[LineKey, int] = {}  # of those that are held
        self._tickets = 0
        self._orders: Kept | None = None
        self._kept: dict[LineKey, Sleeper] = {}  # in these orders

    def __bool__(self) -> bool:
        return bool(self._of)

    def sleep(self, key: LineKey, place: Place, *, held: bool) -> None:
        """The line sleeps for want of room, its first bid in that place; `held`: there is some, but it is kept."""
        known = self._of.get(key)
        if known is not None:
            if not held and known == place and key not in self._ticket_of and self._is_kept_right(key):
                return  # as before
            self.forget(key)
        self._of[key] = place
        if held:
            self._tickets += 1
            self._ticket_of[key] = self._tickets
            insort(self.held.setdefault(key.gang, []), (limit_s(key), self._tickets, key))
        if self._orders is not None:
            self._enter(self._orders, key, place, held=held)

    def move(self, key: LineKey, place: Place) -> None:
        """Another is the line's first now."""
        if key in self._of:
            self.sleep(key, place, held=key in self._ticket_of)

    def forget(self, key: LineKey) -> None:
        """It sleeps for another reason, or is no more."""
        place = self._of.pop(key, None)
        if place is None:
            return
        ticket = self._ticket_of.pop(key, None)
        if ticket is not None:
            lines = self.held[key.gang]
            del lines[bisect_left(lines, (limit_s(key), ticket))]
            if not lines:
                del self.held[key.gang]
        if self._orders is not None:
            sort, sleeper = self._sort(key, held=ticket is not None), self._kept.pop(key)
            pair = self._orders[sort]
            pair[sleeper[3]].remove(sleeper)
            if not any(pair):
                del self._orders[sort]

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def place(self, key: LineKey) -> Place:
        """Of a line that sleeps for want of room."""
        return self._of[key]

    def is_held(self, key: LineKey) -> bool:
        return key in self._ticket_of

    def best(
        self,
        awake: Container[LineKey],
        count: int,
        passed_over: Callable[[LineKey], bool],
        all_drawn: Callable[[str], bool],
    ) -> list[LineKey]:
        """Of every arena the first so many that are held, and that are not, each in order; not those that are awake, or
        to be passed over. `all_drawn`: whether that is every one that sleeps in a crowd of the arena.

        They are counted apart because those that are held have room: they may start, and then somebody must be left
        to be given the reservation."""
        orders = self._orders
        if orders is None:
            orders = self._orders = {}
            for key, place in sorted(self._of.items(), key=itemgetter(1)):
                self._enter(orders, key, place, held=key in self._ticket_of)
        found: list[LineKey] = []
        for (arena, _, _), (alone, in_crowds) in orders.items():
            order: Iterable[Sleeper] = alone
            if in_crowds and not all_drawn(arena):
                order = merge(alone, in_crowds) if alone else in_crowds
            ready = (key for _, _, key, _ in order if key not in awake and not passed_over(key))
            found += islice(ready, count)
        return found

    def arrange(self, arenas: Mapping[str, str]) -> None:
        """The queue tree is another."""
        self.arenas = arenas
        self._orders, self._kept = None, {}

    def all_held(self) -> list[LineKey]:
        return [key for lines in self.held.values() for _, _, key in lines]

    def copy(self, in_crowds: Container[LineKey]) -> Sleepers:
        other = Sleepers(in_crowds)
        other.held = {gang: list(lines) for gang, lines in self.held.items()}
        other.first, other.stirred, other._tickets = self.first, self.stirred, self._tickets
        other.arenas = self.arenas
        other._of, other._ticket_of = dict(self._of), dict(self._ticket_of)
        if self._orders is not None:
            other._orders = {sort: (alone.copy(), crowded.copy()) for sort, (alone, crowded) in self._orders.items()}
            other._kept = dict(self._kept)
        return other

    def _enter(self, orders: Kept, key: LineKey, place: Place, *, held: bool) -> None:
        self._tickets += 1
        sleeper = self._kept[key] = (place, self._tickets, key, key in self.in_crowds)
        sort = self._sort(key, held=held)
        pair = orders.get(sort)
        if pair is None:
            pair = orders[sort] = Ordered(), Ordered()
        pair[sleeper[3]].add(sleeper)

    def _is_kept_right(self, key: LineKey) -> bool:
        return self._orders is None or self._kept[key][3] is (key in self.in_crowds)

    def _sort(self, key: LineKey, *, held: bool) -> Sort:
        """Who is next is kept by arena, apart for those that are held, for replacements, which come before all, and for
        growth, which is given no reservation."""
        return self.arenas.get(key.queue, ""), key.kind if key.kind in APART else int(Kind.JOB), held


def limit_s(key: LineKey) -> float:
    """Of its jobs; for ever, if they state none."""
    return INFINITE_S if key.terms.limit_s is None else key.terms.limit_s
