"""Simulate a running cluster forward: the starts and ends of its jobs, small enough to check by hand.

The clock begins at 1,000 s; machines have cpus, and a job of size n is n pods of one cpu that start together."""

from __future__ import annotations

import pytest

from phalanx import loop
from phalanx.core.fold.fold import fold
from phalanx.model.event import Adopted, Event, NodeGone, NodeSeen, Occupied, Opened, QueueSeen, Submitted, Ticked
from phalanx.model.job import Job, Phase, Placement, Role, Slot
from phalanx.model.node import Node
from phalanx.model.plan import Plan
from phalanx.model.pod import Shape
from phalanx.model.policy import Policy
from phalanx.model.queue import Limits, Queue, QueuePreemption, Quota, WithinQueue
from phalanx.simulator.run.forward import Assumptions, Course, ForwardEviction, Future, forward
from phalanx.state.cluster import Cluster, time_limit_s
from tests.invariants import check_invariants

NOW_S = 1000.0
DAY_S = 86400.0
DEFAULT = Queue(name="default")


class Nothing:
    def apply(self, plan: Plan) -> None:
        pass


def node(name: str, cpus: int) -> NodeSeen:
    return NodeSeen(Node(name=name, allocatable=(("cpu", cpus * 1000), ("pods", 100))))


def job(name: str, size: int, limit_s: float | None = 100.0, **more: object) -> Job:
    shape = Shape(requests=(("cpu", 1000),))
    minimum = int(str(more.pop("minimum", size)))
    roles = (Role(name="w", count=size, minimum=minimum, shape=shape),)
    return Job(id=name, queue="default", roles=roles, limit_s=limit_s, **more)  # type: ignore[arg-type]  # whatever a test says of a job


def runs(name: str, size: int, since_s: float, limit_s: float | None = 100.0, on: str = "a", **more: object) -> Adopted:
    placements = tuple(Placement(0, n, on) for n in range(size))
    told = job(name, size, limit_s, **more)
    return Adopted(told, 1, Phase.RUNNING, placements, started_s=since_s)


def waits(name: str, size: int, limit_s: float | None = 100.0, submitted_s: float = 900.0, **more: object) -> Submitted:
    return Submitted(job(name, size, limit_s, submitted_s=submitted_s, **more))


def book(*events: Event, queue: Queue = DEFAULT) -> Cluster:
    cluster = Cluster()
    fold(cluster, (Ticked(NOW_S), QueueSeen(queue), *events))
    return cluster


def ahead(cluster: Cluster, policy: Policy | None = None, for_s: float = DAY_S, run_s: float = 1000.0) -> Future:
    assumptions = Assumptions(limit_s=lambda job: time_limit_s(cluster, job), run_s=run_s)
    future = forward(
        cluster, policy or Policy(), loop.step, now_s=NOW_S, until_s=NOW_S + for_s, assumptions=assumptions
    )
    check_invariants(cluster)
    return future


def course(future: Future, name: str) -> Course:
    return future.courses[name]


def waits_of(future: Future) -> dict[str, float | None]:
    return {name: course.wait_s for name, course in future.courses.items()}


def test_who_waits_starts_when_who_runs_reaches_its_limit() -> None:
    future = ahead(book(node("a", 2), runs("r", 2, since_s=940.0), waits("next", 2), waits("last", 2, submitted_s=950)))
    assert waits_of(future) == {"r": 0.0, "next": 40.0, "last": 140.0}
    assert course(future, "last").starts_s == [1140.0]
    assert course(future, "last").end_s == 1240.0


def test_a_job_ahead_of_others_delays_them_by_as_long_as_it_runs() -> None:
    events = (node("a", 2), runs("r", 2, since_s=940.0), waits("next", 2), waits("last", 2, submitted_s=950))
    before = ahead(book(*events))
    after = ahead(book(*events, waits("urgent", 2, limit_s=70.0, submitted_s=NOW_S, priority=5)))
    assert waits_of(before) == {"r": 0.0, "next": 40.0, "last": 140.0}
    assert waits_of(after) == {"r": 0.0, "next": 110.0, "last": 210.0, "urgent": 40.0}


def test_it_is_the_same_whenever_it_is_asked_and_what_is_asked_of_a_copy_changes_nothing() -> None:
    cluster = book(node("a", 2), runs("r", 1, since_s=940.0), waits("x", 2), waits("y", 1, limit_s=40.0))
    first = ahead(cluster.copy())
    assert first == ahead(cluster.copy())
    assert cluster.jobs["x"].phase is Phase.QUEUED


def test_backfill_counts_as_it_does_in_life() -> None:
    """`y` ends before `x` could begin, `z` would not."""
    events = (node("a", 2), runs("r", 1, since_s=940.0), waits("x", 2))
    future = ahead(book(*events, waits("z", 1, 41.0, submitted_s=950), waits("y", 1, 40.0, submitted_s=960)))
    assert waits_of(future) == {"r": 0.0, "x": 40.0, "y": 0.0, "z": 140.0}


def test_what_states_no_limit_is_taken_to_run_as_long_as_is_said() -> None:
    future = ahead(book(node("a", 1), runs("r", 1, since_s=0.0, limit_s=None), waits("x", 1)), run_s=600.0)
    assert waits_of(future) == {"r": 0.0, "x": 600.0}
    assert future.unlimited == ("r",)


