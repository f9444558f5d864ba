"""Scores of nodes that are expensive to compute, kept from cycle to cycle.

They are kept per demand and row, with the stamp of the row (`NodeTable.stamps`) as of which they are right. What a
decision writes here changes no decision, only its cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 1 << 24  # cells (a demand and a row) of 16 bytes


class ScoreCache:
    """The cache. `expected`: the pods for which the scores were computed; other expectations empty it."""

    def __init__(self) -> None:
        self.expected: object = None
        self.typical: tuple[int, Any] = (0, None)  # the number of jobs when typical pods were last found, and those
        self._known: dict[object, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}

    def of(self, key: object, rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return (the score of each row, the stamp as of which it is right; -1: never), both to be read and written."""
        known = self._known.get(key)
        if known is None or len(known[0]) < rows:
            if (len(self._known) + 1) * rows > REMEMBERED:
                self._known.clear()
            known = self._known[key] = (np.zeros(rows), np.full(rows, -1, np.int64))
        return known

    def expect(self, expected: object) -> None:
        """Empty the cache if other pods are expected than it was computed for."""
        if self.expected is not expected:
            self.expected = expected
            self._known.clear()
