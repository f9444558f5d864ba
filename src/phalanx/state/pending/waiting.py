"""Who waits for what: the part of the book that makes a cycle's cost follow what changed.

A bid goes through three places. *Fresh*: new, or something that decides how it is treated changed; the next decision
looks at it by itself. *In a line* with its likes: decided by the line's first. *Parked*: in none, because nothing but
an event about it can help it (held, its queue is unknown) or because it rests until a stated time (`resting`).

A line that could not start falls *asleep* and says what would have to change: how much room would have to grow
(`Watch`), how much less be charged to the queue tree (`Toll`), or when to look again. What changes wakes those lines
whose threshold it passes, and no others. Sleeping lines cost nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush

import numpy as np

from phalanx.model.plan import Asleep, Still
from phalanx.model.reason import NEVER, ReasonCode
from phalanx.state.nodes.table import NodeTable
from phalanx.state.pending.bars import Bars
from phalanx.state.pending.heeding import Heeding
from phalanx.state.pending.hunting import Hunters
from phalanx.state.pending.line import Bid, Entry, Line, LineKey
from phalanx.state.pending.sleepers import Sleepers
from phalanx.state.pending.turns import Heads, Turns
from phalanx.state.pending.watching import FEW, Watches
from phalanx.state.queue_tree import QueueTree

MANY = 2**30


class Waiting:
    """`version` counts the events folded in: findings made before the latest one are stale."""

    def __init__(self) -> None:
        self.fresh: dict[Bid, None] = {}
        self.resting: list[tuple[float, Bid]] = []  # sorted: (not before, seconds since the epoch; the bid)
        self.lines: dict[LineKey, Line] = {}
        self.awake: dict[LineKey, None] = {}
        self.version = 0
        self.grown: dict[int, dict[str, int]] = {}  # row -> what was free there before it grew
        self.watches = Watches()
        self.heeding = Heeding()
        self.bars = Bars()
        self.turns = Turns()
        self.sleepers = Sleepers(self.turns)
        self.heads = Heads()
        self.hunters = Hunters()
        self.dawns: list[tuple[float, int, LineKey]] = []  # heap: (when to look at a line again, seconds; …)
        self.dawn_of: dict[LineKey, float] = {}
        self.timed = 0  # lines of jobs that state a time limit
        self._dawns = 0
        self.hopeless: dict[Bid, None] = {}  # jobs of arrays that stand in a line, and could never start as things are
        self.lines_of: dict[str, dict[LineKey, None]] = {}  # queue -> its lines
        self.exposed: dict[LineKey, None] = {}  # lines outside of crowds whom a change of nodes may concern
        self.shaken: dict[str, None] = {}  # queues that bids have left since what they wait for was last found
        self._line_of: dict[Bid, LineKey] = {}
        self._rests_until: dict[Bid, float] = {}

    def __bool__(self) -> bool:
        """Whether anybody does."""
        return bool(self.fresh or self.lines or self.resting)

    def refresh(self, bid: Bid) -> None:
        """Look at it by itself next time, wherever it stands now."""
        self.leave(bid)
        self.fresh[bid] = None

    def rest(self, bid: Bid, not_before_s: float) -> None:
        """Nothing but an event about it, or that time (seconds since the epoch), changes anything for it."""
        self.leave(bid)
        self._rests_until[bid] = not_before_s
        insort(self.resting, (not_before_s, bid))

    def leave(self, bid: Bid) -> None:
        """It waits no more."""
        if bid in self.fresh:
            del self.fresh[bid]
        elif key := self._line_of.pop(bid, None):
            self.hopeless.pop(bid, None)
            line = self.lines[key]
            was_first = line.first().bid == bid
            line.remove(bid)
            self.shaken[key.queue] = None
            if self.sleepers.first is not None and self.sleepers.first[0] == bid:
                self.hunters.stir()  # what was kept for it may be had by who may push
            if not line:
                self._end(line)
            elif was_first:
                self._follow(key, line)
        elif bid in self._rests_until:
            entry = (self._rests_until.pop(bid), bid)
            del self.resting[bisect_left(self.resting, entry)]

    def _end(self, line: Line) -> None:
        """Nobody stands in the line any more."""
        key = line.key
        del self.lines[key]
        del self.lines_of[key.queue][key]
        self.timed -= key.terms.limit_s is not None
        self.awake.pop(key, None)
        if self.heads.orders:
            self.heads.drop(key)
        if line.reason is not None:
            self.turns.drop(key)
            self.sleepers.forget(key)
            self._stop_waiting(key)

    def _stop_waiting(self, key: LineKey) -> None:
        """Nothing that happens wakes the line any more."""
        self.watches.forget(key)
        self.heeding.forget(key)
        self.bars.forget(key)
        self.hunters.forget(key)
        self.exposed.pop(key, None)
        self.dawn_of.pop(key, None)

    def _follow(self, key: LineKey, line: Line) -> None:
        """Another is the line's first. In a crowd that only changes its turn: there is no more room for it."""
        if key in self.turns:
            self.sleepers.move(key, self.turns.move(key, line.first()))
        if self.heads.orders:
            self.heads.put(key, line.first())
        if key not in self.turns or key in self.hunters or key in self.dawn_of:
            self.awake[key] = None

    def join(self, key: LineKey, entry: Entry) -> None:
        """The bid stands in its line from now on."""
        self.leave(entry.bid)
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(key)
            self.timed += key.terms.limit_s is not None
            self.lines_of.setdefault(key.queue, {})[key] = None
            self.awake[key] = None
        line.add(entry)
        self._line_of[entry.bid] = key
        if line.first() is entry:
            if line.reason is not None and key in self.turns:
                self.sleepers.move(key, self.turns.move(key, entry))
            if self.heads.orders:
                self.heads.put(key, entry)

    def stands(self, bid: Bid) -> bool:
        """In a line."""
        return bid in self._line_of

    def line_of(self, job: str) -> Line | None:
        key = self._line_of.get(Bid(job))
        return None if key is None else self.lines[key]

    def sleep(self, asleep: Asleep) -> None:
        """The line's first could not start."""
        key = asleep.line
        line = self.lines.get(key)
        if line is None:
            return
        self.awake.pop(key, None)
        if line.reason is not None:
            self._stop_waiting(key)
        self._take_place(asleep, line)
        line.unexplained, line.reason = 0, asleep.reason
        self.watches.sleep(key, asleep.watches, in_crowd=asleep.foremost is not None)
        if self._is_exposed(asleep):
            self.exposed[key] = None
        if asleep.heeds:
            self.heeding.sleep(key)
        if asleep.tolls:
            alone = not (asleep.watches or asleep.heeds or asleep.held or asleep.place)
            self.bars.sleep(key, asleep.tolls, alone=alone)

    def look_again(self, key: LineKey, at_s: float | None) -> None:
        """The line, which sleeps, is woken at that time too (seconds since the epoch); None: at none."""
        if at_s is None:
            self.dawn_of.pop(key, None)
        elif key in self.lines:
            self.dawn_of[key] = at_s
            self._dawns += 1
            heappush(self.dawns, (at_s, self._dawns, key))
            self._keep_dawns_few()

    def _take_place(self, asleep: Asleep, line: Line) -> None:
        """Among those that come up in order though nothing wakes them."""
        key, place = asleep.line, asleep.place
        if asleep.foremost is not None:
            turn = self.turns.put(key, asleep.foremost, line.first())
            place = place and turn
        elif line.reason is not None:
            self.turns.drop(key)
        if place is not None:
            self.sleepers.sleep(key, place, held=asleep.held)
        elif line.reason is not None:
            self.sleepers.forget(key)

    def _is_exposed(self, asleep: Asleep) -> bool:
        """Whether other nodes may change anything for the line by themselves, or the reason that it has: not if it
        sleeps in a crowd, for want of quota alone, or behind a head."""
        if asleep.foremost is not None or asleep.reason.code is ReasonCode.BEHIND_HEAD:
            return False
        return bool(asleep.watches) or not asleep.tolls or asleep.reason.code in NEVER

    def _keep_dawns_few(self) -> None:
        """What is not true any more is dropped before it outweighs the rest."""
        if len(self.dawns) > 2 * len(self.dawn_of) + 64:
            kept = {key: (at_s, nth, key) for at_s, nth, key in self.dawns if self.dawn_of.get(key) == at_s}
            self.dawns = list(kept.values())
            heapify(self.dawns)

    def next_dawn_s(self, now_s: float) -> float | None:
        """When the next line is to be looked at again, later than now (seconds since the epoch)."""
        dawns = self.dawns
        while dawns and self.dawn_of.get(dawns[0][2]) != dawns[0][0]:
            heappop(dawns)
        if not dawns or dawns[0][0] > now_s:
            return dawns[0][0] if dawns else None
        return min((at_s for at_s in self.dawn_of.values() if at_s > now_s), default=None)

    def sleep_on(self, still: Still) -> None:
        """The line still cannot start, for the same reason."""
        key, room, reason = still
        line = self.lines.get(key)
        if line is not None:
            if reason is None:
                line.unexplained += 1
            else:
                line.unexplained, line.reason = 0, reason
            self.awake.pop(key, None)
            if room is None:
                self.bars.sleep_on(key)
            else:
                self.watches.posts[key.gang.demands[0]].room = room

    def note_growth(self, row: int, before: dict[str, int]) -> None:
        """There will be more room in that row in a moment; `before`: what was free there. Nothing, if the node could
        not be used then."""
        if row not in self.grown or not before:
            self.grown[row] = before if min(before.values(), default=0) >= 0 else {}
            self.hunters.stir()  # fewer may have to give way

    def wake_all(self) -> None:
        """What was found about nodes may be wrong now: look at every line again, and explain it anew."""
        for key, line in self.lines.items():
            line.unexplained = MANY
            self.awake[key] = None
        self.sleepers.stirred = True
        self.hunters.stir()
        self.wake_barred()

    def wake_exposed(self) -> None:
        """A node is another, or gone: look again at every line that this may concern, and explain it anew; crowds are
        counted at once, and explained a few in each cycle."""
        for key in self.exposed:
            self.lines[key].unexplained = MANY
            self.awake[key] = None
        self.watches.rouse_all(MANY)
        self.sleepers.stirred = True
        self._refresh_hopeless()

    def wake_barred(self) -> None:
        """The queue tree is another: look at every line again that it kept out."""
        self.awake.update(dict.fromkeys(self.bars.release_all()))
        self._refresh_hopeless()

    def _refresh_hopeless(self) -> None:
        for bid in list(self.hopeless):
            self.refresh(bid)

    def wake_hopeless(self) -> None:
        """The cluster has more, or less: who could never start may be able to one day, or the other way round; and
        those who look for somebody to give way may need fewer to go."""
        for key in self.exposed:
            line = self.lines[key]
            if line.reason is not None and line.reason.code in NEVER:
                line.unexplained = MANY
                self.awake[key] = None
        self.hunters.stir()
        self.awake.update(dict.fromkeys(self.bars.release_pool()))
        self._refresh_hopeless()

    def arrange(self, tree: QueueTree) -> None:
        """The queue tree is another: so may be who is next."""
        self.hunters.stir()
        arenas, orders = tree.arenas(), tree.closed_in_order()
        if arenas != self.turns.arenas:
            self.turns.arrange(arenas)
            self.sleepers.arrange(arenas)
        if orders or self.heads.orders:
            self.heads.arrange(arenas, orders, {key: line.first() for key, line in self.lines.items()})

    def rouse(self, columns: NodeTable, tree: QueueTree, now_s: float) -> None:
        """Wake the lines that may have been helped by what changed since the last time."""
        if tree.eased:
            self.awake.update(dict.fromkeys(self.bars.relieve(tree)))
        if self.hunters.due:
            self.awake.update(dict.fromkeys(self.hunters.wake()))
        while self.dawns and self.dawns[0][0] <= now_s:
            at_s, _, key = heappop(self.dawns)
            if self.dawn_of.get(key) == at_s:
                del self.dawn_of[key]
                self.hunters.wake_one(key)
                self.awake[key] = None
        if columns.pod_index.changed:
            self.awake.update(self.heeding.woken(columns.pod_index.changed))
            columns.pod_index.changed.clear()
        if self.grown:
            self._rouse_by_room(columns)

    def _rouse_by_room(self, columns: NodeTable) -> None:
        grown, self.grown = self.grown, {}
        self.sleepers.stirred = True
        if not self.watches.posts:
            return
        if len(grown) == 1 and len(self.watches.posts) <= FEW:
            ((row, old),) = grown.items()
            if columns.attributes.ready[row] and columns.least_free(row) >= 0:
                self.awake.update(self.watches.grow_one(old, columns.free_of(row)))
            return
        rows = np.fromiter(grown, np.intp, len(grown))
        good = columns.attributes.ready[rows] & (columns.lowest_free(rows) >= 0)
        olds = [old for old, usable in zip(grown.values(), good.tolist(), strict=True) if usable]
        after = {name: column[rows[good]] for name, column in columns.free.items()}
        before = {name: np.array([old.get(name, 0) for old in olds], np.int64) for name in columns.free}
        self.awake.update(self.watches.grow(before, after))

    def copy(self) -> Waiting:
        other = Waiting()
        other.fresh, other.resting, other.awake = dict(self.fresh), list(self.resting), dict(self.awake)
        other.lines = {key: line.copy() for key, line in self.lines.items()}
        other.version, other.grown, other._line_of = self.version, dict(self.grown), dict(self._line_of)
        other.watches, other.bars, other.heeding = self.watches.copy(), self.bars.copy(), self.heeding.copy()
        other.timed = self.timed
        other.turns = self.turns.copy()
        other.sleepers = self.sleepers.copy(other.turns)
        other.hunters, other.heads = self.hunters.copy(), self.heads.copy()
        other.lines_of = {queue: dict(lines) for queue, lines in self.lines_of.items()}
        other.shaken, other.hopeless = dict(self.shaken), dict(self.hopeless)
        other.exposed = dict(self.exposed)
        other.dawns, other.dawn_of, other._dawns = list(self.dawns), dict(self.dawn_of), self._dawns
        other._rests_until = dict(self._rests_until)
        return other
