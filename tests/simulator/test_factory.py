"""Pods come into being at a limited rate, those of several jobs interleaved; and jobs that are active for too long."""

from __future__ import annotations

from dataclasses import replace

from phalanx import loop
from phalanx.model.job import Outcome, Role, Slot
from phalanx.model.queue import Queue
from phalanx.simulator.cluster.factory import Creation, Factory
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import GREEDY, ONE, Setup
from phalanx.simulator.schedule import Schedule
from phalanx.simulator.workload import Task, processors
from tests.simulator.builders import ends, starts, task, workload

ONE_A_SECOND = Creation(per_s=1.0, side_by_side=2, batch=1)


def of_pods(id: str, submit_s: float, run_s: float, pods: int, *, active_s: float | None = None) -> Task:
    plain = task(id, submit_s, run_s)
    role = Role(name="", count=pods, minimum=pods, shape=processors(1).shape)
    return replace(plain, job=replace(plain.job, roles=(role,)), active_s=active_s)


def made(*tasks: Task, gang: bool, size: int) -> Schedule:
    setup = Setup(name="made", policy=GREEDY, queues=(Queue(name=ONE, gang=gang),), creation=ONE_A_SECOND)
    return play(workload(*tasks, size=size), setup, loop.step)


def test_jobs_side_by_side_get_their_pods_in_turn() -> None:
    factory = Factory(replace(ONE_A_SECOND, batch=4))
    for job in "abc":
        factory.order(job, 1, [Slot(0, 0), Slot(0, 1)])
    assert [(each.job, each.last) for each in factory.make()] == [("a", False), ("b", False), ("a", True), ("b", True)]
    assert [(each.job, each.last) for each in factory.make()] == [("c", False), ("c", True)]


def test_a_job_runs_when_its_last_pod_is_made() -> None:
    found = made(of_pods("a", 0, 10, 3), gang=True, size=3)
    assert (starts(found), ends(found)) == ({"a": 3}, {"a": 13})


def test_pod_by_pod_two_halves_hold_the_room_until_their_time_is_over() -> None:
    two = [of_pods("a", 0, 10, 3, active_s=60), of_pods("b", 0, 10, 3, active_s=60)]
    found = made(*two, gang=False, size=4)
    assert ends(found) == {"a": 60, "b": 60}
    assert starts(found)["a"] is None  # and b only when a was over
    assert all(fate.outcome is Outcome.FAILED for fate in found.fates)


def test_as_gangs_one_comes_after_the_other() -> None:
    two = [of_pods("a", 0, 10, 3, active_s=60), of_pods("b", 0, 10, 3, active_s=60)]
    assert ends(made(*two, gang=True, size=4)) == {"a": 13, "b": 26}
