"""In which order the lines of a queue come up that sleep in crowds (`model.watching`).

A crowd wakes as one, whatever queues its lines are in; so each queue keeps those of its lines that sleep in crowds
sorted, and the contest reads from the front as far as it needs."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TypeAlias

from phalanx.model.line import Entry, LineKey
from phalanx.model.sleepers import Place

Turn: TypeAlias = tuple[Place, LineKey]


class Turns:
    """`of`: by queue, its lines in order of their first bids. No two have the same place."""

    __slots__ = ("_place_of", "of")

    def __init__(self) -> None:
        self.of: dict[str, list[Turn]] = {}
        self._place_of: dict[LineKey, Place] = {}

    def __contains__(self, key: LineKey) -> bool:
        return key in self._place_of

    def put(self, key: LineKey, foremost: float, first: Entry) -> None:
        """`foremost`: what the queue's order counts most, the same for all in the line."""
        self.drop(key)
        place = self._place_of[key] = (foremost, first.arrival_s, key.kind, first.tie)
        insort(self.of.setdefault(key.queue, []), (place, key))

    def move(self, key: LineKey, first: Entry) -> None:
        """Another is the line's first now."""
        self.put(key, self._place_of[key][0], first)

    def drop(self, key: LineKey) -> None:
        """It sleeps for another reason, or is no more."""
        place = self._place_of.pop(key, None)
        if place is not None:
            turns = self.of[key.queue]
            del turns[bisect_left(turns, (place,))]  # a shorter tuple is before all that it begins
            if not turns:
                del self.of[key.queue]

    def place(self, key: LineKey) -> Place:
        return self._place_of[key]

    def copy(self) -> Turns:
        other = Turns()
        other.of = {queue: list(turns) for queue, turns in self.of.items()}
        other._place_of = dict(self._place_of)
        return other
