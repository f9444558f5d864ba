"""`simulator/report/picture.py`: one schedule, reduced to the data that a page draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.simulator.report.picture import BINS, OTHERS, PARTIES, lowest
from tests.simulator.test_page import drawn, line, played


def test_use_and_queue_over_time_are_those_of_the_schedule(tmp_path: Path) -> None:
    picture = drawn(played(tmp_path, line(1, 0, 100, 4), line(2, 0, 100, 2)))
    half = BINS // 2
    assert [sum(column) for column in zip(*picture.used, strict=True)] == pytest.approx([4.0] * half + [2.0] * half)
    assert picture.queued == pytest.approx([1.0] * half + [0.0] * half)
    assert picture.waiting == pytest.approx([2.0] * half + [0.0] * half)
    assert (picture.waits[0], picture.waits[-1]) == (0.0, 100.0)


def test_who_waited_longest_for_least_is_named_with_why(tmp_path: Path) -> None:
    picture = drawn(played(tmp_path, line(1, 50, 1000, 4), line(2, 50, 10, 2), line(3, 1050, 10, 2)))
    assert [(worst.job, worst.slowdown, worst.wait_s) for worst in picture.worst] == [("2", 101.0, 1000.0)]
    assert picture.worst[0].submitted_s == 0  # a log's times may be those of its year
    assert "cpu asked" in picture.worst[0].reason


def test_those_who_used_least_are_drawn_together(tmp_path: Path) -> None:
    lines = [line(number, 0, 100 + number, 1, user=number) for number in range(1, 21)]
    picture = drawn(played(tmp_path, *lines))
    assert len(picture.parties) == PARTIES + 1
    assert picture.parties[-1] == OTHERS


def test_a_party_has_the_same_colour_under_every_policy(tmp_path: Path) -> None:
    """Though under one of them it is over before the other has begun to be used."""
    lines = [line(1, 0, 50, 4, user=1), line(2, 0, 100, 3, user=2), line(3, 0, 90, 1, user=3)]
    pictures = [drawn(played(tmp_path, *lines, policy=policy)) for policy in ("fifo", "easy-sjbf")]
    assert [picture.parties for picture in pictures] == [("2", "1", "3")] * 2


def test_jobs_on_a_node_lie_beside_each_other() -> None:
    taken: list[tuple[float, float, float]] = []
    assert lowest(taken, 0, 10, 0.5) == 0
    assert lowest(taken, 0, 20, 0.25) == 0.5
    assert lowest(taken, 10, 20, 0.5) == 0
    assert lowest(taken, 12, 20, 0.5) == 0.5  # where there is no gap that large, it lies over others
