"""Lines whose search for somebody to give way found nobody: when they may search again.

Nothing tells exactly what would help, for much could: somebody starts whom they may push, somebody ends, so that fewer
need to go, their own queue falls back below its guarantee. So when anything that runs has changed they are *due*, and
of those that are due the `AT_ONCE` that have waited longest for it are woken in every cycle, each once for all changes
so far. What a cycle pays for them is bounded, however many hunt; and who may push nobody is not among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from phalanx.state.pending.line import LineKey

AT_ONCE = 8


class Hunters:
    """`woken`: those whose turn it was in the last cycle and who have not said what came of it."""

    def __init__(self) -> None:
        self.resting: dict[LineKey, None] = {}
        self.due: dict[LineKey, None] = {}
        self.woken: dict[LineKey, None] = {}

    def add(self, key: LineKey, *, due: bool) -> None:
        """Its search has found nobody, or, `due`, is still to be made."""
        self.forget(key)
        (self.due if due else self.resting)[key] = None

    def forget(self, key: LineKey) -> None:
        for where in (self.resting, self.due, self.woken):
            if where:
                where.pop(key, None)

    def __contains__(self, key: LineKey) -> bool:
        return any(key in where for where in (self.resting, self.due, self.woken))

    def stir(self) -> None:
        """Something that runs has changed."""
        for where in (self.resting, self.woken):
            if where:
                self.due.update(where)
                where.clear()

    def wake(self) -> Iterator[LineKey]:
        """Those that search in the next cycle."""
        for key in list(islice(self.due, AT_ONCE)):
            del self.due[key]
            self.woken[key] = None
            yield key

    def wake_one(self, key: LineKey) -> None:
        """It searches in the next cycle, since time may have made somebody available."""
        self.forget(key)
        self.woken[key] = None

    def copy(self) -> Hunters:
        other = Hunters()
        other.resting, other.due, other.woken = dict(self.resting), dict(self.due), dict(self.woken)
        return other
