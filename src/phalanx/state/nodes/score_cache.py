"""Scores of nodes that are dear to compute, remembered from cycle to cycle: per demand and row, and as of which stamp
of the row (`Columns.stamps`). What deciding writes here changes no decision, only what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 1 << 24  # cells (a demand and a row) of 16 bytes


class ScoreCache:
    """`expected`: what the scores were computed for; another value empties the memory."""

    def __init__(self) -> None:
        self.expected: object = None
        self.typical: tuple[int, Any] = (0, None)  # the number of jobs when typical pods were last found, and those
        self._known: dict[object, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}

    def of(self, key: object, rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """(the score of each row, the stamp as of which it is right; -1: never)."""
        known = self._known.get(key)
        if known is None or len(known[0]) < rows:
            if (len(self._known) + 1) * rows > REMEMBERED:
                self._known.clear()
            known = self._known[key] = (np.zeros(rows), np.full(rows, -1, np.int64))
        return known

    def expect(self, expected: object) -> None:
        if self.expected is not expected:
            self.expected = expected
            self._known.clear()
