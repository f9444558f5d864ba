"""Request classes as columns: the keys by which their first requests are compared, and their order in strict queues.

A request class has a number, its place in every column. A vacant place has placement class -1, for which every mask is
false in its last place. The next new request class takes the vacant number.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from phalanx.state.pending.request_class import Blocker, QueuedRequest, Rank, RequestClass

FIRST_LENGTH = 64  # initial length of a column; it doubles


class RequestClassColumns:
    """The columns of request classes.

    `placement_class`, `row`: the numbers of the placement class and of the headroom row; `qos`: the number of the QOS.
    `arrival_s`, `eligible_s`: when the first request arrived, and when it could first start (NaN until
        `core.order.multifactor` computes it).
    `limit_s`: the time limit; infinite without one.
    `reported_blocker`: the kind of the last reported reason (`Blocker`).
    `preempts`: whether its requests may preempt."""

    def __init__(self) -> None:
        self.request_classes: list[RequestClass | None] = []
        self.placement_class: NDArray[np.int32] = np.full(FIRST_LENGTH, -1, np.int32)
        self.row: NDArray[np.int32] = np.zeros(FIRST_LENGTH, np.int32)
        self.reported_blocker: NDArray[np.int8] = np.zeros(FIRST_LENGTH, np.int8)
        self.preempts: NDArray[np.bool_] = np.zeros(FIRST_LENGTH, np.bool_)
        self.qos: NDArray[np.int32] = np.zeros(FIRST_LENGTH, np.int32)
        self.priority, self.arrival_s, self.limit_s, self.eligible_s, self.nice = np.zeros((5, FIRST_LENGTH))
        self._vacant: list[int] = []

    def __len__(self) -> int:
        return len(self.request_classes)

    def add(self, request_class: RequestClass) -> int:
        """Give the request class a vacant number, and return the number."""
        if self._vacant:
            number = self._vacant.pop()
            self.request_classes[number] = request_class
            return number
        number = len(self.request_classes)
        self.request_classes.append(request_class)
        if number >= len(self.placement_class):
            for name, column in vars(self).items():
                if isinstance(column, np.ndarray):
                    more = np.full(len(column), -1 if name == "placement_class" else 0, column.dtype)
                    setattr(self, name, np.concatenate((column, more)))
        return number

    def vacate(self, number: int) -> None:
        """Make the number vacant, because the request class is empty."""
        self.request_classes[number] = None
        self.placement_class[number] = -1
        self.reported_blocker[number] = Blocker.NONE_REPORTED
        self.preempts[number] = False
        self._vacant.append(number)

    def set_first(self, number: int, entry: QueuedRequest) -> None:
        """Write the first request of the request class."""
        self.arrival_s[number] = entry.arrival_s
        self.eligible_s[number] = np.nan


class Heads:
    """The request classes of an arena with a strict queue, in order: a heap by rank with lazy deletion. An entry is
    valid while the request class has exactly that rank."""

    __slots__ = ("_heap", "_puts")

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, RequestClass]] = []  # the number distinguishes entries of one class
        self._puts = 0

    def put(self, request_class: RequestClass, rank: Rank) -> None:
        """Enter the request class with its present rank."""
        heap = self._heap
        self._puts += 1
        heappush(heap, (rank, self._puts, request_class))
        while heap[0][2].rank is not heap[0][0]:
            heappop(heap)
        if not self._puts % len(heap):
            self._heap = [place for place in heap if place[2].rank is place[0]]
            heapify(self._heap)

    def __iter__(self) -> Iterator[tuple[Rank, RequestClass]]:
        """Yield the request classes in order. A second, small heap walks down the first."""
        heap = self._heap
        frontier = [(heap[0], 0)] if heap else []
        while frontier:
            (rank, _, request_class), at = heappop(frontier)
            if request_class.rank is rank:
                yield rank, request_class
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap):
                    heappush(frontier, (heap[child], child))
