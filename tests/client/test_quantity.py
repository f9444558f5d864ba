"""Quantities are read exactly, and rounded up where the unit is coarser (k8s.io/apimachinery/pkg/api/resource)."""

import pytest

from phalanx.client.quantity import QuantityError, amount


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        ("cpu", "500m", 500),
        ("cpu", "1", 1000),
        ("cpu", 2, 2000),
        ("cpu", "0.5", 500),
        ("cpu", "100u", 1),  # a tenth of a millicore still counts as one
        ("memory", "1Gi", 1 << 30),
        ("memory", "1.5Gi", 3 << 29),
        ("memory", "1e3", 1000),
        ("memory", "100m", 1),
        ("nvidia.com/gpu", "8", 8),
        ("memory", "9E", 9 * 10**18),
        ("memory", "-1Ki", -1024),
        ("cpu", "1e400", 2**63 - 1),  # an int64, as the real one gives
        ("memory", "1e400", 2**63 - 1),
        ("memory", "-1e400", -(2**63) + 1),
    ],
)
def test_amounts(resource: str, text: str, expected: int) -> None:
    assert amount(resource, text) == expected


@pytest.mark.parametrize(
    "text", ["", "1 Gi", "1gi", "1e", "ten", "1Gi2", "1\n", "9" * 5000, "1e999999999"], ids=lambda text: text[:8]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        amount("memory", text)
