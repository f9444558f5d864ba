"""Count how many pods of a demand each node holds (kube-scheduler's plugin NodeResourcesFit, as vector operations)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters.matching import Rows, cache_answer, matching
from phalanx.model.pod import Amounts
from phalanx.state.classes import Demand
from phalanx.state.nodes.table import NodeTable


def empty_capacity(columns: NodeTable, demand: Demand) -> int:
    """Return how many pods of the demand would fit on all matching nodes together if no pod ran. The result is cached
    with the node attributes."""
    known: int | None = columns.attributes.derived.get(demand)
    if known is None:
        rows = matching(columns.attributes, demand.where).nonzero()[0]
        known = int(pods_held(columns.allocatable, demand.asks, rows).sum())
        cache_answer(columns.attributes, demand, known)
    return known


def pods_held(columns: Mapping[str, NDArray[np.int64]], asks: Amounts, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return for each row in `rows` the number of pods with the requests `asks` that fit into the row's amounts in
    `columns`."""
    most: NDArray[np.int64] | None = None
    for resource, amount in asks:
        column = columns.get(resource)
        if column is None:
            return np.zeros(len(rows), np.int64)
        pods = column[rows] if amount == 1 else column[rows] // amount
        most = pods if most is None else np.minimum(most, pods, out=most)
    assert most is not None  # every pod requests at least the resource `pods`
    return np.maximum(most, 0, out=most)


def rows_that_fit(columns: Mapping[str, NDArray[np.int64]], asks: Amounts, allowed: Rows) -> NDArray[np.intp]:
    """Return the allowed rows on which at least one pod with the requests `asks` fits."""
    fits = allowed
    for resource, amount in asks:
        column = columns.get(resource)
        if column is None:
            return np.zeros(0, np.intp)
        fits = fits & (column >= amount)
    return fits.nonzero()[0]
