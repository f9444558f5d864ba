"""What the simulated cluster does with preemption, elastic jobs, pod-by-pod queues and faults; told by hand-made plans
where the scheduler would not do it by itself."""

from __future__ import annotations

from dataclasses import replace

from phalanx.model.event import Finished, Opened, Refused, Released
from phalanx.model.job import GangSize, Job, Placement, Role, Slot
from phalanx.model.plan import Place, Plan, Preempt, Shrink, Start, Wait
from phalanx.model.pod import Shape, amounts
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.arrivals import estimator
from phalanx.simulator.cluster.world import SimulatedWorld
from phalanx.simulator.schedule import Fate
from phalanx.simulator.workload.workload import Task, machine
from tests.simulator.builders import ends, played, starts, task

REASON = Reason(code=ReasonCode.PREEMPTED, text="a test says so")


def pods(count: int, minimum: int) -> tuple[Role, ...]:
    return (Role(name="", count=count, minimum=minimum, shape=Shape(requests=amounts({"cpu": 1000}))),)


def placed(count: int) -> tuple[Placement, ...]:
    return tuple(Placement(0, ordinal, "machine") for ordinal in range(count))


class Driven:
    """A world of one job, driven by hand: plans at given times, and the reported events with their times."""

    def __init__(self, one: Task, plans: dict[float, Plan], *, checkpoint_s: float | None = None) -> None:
        fates = [Fate(0, one)]
        self.world = SimulatedWorld(fates, [machine(10)], [], estimator=estimator("user"), checkpoint_s=checkpoint_s)
        for at_s in plans:
            self.world.agenda.put(at_s, 9, tuple)  # a pass of its own
        self.fate, self.told = fates[0], []
        for events in self.watched(plans):
            self.told += [(self.world.now_s, type(event)) for event in events]

    def watched(self, plans):
        happenings = self.world.happenings()
        next(happenings)
        plans = dict(sorted(plans.items()))
        for events in happenings:
            yield events
            for at_s in [at_s for at_s in plans if at_s <= self.world.now_s]:
                self.world.apply(plans.pop(at_s))

    @property
    def events(self):
        return [(at_s, kind.__name__) for at_s, kind in self.told if kind in {Finished, Refused, Released}]


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
    while len(world.live) < 4:
        next(happenings)
    while plans:  # the next when those of the last are gone
        world.apply(Plan(actions=plans.pop(0)))
        assert not plans or isinstance(next(happenings)[-1], Refused)
    assert (list(world.cascades), fates[0].cascade) == ([1, 2, 1], 2)


def test_a_checkpoint_keeps_what_was_saved() -> None:
    plan = Plan(actions=(Start("a", 1, placed(1)), Preempt("a", 1, "b", REASON, grace_s=35)))
    driven = Driven(task("a", 0, 100), {0: plan}, checkpoint_s=10)
    assert driven.fate.lost_s == 5
    assert driven.world.live["a"].worked_s == 30
    assert driven.world.live["a"].job.checkpoint_s == 10  # the search for victims uses it


def test_a_job_that_ends_within_its_grace_has_ended() -> None:
    plan = Plan(actions=(Start("a", 1, placed(1)), Preempt("a", 1, "b", REASON, grace_s=30)))
    driven = Driven(task("a", 0, 20), {0: plan})
    assert driven.events == [(20, "Finished")]
    assert driven.fate.lost_s == 0


def test_an_elastic_job_works_at_the_rate_of_its_pods() -> None:
    job = Task(job=Job(id="a", queue="", roles=pods(4, 1)), run_s=100)
    plan = Plan(actions=(Start("a", 1, placed(4)), Shrink("a", (Slot(0, 2), Slot(0, 3)), "b", REASON, grace_s=50)))
    driven = Driven(job, {0: plan})
    # Half of the work is done when half of its pods go; the rest takes twice as long.
    assert driven.events == [(50, "Released"), (150, "Finished")]
    assert [(stint.start_s, stint.end_s, len(stint.placements)) for stint in driven.world.stints] == [
        (0, 50, 4),
        (50, 150, 2),
    ]


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
    assert [len(stint.placements) for stint in driven.world.stints] == [4, 4]


def test_a_job_of_fixed_size_asks_for_no_more() -> None:
    job = Task(job=Job(id="a", queue="", roles=pods(4, 1), size=GangSize.FIXED_AT_START), run_s=100)
    assert ends(played(task("b", 0, 10, 2), job, size=4)) == {"b": 10, "a": 200}


def test_limits_that_nobody_enforces() -> None:
    late = replace(task("a", 0, 100, limit_s=40), overruns=True)
    next_one = task("b", 1, 10, 10, limit_s=10)
    schedule = played(late, next_one, policy="easy")
    assert ends(schedule) == {"a": 100, "b": 110}
    assert schedule.fates[0].outcome == "succeeded"
    assert ends(played(late, next_one, policy="easy", estimates="exact")) == {"a": 100, "b": 110}


def test_jobs_of_no_queue_share_as_if_they_were_in_one() -> None:
    schedule = played(task("a", 0, 10), task("b", 0, 10), policy="fair")
    assert all(fate.end_s is not None for fate in schedule.fates)


def test_estimates_never_stop_a_job_before_its_own_limit() -> None:
    jobs = [task(f"j{index}", index * 1000.0, 500.0 + 100 * index, limit_s=5000, user="u") for index in range(4)]
    for name in ("exact", "last-two", "x2", "exact-x3"):
        schedule = played(*jobs, policy="easy", estimates=name)
        assert [fate.ran_s for fate in schedule.fates] == [500, 600, 700, 800]


def test_what_is_decided_of_a_job_that_is_over_comes_too_late() -> None:
    """The scheduler has not heard yet that it ended."""
    world = SimulatedWorld([], (machine(4),), (), estimator=estimator("user"))
    why = Reason(code=ReasonCode.NO_ROOM, text="no room")
    late = Wait("a", why), Place("a", ()), Preempt("a", 1, "b", why), Shrink("a", (Slot(0, 0),), "b", why)
    world.apply(Plan(actions=late))
    assert world.live == {}
