"""Who waits for what: the part of the book that makes a cycle's cost follow what changed.

A bid goes through three places. *Fresh*: new, or something that decides how it is treated changed; the next decision
looks at it by itself. *In a line* with its likes: decided by the line's first. *Parked*: in none, because nothing but
an event about it can help it (held, its queue is unknown) or because it rests until a stated time (`resting`).

A line that could not be placed falls *asleep* and says what would have to grow (`Watch`); growth of room on a node
wakes those lines whose threshold it passes, and no others. Sleeping lines cost nothing.
"""

from __future__ import annotations

from bisect import insort

from phalanx.model.columns import Columns
from phalanx.model.demand import Demand
from phalanx.model.line import Bid, Entry, Line, LineKey
from phalanx.model.plan import Asleep


class Waiting:
    """`version` counts the events folded in: findings made before the latest one are stale."""

    def __init__(self) -> None:
        self.fresh: dict[Bid, None] = {}
        self.resting: list[tuple[float, Bid]] = []  # sorted: (not before, seconds since the epoch; the bid)
        self.lines: dict[LineKey, Line] = {}
        self.awake: dict[LineKey, None] = {}
        self.version = 0
        self.grown: dict[int, dict[str, int]] = {}  # row -> what was free there before it grew
        self._line_of: dict[Bid, LineKey] = {}

    def refresh(self, bid: Bid) -> None:
        """Look at it by itself next time, wherever it stands now."""
        self.leave(bid)
        self.fresh[bid] = None

    def rest(self, bid: Bid, not_before_s: float) -> None:
        self.leave(bid)
        insort(self.resting, (not_before_s, bid))

    def leave(self, bid: Bid) -> None:
        """It waits no more."""
        if bid in self.fresh:
            del self.fresh[bid]
        elif key := self._line_of.pop(bid, None):
            line = self.lines[key]
            line.remove(bid)
            if not line:
                del self.lines[key]
                self.awake.pop(key, None)
        elif self.resting:
            self.resting = [entry for entry in self.resting if entry[1] != bid]

    def join(self, key: LineKey, demands: tuple[Demand, ...], entry: Entry) -> None:
        """The bid stands in its line from now on."""
        self.leave(entry.bid)
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(key, demands)
            self.awake[key] = None
        line.add(entry)
        self._line_of[entry.bid] = key

    def line_of(self, job: str) -> Line | None:
        key = self._line_of.get(Bid(job))
        return None if key is None else self.lines[key]

    def sleep(self, asleep: Asleep) -> None:
        """The line's first could not be placed."""
        line = self.lines.get(asleep.line)
        if line is not None:
            line.reason = asleep.reason
            self.awake.pop(asleep.line, None)

    def note_growth(self, row: int, before: dict[str, int]) -> None:
        """There is, or will be in a moment, more room in that row than `before`."""
        self.grown.setdefault(row, before)

    def wake_all(self) -> None:
        self.awake = dict.fromkeys(self.lines)

    def rouse(self, columns: Columns) -> None:
        """Wake the lines that what has grown since the last time may have helped."""
        if self.grown:
            self.wake_all()
            self.grown.clear()

    def copy(self) -> Waiting:
        other = Waiting()
        other.fresh, other.resting, other.awake = dict(self.fresh), list(self.resting), dict(self.awake)
        other.lines = {key: line.copy() for key, line in self.lines.items()}
        other.version, other.grown, other._line_of = self.version, dict(self.grown), dict(self._line_of)
        return other
