"""Which parameters are tried: of many a few by `make check` too, all of them by `make test`; which seeds, as
`PHALANX_SEEDS` says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest


def mostly_slow(values: Sequence[Any], fast: int) -> list[Any]:
    """`values`, all but the first `fast` marked as slow."""
    return [*values[:fast], *(pytest.param(value, marks=pytest.mark.slow) for value in values[fast:])]


def seeds(*, count: int) -> range:
    """The seeds that `PHALANX_SEEDS` says: `200` the first 200, `20000-20400` those from 20000 to 20400; without it the
    first `count`."""
    first, dash, last = os.environ.get("PHALANX_SEEDS", str(count)).partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))
