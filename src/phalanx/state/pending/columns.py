"""Request classes as columns: the keys by which their first requests are compared.

A request class has a number, its place in every column. A vacant place has placement class -1, for which every mask is
false in its last place. The next new request class takes the vacant number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phalanx.state.pending.request_class import Blocker, Kind, QueuedRequest, RequestClass

FIRST_LENGTH = 64  # initial length of a column; it doubles


class RequestClassColumns:
    """The columns of request classes.

    `placement_class`, `row`: the numbers of the placement class and of the headroom row; `qos`: the number of the
        QOS, by `qos_numbers`.
    `arrival_s`, `eligible_s`: when the first request arrived, and when it could first start (NaN until
        `core.order.multifactor` computes it).
    `limit_s`: the time limit; infinite without one.
    `reported_blocker`: the kind of the last reported reason (`Blocker`).
    `preempts`: whether its requests may preempt; `replaces`: whether they replace lost pods; `strict`: as in
        `RequestClass`."""

    def __init__(self) -> None:
        self.request_classes: list[RequestClass | None] = []
        self.placement_class: NDArray[np.int32] = np.full(FIRST_LENGTH, -1, np.int32)
        self.row: NDArray[np.int32] = np.zeros(FIRST_LENGTH, np.int32)
        self.reported_blocker: NDArray[np.int8] = np.zeros(FIRST_LENGTH, np.int8)
        self.preempts, self.replaces, self.strict = np.zeros((3, FIRST_LENGTH), np.bool_)
        self.qos: NDArray[np.int32] = np.zeros(FIRST_LENGTH, np.int32)
        self.priority, self.arrival_s, self.limit_s, self.eligible_s, self.nice = np.zeros((5, FIRST_LENGTH))
        self.qos_numbers: dict[str, int] = {}
        self._vacant: list[int] = []

    def __len__(self) -> int:
        return len(self.request_classes)

    def add(self, request_class: RequestClass) -> None:
        """Give the request class a vacant number, and write its columns."""
        if self._vacant:
            number = self._vacant.pop()
            self.request_classes[number] = request_class
        else:
            number = len(self.request_classes)
            self.request_classes.append(request_class)
            if number >= len(self.placement_class):
                self._grow()
        key, terms = request_class.key, request_class.key.terms
        request_class.number = number
        self.placement_class[number], self.row[number] = request_class.placement_class.number, request_class.row
        self.priority[number], self.nice[number] = key.priority, terms.nice
        self.limit_s[number] = np.inf if terms.limit_s is None else terms.limit_s
        self.qos[number] = self.qos_numbers.setdefault(terms.qos, len(self.qos_numbers))
        self.replaces[number] = key.kind == Kind.REPLACEMENT
        self.reported_blocker[number] = Blocker.NONE_REPORTED
        self.set_first(number, request_class.first)

    def _grow(self) -> None:
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                more = np.full(len(column), -1 if name == "placement_class" else 0, column.dtype)
                setattr(self, name, np.concatenate((column, more)))

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
