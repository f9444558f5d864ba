"""Scores of nodes that are expensive to compute, kept from cycle to cycle.

There is a score for each demand and row, with the stamp of the row (`NodeTable.stamps`) for which it is valid.
Decisions write scores here; these change the cost of later decisions, but not their results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 1 << 24  # the largest number of stored scores, of 16 bytes each


class ScoreCache:
    """The cache. `expected`: the pods for which the scores were computed; other expectations empty it."""

    def __init__(self) -> None:
        self.expected: object = None
        # (number of jobs when typical pods were last computed, these typical pods).
        self.typical: tuple[int, Any] = (0, None)
        self._known: dict[object, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}

    def of(self, key: object, rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return (score of each row, stamp for which it is valid; -1: not computed). The caller may write to both
        arrays."""
        known = self._known.get(key)
        if known is None or len(known[0]) < rows:
            if (len(self._known) + 1) * rows > REMEMBERED:
                self._known.clear()
            known = self._known[key] = (np.zeros(rows), np.full(rows, -1, np.int64))
        return known

    def expect(self, expected: object) -> None:
        """Empty the cache if the expected pods differ from those for which it was computed."""
        if self.expected is not expected:
            self.expected = expected
            self._known.clear()
