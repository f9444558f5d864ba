"""Failed pods are replaced after 10 s, 20 s, 40 s … of their end; a success starts the count anew."""

from __future__ import annotations

import pytest

from phalanx.embedded.controllers.job.decide import Pace, Streak
from tests.embedded.controllers.objects import NOW_S, pod


@pytest.mark.parametrize(("failures", "delay_s"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (99, 600)])
def test_the_delay_doubles_up_to_ten_minutes(failures: int, delay_s: float) -> None:
    assert Pace().remaining_s(failures, NOW_S, NOW_S) == delay_s


def test_time_since_the_failure_is_waited_already() -> None:
    assert Pace().remaining_s(2, NOW_S - 15, NOW_S) == 5
    assert Pace().remaining_s(1, NOW_S - 15, NOW_S) == 0


def test_failures_add_up_until_a_success() -> None:
    first = Streak().after([], [pod("Failed", ended_s=NOW_S - 30), pod("Failed", ended_s=NOW_S - 20)])
    assert (first.failures, first.last_s) == (2, NOW_S - 20)
    assert first.after([], []) is first
    assert first.after([], [pod("Failed", ended_s=NOW_S)]).failures == 3
    assert first.after([pod("Succeeded", ended_s=NOW_S)], []) == Streak()


def test_only_failures_after_the_newest_success_remain() -> None:
    failed = [pod("Failed", ended_s=NOW_S - 50), pod("Failed", ended_s=NOW_S - 10)]
    streak = Streak(failures=5, last_s=NOW_S - 60).after([pod("Succeeded", ended_s=NOW_S - 30)], failed)
    assert (streak.failures, streak.last_s) == (1, NOW_S - 10)


def test_an_index_waits_by_the_failures_its_last_pod_carries() -> None:
    last = pod("Failed", index=0, failures=2, ended_s=NOW_S)
    assert Pace().remaining_of_index_s(last, NOW_S) == 40
    assert Pace().remaining_of_index_s(None, NOW_S) == 0
