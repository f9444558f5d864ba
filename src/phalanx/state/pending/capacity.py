"""What pending work asks of nodes, as columns: one column a demand, with how many of its pods the nodes hold.

`room[demand]` is exact when the columns were last brought up to date (`core.placement.capacity` does that): the pods
that all usable nodes hold together, each node by itself. Only what changed is counted again: `free` is a copy of the
free amounts at that time, and the difference between it and the free amounts of now is counted in the rows that were
charged since. A demand that was never counted has an infinite room: it is not known to find too little.

Requests whose demand is exact in the sense of `core.placement.draft` (amounts and `where` alone decide) start if and
only if their room reaches what they need; for others the room is an upper bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phalanx.state.classes import Demand

FIRST_COLUMNS = 64


class Capacity:
    """The columns of demands. `asks[resource, number]` in units of the resource; `users`: how many classes refer to
    each; `grown`: whether a row that gained free amounts since the last look holds a pod."""

    def __init__(self) -> None:
        self.number_of: dict[Demand, int] = {}
        self.demands: list[Demand | None] = []
        self.users: list[int] = []
        self.resources: dict[str, int] = {}
        self.asks: NDArray[np.float64] = np.zeros((4, FIRST_COLUMNS))
        self.room: NDArray[np.float64] = np.full(FIRST_COLUMNS, np.inf)
        self.grown: NDArray[np.bool_] = np.zeros(FIRST_COLUMNS, np.bool_)
        self.has_grown = True
        self.behind = 0  # rows that changed and are not counted yet: nothing is known then
        self.uncounted: dict[int, bool] = {}  # demands that never were; whether they are new no more
        self.free: dict[str, NDArray[np.int64]] = {}
        self.counted_at: Any = None  # what `core.placement.capacity` last counted by
        self._vacant: list[int] = []

    def __len__(self) -> int:
        return len(self.demands)

    def refer(self, demand: Demand) -> int:
        """Return the number of the demand, to which one class more refers."""
        number = self.number_of.get(demand)
        if number is None:
            number = self.number_of[demand] = self._place(demand)
        self.users[number] += 1
        return number

    def release(self, number: int) -> None:
        """Note that a class less refers to that demand."""
        self.users[number] -= 1
        if not self.users[number]:
            demand = self.demands[number]
            assert demand is not None  # somebody referred to it
            del self.number_of[demand]
            self.demands[number] = None
            self.uncounted.pop(number, None)
            self._vacant.append(number)

    def settle(self) -> None:
        """Forget what has grown: it was looked at."""
        if self.has_grown:
            self.grown[:] = False
            self.has_grown = False

    def _place(self, demand: Demand) -> int:
        if self._vacant:
            number = self._vacant.pop()
            self.demands[number] = demand
        else:
            number = len(self.demands)
            self.demands.append(demand)
            self.users.append(0)
            if number >= len(self.room):
                self._grow()
        for resource, _ in demand.asks:
            if resource not in self.resources:
                self.resources[resource] = len(self.resources)
        while len(self.resources) > len(self.asks):
            self.asks = np.concatenate((self.asks, np.zeros_like(self.asks)))
        self.asks[:, number] = 0.0
        for resource, amount in demand.asks:
            self.asks[self.resources[resource], number] = amount
        self.room[number], self.grown[number] = np.inf, True
        self.has_grown = True
        self.uncounted[number] = False
        return number

    def _grow(self) -> None:
        more = len(self.room)
        self.asks = np.concatenate((self.asks, np.zeros((len(self.asks), more))), axis=1)
        self.room = np.concatenate((self.room, np.full(more, np.inf)))
        self.grown = np.concatenate((self.grown, np.zeros(more, np.bool_)))
