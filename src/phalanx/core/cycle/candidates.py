"""The cells that may come up in a cycle, by arena and in order.

What may start is found for all cells at once, as a mask; then each arena's cells are drawn from the contest one at a
time. They are put in order in pieces, the first few hundred of the best first, as most never come up. The order is that
of `core.order.rank` to the bit: what the queue's order counts most, then arrival, then kind and tie of the request,
which are asked of the objects where the columns are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.cycle.state import CycleState
from phalanx.core.order.next_job import Draws, SortKey, estimate
from phalanx.model.queue import QueueOrder
from phalanx.state.pending.line import Kind, Line

Cells = NDArray[np.intp]
Floats = NDArray[np.float64]
Alive: TypeAlias = Callable[[Cells], NDArray[np.bool_]]  # which of some cells may still come up

PIECE = 512  # cells put in order at once
SKIPPED = 8  # cells in a row that may not come up any more: after that the others are asked all at once


FIFO, FACTORS = 1, 2
WEIGHED = {QueueOrder.FIFO: FIFO, QueueOrder.MULTIFACTOR: FACTORS}  # what counts most is not the priority alone


class Candidates:
    """Of one cycle. `arenas`: by row of the headroom, the number of its arena; `names`: of arenas by number."""

    def __init__(self, state: CycleState, may_come_up: Callable[[Line], bool]) -> None:
        self.state, self.pending, self.may_come_up = state, state.pending, may_come_up
        self.cells = state.pending.cells
        self.names: list[str] = []
        self.orders: list[QueueOrder] = []
        self.arena_of_row = self._arenas()

    def _arenas(self) -> Cells:
        numbers: dict[str, int] = {}
        branches, found = self.state.cluster.tree.branches, []
        for row in self.pending.headroom.rows:
            arena = branches[row.queue].arena
            number = numbers.setdefault(arena.name, len(numbers))
            if number == len(self.names):
                self.names.append(arena.name)
                self.orders.append(arena.order)
            found.append(number)
        return np.array(found, np.intp)

    def draws(self, cells: Cells, alive: Alive, *, by_estimate: bool) -> Iterator[tuple[str | None, Draws]]:
        """By arena those cells, in order; None: replacements. `by_estimate`: the shortest first."""
        in_order = self.by_estimate if by_estimate else self.in_order
        if not len(cells):
            return
        arenas = self.arena_of_row[self.cells.row[cells]]
        urgent = self.replacements(cells)
        if urgent.any():
            some = cells[urgent]
            yield None, in_order(some, -self.cells.priority[some], alive)
            cells, arenas = cells[~urgent], arenas[~urgent]
        if not len(cells):
            return
        scores = self.scores(cells, arenas)
        if len(self.names) == 1 or (arenas == arenas[0]).all():
            yield self.names[int(arenas[0])], in_order(cells, scores, alive)
            return
        order = np.argsort(arenas, kind="stable")
        cells, scores, arenas = cells[order], scores[order], arenas[order]
        starts = [0, *(np.flatnonzero(np.diff(arenas)) + 1).tolist(), len(cells)]
        for begin, end in pairwise(starts):
            yield self.names[int(arenas[begin])], in_order(cells[begin:end], scores[begin:end], alive)

    def replacements(self, cells: Cells) -> NDArray[np.bool_]:
        if not self.pending.urgent:
            return np.zeros(len(cells), np.bool_)
        lines = self.cells.lines
        kinds = [line.key.kind == Kind.REPLACEMENT if (line := lines[cell]) else False for cell in cells.tolist()]
        return np.array(kinds, np.bool_)

    def scores(self, cells: Cells, arenas: Cells) -> Floats:
        """What the order of each cell's arena counts most: lower comes first."""
        found = -self.cells.priority[cells]
        orders = np.array([WEIGHED.get(order, 0) for order in self.orders])[arenas]
        found[orders == FIFO] = 0.0
        by_factors = orders == FACTORS
        if by_factors.any():
            found[by_factors] = -self.state.priorities.of_cells(cells[by_factors])
        return found

    def in_order(self, cells: Cells, scores: Floats, alive: Alive) -> Draws:
        """The cells one at a time, with their rank; what may not come up any more is left out."""
        arrivals = self.cells.arrival_s[cells]
        while len(cells):
            first = lowest(scores, arrivals)
            if first is None:
                piece, cells = (cells, scores, arrivals), cells[:0]
            else:
                piece = cells[first], scores[first], arrivals[first]
                cells, scores, arrivals = cells[~first], scores[~first], arrivals[~first]
            yield from self.ranked(*piece, alive)
            if len(cells):
                left = alive(cells)
                cells, scores, arrivals = cells[left], scores[left], arrivals[left]

    def ranked(self, cells: Cells, scores: Floats, arrivals: Floats, alive: Alive) -> Draws:
        """Those of one piece."""
        order = np.lexsort((arrivals, scores))
        found = list(zip(scores[order].tolist(), arrivals[order].tolist(), cells[order].tolist(), strict=True))
        lines, at, skipped = self.cells.lines, 0, 0
        may_come_up = self.may_come_up
        while at < len(found):
            score, arrival_s, cell = found[at]
            at += 1
            if at < len(found) and found[at][1] == arrival_s and found[at][0] == score:
                begin = at - 1
                while at < len(found) and found[at][:2] == (score, arrival_s):
                    at += 1
                for rank, line in tied(found[begin:at], lines):
                    if may_come_up(line):
                        yield rank, line
                continue
            first = lines[cell]
            assert first is not None  # vacant cells are in no mask
            if may_come_up(first):
                skipped = 0
                yield (score, arrival_s, first.key.kind, first.first().tie), first
                continue
            skipped += 1
            if skipped > SKIPPED and len(found) - at > SKIPPED:
                left = alive(np.array([cell for _, _, cell in found[at:]], np.intp)).tolist()
                found = [each for each, is_left in zip(found[at:], left, strict=True) if is_left]
                at = skipped = 0

    def by_estimate(self, cells: Cells, scores: Floats, alive: Alive) -> Draws:
        """Shortest first; equal ones as the queue has them."""
        found: list[tuple[SortKey, Line]] = []
        for score, cell in zip(scores.tolist(), cells.tolist(), strict=True):
            line = self.cells.lines[cell]
            assert line is not None  # vacant cells are in no mask
            first = line.first()
            found.append(((estimate(line.key), score, first.arrival_s, line.key.kind, first.tie), line))
        found.sort(key=lambda each: each[0])
        return ((rank, line) for rank, line in found if self.may_come_up(line))


def tied(found: list[tuple[float, float, int]], lines: list[Line | None]) -> Iterator[tuple[SortKey, Line]]:
    """Cells whose columns are equal, by kind and tie of their first requests."""
    ranked: list[tuple[SortKey, Line]] = []
    for score, arrival_s, cell in found:
        line = lines[cell]
        assert line is not None  # vacant cells are in no mask
        ranked.append(((score, arrival_s, line.key.kind, line.first().tie), line))
    if len(ranked) > 1:
        ranked.sort(key=lambda each: each[0])
    return iter(ranked)


def lowest(scores: Floats, arrivals: Floats) -> NDArray[np.bool_] | None:
    """Which are among the first `PIECE` by score and arrival, with all that are equal to the last of these; None: all
    are, or nearly."""
    if len(scores) <= 4 * PIECE:
        return None
    score = np.partition(scores, PIECE)[PIECE]
    below, equal = scores < score, scores == score
    wanted = PIECE - int(np.count_nonzero(below))
    if int(np.count_nonzero(equal)) <= 2 * PIECE:
        return np.asarray(below | equal)
    arrival = np.partition(arrivals[equal], wanted)[wanted]
    return np.asarray(below | (equal & (arrivals <= arrival)))
