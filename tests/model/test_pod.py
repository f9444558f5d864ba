"""Amounts as people write them, in reasons, tables and status alike."""

from __future__ import annotations

import pytest

from phalanx.model.pod import format_amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1.5"),
        ("cpu", 1, "0.001"),
        ("cpu", 0, "0"),
        ("cpu", 1_280_000_500, "1280000.5"),  # a large cluster's, to the last millicore
        ("cpu", -500, "-0.5"),
        ("cpu", 2**63 - 1, "9223372036854775.807"),  # exact, although no float is
        ("nvidia.com/gpu", 2**63 - 1, "9223372036854775807"),
        ("memory", 10 << 50, "10Pi"),
        ("memory", 2**63 - 1, "8Ei"),
        ("memory", 3 << 29, "1.5Gi"),
        ("memory", -(1 << 30), "-1Gi"),
        ("memory", 1000, "1000"),
        ("pods", 7, "7"),
    ],
)
def test_shown_for_people(resource: str, amount: int, text: str) -> None:
    assert format_amount(resource, amount) == text
