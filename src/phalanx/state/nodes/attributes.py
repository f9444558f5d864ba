"""The attributes of nodes as columns: labels, taints, names, readiness.

Label values are dictionary-encoded: each label key has an int32 column. It has the code of each row's label value, or 0
if the row's node does not have this label. So a selector over 5,000 nodes is one vector comparison, not 5,000 lookups.
The taints of a node are stored as one number, which stands for its whole set of taints, because the nodes of a cluster
have only a few different sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phalanx.model.node import Node, Taint

ABSENT = 0


class NodeAttributes:
    """The attributes of all nodes. Rows have the same numbers as in `NodeTable`, which also sets the size of the
    arrays. A row without a node is never `ready`.

    `derived`: a cache for results that other modules compute from the columns; every change empties it."""

    def __init__(self, capacity: int) -> None:
        self.derived: dict[object, Any] = {}
        self.capacity = capacity
        self.ready = np.zeros(capacity, np.bool_)
        self.unschedulable = np.zeros(capacity, np.bool_)
        self.soft_tainted = np.zeros(capacity, np.bool_)  # True for nodes with a taint that is only a preference
        self.names = np.zeros(capacity, np.int32)
        self.labels: dict[str, NDArray[np.int32]] = {}
        self.taints = np.zeros(capacity, np.int32)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.codes: dict[str, int] = {}
        self.values: list[str] = [""]  # code -> value; code 0 is "absent"
        self._taint_codes: dict[tuple[Taint, ...], int] = {(): 0}

    def write(self, row: int, node: Node | None) -> None:
        """Write the attributes of the node in this row. `node`: the node, or None for a row without a node."""
        self.derived.clear()
        self.ready[row] = node is not None and node.ready
        self.names[row] = ABSENT
        for column in self.labels.values():
            column[row] = ABSENT
        if node is None:
            return
        self.unschedulable[row] = node.unschedulable
        self.soft_tainted[row] = any(taint.effect == "PreferNoSchedule" for taint in node.taints)
        self.names[row] = self._code(node.name)
        self.taints[row] = self._taint_code(node.taints)
        for key, value in node.labels:
            if key not in self.labels:
                self.labels[key] = np.zeros(self.capacity, np.int32)
            self.labels[key][row] = self._code(value)

    def labelled(self, labels: tuple[tuple[str, str], ...]) -> NDArray[np.bool_]:
        """Return an array with True for each row whose node has all of these labels."""
        rows = np.ones(self.capacity, np.bool_)
        for key, value in labels:
            column, code = self.labels.get(key), self.codes.get(value)
            rows &= False if column is None or code is None else column == code
        return rows

    @property
    def remembered(self) -> int:
        """Return the number of stored label values and sets of taints. This includes values and sets that no node has
        any more."""
        return len(self.values) + len(self.taint_sets)

    def resize(self, capacity: int) -> None:
        """Enlarge the columns to `capacity` rows; new rows have no node."""
        self.capacity = capacity
        self.derived.clear()
        self.ready = extended(self.ready, capacity)
        self.unschedulable = extended(self.unschedulable, capacity)
        self.soft_tainted = extended(self.soft_tainted, capacity)
        self.names = extended(self.names, capacity)
        self.taints = extended(self.taints, capacity)
        self.labels = {key: extended(column, capacity) for key, column in self.labels.items()}

    def copy(self) -> NodeAttributes:
        other = NodeAttributes(0)
        other.capacity = self.capacity
        other.ready, other.unschedulable = self.ready.copy(), self.unschedulable.copy()
        other.soft_tainted = self.soft_tainted.copy()
        other.names, other.taints = self.names.copy(), self.taints.copy()
        other.labels = {key: column.copy() for key, column in self.labels.items()}
        other.taint_sets, other._taint_codes = list(self.taint_sets), dict(self._taint_codes)
        other.codes, other.values = dict(self.codes), list(self.values)
        return other

    def _code(self, value: str) -> int:
        code = self.codes.get(value)
        if code is None:
            code = self.codes[value] = len(self.values)
            self.values.append(value)
        return code

    def _taint_code(self, taints: tuple[Taint, ...]) -> int:
        code = self._taint_codes.get(taints)
        if code is None:
            code = self._taint_codes[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return code


def extended(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    """Return a copy of the column with `capacity` rows; the added rows are zero."""
    grown = np.zeros(capacity, column.dtype)
    grown[: len(column)] = column
    return grown
