"""Sleeping lines that backfill must know of though nothing changes for them: in each arena (`model.tree`) the one that
would be next, since it may be given a reservation; and those that are held back by somebody's reservation, to be looked
at again when that changes.

Who is next is kept in order from when that is first asked: where nobody states a time limit it never is. What is kept
about a line holds while it is awake too, and is passed over then; so going back to sleep as it was costs nothing."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import TypeAlias

from phalanx.model.demand import Gang
from phalanx.model.line import Bid, Kind, LineKey
from phalanx.model.ordered import Ordered

Place: TypeAlias = tuple[float, float, int, str | int]  # `core.order.Rank`: lower is sooner
Sleeper: TypeAlias = tuple[Place, int, LineKey]  # the number tells those apart whose place is the same
Kept: TypeAlias = dict[tuple[str, int, bool], Ordered[Sleeper]]  # see `_kind`

INFINITE_S = float("inf")
APART = (Kind.REPLACEMENT, Kind.GROWTH)


class Sleepers:
    """`held`: by what they ask, lines that are held back, each with its time limit (s), shortest first. `first`: whose
    reservation held them back, and when it was expected to start. `stirred`: room has grown since. `arenas`: queue ->
    its arena."""

    def __init__(self) -> None:
        self.held: dict[Gang, list[tuple[float, int, LineKey]]] = {}
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
            if not held and known == place and key not in self._ticket_of:
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
            kind = self._kind(key, held=ticket is not None)
            order = self._orders[kind]
            order.remove(self._kept.pop(key))
            if not order:
                del self._orders[kind]

    def is_held(self, key: LineKey) -> bool:
        return key in self._ticket_of

    def best(self, awake: Container[LineKey], count: int, passed_over: Callable[[LineKey], bool]) -> Iterator[LineKey]:
        """Of every arena the first so many that are held, and that are not, each in order; not those that are awake, or
        to be passed over.

        They are counted apart because those that are held have room: they may start, and then somebody must be left
        to be given the reservation."""
        orders = self._orders
        if orders is None:
            orders = self._orders = {}
            for key, place in sorted(self._of.items(), key=itemgetter(1)):
                self._enter(orders, key, place, held=key in self._ticket_of)
        for order in orders.values():
            ready = (key for _, _, key in order if key not in awake and not passed_over(key))
            yield from islice(ready, count)

    def arrange(self, arenas: Mapping[str, str]) -> None:
        """The queue tree is another."""
        self.arenas = arenas
        self._orders, self._kept = None, {}

    def all_held(self) -> list[LineKey]:
        return [key for lines in self.held.values() for _, _, key in lines]

    def copy(self) -> Sleepers:
        other = Sleepers()
        other.held = {gang: list(lines) for gang, lines in self.held.items()}
        other.first, other.stirred, other._tickets = self.first, self.stirred, self._tickets
        other.arenas = self.arenas
        other._of, other._ticket_of = dict(self._of), dict(self._ticket_of)
        if self._orders is not None:
            other._orders = {kind: order.copy() for kind, order in self._orders.items()}
            other._kept = dict(self._kept)
        return other

    def _enter(self, orders: Kept, key: LineKey, place: Place, *, held: bool) -> None:
        self._tickets += 1
        sleeper = self._kept[key] = (place, self._tickets, key)
        kind = self._kind(key, held=held)
        order = orders.get(kind)
        if order is None:
            orders[kind] = Ordered([sleeper])
        else:
            order.add(sleeper)

    def _kind(self, key: LineKey, *, held: bool) -> tuple[str, int, bool]:
        """Who is next is kept by arena, apart for those that are held, for replacements, which come before all, and for
        growth, which is given no reservation."""
        return self.arenas.get(key.queue, ""), key.kind if key.kind in APART else int(Kind.JOB), held


def limit_s(key: LineKey) -> float:
    """Of its jobs; for ever, if they state none."""
    return INFINITE_S if key.terms.limit_s is None else key.terms.limit_s