def test_the_limit_that_a_queue_gives_its_jobs_is_theirs() -> None:
    queue = Queue(name="default", per_job=Limits(wall_s=150.0))
    future = ahead(book(node("a", 1), runs("r", 1, since_s=950.0, limit_s=None), waits("x", 1), queue=queue))
    assert waits_of(future)["x"] == 100.0
    assert future.unlimited == ()


def test_what_is_beyond_its_limit_ends_now() -> None:
    assert waits_of(ahead(book(node("a", 1), runs("r", 1, since_s=10.0), waits("x", 1))))["x"] == 0.0


def test_a_larger_limit_of_the_queue_lets_more_run_at_a_time() -> None:
    def with_limit(cpus: int) -> Future:
        queue = Queue(name="default", quotas=(Quota(limit=(("cpu", cpus * 1000),)),))
        jobs = (waits(name, 2, submitted_s=at_s) for at_s, name in enumerate("xyz"))
        return ahead(book(node("a", 8), *jobs, queue=queue))

    assert waits_of(with_limit(2)) == {"x": 0.0, "y": 100.0, "z": 200.0}
    assert waits_of(with_limit(4)) == {"x": 0.0, "y": 0.0, "z": 100.0}


def test_a_preemption_is_foreseen_with_what_it_costs() -> None:
    """`low` ran 60 of its 100 s, leaves, and runs all over again when `high` is done."""
    queue = Queue(name="default", preemption=QueuePreemption(within=WithinQueue.LOWER))
    cluster = book(node("a", 2), runs("low", 2, since_s=940.0), waits("high", 2, 50.0, priority=5), queue=queue)
    future = ahead(cluster)
    assert course(future, "low").evictions == [ForwardEviction(1000.0, "high", 60.0)]
    assert course(future, "low").starts_s == [1050.0]
    assert course(future, "low").end_s == 1150.0
    assert waits_of(future) == {"low": 50.0, "high": 0.0}


def test_grace_is_waited_for() -> None:
    queue = Queue(name="default", preemption=QueuePreemption(within=WithinQueue.LOWER, grace_s=30.0))
    cluster = book(node("a", 2), runs("low", 2, since_s=990.0), waits("high", 2, 50.0, priority=5), queue=queue)
    assert waits_of(ahead(cluster)) == {"low": 80.0, "high": 30.0}


def test_what_never_starts_says_why() -> None:
    future = ahead(book(node("a", 2), waits("huge", 3)))
    reason = course(future, "huge").reason
    assert (course(future, "huge").wait_s, reason and reason.code) == (None, "NeverFits")


def test_beyond_the_horizon_nothing_is_played() -> None:
    future = ahead(book(node("a", 1), runs("r", 1, since_s=940.0), waits("x", 1), waits("y", 1)), for_s=100.0)
    assert waits_of(future) == {"r": 0.0, "x": 40.0, "y": None}
    assert future.until_s == 1100.0


def test_pods_of_others_stay() -> None:
    future = ahead(book(node("a", 2), Occupied("dns", "a", (("cpu", 1000),)), waits("x", 2)))
    assert waits_of(future)["x"] is None


def test_a_gang_that_loses_a_node_goes_back_if_there_is_no_other_in_time() -> None:
    lost = (NodeGone("a"), Opened("r", (Slot(0, 0), Slot(0, 1))))
    alone = ahead(book(node("a", 2), runs("r", 2, since_s=940.0, limit_s=2000.0), *lost))
    assert course(alone, "r").evictions == [ForwardEviction(1300.0, "", 360.0)]
    assert course(alone, "r").wait_s is None
    other = ahead(book(node("a", 2), node("b", 2), runs("r", 2, since_s=940.0), *lost))
    assert course(other, "r").evictions == []


def test_pods_that_start_one_by_one_begin_with_their_minimum() -> None:
    queue = Queue(name="default", gang=False)
    events = (node("a", 3), runs("r", 2, since_s=940.0), waits("x", 2, 60.0), waits("y", 2, 60.0, submitted_s=950.0))
    future = ahead(book(*events, queue=queue))
    assert waits_of(future) == {"r": 0.0, "x": 40.0, "y": 100.0}


@pytest.mark.parametrize("limit_s", [0.0, -5.0, float("inf")])
def test_absurd_limits_are_played_too(limit_s: float) -> None:
    future = ahead(book(node("a", 1), runs("r", 1, since_s=990.0, limit_s=limit_s), waits("x", 1)))
    assert waits_of(future)["x"] == (None if limit_s > 0 else 0.0)


def test_an_elastic_job_grows_before_those_of_lower_priority_start() -> None:
    """It starts with two of its four pods and grows when the first job ends; the job behind it waits for its end."""
    told = book(node("a", 4), runs("first", 2, 950.0), waits("grows", 4, minimum=2), waits("behind", 2, priority=-1))
    assert waits_of(ahead(told)) == {"first": 0.0, "grows": 0.0, "behind": 100.0}


def test_an_elastic_job_grows_behind_all_of_its_priority() -> None:
    told = book(
        node("a", 4), runs("first", 2, 950.0), waits("grows", 4, minimum=2), waits("beside", 2, submitted_s=950)
    )
    assert waits_of(ahead(told)) == {"first": 0.0, "grows": 0.0, "beside": 50.0}
