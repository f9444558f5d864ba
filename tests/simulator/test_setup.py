"""`simulator/run/setup.py`: one way to schedule in a simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx import loop
from phalanx.model.job import Job
from phalanx.model.policy import Backfill, Policy, ScoringStrategy
from phalanx.model.queue import Limits, Queue
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import BUILT_IN, Setup, built_in
from phalanx.simulator.workload import Task
from tests.simulator.builders import ends, starts, task, workload
from tests.simulator.driven import pods

SCORES = {"spread", "fgd"} | {str(score) for score in ScoringStrategy} - {"pack", "load", "fragmentation"}


def test_a_policy_for_each_score_has_the_name_of_the_score() -> None:
    assert {name for name in BUILT_IN if BUILT_IN[name].policy.score is not ScoringStrategy.PACK} == SCORES
    assert {name for name in SCORES if built_in(name).policy.score == name} == SCORES - {"fgd"}


@pytest.mark.parametrize("score", [ScoringStrategy.DEVICE_PACKING, ScoringStrategy.DEVICE_CLUSTERING])
def test_the_name_of_a_score_in_its_paper_is_an_alias(score: ScoringStrategy) -> None:
    alias = score.replace("device", "gpu")
    assert built_in(alias) == replace(built_in(score), name=alias)


def test_a_queue_s_time_limit_stops_who_has_none() -> None:
    queue = Queue(name="default", per_job=Limits(wall_s=50))
    setup = Setup(name="limited", policy=Policy(default_queue="default"), queues=(queue,))
    jobs = [task("a", 0, 100), task("b", 0, 100, limit_s=20), task("c", 0, 10)]
    schedule = play(workload(*jobs), setup, loop.step)
    assert ends(schedule) == {"a": 50, "b": 20, "c": 10}
    assert [fate.outcome for fate in schedule.fates] == ["failed", "failed", "succeeded"]


def test_pod_by_pod_a_job_runs_from_when_its_minimum_is_placed() -> None:
    setup = Setup(
        name="loose",
        policy=Policy(backfill=Backfill.GREEDY),
        queues=(Queue(name="default", gang=False),),
    )
    jobs = [Task(job=Job(id=name, queue="", roles=pods(6, 6)), run_s=10) for name in ("a", "b")]
    schedule = play(workload(*jobs, size=6), setup, loop.step)
    assert starts(schedule) == {"a": 0, "b": 10}
