"""The cells that may come up in a cycle, by arena and in order.

What may start is found for all cells at once, as a mask; then each arena's cells are drawn from the job order one at a
time, and whoever may not come up any more by then is passed over. They are put in order in pieces, the first few
hundred of the best first, as most never come up; where few wait there is one piece and no mask. The order is that of
`core.order.rank` to the bit: what the queue's order counts most, then arrival, then kind and tie of the request, which
are asked of the objects where the columns are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.cycle.blocked import find_ways
from phalanx.core.cycle.reserve import Reserving
from phalanx.core.cycle.state import CycleState
from phalanx.core.order.account_usage import AccountUsage
from phalanx.core.order.multifactor import MultifactorPriority
from phalanx.core.order.next_job import Arena, Draws, SortKey, Tournament
from phalanx.core.placement import capacity
from phalanx.lazy import lazy
from phalanx.model.queue import QueueOrder
from phalanx.state.pending.cell_queue import UNTOLD, CellQueue, Kind, QueuedRequest
from phalanx.state.pending.pending import MOVING

Cells = NDArray[np.intp]
Floats = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
ArenaDraws: TypeAlias = tuple[Arena | None, Draws]  # None: replacements

PIECE = 512  # cells put in order at once
SKIPPED = 8  # cells in a row that may not come up any more: after that the others are asked all at once


FIFO, FACTORS = 1, 2
WEIGHED = {QueueOrder.FIFO: FIFO, QueueOrder.MULTIFACTOR: FACTORS}  # what counts most is not the priority alone


class Candidates:
    """The candidates of one cycle."""

    def __init__(self, state: CycleState, reserving: Reserving) -> None:
        self.state, self.pending, self.reserving = state, state.pending, reserving
        self.cells, self.branches = state.pending.cells, state.cluster.tree.branches
        self.usage = AccountUsage(state.cluster, state.now_s)
        self.contest = Tournament(
            state.cluster.tree, state.ledger, self.priority_of, self.may_come_up, state.first_waiting, self.usage
        )

    def look(self, turns: Iterable[int]) -> None:
        """Bring up to date what nodes hold and what queues may start. `turns`: cells whose turn it is to search for
        victims."""
        cluster, pending = self.state.cluster, self.pending
        tree, peers = cluster.tree, cluster.columns.pod_index
        if peers.changed:
            pending.look_at_pods(peers.changed)
            peers.changed.clear()
        for number in list(pending.composite):
            find_ways(cluster, number)
        pending.changed = True  # until this cycle's plan is taken in
        capacity.bring_up_to_date(cluster, exact=self.state.several)
        pending.headroom.renew(tree.charged, tree.subjects, lambda branch: branch.account)
        tree.charged.clear()
        tree.subjects.clear()
        self.state.begin(turn=frozenset(turns))

    def draw(self) -> None:
        """Put all cells that may come up from now on into the contest, in order."""
        self.contest.clear()
        self.contest.by_estimate = self.reserving.by_estimate
        for arena, draws in self.draws():
            self.contest.draw_from(arena, draws)
        self.contest.begin()

    # Who may come up

    def may_come_up(self, line: CellQueue) -> bool:
        """Return whether the cell may come up, as `alive` says of many."""
        state, cell = self.state, line.cell
        if state.over[cell]:
            return False
        if line.strict or cell in state.turn:
            return True
        if not state.several and self.cells.told[cell] == UNTOLD:
            return True  # of one arena it changes nothing who else comes up
        if not (state.blocked.open[line.cls] or self.reserving.may_get_one(line)):
            return False
        return not self.pending.headroom.keys or state.is_within_limits(line)

    def any_from(self, priority: int) -> bool:
        """Return whether a cell of that priority or a higher one may come up."""
        if self.state.is_small:
            lines: Iterable[CellQueue] = self.pending.lines.values()
            return any(line.key.priority >= priority and self.may_come_up(line) for line in lines)
        some = (self.cells.priority[: len(self.cells)] >= priority).nonzero()[0]
        within = self.state.within_limits(self.cells.cls[some], self.cells.row[some])
        return bool(self.alive(some, within).any())

    def alive(self, some: Cells, within: Mask | None = None) -> Mask:
        """Return which of those cells may come up. `within`: which are within their limits; None: all were."""
        state, cls = self.state, self.cells.cls[some]
        found = np.ones(len(some), np.bool_) if within is None else within
        if not self.reserving.may_reserve:
            found = found & state.blocked.columns()[0][cls]
        elif "unforeseen" in self.reserving.__dict__:
            unforeseen = np.frombuffer(self.reserving.unforeseen, np.bool_)
            found = found & (state.blocked.columns()[0][cls] | ~unforeseen[cls])
        if state.cluster.tree.stricts:
            found |= state.is_strict[self.cells.row[some]]
        if not state.several:
            found |= self.cells.told[some] == UNTOLD
        if state.turn:
            found |= np.isin(some, list(state.turn))
        return found & (cls >= 0) & ~np.frombuffer(state.over, np.bool_)[some]

    def all_alive(self) -> Cells:
        """Return the cells that may come up, but those that are kept in order (`Pending.heads`)."""
        count = len(self.cells)
        row = self.cells.row[:count]
        found = self.alive(np.arange(count), self.state.within_limits(self.cells.cls[:count], row))
        if self.pending.heads and not self.reserving.by_estimate:
            headed = [self.is_in_order(each.queue) for each in self.pending.headroom.rows]
            found &= ~np.array(headed, np.bool_)[row]
        return found.nonzero()[0]

    def is_in_order(self, queue: str) -> bool:
        branch = self.branches[queue]
        return branch.strict is not None and branch.arena.order not in MOVING

    # In order

    def draws(self) -> Iterator[ArenaDraws]:
        """Yield by arena the cells that may come up, in order; None: replacements."""
        pending, by_estimate = self.pending, self.reserving.by_estimate
        if pending.heads and not by_estimate:
            for arena, heads in pending.heads.items():
                yield Arena(arena), iter(heads)
        if self.state.is_small or by_estimate:
            lines: Iterable[CellQueue] = pending.lines.values() if pending.loose or by_estimate else ()
            if not self.state.is_small:
                lines = [line for cell in self.all_alive().tolist() if (line := self.cells.lines[cell]) is not None]
            yield from self.few(lines, by_estimate=by_estimate)
        elif pending.loose:
            yield from self.many(self.all_alive())

    def few(self, lines: Iterable[CellQueue], *, by_estimate: bool) -> Iterator[ArenaDraws]:
        """Yield the same, put in order one by one. `by_estimate`: the shortest first, equal ones as their queue has
        them."""
        found: dict[Arena | None, list[tuple[SortKey, CellQueue]]] = {}
        for line in lines:
            if line.arena is not None and not by_estimate:
                continue  # it is kept in order
            key, rank = line.key, line.rank
            branch = self.branches[key.queue]
            if (rank is None or by_estimate) and (first := self.state.first_waiting(line)) is not None:
                ranked = self.contest.rank(branch, key, first)
            elif rank is not None:
                ranked = rank
            else:
                continue
            arena = None if key.kind == Kind.REPLACEMENT else Arena(branch.arena.name, key.terms.account)
            found.setdefault(arena, []).append((ranked, line))
        for arena, each in found.items():
            each.sort()
            yield arena, iter(each)

    def many(self, cells: Cells) -> Iterator[ArenaDraws]:
        """Yield the same by columns."""
        if not len(cells):
            return
        arenas = self.arena_of_row[self.cells.row[cells]]
        urgent = self.replacements(cells)
        if urgent.any():
            some = cells[urgent]
            yield None, self.in_order(some, -self.cells.priority[some])
            cells, arenas = cells[~urgent], arenas[~urgent]
            if not len(cells):
                return
        scores = self.scores(cells, arenas)
        if len(self.arenas) == 1 or (arenas == arenas[0]).all():
            yield self.arenas[int(arenas[0])][0], self.in_order(cells, scores)
            return
        order = np.argsort(arenas, kind="stable")
        cells, scores, arenas = cells[order], scores[order], arenas[order]
        starts = [0, *(np.flatnonzero(np.diff(arenas)) + 1).tolist(), len(cells)]
        for begin, end in pairwise(starts):
            yield self.arenas[int(arenas[begin])][0], self.in_order(cells[begin:end], scores[begin:end])

    @lazy
    def priorities(self) -> MultifactorPriority:
        return MultifactorPriority(self.state.cluster, self.state.policy, self.state.now_s)

    def priority_of(self, entry: QueuedRequest) -> float:
        """Return the sum of factors, where a queue is ordered by it."""
        return self.priorities.of(self.state.cluster.jobs[entry.request.job])

    @lazy
    def arenas(self) -> list[tuple[Arena, QueueOrder]]:
        """Return by number an arena and its order."""
        found = ((self.branches[row.queue].arena, row.account) for row in self.pending.headroom.rows)
        return list(dict.fromkeys((Arena(arena.name, account), arena.order) for arena, account in found))

    @lazy
    def arena_of_row(self) -> Cells:
        """Return by row of the headroom the number of its arena."""
        numbers = {arena: number for number, (arena, _) in enumerate(self.arenas)}
        whose = (Arena(self.branches[row.queue].arena.name, row.account) for row in self.pending.headroom.rows)
        return np.array([numbers[arena] for arena in whose], np.intp)

    def replacements(self, cells: Cells) -> Mask:
        """Return which of the cells are of slots that replace lost pods."""
        if not self.pending.urgent:
            return np.zeros(len(cells), np.bool_)
        lines = self.cells.lines
        kinds = [line.key.kind == Kind.REPLACEMENT if (line := lines[cell]) else False for cell in cells.tolist()]
        return np.array(kinds, np.bool_)

    def scores(self, cells: Cells, arenas: Cells) -> Floats:
        """Return what the order of each cell's arena counts most: lower comes first."""
        found = -self.cells.priority[cells]
        orders = np.array([WEIGHED.get(order, 0) for _, order in self.arenas])[arenas]
        found[orders == FIFO] = 0.0
        by_factors = orders == FACTORS
        if by_factors.any():
            found[by_factors] = -self.priorities.of_cells(cells[by_factors])
        return found

    def in_order(self, cells: Cells, scores: Floats) -> Draws:
        """Yield the cells one at a time, with their rank; what may not come up any more is left out."""
        arrivals = self.cells.arrival_s[cells]
        while len(cells):
            first = lowest(scores, arrivals)
            if first is None:
                piece, cells = (cells, scores, arrivals), cells[:0]
            else:
                piece = cells[first], scores[first], arrivals[first]
                cells, scores, arrivals = cells[~first], scores[~first], arrivals[~first]
            yield from self.ranked(*piece)
            if len(cells):
                left = self.alive(cells)
                cells, scores, arrivals = cells[left], scores[left], arrivals[left]

    def ranked(self, cells: Cells, scores: Floats, arrivals: Floats) -> Draws:
        """Yield those of one piece."""
        order = np.lexsort((arrivals, scores))
        found = list(zip(scores[order].tolist(), arrivals[order].tolist(), cells[order].tolist(), strict=True))
        lines, at, skipped, may_come_up = self.cells.lines, 0, 0, self.may_come_up
        while at < len(found):
            score, arrival_s, cell = found[at]
            at += 1
            if at < len(found) and found[at][1] == arrival_s and found[at][0] == score:
                begin = at - 1
                while at < len(found) and found[at][:2] == (score, arrival_s):
                    at += 1
                yield from tied(found[begin:at], lines)
                continue
            first = lines[cell]
            assert first is not None  # vacant cells are in no mask
            if may_come_up(first):
                skipped = 0
                yield (score, arrival_s, first.key.kind, first.first().tie), first
                continue
            skipped += 1
            if skipped > SKIPPED and len(found) - at > SKIPPED:
                left = self.alive(np.array([cell for _, _, cell in found[at:]], np.intp)).tolist()
                found = [each for each, is_left in zip(found[at:], left, strict=True) if is_left]
                at = skipped = 0


def tied(found: list[tuple[float, float, int]], lines: list[CellQueue | None]) -> Iterator[tuple[SortKey, CellQueue]]:
    """Return the cells, whose columns are equal, by kind and tie of their first requests."""
    ranked: list[tuple[SortKey, CellQueue]] = []
    for score, arrival_s, cell in found:
        line = lines[cell]
        assert line is not None  # vacant cells are in no mask
        ranked.append(((score, arrival_s, line.key.kind, line.first().tie), line))
    if len(ranked) > 1:
        ranked.sort(key=lambda each: each[0])
    return iter(ranked)


def lowest(scores: Floats, arrivals: Floats) -> NDArray[np.bool_] | None:
    """Return which are among the first `PIECE` by score and arrival, with all that are equal to the last of these;
    None: all are, or nearly."""
    if len(scores) <= 4 * PIECE:
        return None
    score = np.partition(scores, PIECE)[PIECE]
    below, equal = scores < score, scores == score
    wanted = PIECE - int(np.count_nonzero(below))
    if int(np.count_nonzero(equal)) <= 2 * PIECE:
        return np.asarray(below | equal)
    arrival = np.partition(arrivals[equal], wanted)[wanted]
    return np.asarray(below | (equal & (arrivals <= arrival)))
