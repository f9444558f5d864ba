"""`simulator/schedule.py`: walk through a schedule in time."""

from __future__ import annotations

import pytest

from phalanx.simulator.measures.measure import measure
from phalanx.simulator.schedule import Stint, spans, waits
from tests.simulator.builders import recorded, task, workload
from tests.simulator.test_measures import three_jobs


def test_spans_cut_the_time_at_every_change() -> None:
    assert [tuple(span) for span in spans(three_jobs())] == [
        (0, 10, 2, None),
        (10, 20, 2, 4),
        (20, 30, 2, 1),
        (30, 40, 4, 1),
        (40, 45, 1, None),
    ]


def test_work_that_is_lost_is_used_but_not_good() -> None:
    schedule = recorded(workload(task("a", 0, 30, 2), size=4), [(20, 50)])
    schedule.fates[0].start_s, schedule.fates[0].starts, schedule.fates[0].lost_s = 0, 2, 10
    schedule.stints = [Stint(0, 0, 10, schedule.stints[0].placements, True), *schedule.stints]
    found = measure(schedule)
    assert found["utilisation"] == pytest.approx(2 * 40 / (4 * 50))
    assert found["goodput"] == pytest.approx(30 / 40)
    assert (found["restarts"], found["restarted_jobs"], found["max_restarts"], found["lost_s"]) == (1, 1, 1, 10)
    assert found["lost_resource_hours"] == pytest.approx(2 * 10 / 3600)
    assert [tuple(wait) for wait in waits(schedule)] == [(0, 10, 20)]


def test_groups_have_percentiles_of_their_own() -> None:
    # One queue has the waits 0, 10, 20, 30 and 40; the other one has two waits of 90.
    jobs = [task(f"j{at}", 0, 100, queue=queue) for at, queue in enumerate("xxxxxyy")]
    spans = [(float(wait), wait + 100.0) for wait in (0, 10, 20, 30, 40, 90, 90)]
    found = measure(recorded(workload(*jobs), spans))["by_queue"]
    assert (found["x"]["jobs"], found["x"]["finished"]) == (5, 5)
    assert (found["x"]["median_wait_s"], found["x"]["p95_wait_s"]) == (20, pytest.approx(38))
    assert found["x"]["p99_jct_s"] == pytest.approx(100 + 39.6)
    assert found["x"]["median_bounded_slowdown"] == 1.2
    assert found["y"]["median_wait_s"] == found["y"]["p99_wait_s"] == 90
