"""Reservations keep what they promise: checked on random queues, against the schedule that comes of them.

Jobs run exactly as long as their time limits say, in one queue in order of submission, on a few nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from phalanx.core.backfill import reservation
from phalanx.core.backfill.profile import PlannedRun
from phalanx.core.backfill.reservation import BackfillForecast, BackfillReservation, EarliestStart
from phalanx.core.cycle.reserve import Reserving
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold
from phalanx.core.placement.draft import Draft
from phalanx.loop import step
from phalanx.model.event import Event, Finished, NodeSeen, QueueSeen, Submitted, Ticked
from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.plan import Plan, Start
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Backfill, BackfillOrder, Policy
from phalanx.model.queue import Queue, QueueOrder
from phalanx.report.forecast import forecast
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import Request
from tests.forgetful import without_findings
from tests.invariants import check_invariants
from tests.reference.replay import Unmoved
from tests.seeds import mostly_slow

SEEDS = mostly_slow(range(4), fast=2)


@dataclass
class Exact:
    """A world in which every job takes exactly its time limit, or that `part` of it. `policy` decides; what happens is
    remembered."""

    policy: Policy
    nodes: int
    cpus: int
    foresees: bool = True
    part: Callable[[str], float] = lambda job: 1.0
    cluster: Cluster = field(default_factory=Cluster)
    now_s: float = 0.0
    starts: dict[str, float] = field(default_factory=dict)
    expected: dict[str, float] = field(default_factory=dict)
    ends: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        room = amounts({"cpu": 1000 * self.cpus, "pods": 110})
        nodes = [NodeSeen(Node(name=f"n{index}", allocatable=room)) for index in range(self.nodes)]
        fold(self.cluster, [QueueSeen(Queue(name="default", order=QueueOrder.FIFO)), *nodes])

    def apply(self, plan: Plan) -> None:
        for action in plan.actions:
            if isinstance(action, Start):
                self.starts[action.job] = self.now_s
                limit_s = self.cluster.jobs[action.job].job.limit_s
                self.ends.append((self.now_s + limit_s * self.part(action.job), action.job))

    def play(self, jobs: list[Job]) -> None:
        left = sorted(jobs, key=lambda job: job.submitted_s)
        while left or self.ends:
            self.now_s = min([job.submitted_s for job in left[:1]] + [end_s for end_s, _ in self.ends])
            events: list[Event] = [Finished(job) for end_s, job in sorted(self.ends) if end_s <= self.now_s]
            self.ends = [entry for entry in self.ends if entry[0] > self.now_s]
            come = [job for job in left if job.submitted_s <= self.now_s]
            left = left[len(come) :]
            step(self.cluster, [*events, *map(Submitted, come)], self.policy, self.now_s, self)
            check_invariants(self.cluster)
            for job in come:
                if self.foresees and job.id not in self.starts:
                    found = forecast(self.cluster, self.policy, self.now_s, [job.id])
                    self.expected[job.id] = found[job.id].start_s


def some_jobs(random: Random, nodes: int, cpus: int) -> list[Job]:
    jobs = []
    for index in range(16):
        pods, cpu = random.randint(1, nodes), random.randint(1, cpus)
        role = Role(name="w", count=pods, minimum=pods, shape=Shape(requests=amounts({"cpu": 1000 * cpu})))
        limit_s, at_s = float(random.choice([1, 2, 3, 5, 10, 20])), float(random.randint(0, 30))
        jobs.append(Job(id=f"j{index:02}", queue="default", roles=(role,), submitted_s=at_s, limit_s=limit_s))
    return jobs


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_conservative_with_exact_limits_nobody_starts_later_than_expected_when_submitted(seed: int) -> None:
    random = Random(seed)
    nodes, cpus = random.choice([(1, 8), (3, 4), (5, 2)])
    world = Exact(Policy(backfill=Backfill.CONSERVATIVE), nodes, cpus)
    world.play(some_jobs(random, nodes, cpus))
    late = {job: (world.starts[job], at_s) for job, at_s in world.expected.items() if world.starts[job] > at_s}
    assert late == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_conservative_those_behind_delay_nobody(seed: int) -> None:
    """Without the later half of the jobs, the earlier half starts at the very same times."""
    random = Random(seed)
    nodes, cpus = random.choice([(1, 8), (3, 4)])
    jobs = sorted(some_jobs(random, nodes, cpus), key=lambda job: job.submitted_s)
    whole, half = (Exact(Policy(backfill=Backfill.CONSERVATIVE), nodes, cpus, foresees=False) for _ in range(2))
    whole.play(jobs)
    half.play(jobs[:8])
    assert {job.id: whole.starts[job.id] for job in jobs[:8]} == half.starts


@pytest.mark.parametrize("seed", SEEDS)
def test_conservative_whoever_cannot_start_now_is_not_delayed_by_one_more_reservation(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So once no job behind can start, no more reservations are made, and the schedule is the same as with reservations
    for all jobs."""
    random = Random(seed)
    nodes, cpus = random.choice([(1, 8), (3, 4), (5, 2)])
    jobs = [replace(job, submitted_s=job.submitted_s / 5) for job in some_jobs(random, nodes, cpus)]
    worlds, made = [], []
    hold = BackfillForecast.hold

    def held(self: BackfillForecast, request: Request, gang: Gang) -> BackfillReservation | None:
        made[-1] += 1
        return hold(self, request, gang)

    monkeypatch.setattr(BackfillForecast, "hold", held)
    for is_anyone_hopeful in (Reserving.is_anyone_hopeful, lambda _: True):
        monkeypatch.setattr(Reserving, "is_anyone_hopeful", is_anyone_hopeful)
        worlds.append(Exact(Policy(backfill=Backfill.CONSERVATIVE), nodes, cpus, foresees=False, part=early))
        made.append(0)
        worlds[-1].play(jobs)
    assert worlds[0].starts == worlds[1].starts
    assert made[0] < made[1]


