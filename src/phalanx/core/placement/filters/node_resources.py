"""How many pods of a demand each node holds (kube-scheduler's plugin NodeResourcesFit, as vector operations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters.matching import Rows, cache_answer, matching
from phalanx.model.pod import Amounts
from phalanx.state.classes import Demand
from phalanx.state.nodes.table import NodeTable


def empty_capacity(columns: NodeTable, demand: Demand) -> int:
    """Return how many pods of the demand all nodes it matches would hold if nothing ran. The answer is kept with the
    attributes."""
    known: int | None = columns.attributes.derived.get(demand)
    if known is None:
        rows = matching(columns.attributes, demand.where).nonzero()[0]
        known = int(pods_held(columns.allocatable, demand.asks, rows).sum())
        cache_answer(columns.attributes, demand, known)
    return known


def pods_held(columns: Mapping[str, NDArray[np.int64]], asks: Amounts, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return, for each of the rows, how many pods with these requests its amounts hold."""
    most: NDArray[np.int64] | None = None
    for resource, amount in asks:
        column = columns.get(resource)
        if column is None:
            return np.zeros(len(rows), np.int64)
        pods = column[rows] if amount == 1 else column[rows] // amount
        most = pods if most is None else np.minimum(most, pods, out=most)
    assert most is not None  # every pod asks one of `pods`
    return np.maximum(most, 0, out=most)


def rows_that_fit(columns: Mapping[str, NDArray[np.int64]], asks: Amounts, allowed: Rows) -> NDArray[np.intp]:
    """Return those of the allowed rows that hold at least one pod with these requests."""
    fits = allowed
    for resource, amount in asks:
        column = columns.get(resource)
        if column is None:
            return np.zeros(0, np.intp)
        fits = fits & (column >= amount)
    return fits.nonzero()[0]


def fits_each(
    columns: Mapping[str, NDArray[np.int64]], wanted: Sequence[Mapping[str, int]], size: int
) -> tuple[NDArray[np.intp], Rows]:
    """Return the positions that hold a pod with the least of all these requests, and [i, nth of those positions]:
    whether a pod with the i-th requests fits.

    On a full cluster the first step leaves few nodes for the second."""
    amounts = {
        resource: np.array([each.get(resource, 0) for each in wanted], np.int64)
        for resource in sorted(set().union(*wanted))
    }
    zeros = np.zeros(size, np.int64)
    some = np.ones(size, np.bool_)
    for resource, each in amounts.items():
        if least := int(each.min()):
            some &= columns.get(resource, zeros) >= least
    positions = some.nonzero()[0]
    fits = np.ones((len(wanted), len(positions)), np.bool_)
    for resource, each in amounts.items():
        column = columns.get(resource, zeros)[positions]
        more = (each > (column.min() if len(column) else 0)).nonzero()[0]  # the others fit everywhere
        fits[more] &= column >= each[more, None]
    return positions, fits


def not_overcommitted(columns: NodeTable) -> Rows:
    """Return the mask of rows that hold no more than they have. The world can overcommit a node; such a node takes
    nothing new."""
    return columns.lowest_free() >= 0
