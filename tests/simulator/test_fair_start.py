"""Jobs that would have started earlier without later submissions."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

import pytest

from phalanx import loop
from phalanx.simulator.measures.fairness import fair_starts, sampled
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.workload import Task, Workload
from tests.simulator.builders import starts, task, workload


def found(policy: str, *jobs: Task, size: int, count: int = 9) -> tuple[dict[str, float | None], dict[str, float]]:
    """When each started, and the measures."""
    again = partial(play, setup=built_in(policy), step=loop.step)
    schedule = again(workload(*jobs, size=size))
    return starts(schedule), fair_starts(schedule, again, count)


# On 4 processors: a (3) runs 0 to 10. b wants all 4. c (1), which comes later, would run beside a, until 30.
THREE = task("a", 0, 10, 3), task("b", 1, 5, 4), task("c", 2, 28, 1)


def test_a_job_that_is_delayed_by_a_later_one_has_missed_its_fair_start() -> None:
    when, measures = found("greedy", *THREE, size=4)
    assert when == {"a": 0, "b": 30, "c": 2}
    # Without c, b would have started at 10: 20 s earlier. No job was submitted after c, and a started at once.
    assert measures == {
        "fair_start_jobs": 3,
        "fair_start_miss_ratio": pytest.approx(1 / 3),
        "mean_fair_start_miss_s": pytest.approx(20 / 3),
        "max_fair_start_miss_s": 20,
    }


def test_first_come_first_served_is_fair() -> None:
    when, measures = found("fifo", *THREE, size=4)
    assert when == {"a": 0, "b": 10, "c": 15}
    assert (measures["fair_start_miss_ratio"], measures["max_fair_start_miss_s"]) == (0, 0)


def test_those_of_the_same_moment_come_in_the_order_of_the_trace() -> None:
    jobs = task("a", 0, 10, 3), task("b", 1, 5, 4), task("c", 1, 28, 1)
    assert found("greedy", *jobs, size=4)[1]["max_fair_start_miss_s"] == 18 + 1


def test_a_sample_is_spread_evenly_over_those_that_started() -> None:
    jobs = [task(f"j{at}", at, 1) for at in range(12)] + [task("never", 20, 1, 99)]
    schedule = play(workload(*jobs, size=4), built_in("greedy"), loop.step)
    assert [fate.task.job.id for fate in sampled(schedule.fates, 3)] == ["j2", "j6", "j10"]
    assert len(sampled(schedule.fates, 99)) == 12


def test_who_starts_at_once_is_not_played_again() -> None:
    schedule = play(workload(task("a", 0, 9)), built_in("greedy"), loop.step)

    def again(of: Workload) -> NoReturn:
        raise AssertionError("nobody waited")

    assert fair_starts(schedule, again, 9)["fair_start_jobs"] == 1


def test_what_is_stopped_meanwhile_says_nothing() -> None:
    again = partial(play, setup=built_in("greedy"), step=loop.step)
    schedule = again(workload(*THREE, size=4))
    assert fair_starts(schedule, partial(again, stopped=lambda: True), 9)["fair_start_jobs"] == 1  # b is not known
    schedule.fates[0].start_s = None
    assert fair_starts(schedule, partial(again, stopped=lambda: True), 9) == {}