@pytest.mark.parametrize("backfill", Backfill)
def test_a_start_before_a_job_with_a_reservation_is_a_backfill(backfill: Backfill) -> None:
    """Of three jobs the second waits for the first, and the third is over before that. Without reservations none is."""

    def asking(name: str, cpus: int, limit_s: float) -> Job:
        role = Role(name="w", count=1, minimum=1, shape=Shape(requests=amounts({"cpu": 1000 * cpus})))
        return Job(id=name, queue="default", roles=(role,), submitted_s=0.0, limit_s=limit_s)

    marks: dict[str, bool] = {}

    class Marking(Exact):
        def apply(self, plan: Plan) -> None:
            marks.update({action.job: action.backfilled for action in plan.actions if isinstance(action, Start)})
            super().apply(plan)

    Marking(Policy(backfill=backfill), 1, 4, foresees=False).play(
        [asking("a", 2, 10.0), asking("b", 4, 10.0), asking("c", 2, 5.0)]
    )
    assert marks == {"a": False, "b": False, "c": backfill is not Backfill.GREEDY}


def early(job: str) -> float:
    """Return the fraction of its time limit that a job runs; one job in three runs all of it."""
    return (0.3, 0.6, 1.0)[sum(map(ord, job)) % 3]


@pytest.mark.slow
@pytest.mark.parametrize("order", BackfillOrder)
@pytest.mark.parametrize("seed", SEEDS)
def test_easy_the_first_that_waits_is_not_delayed_by_those_behind(seed: int, order: BackfillOrder) -> None:
    """A job that is the first of the queue at its submission starts exactly at its expected start."""
    random = Random(seed)
    nodes, cpus = random.choice([(1, 8), (3, 4)])
    world = Exact(Policy(backfill=Backfill.EASY, backfill_order=order), nodes, cpus)
    jobs = sorted(some_jobs(random, nodes, cpus), key=lambda job: job.submitted_s)
    world.play(jobs)
    for job in jobs:
        earlier = [each for each in jobs if each.submitted_s < job.submitted_s]
        alone = all(each.submitted_s != job.submitted_s for each in jobs if each is not job)
        if job.id in world.expected and alone and all(world.starts[each.id] < job.submitted_s for each in earlier):
            assert world.starts[job.id] == world.expected[job.id]


