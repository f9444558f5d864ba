"""`core/quota/excess.py`: a queue above a limit that was lowered loses pods after its delay, and no more than
it has to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Adopted, QueueSeen, Ticked
from phalanx.model.job import Job, Phase, Placement
from phalanx.model.plan import Preempt, Shrink
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption, Quota
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role
from tests.invariants import check_invariants

DELAY_S = 30.0


def limited(cpu: int, delay_s: float | None = DELAY_S, **more: object) -> QueueSeen:
    preemption = QueuePreemption(excess_delay_s=delay_s)
    return QueueSeen(Queue(name="q", quotas=(Quota(limit=(("cpu", cpu),), **more),), preemption=preemption))


def book(*jobs: Job) -> Cluster:
    found = cluster(node("n", cpu=99), limited(99))
    for each in jobs:
        placed = tuple(Placement(0, at, "n") for at in range(each.roles[0].count))
        fold(found, [Adopted(replace(each, queue="q"), 1, Phase.RUNNING, placed)])
    return found


def lost(found: Cluster, now_s: float) -> dict[str, int]:
    """Fold a cycle, and return the pods that each job loses (0: all of them)."""
    fold(found, [Ticked(now_s)])
    decision = decide(found, Policy(), now_s)
    fold_plan(found, decision)
    check_invariants(found)
    said = [action for action in decision.actions if isinstance(action, Preempt | Shrink)]
    return {action.job: len(action.slots) if isinstance(action, Shrink) else 0 for action in said}


def test_the_newest_job_of_the_lowest_priority_goes_after_the_delay() -> None:
    found = book(
        job("old", role(cpu=4)), job("new", role(cpu=4), at=1.0), job("important", role(cpu=4), at=2.0, priority=1)
    )
    fold(found, [limited(8)])
    assert lost(found, 10.0) == {}
    assert decide(found, Policy(), 11.0).plan.wake_s == 10.0 + DELAY_S
    assert lost(found, 39.0) == {}
    assert lost(found, 40.0) == {"new": 0}
    assert lost(found, 41.0) == {}


def test_without_a_delay_nobody_goes() -> None:
    found = book(job("a", role(cpu=4)))
    fold(found, [limited(1, delay_s=None)])
    assert lost(found, 10.0) == lost(found, 1e6) == {}


def test_a_limit_that_is_raised_in_time_costs_nothing() -> None:
    found = book(job("a", role(cpu=2)), job("b", role(cpu=2), at=1.0))
    for cpu, now_s in ((2, 10.0), (4, 20.0), (2, 30.0)):
        fold(found, [limited(cpu)])
        assert lost(found, now_s) == {}
    assert lost(found, 45.0) == {}, "the delay has begun again"
    assert lost(found, 60.0) == {"b": 0}


def test_a_pod_that_is_larger_than_the_excess_stays() -> None:
    found = book(job("a", role(cpu=4)))
    fold(found, [limited(1)])
    assert lost(found, 0.0) == lost(found, DELAY_S) == {}


def test_pods_above_a_minimum_go_first() -> None:
    elastic = job("elastic", role(count=4, minimum=1, cpu=2))
    found = book(elastic, job("whole", role(cpu=8), at=1.0))
    fold(found, [limited(11)])  # 16 are used: 5 too many, and pods of 2
    lost(found, 0.0)
    assert lost(found, DELAY_S) == {"elastic": 2}


@pytest.mark.parametrize(("guaranteed", "gone"), [(0, {"b": 0, "a": 0}), (4, {"b": 0})])
def test_no_queue_falls_below_its_guarantee(guaranteed: int, gone: dict[str, int]) -> None:
    found = book(job("a", role(cpu=4)), job("b", role(cpu=4), at=1.0))
    fold(found, [limited(guaranteed, guaranteed=(("cpu", guaranteed),))])
    lost(found, 0.0)
    assert lost(found, DELAY_S) == gone
