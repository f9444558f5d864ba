"""Preemption in rounds: those with least left run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx import loop
from phalanx.simulator.readers import muri
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.schedule import Schedule
from phalanx.simulator.workload import Task, gpu_nodes
from tests.simulator.builders import DATA, ends, played, starts, task


def in_rounds(*tasks: Task, policy: str = "srtf", size: int = 4) -> Schedule:
    return played(*tasks, size=size, policy=policy)


def test_who_has_less_left_takes_over_and_nothing_saved_is_lost() -> None:
    found = in_rounds(task("long", 0, 100, 4), task("short", 10, 20, 4))
    assert starts(found) == {"long": 0, "short": 10}
    assert ends(found) == {"long": 120, "short": 30}


def test_who_is_nearly_done_is_not_stopped_by_a_shorter_job() -> None:
    found = in_rounds(task("nearly", 0, 100, 4), task("shorter", 90, 20, 4))
    assert ends(found) == {"nearly": 100, "shorter": 120}


def test_by_service_a_large_job_counts_for_more() -> None:
    large, small = task("large", 0, 100, 4), task("small", 10, 120, 1)
    assert ends(in_rounds(large, small)) == {"large": 100, "small": 220}
    assert ends(in_rounds(large, small, policy="srsf")) == {"large": 220, "small": 130}


def test_every_round_costs_all_that_ran_in_it() -> None:
    costly = replace(task("costly", 0, 100, 1), restart_s=7.0)
    found = in_rounds(costly, task("beside", 50, 10, 1))
    # Its rounds end at 50 and at 60; the last one, to its end, costs nothing.
    assert ends(found) == {"costly": 114, "beside": 60}
    assert (found.fates[0].lost_s, found.fates[0].preemptions) == (14, 2)


def test_a_round_that_is_shorter_than_a_restart_is_lost_and_no_more() -> None:
    costly = replace(task("costly", 0, 100, 1), restart_s=7.0)
    found = in_rounds(costly, task("a", 50, 100, 1), task("b", 52, 100, 1))
    assert ends(found)["costly"] == 109


def test_all_that_comes_at_once_is_one_round() -> None:
    costly = replace(task("costly", 0, 100, 1), restart_s=5.0)
    found = in_rounds(costly, *(task(f"new-{each}", 50, 200, 1) for each in range(3)))
    assert ends(found)["costly"] == 105
    assert found.passes == 5  # nodes; the first job; three more; its end; the end of all three


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["srtf", "srsf"])
def test_the_same_schedule_every_time(policy: str) -> None:
    workload = replace(muri.read(DATA / "muri.csv"), nodes=gpu_nodes(8, 8))
    first, second = (play(workload, built_in(policy), loop.step) for _ in range(2))
    assert first.sha256() == second.sha256()
    assert all(fate.end_s is not None for fate in first.fates)
