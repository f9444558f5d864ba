"""Count how many pods of each pending demand would fit on the nodes, before a cycle makes its decisions.

A node is usable if it is ready, not overcommitted, and meets the node constraints of the demand. The count of a demand
is the sum over all usable nodes. The count on one node is limited by the scarcest resource: the requested resource of
which the node has enough for the fewest pods. If the free amounts of a node (row) have changed since the last count,
the change of the node's count is added to the sum. So the cost of a cycle is proportional to the number of pending
demands times the number of changed rows. Free amounts are divided by requests only for rows on which at least one pod
of the demand fits. A full cluster has few such rows. If the attributes of a node (such as its labels) have changed, all
demands are counted again on all nodes.

The amounts are divided in float64. The number of pods is still exact: both amounts are integers below 2**53, so a
quotient just below a whole number is not rounded up to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters import matching
from phalanx.state.classes import NodeConstraints
from phalanx.state.cluster import Cluster
from phalanx.state.nodes.table import NodeTable
from phalanx.state.pending.placement_class import Capacity

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]

FEW = 64  # for at most this many pairs (demand, row), a plain loop is faster than operations on arrays
# Operations on arrays process at most this many pairs (demand, row) at a time, so that the arrays stay in the
# processor's cache.
PAIRS = 1 << 18


def bring_up_to_date(cluster: Cluster) -> None:
    """Bring the counts up to date. Demands that were counted before are counted again only on nodes that have changed
    since the last call. New demands are counted on all nodes."""
    pending, columns = cluster.pending, cluster.columns
    known, changed, described = pending.capacity, columns.recharged, (columns.described, len(columns.free))
    known.grown[:] = False
    if len(columns.row_of) * len(known.number_of) <= FEW:
        if changed or known.uncounted or known.counted_at != columns.described:
            count_few(known, columns, pending.grown, failed=bool(pending.placement_classes.failed))
        known.counted_at = columns.described
    elif known.counted_at != described:
        look_at_failed(cluster)
        everything(known, columns)
        known.counted_at = described
    else:
        since(known, columns, changed, pending.grown)
        if known.uncounted:
            count(known, columns, np.array(list(known.uncounted), np.intp))
    changed.clear()
    pending.grown.clear()
    known.uncounted.clear()


def look_at_failed(cluster: Cluster) -> None:
    """Check the demands of placement classes whose trial placement has failed. For each of these demands, record
    whether one pod fits on a row whose free amounts have grown."""
    pending, columns = cluster.pending, cluster.columns
    known = pending.capacity
    if pending.placement_classes.failed and pending.grown:
        rows = np.fromiter(pending.grown, np.intp, len(pending.grown))
        numbers = np.array(
            sorted({demand for found in pending.placement_classes.failed for demand, _ in found.demands}), np.intp
        )
        amounts = by_resource(known, {name: column[rows] for name, column in columns.free.items()}, len(rows))
        pods(known, columns, numbers, rows, amounts, np.ones(len(rows)), columns.lowest_free(rows) >= 0)


def everything(known: Capacity, columns: NodeTable) -> None:
    """Count all demands on all rows."""
    known.free = {resource: column.copy() for resource, column in columns.free.items()}
    numbers = [number for number, demand in enumerate(known.demands) if demand is not None]
    count(known, columns, np.array(numbers, np.intp))


def count(known: Capacity, columns: NodeTable, numbers: Ints) -> None:
    """Count the demands `numbers` on all rows, by the free amounts of the last count (`Capacity.free`)."""
    free = known.free
    lowest = np.zeros(columns.capacity, np.int64)
    for column in free.values():
        np.minimum(lowest, column, out=lowest)
    rows = (columns.attributes.ready & (lowest >= 0)).nonzero()[0]
    amounts = by_resource(known, {resource: column[rows] for resource, column in free.items()}, len(rows))
    known.room[numbers] = pods(known, columns, numbers, rows, amounts, np.ones(len(rows)))


def count_few(known: Capacity, columns: NodeTable, grown: Collection[int], *, failed: bool) -> None:
    """Count all demands on all rows, one pair (demand, row) after the other. If there are few nodes, this takes less
    time than counting differences. `failed`: True if `Capacity.grown` must be updated as well, because a trial
    placement of at least one class has failed."""
    facts, views = columns.attributes, columns.views
    ready = [row for row in columns.row_of.values() if facts.ready[row]]
    usable = [row for row in ready if min([view[row] for view in views.values()], default=0) >= 0]
    for demand, number in known.number_of.items():
        matches = matching.matching(facts, demand.where).data
        known.room[number] = 0.0
        for row in usable:
            pods = min([views[name][row] // amount if name in views else 0 for name, amount in demand.asks])
            if pods and matches[row]:
                known.room[number] += pods
                if failed and row in grown:
                    known.grown[number] = True


def since(known: Capacity, columns: NodeTable, changed: Collection[int], grown: Collection[int]) -> None:
    """Update the counts: for each changed row, subtract the number of pods that fitted at the last count, and add the
    number of pods that fit now."""
    rows = np.fromiter(changed, np.intp, len(changed))
    rows = rows[columns.attributes.ready[rows]]
    before = {resource: column[rows] for resource, column in known.free.items()}
    after = {resource: column[rows] for resource, column in columns.free.items()}
    for resource, column in after.items():
        known.free[resource][rows] = column
    numbers = np.array([n for n, each in enumerate(known.demands) if each is not None], np.intp)
    if not len(numbers) or not len(rows):
        return
    both = {resource: np.concatenate((before[resource], after[resource])) for resource in after}
    signs = np.concatenate((np.full(len(rows), -1.0), np.ones(len(rows))))
    rows = np.concatenate((rows, rows))
    lowest = np.zeros(len(rows), np.int64)
    for column in both.values():
        np.minimum(lowest, column, out=lowest)
    usable = (lowest >= 0).nonzero()[0]
    rows, signs = rows[usable], signs[usable]
    amounts = by_resource(known, {resource: column[usable] for resource, column in both.items()}, len(rows))
    gains = signs > 0
    if gains.any():
        gains &= np.isin(rows, np.fromiter(grown, np.intp, len(grown)))
    known.room[numbers] += pods(known, columns, numbers, rows, amounts, signs, gains)


def by_resource(known: Capacity, amounts: dict[str, NDArray[np.int64]], rows: int) -> Floats:
    """Return the amounts as one array, indexed [resource, row]. The resources have the order of `Capacity.resources`. A
    resource that no node has gets the amount 0."""
    found = np.zeros((len(known.resources), rows))
    for resource, at in known.resources.items():
        column = amounts.get(resource)
        if column is not None:
            found[at] = column
    return found


def pods(
    known: Capacity,
    columns: NodeTable,
    numbers: Ints,
    rows: Ints,
    amounts: Floats,
    signs: Floats,
    gains: matching.Rows | None = None,
) -> Floats:
    """Return for each demand the number of pods that fit, summed over the rows. `signs`: for each row, 1 if its pods
    are added to the sum, -1 if they are subtracted. `gains`: the mask of rows whose free amounts have grown. If a pod
    of a demand fits on one of these rows, `Capacity.grown` is set for the demand."""
    total = np.zeros(len(numbers))
    if not len(numbers):
        return total
    # the mask of rows that have at least the smallest requested amount of each resource
    holding = np.ones(len(rows), np.bool_)
    for has, least in zip(amounts, known.asks[: len(amounts), numbers].min(axis=1).tolist(), strict=True):
        if least:
            holding &= has >= least
    rows, amounts, signs = rows[holding], amounts[:, holding], signs[holding]
    gains = None if gains is None else gains[holding]
    step = max(1, PAIRS // max(1, len(rows)))
    for at in range(0, len(numbers), step):
        some = numbers[at : at + step]
        asks = known.asks[: len(amounts), some]
        fits = matched(known, columns, some, rows)
        for asked, has in zip(asks, amounts, strict=True):
            if len(has) and has.min() < asked.max():
                fits &= has >= asked[:, None]
        demand, row = fits.nonzero()
        if len(demand):
            most = np.full(len(demand), np.inf)
            for asked, has in zip(asks, amounts, strict=True):
                asking = asked[demand]
                with np.errstate(divide="ignore", invalid="ignore"):
                    np.fmin(most, has[row] / asking, out=most)
            total[at : at + step] = np.bincount(demand, np.floor(most) * signs[row], len(some))
            if gains is not None:
                known.grown[some[demand[gains[row]]]] = True
    return total


def matched(known: Capacity, columns: NodeTable, numbers: Ints, rows: Ints) -> NDArray[np.bool_]:
    """Return a mask, indexed [demand, row]. An entry is True if the node of the row meets the node constraints of the
    demand."""
    found, masks = np.ones((len(numbers), len(rows)), np.bool_), dict[NodeConstraints, matching.Rows | None]()
    for at, number in enumerate(numbers.tolist()):
        if (demand := known.demands[number]) is None:
            continue
        if demand.where not in masks:
            mask = matching.matching(columns.attributes, demand.where)[rows]
            masks[demand.where] = None if mask.all() else mask
        if (matches := masks[demand.where]) is not None:
            found[at] = matches
    return found