@pytest.mark.slow
def test_easy_a_start_that_was_foreseen_before_is_the_one_found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer holds as long as the cluster state does not change, although time passes."""
    shadow, find_start = BackfillForecast.shadow, BackfillForecast.find_start
    found: list[EarliestStart | None] = []
    remembered = 0

    def found_anew(self: BackfillForecast, job: Job, gang: Gang, runs_s: float) -> EarliestStart | None:
        found.append(find_start(self, job, gang, runs_s))
        return found[-1]

    def compared(self: BackfillForecast, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        nonlocal remembered
        before = len(found)
        seat = shadow(self, job, gang, runs_s)
        remembered += len(found) == before
        anew = find_start(self, job, gang, runs_s)
        if seat is None or anew is None:
            assert seat is anew
        else:
            assert seat.start_s == anew.start_s
            assert seat.held.rows.tolist() == anew.held.rows.tolist()
            assert all((self.free[name] == column).all() for name, column in anew.free.items())
        return seat

    monkeypatch.setattr(BackfillForecast, "find_start", found_anew)
    monkeypatch.setattr(BackfillForecast, "shadow", compared)
    for seed in range(10):
        Exact(Policy(), 3, 4, foresees=False).play(some_jobs(Random(seed), 3, 4))
    assert found
    assert remembered


@pytest.mark.slow
@pytest.mark.parametrize("backfill", Backfill)
def test_the_same_is_decided_if_nothing_that_was_found_is_remembered(backfill: Backfill) -> None:
    """What backfill keeps between cycles saves time and changes nothing."""
    for seed in range(2):
        random = Random(seed)
        jobs = some_jobs(random, 3, 4)
        remembering, forgetful = (Exact(Policy(backfill=backfill), 3, 4, foresees=False) for _ in range(2))
        remembering.play(jobs)
        forgetting(forgetful)
        forgetful.play(jobs)
        assert remembering.starts == forgetful.starts


@pytest.mark.parametrize("estimated", [False, True])
@pytest.mark.parametrize("order", mostly_slow([*BackfillOrder], fast=0, sample=1))
def test_of_those_held_back_that_ask_the_same_the_same_start_if_nothing_is_remembered(
    order: BackfillOrder, estimated: bool
) -> None:
    """Small jobs with different time limits, behind wide jobs whose start moves because running jobs end early.
    `estimated`: the jobs have estimates that are shorter for longer limits."""
    for seed in range(3):
        random, few = Random(seed), some_jobs(Random(seed), 3, 4)
        role = Role(name="w", count=1, minimum=1, shape=Shape(requests=amounts({"cpu": 1000})))
        many = [
            Job(id=f"s{at}", queue="default", roles=(role,), submitted_s=random.uniform(0, 30), limit_s=1.0 + at / 4)
            for at in range(60)
        ]
        if estimated:
            many = [replace(job, estimate_s=20.0 - job.limit_s) for job in many]
        parts = {job.id: random.uniform(0.1, 1.0) for job in few + many}
        policy = Policy(backfill_order=order)
        remembering, forgetful = (Exact(policy, 3, 4, foresees=False, part=parts.__getitem__) for _ in range(2))
        remembering.play(few + many)
        forgetting(forgetful)
        forgetful.play(few + many)
        assert remembering.starts == forgetful.starts


@pytest.mark.parametrize("order", BackfillOrder)
def test_who_waited_where_nobody_has_reservations_starts_where_somebody_has(
    order: BackfillOrder,
) -> None:
    role = Role(name="w", count=1, minimum=1, shape=Shape(requests=amounts({"cpu": 1000})))
    jobs = [Job(id=f"j{at}", queue="default", roles=(role,), submitted_s=at, limit_s=100.0 - at) for at in range(80)]
    world = Exact(Policy(backfill=Backfill.GREEDY), nodes=3, cpus=1)
    step(world.cluster, [Submitted(job) for job in jobs], world.policy, 0.0, world)
    assert list(world.starts) == ["j0", "j1", "j2"]
    world.policy = Policy(backfill_order=order)
    step(world.cluster, [Finished("j1")], world.policy, 1.0, world)
    assert list(world.starts) == ["j0", "j1", "j2", "j3"]
    step(world.cluster, [Finished("j3")], world.policy, 2.0, world)
    assert list(world.starts)[4:] == ["j4"]
    check_invariants(world.cluster)


def forgetting(world: Exact) -> None:
    """Before each decision all that was found is forgotten."""
    apply = world.apply

    def forget_and_apply(plan: Plan) -> None:
        apply(plan)
        world.cluster.pending = without_findings(world.cluster)

    world.apply = forget_and_apply  # type: ignore[method-assign]  # the world is told after each cycle


@pytest.mark.parametrize(("tries", "first"), [(64, ("wide", 200.0)), (1, ("next", 100.0))])
def test_a_start_is_looked_for_at_a_bounded_number_of_times(
    tries: int, first: tuple[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both roles of `wide` fit by counting from 100 s on, each by itself, and together from 200 s on. Beyond the bound
    its start cannot be foreseen, and the next request has the reservation (rule R13)."""
    monkeypatch.setattr(reservation, "TRIES", tries)
    room = amounts({"cpu": 4000, "pods": 110})
    cluster, asks = Cluster(), [Shape(requests=amounts({"cpu": cpu, "pods": 1})) for cpu in (4000, 3000)]
    large, half = (Role(name=name, count=1, minimum=1, shape=shape) for name, shape in zip("ab", asks, strict=True))
    nodes = [NodeSeen(Node(name=name, allocatable=room)) for name in ("n0", "n1")]
    fold(cluster, [QueueSeen(Queue(name="default")), *nodes, Ticked(0.0)])
    running = [
        Job(id=f"r{at}", queue="", roles=(large,), submitted_s=float(at), limit_s=100.0 * (at + 1)) for at in range(2)
    ]
    fold(cluster, [Submitted(each) for each in running])
    step(cluster, (), Policy(backfill=Backfill.EASY), 0.0, Unmoved())
    wide = Job(id="wide", queue="", roles=(half, replace(half, name="c")), submitted_s=3.0)
    fold(cluster, [Submitted(wide), Submitted(Job(id="next", queue="", roles=(large,), submitted_s=4.0))])
    memory = decide(cluster, Policy(backfill=Backfill.EASY), 5.0).memory
    assert memory is not None
    assert memory.first == (first[0], None, first[1])


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_a_reservation_returns_to_the_forecast_after_an_error(backfill: Backfill, nodes: int) -> None:
    policy, room, cluster = Policy(backfill=backfill), amounts({"cpu": 4000, "pods": 110}), Cluster()
    role = Role(name="w", count=nodes, minimum=nodes, shape=Shape(requests=amounts({"cpu": 4000, "pods": 1})))
    seen = [NodeSeen(Node(name=f"n{at}", allocatable=room)) for at in range(nodes)]
    fold(cluster, [QueueSeen(Queue(name="default")), *seen, Ticked(0.0)])
    for at, name in enumerate(("runs", "first", "second")):
        job = Job(id=name, queue="default", roles=(role,), submitted_s=float(at), limit_s=100.0)
        fold(cluster, [Submitted(job)])
        step(cluster, (), policy, float(at), Unmoved())
    found = BackfillForecast(cluster, policy, 3.0, Draft(cluster.columns), [])
    for name in ("first", "second")[: found.wanted]:
        assert found.hold(Request(name), cluster.jobs[name].gang) is not None
    held = [each.request.job for each in found.reservations]

    def capacity() -> list[dict[str, list[int]]]:
        levels = [{}] if found.profile is None else [found.profile.between(at, at + 1) for at in range(3)]
        return [{name: column.tolist() for name, column in level.items()} for level in levels]

    before = capacity()
    with suppress(ZeroDivisionError), found.without(Request("first")):
        assert [each.request.job for each in found.reservations] == held[1:]
        assert before == [{}] or capacity() != before
        raise ZeroDivisionError
    assert [each.request.job for each in found.reservations] == held
    assert capacity() == before
