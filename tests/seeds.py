"""Of many parameters a few are tried by `make check` too; all of them by `make test`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def mostly_slow(values: Sequence[Any], fast: int) -> list[Any]:
    """`values`, all but the first `fast` marked as slow."""
    return [*values[:fast], *(pytest.param(value, marks=pytest.mark.slow) for value in values[fast:])]
