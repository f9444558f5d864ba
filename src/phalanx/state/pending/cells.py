"""Cells as columns: what the first request of each is compared by, and the order of those in strict queues.

A cell is a number: its place in every column. Columns of a vacant cell say class -1, for which every mask is false in
its last place; the number is given to the next cell that opens.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from phalanx.state.pending.cell_queue import UNTOLD, CellQueue, QueuedRequest, Rank

FIRST_CELLS = 64  # places of a column at first; it doubles


class Cells:
    """The columns of cells. `cls`, `row`: numbers; `priority`; `arrival_s` of the first request; `limit_s`: time
    limit, infinite without one; `told`: see `ROOM`; `preempts`: its requests may have others give way; `eligible_s`:
    when its first could start, NaN until somebody asks (`core.order.multifactor`); `nice` and `qos`, a number: where
    factors count."""

    def __init__(self) -> None:
        self.lines: list[CellQueue | None] = []
        self.cls: NDArray[np.int32] = np.full(FIRST_CELLS, -1, np.int32)
        self.row: NDArray[np.int32] = np.zeros(FIRST_CELLS, np.int32)
        self.told: NDArray[np.int8] = np.zeros(FIRST_CELLS, np.int8)
        self.preempts: NDArray[np.bool_] = np.zeros(FIRST_CELLS, np.bool_)
        self.qos: NDArray[np.int32] = np.zeros(FIRST_CELLS, np.int32)
        self.priority, self.arrival_s, self.limit_s, self.eligible_s, self.nice = np.zeros((5, FIRST_CELLS))
        self._vacant: list[int] = []

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, line: CellQueue) -> int:
        """Return the number of a vacant cell, which is the line's from now on."""
        if self._vacant:
            cell = self._vacant.pop()
            self.lines[cell] = line
            return cell
        cell = len(self.lines)
        self.lines.append(line)
        if cell >= len(self.cls):
            for name, column in vars(self).items():
                if isinstance(column, np.ndarray):
                    more = np.full(len(column), -1, np.int32) if name == "cls" else np.zeros(len(column), column.dtype)
                    setattr(self, name, np.concatenate((column, more)))
        return cell

    def vacate(self, cell: int) -> None:
        """Vacate the cell: nobody is in it any more."""
        self.lines[cell] = None
        self.cls[cell] = -1
        self.told[cell] = UNTOLD
        self.preempts[cell] = False
        self._vacant.append(cell)

    def lead(self, cell: int, entry: QueuedRequest) -> None:
        """Note that another request is the cell's first."""
        self.arrival_s[cell] = entry.arrival_s
        self.eligible_s[cell] = np.nan


class Heads:
    """The cells of an arena in order, where only the first counts, as the queue is strict: a heap by rank with lazy
    deletion. A place holds as long as the cell has that very rank."""

    __slots__ = ("_heap", "_puts")

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, CellQueue]] = []  # the number tells entries of one cell apart
        self._puts = 0

    def put(self, line: CellQueue, rank: Rank) -> None:
        """The cell has that rank now."""
        heap = self._heap
        self._puts += 1
        heappush(heap, (rank, self._puts, line))
        while heap[0][2].rank is not heap[0][0]:
            heappop(heap)
        if not self._puts % len(heap):
            self._heap = [place for place in heap if place[2].rank is place[0]]
            heapify(self._heap)

    def __iter__(self) -> Iterator[tuple[Rank, CellQueue]]:
        """The cells in order: down the heap, with a second, small one of those that may be next."""
        heap = self._heap
        frontier = [(heap[0], 0)] if heap else []
        while frontier:
            (rank, _, line), at = heappop(frontier)
            if line.rank is rank:
                yield rank, line
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap):
                    heappush(frontier, (heap[child], child))
