"""The demands of pending requests as columns: one column per demand, with the number of its pods that the nodes hold.

`core.placement.capacity` brings the columns up to date. `room[demand]` is exact as of that time: the number of pods
that all usable nodes hold, added up over nodes. Only changes are counted again. `free` is a copy of the free amounts at
that time; in the rows that were charged since, the difference to the present free amounts is counted. A demand that was
never counted has infinite room, because nothing shows that it lacks room.

Some demands depend on amounts and on `where` alone (`core.placement.draft` calls them exact). Their requests start if
and only if the room reaches the needed pods. For other demands the room is an upper bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phalanx.state.classes import Demand

FIRST_COLUMNS = 64


class Capacity:
    """The columns of demands. `asks[resource, number]`: the request of one pod, in units of the resource. `users`: the
    number of placement classes that refer to each demand. `grown`: for each demand, True if a pod fits on a row that
    has gained free amounts since the columns were last examined."""

    def __init__(self) -> None:
        self.number_of: dict[Demand, int] = {}
        self.demands: list[Demand | None] = []
        self.users: list[int] = []
        self.resources: dict[str, int] = {}
        self.asks: NDArray[np.float64] = np.zeros((4, FIRST_COLUMNS))
        self.room: NDArray[np.float64] = np.full(FIRST_COLUMNS, np.inf)
        self.grown: NDArray[np.bool_] = np.zeros(FIRST_COLUMNS, np.bool_)
        self.has_grown = True
        self.uncounted: dict[int, None] = {}  # demands that were never counted
        self.free: dict[str, NDArray[np.int64]] = {}
        self.counted_at: Any = None  # a value that identifies the state of the last count (`core.placement.capacity`)
        self._vacant: list[int] = []

    def __len__(self) -> int:
        return len(self.demands)

    def refer(self, demand: Demand) -> int:
        """Return the index of the demand, and note that one more placement class refers to it."""
        number = self.number_of.get(demand)
        if number is None:
            number = self.number_of[demand] = self._place(demand)
        self.users[number] += 1
        return number

    def release(self, number: int) -> None:
        """Note that one placement class no longer refers to the demand, and remove the demand if it was the last
        one."""
        self.users[number] -= 1
        if not self.users[number]:
            demand = self.demands[number]
            assert demand is not None  # a placement class still refers to this demand
            del self.number_of[demand]
            self.demands[number] = None
            self.uncounted.pop(number, None)
            self._vacant.append(number)

    def settle(self) -> None:
        """Clear `grown`, after its rows were examined."""
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
        self.uncounted[number] = None
        return number

    def _grow(self) -> None:
        more = len(self.room)
        self.asks = np.concatenate((self.asks, np.zeros((len(self.asks), more))), axis=1)
        self.room = np.concatenate((self.room, np.full(more, np.inf)))
        self.grown = np.concatenate((self.grown, np.zeros(more, np.bool_)))
