"""`simulator/cluster/work.py`: how fast jobs work, when they end, and what they lose."""

from __future__ import annotations

from dataclasses import replace

from phalanx.model.job import Job, Slot
from phalanx.model.plan import Plan, Preempt, Shrink, Start
from phalanx.simulator.workload import Task
from tests.simulator.builders import ends, played, task
from tests.simulator.driven import REASON, Driven, placed, pods


def test_a_preempted_job_loses_its_work_and_waits_again() -> None:
    driven = Driven(
        task("a", 0, 100),
        {
            0: Plan(actions=(Start("a", 1, placed(1)), Preempt("a", 1, "b", REASON, grace_s=30))),
            60: Plan(actions=(Start("a", 2, placed(1)),)),
        },
    )
    assert driven.events[0] == (30, "Refused")
    assert (driven.fate.lost_s, driven.fate.preemptions) == (30, 1)
    assert driven.fate.start_s == 0


def test_a_checkpoint_keeps_what_was_saved() -> None:
    plan = Plan(actions=(Start("a", 1, placed(1)), Preempt("a", 1, "b", REASON, grace_s=35)))
    driven = Driven(task("a", 0, 100), {0: plan}, checkpoint_s=10)
    assert driven.fate.lost_s == 5
    assert driven.world.jobs.live["a"].worked_s == 30
    assert driven.world.jobs.live["a"].job.checkpoint_s == 10  # the search for victims uses it


def test_an_elastic_job_works_at_the_rate_of_its_pods() -> None:
    job = Task(job=Job(id="a", queue="", roles=pods(4, 1)), run_s=100)
    plan = Plan(actions=(Start("a", 1, placed(4)), Shrink("a", (Slot(0, 2), Slot(0, 3)), "b", REASON, grace_s=50)))
    driven = Driven(job, {0: plan})
    # Half of the work is done when half of its pods go; the rest takes twice as long.
    assert driven.events == [(50, "Released"), (150, "Finished")]
    assert [(stint.start_s, stint.end_s, len(stint.placements)) for stint in driven.world.jobs.work.stints] == [
        (0, 50, 4),
        (50, 150, 2),
    ]


def test_limits_that_nobody_enforces() -> None:
    late = replace(task("a", 0, 100, limit_s=40), overruns=True)
    next_one = task("b", 1, 10, 10, limit_s=10)
    schedule = played(late, next_one, policy="easy")
    assert ends(schedule) == {"a": 100, "b": 110}
    assert schedule.fates[0].outcome == "succeeded"
    assert ends(played(late, next_one, policy="easy", estimates="exact")) == {"a": 100, "b": 110}


def test_estimates_never_stop_a_job_before_its_own_limit() -> None:
    jobs = [task(f"j{index}", index * 1000.0, 500.0 + 100 * index, limit_s=5000, user="u") for index in range(4)]
    for name in ("exact", "last-two", "x2", "exact-x3"):
        schedule = played(*jobs, policy="easy", estimates=name)
        assert [fate.ran_s for fate in schedule.fates] == [500, 600, 700, 800]
