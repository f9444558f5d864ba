"""Count how many pods of each pending demand the nodes hold, before a cycle decides anything.

Each usable node is counted by itself (ready, not overcommitted, matched by the demand). It holds the fewest pods that
the free amount of any resource allows. For rows that were charged since the last count, the difference between now and
then is added. So a cycle costs the pending demands times the changed rows. Only pairs of a demand and a row that holds
a pod of it need a division; on a full cluster these are few. After a node has changed everything is counted again.

If one order decides which job is next (`state.queue_tree`), it does not matter whether classes without capacity are
candidates. Then nothing is counted after many changes, and each class is counted when it is tried.

Division in float64 is exact here. Both sides are integers below 2**53, so a quotient that is not whole is further below
the next whole number than rounding reaches."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters import matching
from phalanx.model.pod import Amounts
from phalanx.state.cluster import Cluster
from phalanx.state.nodes.table import NodeTable
from phalanx.state.pending.capacity import Capacity

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]

FEW = 64  # demands times rows; up to this number, to count one by one is faster than by columns
MUCH = 40_000  # demands times rows; more are counted only if the result is needed
PAIRS = 1 << 18  # demands times rows compared in one operation: they stay in the processor's cache


def bring_up_to_date(cluster: Cluster, *, exact: bool) -> None:
    """Count the changes since the last time. `exact`: count all of them, and demands that were never counted.
    Otherwise, after many changes, nothing is counted until there are fewer changes, and no class counts as blocked."""
    pending, columns = cluster.pending, cluster.columns
    known, rows = pending.capacity, columns.recharged
    if len(columns.row_of) * len(known.number_of) <= FEW:
        if rows or known.uncounted or known.counted_at != columns.described:
            new = {} if exact else {number: None for number, seen in known.uncounted.items() if not seen}
            known.uncounted = dict.fromkeys(new, True)
            if len(new) < len(known.number_of):
                count_few(known, columns, pending.grown, new, failed=bool(pending.failed))
        known.counted_at, known.behind = columns.described, 0
        rows.clear()
        pending.grown.clear()
        return
    if known.counted_at != (columns.described, len(columns.free)):
        look_at_failed(cluster)
        everything(known, columns)
        known.counted_at = (columns.described, len(columns.free))
        rows.clear()
    elif exact or len(rows) * len(known.number_of) <= MUCH:
        since(known, columns, rows, pending.grown)
        rows.clear()
    else:
        look_at_failed(cluster)
        if (len(rows) - known.behind) * len(known.number_of) <= MUCH:  # few changes: count a part of the rest
            some = dict.fromkeys(islice(rows, MUCH // len(known.number_of)))
            since(known, columns, some, ())
            for row in some:
                del rows[row]
    known.behind = len(rows)
    pending.grown.clear()
    if known.uncounted:
        count_new(known, columns, exact=exact)


def count_new(known: Capacity, columns: NodeTable, *, exact: bool) -> None:
    """Count demands that were never counted. Demands that are new in this cycle are counted only if `exact` is set."""
    numbers = [number for number, seen in known.uncounted.items() if seen or exact]
    known.uncounted = dict.fromkeys(known.uncounted, True)
    if not numbers:
        return
    count(known, columns, np.array(numbers, np.intp))


def look_at_failed(cluster: Cluster) -> None:
    """For each demand of a failed class, note whether a row that gained free amounts holds a pod of it."""
    pending, columns = cluster.pending, cluster.columns
    known = pending.capacity
    classes = [found for number in pending.failed if (found := pending.placement_classes[number]) is not None]
    if classes and pending.grown:
        rows = np.fromiter(pending.grown, np.intp, len(pending.grown))
        numbers = np.array(sorted({demand for found in classes for demand, _ in found.demands}), np.intp)
        amounts = by_resource(known, {name: column[rows] for name, column in columns.free.items()}, len(rows))
        pods(known, columns, numbers, rows, amounts, np.ones(len(rows)), columns.lowest_free(rows) >= 0)


def everything(known: Capacity, columns: NodeTable) -> None:
    """Count all demands on all rows."""
    known.free = {resource: column.copy() for resource, column in columns.free.items()}
    numbers = [number for number, demand in enumerate(known.demands) if demand is not None]
    count(known, columns, np.array(numbers, np.intp))


def count(known: Capacity, columns: NodeTable, numbers: Ints) -> None:
    """Count these demands on all rows, as the rows were when they were last counted."""
    free = known.free
    lowest = np.zeros(columns.capacity, np.int64)
    for column in free.values():
        np.minimum(lowest, column, out=lowest)
    rows = (columns.attributes.ready & (lowest >= 0)).nonzero()[0]
    amounts = by_resource(known, {resource: column[rows] for resource, column in free.items()}, len(rows))
    known.room[numbers] = pods(known, columns, numbers, rows, amounts, np.ones(len(rows)))
    for number in numbers.tolist():
        known.uncounted.pop(number, None)


def count_few(
    known: Capacity, columns: NodeTable, grown: Collection[int], new: Collection[int], *, failed: bool
) -> None:
    """Count all demands except new ones on all rows, pair by pair. With few nodes this costs less than to follow
    changes. `failed`: a class has failed, so rows that gained amounts are noted."""
    for number in known.number_of.values():
        if number not in new:
            known.room[number] = 0.0
    for row in columns.row_of.values():
        count_row(known, columns, row, columns.free_of(row), 1, gains=failed and row in grown)


def count_row(
    known: Capacity, columns: NodeTable, row: int, free: dict[str, int], sign: int, *, gains: bool = False
) -> None:
    """Add (`sign` 1) or subtract (-1) the pods of each demand that the row holds with `free` free amounts. `gains`:
    note which demands have a pod that fits."""
    facts = columns.attributes
    if not facts.ready[row] or min(free.values(), default=0) < 0:
        return
    for demand, number in known.number_of.items():
        pods = held_by(free, demand.asks)
        if pods and (matching.matches_all(facts, demand.where) or matching.matching(facts, demand.where)[row]):
            known.room[number] += sign * pods
            if gains:
                known.grown[number] = known.has_grown = True


def count_changed(known: Capacity, columns: NodeTable, row: int, *, gains: bool) -> None:
    """Update the count of pods that fit, for every demand, on a row whose free amounts changed."""
    count_row(known, columns, row, {name: int(column[row]) for name, column in known.free.items()}, -1)
    count_row(known, columns, row, free := columns.free_of(row), 1, gains=gains)
    if columns.attributes.ready[row]:
        for resource, amount in free.items():
            known.free[resource][row] = amount


def held_by(amounts: dict[str, int], asks: Amounts) -> int:
    """Return how many pods with these requests the amounts hold."""
    try:
        return max(0, min([amounts[resource] // amount for resource, amount in asks]))
    except KeyError:
        return 0  # one resource is missing


def since(known: Capacity, columns: NodeTable, changed: Collection[int], grown: Collection[int]) -> None:
    """Add the differences of the changed rows: pair by pair if the rows and the demands are few."""
    if len(changed) * len(known.number_of) <= FEW:
        for row in changed:
            count_changed(known, columns, row, gains=row in grown)
        return
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
    """Return the amounts [resource, row] in the order of the demands' columns; a resource that no node has is 0."""
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
    """Return, for each of these demands, how many pods the rows hold, each row times its sign. `gains`: rows for which
    it is noted whether they hold a pod."""
    total = np.zeros(len(numbers))
    if not len(numbers):
        return total
    holding = np.ones(len(rows), np.bool_)  # rows that hold a pod of the smallest demand
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
                known.grown[some[demand[gains[row]]]] = known.has_grown = True
    return total


def matched(known: Capacity, columns: NodeTable, numbers: Ints, rows: Ints) -> NDArray[np.bool_]:
    """Return [demand, row]: whether a pod may use the node, apart from amounts."""
    found = np.ones((len(numbers), len(rows)), np.bool_)
    for at, number in enumerate(numbers.tolist()):
        demand = known.demands[number]
        if demand is not None and not matching.matches_all(columns.attributes, demand.where):
            found[at] = matching.matching(columns.attributes, demand.where)[rows]
    return found
