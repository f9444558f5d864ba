"""`simulator/schedule.py`: statistics."""

from __future__ import annotations

import pytest

from phalanx.simulator.schedule import half_width_95, jain, mean, percentile


def test_statistics() -> None:
    assert mean([]) == 0
    assert percentile([1, 2, 3, 4], 0.5) == 2.5
    assert percentile([], 0.5) == 0
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([]) == 1
    assert half_width_95([1]) == 0
    assert half_width_95([1, 2, 3]) == pytest.approx(4.303 / 3**0.5)
