"""The nodes in packing order, stored from one cycle to the next.

Only nodes that are ready and not overcommitted are in the order. If the policy packs pods, nodes with the least free
amounts come first. So the first node on which a pod fits is the best fit. All demands use the same order. A cycle does
not sort the nodes again after each placed pod, because each pod changes the order only a little. Nodes with a free
*device* (any resource other than cpu, memory, storage and pods) come after all other nodes. Otherwise jobs without
devices could use up the cpu of nodes with devices. If the policy does not pack, the nodes are in the order of their
rows.

The order changes little from one cycle to the next. So the node table stores the order (`NodeTable.packing_order`)
until the description of a node changes. The node table also stores the rows whose free amounts have changed since the
order was stored (`NodeTable.touched`). The next cycle copies the new amounts of these rows, and moves each row to its
new position. The result is exactly the order that sorting all nodes would give (a test compares the two). While a cycle
uses the order, the node table does not have it. So a cycle that fails with an exception leaves no wrong order in the
table.

The *looseness* of a node is a measure of its free capacity. For each resource, the free amount is divided by the
largest allocatable amount of any node; the looseness is the sum of these quotients."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters import matching
from phalanx.model.pod import CPU, MEMORY, PODS
from phalanx.state.classes import Demand
from phalanx.state.nodes.table import NodeTable

Column: TypeAlias = NDArray[np.int64]

ORDINARY = {CPU, MEMORY, PODS, "ephemeral-storage"}
# for each kind of device that is free on a node, this number is added to its looseness, so that the node comes last
BEHIND = 16.0
MOVED = 24  # if more rows than this have changed, all nodes are sorted again
CHUNK = 256  # the first operation on arrays compares this many positions, which is enough for most gangs
# this many positions are examined in a loop first, before any array operation; that is enough on small clusters
PROBED = 4
GROWS = 8  # each array operation compares this many times as many positions as the one before it
NONE: Final[memoryview[Any]] = np.zeros(0).data
ROUNDED = 1 - 1e-9  # a factor that makes a lower bound a little smaller, because sums of fractions are inexact


class PackingOrder:
    """The usable nodes in packing order.

    `rows`: for each position, the row of its node in the node table.
    `free`, `views`: resource -> the free amount of each position. `free` has NumPy arrays, `views` has memoryviews of
    the same arrays, because reading one number from a memoryview is faster.
    `ties_by_row`: True if nodes of equal looseness are in the order of their rows. If False, the next cycle must sort
        all nodes again.
    `strayed`: positions that have lost capacity since the last sort. The code that takes capacity adds positions to
    this list.
    `filled`: demand -> a position; the nodes before this position have no capacity for a pod of the demand. Code that
        returns capacity empties this mapping."""

    def __init__(self, columns: NodeTable, *, packed: bool) -> None:
        self.columns, self.packed = columns, packed
        # The largest amount of each resource on one node, at least 1.
        self.scales = {name: max(1, int(column.max(initial=0))) for name, column in columns.allocatable.items()}
        self.behind = {name: 0.0 if name in ORDINARY else BEHIND for name in columns.allocatable}
        self.rows = usable_rows(columns)
        self.free: dict[str, Column] = {name: column[self.rows] for name, column in columns.free.items()}
        self.strayed: list[int] = []  # positions that have lost capacity; at most about `MOVED` positions are recorded
        self.filled: dict[Demand, int] = {}
        self.grown = False  # True if capacity was returned since the last sort
        # The looseness of each row; NaN if the row is not in the order.
        self._looseness_of_row: memoryview[Any] | None = None
        self.views: dict[str, memoryview[int]] = {name: column.data for name, column in self.free.items()}
        self.row_at: memoryview[int] = self.rows.data
        self.renew()
        self.ties_by_row = True

    def __len__(self) -> int:
        return len(self.rows)

    def renew(self) -> None:
        """Sort the nodes into packing order again, the least free first. Equal nodes keep their order."""
        self._looseness: memoryview[Any] = NONE
        if self.packed and len(self.rows) > 1:
            looseness = np.zeros(len(self.rows), np.float64)
            for name, column in self.free.items():
                share = column / self.scales[name]
                looseness += share if name in ORDINARY else share + BEHIND * (column > 0)
            order = np.argsort(looseness, kind="stable")
            self._looseness, self._looseness_of_row = looseness[order].data, None
            for column in (self.rows, *self.free.values()):
                column[:] = column[order]  # the arrays are changed in place, so that references to them stay valid
        self.filled.clear()
        self.grown = False
        self.ties_by_row = not (self.packed and len(self.rows) > 1)

    def holding(self, demand: Demand, allowed: matching.Rows | None) -> Iterator[tuple[int, int]]:
        """Yield (position, number of pods of the demand that fit at the position) for each position with capacity, in
        packing order. `allowed`: the mask of positions that may be used; None if all may be used. Between two yields,
        the caller may take capacity from positions that were already yielded."""
        if any(name not in self.free for name, _ in demand.asks):
            return  # a requested resource exists on no node
        asked = [(self.free[name], self.views[name], amount) for name, amount in demand.asks]
        start, size = self.filled.get(demand), CHUNK
        if start is None:
            least = sum([amount / self.scales[name] + self.behind[name] for name, amount in demand.asks])
            # The looseness of the request is the smallest looseness that a node with enough capacity can have.
            # Unless `grown`, nodes have only lost capacity since the last sort, so nodes that were sorted by a smaller
            # looseness cannot hold the pod.
            start = 0 if self.grown else bisect_left(self._looseness, least * ROUNDED)
        probed = min(start + PROBED, len(self.rows))
        for position in range(start, probed):
            pods = min([view[position] // amount for _, view, amount in asked])
            if pods > 0 and (allowed is None or allowed[position]):
                yield position, pods
        start = probed
        while start < len(self.rows):
            stop = start + size
            fits = np.ones(len(self.rows[start:stop]), np.bool_) if allowed is None else allowed[start:stop].copy()
            for column, _, amount in asked:
                fits &= column[start:stop] >= amount
            found = fits.tobytes()  # finding the next True in bytes is faster than making a list of positions
            at = found.find(True)
            while at >= 0:
                yield start + at, min([view[start + at] // amount for _, view, amount in asked])
                at = found.find(True, at + 1)
            start, size = stop, GROWS * size

    def follow(self) -> bool:
        """Update the order from the node table. Return False if all nodes must be sorted instead, because a node has
        become usable or unusable, or too many rows have changed."""
        columns = self.columns
        if len(self.free) < len(columns.free) or len(self.strayed) > MOVED:
            return False
        changed = columns.touched
        for position in self.strayed:
            changed[self.row_at[position]] = None
        if len(changed) > MOVED:
            return False
        ready, ordered = columns.attributes.ready, len(self._looseness) > 0
        parts = [(columns.view(name), view, self.scales[name], self.behind[name]) for name, view in self.views.items()]
        for row in changed:
            position, looseness = self._position_of(row), 0.0
            if position < 0:
                if ready[row] and columns.least_free(row) >= 0:
                    return False
                continue
            if not ready[row]:
                return False
            for source, view, scale, behind in parts:
                amount = view[position] = source[row]
                if amount < 0:
                    return False
                if amount:
                    # `renew` adds the quotients in the same order, so both results are equal to the last bit.
                    looseness += amount / scale + behind
            if ordered and looseness != self._looseness[position]:
                self._move(row, position, looseness)
        self.strayed.clear()
        self.filled.clear()
        self.grown = False
        return True

    def _position_of(self, row: int) -> int:
        """Return the position of the row; -1 if the row is not in the order."""
        rows, ordered = self.row_at, len(self._looseness) > 0
        position = self._place_of(row, self._known()[row]) if ordered else bisect_left(rows, row)
        return position if position < len(rows) and rows[position] == row else -1

    def _place_of(self, row: int, looseness: float) -> int:
        """Return the position that the row has in the order if its looseness is `looseness`."""
        order = self._looseness
        first = bisect_left(order, looseness)
        return bisect_left(self.row_at, row, first, bisect_right(order, looseness, first))

    def _known(self) -> memoryview[Any]:
        """Return for each row the looseness by which it is sorted at present."""
        if self._looseness_of_row is None:
            by_row = np.full(self.columns.capacity, np.nan)
            by_row[self.rows] = self._looseness
            self._looseness_of_row = by_row.data
        return self._looseness_of_row

    def _move(self, row: int, position: int, looseness: float) -> None:
        """Move the row from its position to the position of its new looseness."""
        to = self._place_of(row, looseness)
        to -= to > position
        self._looseness[position] = self._known()[row] = looseness
        low, high = min(position, to), max(position, to) + 1
        source, target = slice(low + 1, high), slice(low, high - 1)
        if to < position:
            source, target = target, source
        for view in (self.row_at, self._looseness, *self.views.values()):
            kept = view[position]
            # a memoryview moves overlapping parts in place, while NumPy would make a copy
            view[target] = view[source]
            view[to] = kept


def ordered_nodes(columns: NodeTable, *, packed: bool) -> PackingOrder:
    """Return the nodes in packing order. If possible, update the order of the last cycle; otherwise sort all nodes. The
    caller stores the order in `NodeTable.packing_order` again at the end of the cycle."""
    layout: PackingOrder | None = columns.packing_order
    columns.packing_order = None
    if layout is None or layout.packed is not packed or not layout.ties_by_row or not layout.follow():
        layout = PackingOrder(columns, packed=packed)
    columns.touched.clear()
    return layout


def usable_rows(columns: NodeTable) -> NDArray[np.intp]:
    """Return the rows of nodes on which pods may be placed. Overcommitted nodes are left out."""
    usable = columns.attributes.ready.copy()
    for column in columns.free.values():
        usable &= column >= 0
    return usable.nonzero()[0]
