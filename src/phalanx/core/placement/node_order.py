"""The nodes in packing order, stored from one cycle to the next.

Only nodes that are ready and not overcommitted are in the order. If the policy packs pods, nodes with the least free
amounts come first, so taking the first node that fits is the best-fit method. All demands use the same order. A cycle
does not sort again after each placed pod, because each pod changes the order only a little. Nodes with a free *device*
(any resource other than cpu, memory, storage and pods) come after all nodes without one, so that jobs without devices
do not use up the cpu of nodes with devices. If the policy does not pack, the nodes are in the order of their rows.

Between two cycles little changes. So the node table stores the order (`NodeTable.node_order`) until a node itself
changes. It also stores the rows whose free amounts have changed since then (`NodeTable.touched`). The next cycle copies
the new amounts of these rows, and moves each row to its new position. The result is exactly the order that a new sort
would give (a test compares the two). A cycle takes the order out of the node table while it uses it. So if the cycle
fails, no wrong order is left in the table.

The *looseness* of a node is the sum of its free amounts over all resources. Each amount is divided by the largest
amount of this resource that any node has."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters import matching
from phalanx.model.pod import CPU, MEMORY, PODS, Amounts
from phalanx.state.classes import Demand
from phalanx.state.nodes.table import NodeTable

Column: TypeAlias = NDArray[np.int64]

ORDINARY = {CPU, MEMORY, PODS, "ephemeral-storage"}
BEHIND = 16.0  # added to the looseness for each free device resource, so that nodes with free devices come last
FEW = 32  # up to this number of nodes, a loop over them is faster than operations on arrays
MOVED = 24  # if more rows have changed, the order is sorted again
PROBED = 8  # how many positions are examined one by one first, if the last pods were placed among them
CHUNK = 4096  # the number of positions that are compared in one operation; most gangs need only the first operation
NONE: Final[memoryview[Any]] = np.zeros(0).data
REMEMBERED = 1024  # the largest number of demands whose requests are stored
ROUNDED = 1 - 1e-9  # a factor that lowers a bound a little, because sums of fractions may differ in their last bits


class ResourceColumn(NamedTuple):
    """A resource in the order. `column`, `view`: the free amounts by position, as an array and as a view for scalar
    access. `scale`, `behind`: a free amount that is not 0 adds amount / `scale` + `behind` to the looseness of its
    node."""

    column: Column
    view: memoryview[int]
    scale: int
    behind: float


class ResourceRequest:
    """The request of a pod, in the form that the order needs.

    `each`: (view of the free amounts, requested amount) for each resource.
    `counted`: (free amounts, view of them, requested amount) for each resource that is checked. `least`: a lower bound
    for the looseness of nodes on which the pod fits.
    `at`, `since`: as long as `NodeOrder.loosened` equals `since`, the pod fits at no position before `at`."""

    __slots__ = ("at", "counted", "each", "least", "since")

    def __init__(self, asks: Amounts, sides: Mapping[str, ResourceColumn], *, crowded: bool) -> None:
        self.at = self.since = 0
        self.each: list[tuple[memoryview[int], int]] = []
        self.counted: list[tuple[Column, memoryview[int], int]] = []
        least = 0.0
        for name, amount in asks:
            column, view, scale, behind = sides[name]
            self.each.append((view, amount))
            if crowded or name != PODS or len(asks) == 1:
                self.counted.append((column, view, amount))
            least += amount / scale + behind
        self.least = least * ROUNDED


class NodeOrder:
    """The usable nodes in packing order.

    `rows`: the row of each position in the node table.
    `free`, `views`: resource -> the free amount of each position, as an array and as a view for scalar access.
    `few`: True for a small number of nodes, which a loop examines one by one.
    `ties_by_row`: True if nodes of equal looseness are in the order of their rows. Only then can the order be updated
        without a new sort.
    `strayed`: positions that have lost capacity. The code that takes capacity adds positions to this list.
    `loosened`: a counter that grows with each sort, and whenever a node may have got capacity back."""

    def __init__(self, columns: NodeTable, *, packed: bool) -> None:
        self.columns, self.packed = columns, packed
        # The largest amount of each resource on one node, at least 1.
        self.scales = {name: max(1, int(column.max(initial=0))) for name, column in columns.allocatable.items()}
        self.rows = usable_rows(columns)
        self.few = len(self.rows) <= FEW
        self.free: dict[str, Column] = {name: column[self.rows] for name, column in columns.free.items()}
        self.strayed: list[int] = []  # positions that have lost capacity; at most about `MOVED` are noted
        self.grown = False  # True if capacity was returned since the last sort
        self.loosened = 0
        self.crowded = False  # True if each node's limit on the number of pods is also checked
        self.near = True  # True if the last pods fitted at the first few positions
        # The looseness of each row; NaN: the row is not in the order.
        self._looseness_of_row: memoryview[Any] | None = None
        self.views: dict[str, memoryview[int]] = {name: column.data for name, column in self.free.items()}
        self.row_at: memoryview[int] = self.rows.data
        self._parts: list[tuple[memoryview[int], memoryview[int], int, float]] = []
        self._sides = {
            name: ResourceColumn(column, self.views[name], self.scales[name], 0.0 if name in ORDINARY else BEHIND)
            for name, column in self.free.items()
        }
        self._asked: dict[Demand, ResourceRequest] = {}
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
                column[:] = column[order]  # in place, so that references to the columns stay valid
        self.grown = False
        self.loosened += 1
        self.ties_by_row = not (self.packed and len(self.rows) > 1)

    def asked(self, demand: Demand) -> ResourceRequest | None:
        """Return the request of the demand's pods for this order; None if no node has one of the resources."""
        known = self._asked.get(demand)
        if known is None:
            if len(self._asked) >= REMEMBERED:
                self._asked.clear()
            try:
                known = self._asked[demand] = ResourceRequest(demand.asks, self._sides, crowded=self.crowded)
            except KeyError:
                return None
        return known

    def holding(self, asked: ResourceRequest, allowed: matching.Rows | None) -> Iterator[int]:
        """Yield the positions at which a pod with this request fits, in order. `allowed`: the mask of positions that
        may be used; None: all.

        The limit on the number of pods of a node is checked only after some node has reached it (`crowded`). Between
        two yields, the caller may take capacity from positions that were already yielded."""
        known, counted = asked.since == self.loosened, asked.counted
        first = asked.at if known else self.first(asked.least)
        near = len(self.rows) if self.few else min(first + PROBED, len(self.rows))
        probed = near if known or self.near else first
        for position in range(first, probed):
            for _, view, amount in counted:
                if view[position] < amount:
                    break
            else:
                if allowed is None or allowed[position]:
                    yield position
        for start in range(probed, len(self.rows), CHUNK):
            stop = start + CHUNK
            fits = None if allowed is None else allowed[start:stop].copy()
            for column, _, amount in counted:
                enough = column[start:stop] >= amount
                if fits is None:
                    fits = enough
                else:
                    fits &= enough
            assert fits is not None  # every pod requests at least the resource `pods`
            found = fits.tobytes()  # to search in bytes is faster than to build a list
            at = found.find(True)
            self.near = -1 < at < near - start
            while at >= 0:
                yield start + at
                at = found.find(True, at + 1)

    def first(self, least: float) -> int:
        """Return the first position whose looseness at the last sort was at least `least`. If nodes have only lost
        capacity since then, no earlier node can have this looseness now. Otherwise return 0."""
        return 0 if self.grown else bisect_left(self._looseness, least)

    def crowd(self) -> None:
        """Make the order check the number of pods of each node from now on. The caller does this when a node has the
        amounts for one more pod, but already has the largest number of pods."""
        self.crowded = True
        self._asked.clear()

    def follow(self) -> bool:
        """Update the order from the node table. Return False if this is not possible, because a node has become usable
        or unusable, or too many rows have changed."""
        columns = self.columns
        if len(self.free) < len(columns.free) or len(self.strayed) > MOVED:
            return False
        changed = columns.touched
        for position in self.strayed:
            changed[self.row_at[position]] = None
        if len(changed) > MOVED:
            return False
        ready, ordered, parts = columns.attributes.ready, len(self._looseness) > 0, self._parts or self._know_parts()
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
                    # This is computed in the same way as in `renew`, so the results are equal to the last bit.
                    looseness += amount / scale + behind
            if ordered and looseness != self._looseness[position]:
                self._move(row, position, looseness)
        self.strayed.clear()
        self.grown = False
        self.loosened += 1
        return True

    def _know_parts(self) -> list[tuple[memoryview[int], memoryview[int], int, float]]:
        """Return (free amounts in the node table, free amounts in the order, scale, addition) for each resource."""
        self._parts = [
            (self.columns.view(name), view, self.scales[name], 0.0 if name in ORDINARY else BEHIND)
            for name, view in self.views.items()
        ]
        return self._parts

    def _position_of(self, row: int) -> int:
        """Return the position of the row; -1 if it is not in the order."""
        rows, ordered = self.row_at, len(self._looseness) > 0
        position = self._place_of(row, self._known()[row]) if ordered else bisect_left(rows, row)
        return position if position < len(rows) and rows[position] == row else -1

    def _place_of(self, row: int, looseness: float) -> int:
        """Return the position at which a row with this looseness belongs."""
        order = self._looseness
        first = bisect_left(order, looseness)
        return bisect_left(self.row_at, row, first, bisect_right(order, looseness, first))

    def _known(self) -> memoryview[Any]:
        """Return for each row the looseness by which it was sorted."""
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
            view[target] = view[source]  # a view moves overlapping parts in place; an array would make a copy
            view[to] = kept


def ordered_nodes(columns: NodeTable, *, packed: bool) -> NodeOrder:
    """Return the nodes in packing order. If possible, this is the updated order of the last cycle; otherwise it is a
    new one. The caller stores the order again (`NodeTable.node_order`) at the end of the cycle."""
    layout: NodeOrder | None = columns.node_order
    columns.node_order = None
    if layout is None or layout.packed is not packed or not layout.ties_by_row or not layout.follow():
        layout = NodeOrder(columns, packed=packed)
    columns.touched.clear()
    return layout


def usable_rows(columns: NodeTable) -> NDArray[np.intp]:
    """Return the rows of nodes on which pods may be placed. A node that the world has overcommitted gets no further
    pods."""
    usable = columns.attributes.ready.copy()
    for column in columns.free.values():
        usable &= column >= 0
    return usable.nonzero()[0]
