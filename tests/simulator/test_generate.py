"""Generated workloads: what is drawn has the distribution that it should, and depends on the seed alone."""

from __future__ import annotations

import itertools
from statistics import NormalDist, mean, median

import pytest

from phalanx.simulator.generate import DAY_S, Recipe, generated, scaled, shaken
from phalanx.simulator.readers import swf
from tests.simulator.builders import KTH, task

NORMAL = NormalDist()


def test_poisson_arrivals_have_their_mean() -> None:
    tasks = generated(Recipe(jobs=4000, every_s=30), seed=1)
    gaps = [b.job.submitted_s - a.job.submitted_s for a, b in itertools.pairwise(tasks)]
    assert mean(gaps) == pytest.approx(30, rel=0.05)
    assert median(gaps) == pytest.approx(30 * 0.693, rel=0.1)  # of an exponential: mean times ln 2


@pytest.mark.slow
def test_a_day_has_its_course() -> None:
    tasks = generated(Recipe(jobs=20_000, every_s=60, swing=0.9, peak_s=14 * 3600), seed=1)
    hours = [int(each.job.submitted_s % DAY_S // 3600) for each in tasks]
    assert hours.count(14) > 8 * hours.count(2)
    assert mean(b.job.submitted_s - a.job.submitted_s for a, b in itertools.pairwise(tasks)) == pytest.approx(
        60, rel=0.05
    )


def test_a_trace_is_drawn_from_whole_records() -> None:
    log = swf.read(KTH).tasks
    tasks = generated(Recipe(jobs=500, every_s=10, like=log), seed=3)
    known = {(each.job.roles, each.run_s, each.job.limit_s, each.job.user) for each in log}
    assert {(each.job.roles, each.run_s, each.job.limit_s, each.job.user) for each in tasks} <= known
    assert len({each.job.id for each in tasks}) == 500


def test_load_shrinks_the_time_between_submissions_and_nothing_else() -> None:
    tasks = [task("a", 100, 5, 3), task("b", 160, 7, deadline_s=200.0)]
    found = scaled(tasks, 2.0)
    assert [each.job.submitted_s for each in found] == [100, 130]
    assert found[1].job.deadline_s == 170
    assert [each.run_s for each in found] == [5, 7]


def test_shaking_moves_submissions_a_little_and_keeps_them_in_order() -> None:
    tasks = [task(f"j{index}", index, 5) for index in range(200)]
    found = shaken(tasks, 5, seed=1)
    assert all(abs(each.job.submitted_s - int(each.job.id[1:])) <= 5 for each in found)
    times = [each.job.submitted_s for each in found]
    assert times == sorted(times)
    assert times != [each.job.submitted_s for each in shaken(tasks, 5, seed=2)]
