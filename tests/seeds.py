"""Which parameters of a test each target plays: a few in `make check`, a sample in `make test`, the others in
`make slow`. `PHALANX_SEEDS` says which seeds there are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest


def mostly_slow(values: Sequence[Any], fast: int, sample: int | None = None) -> list[Any]:
    """Return the values with marks: the first `fast` have none, those up to `sample` are slow, all others are long.
    `sample` None: no value is long."""
    sample = len(values) if sample is None else sample
    slow = [pytest.param(value, marks=pytest.mark.slow) for value in values[fast:sample]]
    return [*values[:fast], *slow, *(pytest.param(value, marks=pytest.mark.long) for value in values[sample:])]


def seeds(*, count: int) -> range:
    """The seeds that `PHALANX_SEEDS` says: `200` the first 200, `20000-20400` those from 20000 to 20400; without it the
    first `count`."""
    first, dash, last = os.environ.get("PHALANX_SEEDS", str(count)).partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))
