"""Request classes as columns: the keys by which their first requests are compared, and their order in strict queues.

A request class (`cell` in the code) has a number, its place in every column. A vacant place has placement class -1, for
which every mask is false in its last place. The next new request class takes the vacant number.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from phalanx.state.pending.cell_queue import UNTOLD, CellQueue, QueuedRequest, Rank

FIRST_CELLS = 64  # initial length of a column; it doubles


class Cells:
    """The columns of request classes.

    `cls`, `row`: the numbers of the placement class and of the headroom row; `qos`: the number of the QOS.
    `arrival_s`, `eligible_s`: when the first request arrived, and when it could first start (NaN until
        `core.order.multifactor` computes it).
    `limit_s`: the time limit; infinite without one.
    `told`: the last answer (`cell_queue.UNTOLD` and others).
    `preempts`: whether its requests may preempt."""

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
        """Give the line a vacant number, and return it."""
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
        """Make the number vacant, because the request class is empty."""
        self.lines[cell] = None
        self.cls[cell] = -1
        self.told[cell] = UNTOLD
        self.preempts[cell] = False
        self._vacant.append(cell)

    def lead(self, cell: int, entry: QueuedRequest) -> None:
        """Write the first request of the request class."""
        self.arrival_s[cell] = entry.arrival_s
        self.eligible_s[cell] = np.nan


class Heads:
    """The request classes of an arena with a strict queue, in order: a heap by rank with lazy deletion. An entry is
    valid while the request class has exactly that rank."""

    __slots__ = ("_heap", "_puts")

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, CellQueue]] = []  # the number distinguishes entries of one class
        self._puts = 0

    def put(self, line: CellQueue, rank: Rank) -> None:
        """Enter the request class with its present rank."""
        heap = self._heap
        self._puts += 1
        heappush(heap, (rank, self._puts, line))
        while heap[0][2].rank is not heap[0][0]:
            heappop(heap)
        if not self._puts % len(heap):
            self._heap = [place for place in heap if place[2].rank is place[0]]
            heapify(self._heap)

    def __iter__(self) -> Iterator[tuple[Rank, CellQueue]]:
        """Yield the request classes in order. A second, small heap walks down the first."""
        heap = self._heap
        frontier = [(heap[0], 0)] if heap else []
        while frontier:
            (rank, _, line), at = heappop(frontier)
            if line.rank is rank:
                yield rank, line
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap):
                    heappush(frontier, (heap[child], child))
