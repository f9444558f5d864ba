"""What the simulated cluster does with preemption, elastic jobs, pod-by-pod queues and faults; told by hand-made plans
where the scheduler would not do it by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from phalanx import loop
from phalanx.model.event import Finished, Opened, Refused, Released
from phalanx.model.job import GangSize, Job, Placement, Role, Slot
from phalanx.model.plan import Place, Plan, Preempt, Shrink, Start, Wait
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import Limits, Queue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.disturbance import Disturbance, Faults
from phalanx.simulator.cluster.estimate import estimator
from phalanx.simulator.cluster.world import World
from phalanx.simulator.run.play import play
from phalanx.simulator.run.setup import Setup, built_in
from phalanx.simulator.schedule.schedule import Fate
from phalanx.simulator.workload.workload import Task, machine, processors
from tests.simulator.builders import ends, played, starts, task, workload

REASON = Reason(code=ReasonCode.PREEMPTED, text="a test says so")


def pods(count: int, minimum: int) -> tuple[Role, ...]:
    return (Role(name="", count=count, minimum=minimum, shape=Shape(requests=amounts({"cpu": 1000}))),)


def placed(count: int) -> tuple[Placement, ...]:
    return tuple(Placement(0, ordinal, "machine") for ordinal in range(count))


class Driven:
    """A world of one job, driven by hand: plans at given times, and the reported events with their times."""

    def __init__(self, one: Task, plans: dict[float, Plan], *, checkpoint_s: float | None = None) -> None:
        fates = [Fate(0, one)]
        self.world = World(fates, [machine(10)], [], estimator=estimator("user"), checkpoint_s=checkpoint_s)
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
    world = World(fates, [machine(10)], [], estimator=estimator("user"))
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


def test_a_queue_s_time_limit_stops_who_has_none() -> None:
    queue = Queue(name="default", per_job=Limits(wall_s=50))
    setup = Setup(name="limited", policy=Policy(default_queue="default"), queues=(queue,))
    jobs = [task("a", 0, 100), task("b", 0, 100, limit_s=20), task("c", 0, 10)]
    schedule = play(workload(*jobs), setup, loop.step)
    assert ends(schedule) == {"a": 50, "b": 20, "c": 10}
    assert [fate.outcome for fate in schedule.fates] == ["failed", "failed", "succeeded"]


def test_limits_that_nobody_enforces() -> None:
    late = replace(task("a", 0, 100, limit_s=40), overruns=True)
    next_one = task("b", 1, 10, 10, limit_s=10)
    schedule = played(late, next_one, policy="easy")
    assert ends(schedule) == {"a": 100, "b": 110}
    assert schedule.fates[0].outcome == "succeeded"
    assert ends(played(late, next_one, policy="easy", estimates="exact")) == {"a": 100, "b": 110}


def test_pod_by_pod_a_job_runs_from_when_its_minimum_is_placed() -> None:
    setup = Setup(
        name="loose",
        policy=Policy(backfill=Backfill.GREEDY),
        queues=(Queue(name="default", gang=False),),
    )
    jobs = [Task(job=Job(id=name, queue="", roles=pods(6, 6)), run_s=10) for name in ("a", "b")]
    schedule = play(workload(*jobs, size=6), setup, loop.step)
    assert starts(schedule) == {"a": 0, "b": 10}


def test_room_is_held_while_pods_come_up_or_wait_for_each_other() -> None:
    """And while a job that has half its pods waits until its time is over."""
    slow = Faults(slow_start=1.0, slow_start_s=100)
    (first, *_, last) = played(task("a", 0, 10, 4), faults=slow).stints
    assert (first.start_s, first.works, last.works) == (0, False, True)
    assert first.end_s == last.start_s > 0
    assert last.end_s == pytest.approx(last.start_s + 10)
    roles = (replace(processors(2), count=3, minimum=3),)
    halves = task("half", 5, 10)
    halves = replace(halves, job=replace(halves.job, roles=roles), active_s=60.0)
    one_by_one = replace(built_in("greedy"), queues=(Queue(name="default", gang=False),))
    schedule = play(workload(halves, size=5), one_by_one, loop.step)
    assert [(stint.start_s, stint.end_s, len(stint.placements), stint.works) for stint in schedule.stints] == [
        (5, 65, 2, False)
    ]
    assert ends(schedule) == {"half": 65}


def test_a_node_that_fails_takes_its_jobs_back_to_the_queue() -> None:
    faults = Faults(node_mtbf_s=500, node_repair_s=50)
    schedule = played(task("a", 0, 400, 10), task("b", 0, 400, 10), faults=faults, seed=3)
    restarts = sum(fate.starts - 1 for fate in schedule.fates)
    assert restarts > 0
    assert sum(fate.preemptions for fate in schedule.fates) == 0  # no job preempted them
    assert sum(fate.lost_s for fate in schedule.fates) > 0
    assert all(fate.end_s is not None and fate.ran_s == 400 for fate in schedule.fates)
    spans = sorted((stint.start_s, stint.end_s) for stint in schedule.stints)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))  # one has all of it


def test_the_same_things_go_wrong_under_every_policy() -> None:
    faults = Faults(straggler=0.5, straggler_factor=3.0)
    jobs = [task(f"j{index}", index, 10) for index in range(20)]
    ran = [
        [fate.ran_s for fate in played(*jobs, faults=faults, seed=1, policy=name).fates] for name in ("fifo", "easy")
    ]
    assert ran[0] == ran[1]
    assert set(ran[0]) == {10, 30}


@pytest.mark.slow
def test_late_and_lost_messages_and_restarts_change_when_jobs_run_but_not_that_they_do() -> None:
    faults = Faults(
        late=0.5,
        late_s=30,
        lost=0.2,
        resync_s=100,
        restart_every_s=60,
        slow_start=0.5,
        node_mtbf_s=300,
        node_repair_s=20,
    )
    jobs = [task(f"j{index}", index * 3, 10 + index % 7, 1 + index % 5, limit_s=60) for index in range(60)]
    for seed in range(3):
        schedule = played(*jobs, faults=faults, seed=seed, policy="easy")
        assert all(fate.end_s is not None for fate in schedule.fates)
        for stint in schedule.stints:
            assert 0 < stint.end_s - stint.start_s <= (17 if stint.works else faults.slow_start_s)


def test_it_ends_when_only_faults_could_still_happen() -> None:
    """A job that can never run waits; nodes would fail and be back, and the scheduler restart, for ever."""
    faults = Faults(restart_every_s=60, node_mtbf_s=300, node_repair_s=20)
    schedule = played(task("large", 0, 10, 1000), task("small", 5, 10), policy="greedy", faults=faults)
    assert {fate.task.job.id: fate.end_s is not None for fate in schedule.fates} == {"large": False, "small": True}


def test_a_job_longer_than_nodes_last_is_given_up_unless_it_saves_its_work() -> None:
    faults = Faults(node_mtbf_s=10, node_repair_s=1)
    without, saving = (
        played(task("long", 0, 1000), task("short", 0, 1), policy="greedy", faults=faults, checkpoint_s=each)
        for each in (None, 5.0)
    )
    (long, short), (saved, _) = without.fates, saving.fates
    assert (long.end_s, long.outcome) == (None, None)
    assert long.reason == "given up: 1000 times a node of it failed before anything that it did was saved"
    assert short.end_s is not None
    assert saved.end_s is not None


def test_jobs_of_no_queue_share_as_if_they_were_in_one() -> None:
    schedule = played(task("a", 0, 10), task("b", 0, 10), policy="fair")
    assert all(fate.end_s is not None for fate in schedule.fates)


def test_the_same_seed_gives_the_same_schedule() -> None:
    faults = Faults(late=0.5, lost=0.2, restart_every_s=60, slow_start=0.5, node_mtbf_s=300, node_repair_s=20)
    jobs = [task(f"j{index}", index * 3, 10 + index % 7, 1 + index % 5) for index in range(60)]
    hashes = [played(*jobs, faults=faults, seed=seed).sha256() for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_draws_are_the_same_in_every_version_of_python() -> None:
    disturbance = Disturbance(Faults(node_mtbf_s=1000), 7)
    assert [disturbance.up_s("n0"), disturbance.up_s("n0"), disturbance.up_s("n1")] == [416.383, 645.578, 1443.59]


def test_what_is_stopped_leaves_what_came_so_far() -> None:
    passes = iter(range(4))  # the cluster is there, a comes, b comes, a ends
    jobs = task("a", 0, 5), task("b", 0, 50), task("c", 10, 5)
    schedule = play(workload(*jobs), built_in("greedy"), loop.step, stopped=lambda: next(passes, None) is None)
    assert schedule.interrupted
    assert ends(schedule) == {"a": 5, "b": None, "c": None}
    assert [(stint.task, stint.end_s) for stint in schedule.stints] == [(0, 5), (1, 10)]


def test_last_two_predicts_from_the_user_s_own_jobs_and_corrects_itself() -> None:
    mine = [
        task(f"j{index}", index * 1000, run_s, limit_s=900, user="u") for index, run_s in enumerate((100, 300, 250))
    ]
    known = estimator("last-two")
    assert [known.told(each).limit_s for each in mine[:1]] == [900]
    known.ended(mine[0], 100, now_s=100)
    assert known.told(mine[1]).limit_s == 900
    known.ended(mine[1], 300, now_s=1300)
    assert known.told(mine[2]).limit_s == 200
    assert [known.outlived(mine[2], nth) for nth in range(4)] == [260, 500, 900, 900]


def test_last_two_does_not_know_what_ends_at_the_very_moment_of_a_submission() -> None:
    jobs = [task(f"j{index}", submit_s, 100, limit_s=900, user="u") for index, submit_s in enumerate((0, 50, 150, 151))]
    known = estimator("last-two")
    known.ended(jobs[0], 100, now_s=100)
    known.ended(jobs[1], 100, now_s=150)
    assert [known.told(each).limit_s for each in jobs[2:]] == [900, 100]


def test_estimates_never_stop_a_job_before_its_own_limit() -> None:
    jobs = [task(f"j{index}", index * 1000.0, 500.0 + 100 * index, limit_s=5000, user="u") for index in range(4)]
    for name in ("exact", "last-two", "x2", "exact-x3"):
        schedule = played(*jobs, policy="easy", estimates=name)
        assert [fate.ran_s for fate in schedule.fates] == [500, 600, 700, 800]


def test_what_is_decided_of_a_job_that_is_over_comes_too_late() -> None:
    """The scheduler has not heard yet that it ended."""
    world = World([], (machine(4),), (), estimator=estimator("user"))
    why = Reason(code=ReasonCode.NO_ROOM, text="no room")
    late = Wait("a", why), Place("a", ()), Preempt("a", 1, "b", why), Shrink("a", (Slot(0, 0),), "b", why)
    world.apply(Plan(actions=late))
    assert world.live == {}


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
