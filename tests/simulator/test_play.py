"""`simulator/run/play.py`: one run."""

from __future__ import annotations

from phalanx import loop
from phalanx.model.plan import Plan
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import built_in
from tests.simulator.builders import ends, task, workload


def test_what_is_stopped_leaves_what_came_so_far() -> None:
    passes = iter(range(4))  # the cluster is there, a comes, b comes, a ends
    jobs = task("a", 0, 5), task("b", 0, 50), task("c", 10, 5)
    schedule = play(workload(*jobs), built_in("greedy"), loop.step, stopped=lambda: next(passes, None) is None)
    assert schedule.interrupted
    assert ends(schedule) == {"a": 5, "b": None, "c": None}
    assert [(stint.task, stint.end_s) for stint in schedule.stints] == [(0, 5), (1, 10)]


def test_only_what_the_last_plan_asked_for_wakes_the_scheduler() -> None:
    asks, passes = {0.0: 100.0, 10.0: 50.0, 50.0: 100.0, 100.0: 200.0, 150.0: None}, list[float]()

    def step(cluster, events, policy, now_s, world):
        passes.append(now_s)
        plan = Plan(actions=(), wake_s=asks[now_s])
        world.apply(plan)
        return plan

    play(workload(task("a", 0, 5), task("b", 10, 5), task("c", 150, 5)), built_in("greedy"), step)
    # The cluster, then the jobs. Asked for twice, 100 is one pass; at 150 nothing is asked for any more, 200 is none.
    assert passes == [0, 0, 10, 50, 100, 150]
