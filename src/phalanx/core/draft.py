"""One cycle's scratch ledger: the free columns, copied and laid out in packing order, with an undo log.

Nodes with the least free come first, so that filling them front to back is best fit: one order serves all demands,
since it changes little with each pod placed; it is renewed once a twenty-fifth of the nodes has been taken from (so
after every gang on a small cluster). Nodes with a free *device* (any resource beyond cpu, memory, storage and pods)
come after all without: a job that needs none should not use up their cpu.

Only nodes that may take something are laid out: ready, and not overfull. `mark`, try, `rewind`: a gang is placed whole,
or the draft is exactly as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core import fit
from phalanx.model.columns import Columns
from phalanx.model.demand import Demand, Where
from phalanx.model.shape import CPU, MEMORY, PODS, Amounts
from phalanx.model.topology import Topology

Column: TypeAlias = NDArray[np.int64]

ORDINARY = {CPU, MEMORY, PODS, "ephemeral-storage"}
RENEW_PART = 25  # the order is renewed when 1/25 of the nodes was taken from
BEHIND = 16.0  # a node with a free device weighs more than any without, whatever else is free on it


class Draft:
    """Positions are places in packing order; `rows[position]` is the row in the book's columns."""

    def __init__(self, columns: Columns, topologies: Sequence[Topology] = ()) -> None:
        self.columns, self.topologies = columns, topologies
        self._not_overfull = fit.not_overfull(columns)
        usable = columns.facts.ready & self._not_overfull
        self.rows: NDArray[np.intp] = usable.nonzero()[0]
        self.free: dict[str, Column] = {name: column[self.rows] for name, column in columns.free.items()}
        self.views: dict[str, memoryview[int]] = {}
        self._matching: dict[Where, fit.Rows | None] = {}
        self._allowed: dict[Where, fit.Rows | None] = {}
        self._log: list[tuple[int, Amounts, int]] = []  # position, asks, how many pods
        self._taken = 0
        self._scales = {name: max(1, int(column.max(initial=0))) for name, column in columns.allocatable.items()}
        self.renew()

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, position: int, asks: Amounts, count: int) -> None:
        for resource, amount in asks:
            self.views[resource][position] -= amount * count
        self._log.append((position, asks, count))

    def mark(self) -> int:
        return len(self._log)

    def rewind(self, mark: int) -> None:
        """As it was at `mark`."""
        while len(self._log) > mark:
            position, asks, count = self._log.pop()
            for resource, amount in asks:
                self.views[resource][position] += amount * count

    def settle(self) -> None:
        """What was taken stays taken; marks from before are void."""
        self._taken += len(self._log)
        self._log.clear()
        if self._taken * RENEW_PART > len(self):
            self.renew()

    def renew(self) -> None:
        """Lay the columns out anew, the nodes with least free first; equal ones stay in order."""
        order = np.argsort(self._looseness(), kind="stable")
        self.rows = self.rows[order]
        self.free = {name: column[order] for name, column in self.free.items()}
        self.views = {name: column.data for name, column in self.free.items()}
        self._allowed.clear()
        self._taken = 0

    def allowed(self, where: Where) -> fit.Rows | None:
        """By position, which nodes match; None if all do."""
        if where not in self._allowed:
            rows = self.matching(where)
            allowed = None if rows is None else rows[self.rows]
            self._allowed[where] = allowed
        return self._allowed[where]

    def matching(self, where: Where) -> fit.Rows | None:
        """By row, which nodes match; None if all that are laid out do."""
        if where not in self._matching:
            rows = fit.matching(self.columns.facts, where)
            self._matching[where] = None if bool(rows[self.rows].all()) else rows
        return self._matching[where]

    def asked(self, demand: Demand) -> list[tuple[Column, memoryview[int], int]] | None:
        """Per resource asked: its free column, a view of it, the amount; None if no node speaks of that resource."""
        try:
            return [(self.free[name], self.views[name], amount) for name, amount in demand.asks]
        except KeyError:
            return None

    def part_of_node(self, demand: Demand) -> float:
        """The largest part of the largest node's allocatable that one pod asks of any resource."""
        return max(amount / self._scales.get(name, 1) for name, amount in demand.asks)

    def room(self, demand: Demand, within: fit.Rows | None = None) -> int:
        """How many pods of the demand fit in all. `within`: by position, the only nodes that count."""
        columns = self.asked(demand)
        if columns is None:
            return 0
        fits = self.allowed(demand.where)
        for column, _, amount in columns:
            enough = column >= amount
            fits = enough if fits is None else fits & enough
        assert fits is not None  # every pod asks one of `pods`
        fits = fits if within is None else fits & within
        found = fits.nonzero()[0]
        return int(fit.holds(self.free, demand.asks, found).sum()) if len(found) else 0

    def free_in_all(self, demand: Demand, resource: str) -> int:
        """What is free of a resource on all nodes that the demand matches."""
        column, allowed = self.free.get(resource), self.allowed(demand.where)
        if column is None:
            return 0
        return int((column if allowed is None else column[allowed]).sum())

    def overfull(self, where: Where) -> int:
        """How many nodes that match hold more than they have."""
        return int((fit.matching(self.columns.facts, where) & ~self._not_overfull).sum())

    def _looseness(self) -> NDArray[np.float64]:
        total = np.zeros(len(self), np.float64)
        for name, column in self.free.items():
            share = column / self._scales[name]
            total += share if name in ORDINARY else share + BEHIND * (column > 0)
        return total
