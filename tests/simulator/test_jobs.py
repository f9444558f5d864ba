"""`simulator/cluster/jobs.py`: what preemption, growth and the lack of a node do to a job."""

from __future__ import annotations

from phalanx.model.event import Opened, Refused
from phalanx.model.job import GangSize, Job, Placement, Slot
from phalanx.model.plan import Place, Plan, Preempt, Shrink, Start
from phalanx.simulator.cluster.arrivals import estimator
from phalanx.simulator.cluster.world import SimulatedWorld
from phalanx.simulator.schedule import Fate
from phalanx.simulator.workload import Task, machine
from tests.simulator.builders import ends, played, starts, task
from tests.simulator.driven import REASON, Driven, placed, pods


def test_a_chain_of_jobs_that_give_way_for_one_another() -> None:
    # c pushes b, which pushes a to be back: a is the second of a chain. Then d pushes b, which is the first of another.
    fates = [Fate(at, task(name, 0, 100)) for at, name in enumerate("abcd")]
    world = SimulatedWorld(fates, [machine(10)], [], estimator=estimator("user"))
    plans = [
        (Start("a", 1, placed(1)), Start("b", 1, placed(1)), Preempt("b", 1, "c", REASON)),
        (Preempt("a", 1, "b", REASON), Start("b", 2, placed(1))),
        (Preempt("b", 2, "d", REASON, grace_s=30), Preempt("b", 2, "d", REASON, grace_s=30)),
    ]
    happenings = world.happenings()
    while len(world.jobs.live) < 4:
        next(happenings)
    while plans:  # the next when those of the last are gone
        world.apply(Plan(actions=plans.pop(0)))
        assert not plans or isinstance(next(happenings)[-1], Refused)
    assert (list(world.jobs.cascades), fates[0].cascade) == ([1, 2, 1], 2)


def test_a_job_that_ends_within_its_grace_has_ended() -> None:
    plan = Plan(actions=(Start("a", 1, placed(1)), Preempt("a", 1, "b", REASON, grace_s=30)))
    driven = Driven(task("a", 0, 20), {0: plan})
    assert driven.events == [(20, "Finished")]
    assert driven.fate.lost_s == 0


def test_an_elastic_job_grows_when_room_comes_free() -> None:
    job = Task(job=Job(id="a", queue="", roles=pods(4, 1)), run_s=100)
    schedule = played(task("b", 0, 10, 2), job, size=4)
    assert starts(schedule) == {"b": 0, "a": 0}
    assert ends(schedule) == {"b": 10, "a": 105}  # ten seconds with half of its pods did the work of five
    assert [(stint.start_s, stint.end_s, len(stint.placements)) for stint in schedule.stints if stint.task == 1] == [
        (0, 10, 2),
        (10, 105, 4),
    ]


def test_what_an_elastic_job_gave_up_it_asks_for_again() -> None:
    job = Task(job=Job(id="a", queue="", roles=pods(4, 1)), run_s=100)
    plan = Plan(actions=(Start("a", 1, placed(4)), Shrink("a", (Slot(0, 3),), "b", REASON, grace_s=50)))
    driven = Driven(job, {0: plan, 50: Plan(actions=(Place("a", (Placement(0, 3, "machine"),)),))})
    assert [at_s for at_s, kind in driven.told if kind is Opened] == [50]
    assert driven.fate.end_s == 100
    assert [len(stint.placements) for stint in driven.world.jobs.work.stints] == [4, 4]


def test_a_job_of_fixed_size_asks_for_no_more() -> None:
    job = Task(job=Job(id="a", queue="", roles=pods(4, 1), size=GangSize.FIXED_AT_START), run_s=100)
    assert ends(played(task("b", 0, 10, 2), job, size=4)) == {"b": 10, "a": 200}


def test_a_start_on_a_node_that_is_gone_goes_back_to_the_queue() -> None:
    gone = (Placement(0, 0, "gone"),)
    driven = Driven(task("a", 0, 10), {0: Plan(actions=(Start("a", 1, gone),))})
    assert driven.events == [(0, "Refused")]
    assert (driven.fate.preemptions, driven.fate.lost_s, driven.fate.start_s) == (0, 0.0, None)


def test_a_late_decision_about_an_earlier_start_is_passed_over() -> None:
    plan = Plan(actions=(Start("a", 3, placed(1)), Preempt("a", 2, "b", REASON)))
    driven = Driven(task("a", 0, 10), {0: plan})
    assert driven.events == [(10, "Finished")]
