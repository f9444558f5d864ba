"""`model/status.py`: what a queue has borrowed."""

from __future__ import annotations

import pytest

from phalanx.model.status import ResourceUsage


@pytest.mark.parametrize(
    ("used", "guaranteed", "owned", "borrowed"),
    [(6, 4, True, 2), (3, 4, True, 0), (6, None, True, 6), (6, None, False, 0), (6, 0, True, 6)],
)
def test_usage_above_the_guarantee_is_borrowed(used: int, guaranteed: int | None, owned: bool, borrowed: int) -> None:
    """Of a resource that no queue of the tree is guaranteed, nothing can be borrowed."""
    usage = ResourceUsage(flavor="", resource="cpu", used=used, guaranteed=guaranteed, owned=owned)
    assert usage.borrowed == borrowed
