"""`simulator/report/chart.py`: charts as inline SVG."""

from __future__ import annotations

import pytest

from phalanx.simulator.report.chart import duration, round_ticks, time_ticks


@pytest.mark.parametrize(("high", "ticks"), [(100, [0, 50, 100]), (7, [0, 2, 4, 6]), (0, [0]), (0.5, [0, 0.2, 0.4])])
def test_ticks_are_round(high: float, ticks: list[float]) -> None:
    assert round_ticks(high) == pytest.approx(ticks)


def test_times_are_written_as_people_say_them() -> None:
    assert [duration(seconds) for seconds in (5, 90, 5400, 200_000)] == ["5 s", "1.5 min", "1.5 h", "2.3 d"]
    assert [label for _, label in time_ticks(86_400 * 10)] == ["0 d", "2 d", "4 d", "6 d", "8 d", "10 d"]
