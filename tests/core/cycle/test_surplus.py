"""`core/cycle/intake/surplus.py`: pods above minimums are placed after all minimums of their priority (rule R10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.model.event import Event, QueueSeen
from phalanx.model.job import GangSize, Job
from phalanx.model.node import Node
from phalanx.model.plan import Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueueOrder, Quota
from tests.core.builders import cluster, job, node, role


def pods(*news: Node | Job | Event) -> dict[str, int]:
    """Return how many pods each job that starts gets."""
    decision = decide(cluster(*news), Policy(), 0.0)
    return {action.job: len(action.placements) for action in decision.actions if isinstance(action, Start)}


def elastic(
    name: str, count: int, least: int = 1, *, at: float = 0.0, priority: int = 0, queue: str = "default"
) -> Job:
    return job(name, role(count=count, minimum=least, cpu=1), at=at, priority=priority, queue=queue)


def test_minimums_of_later_jobs_come_before_pods_above_a_minimum() -> None:
    assert pods(node("n", cpu=4), elastic("a", 4), elastic("b", 4, 2, at=1.0)) == {"a": 2, "b": 2}


def test_pods_of_a_higher_priority_come_before_minimums_of_a_lower_one() -> None:
    assert pods(node("n", cpu=4), elastic("a", 4, priority=1), elastic("b", 4, at=1.0)) == {"a": 4}


def test_each_pod_goes_to_the_queue_with_the_smaller_share() -> None:
    queues = [
        QueueSeen(Queue(name=name, order=QueueOrder.FAIR, weight=weight)) for name, weight in (("p", 1), ("q", 3))
    ]
    found = pods(*queues, node("n", cpu=8), elastic("a", 8, queue="p"), elastic("b", 8, at=1.0, queue="q"))
    assert found == {"a": 2, "b": 6}


def test_quota_bounds_what_is_above_a_minimum() -> None:
    queue = QueueSeen(Queue(name="q", quotas=(Quota(limit=(("cpu", 3),)),)))
    assert pods(queue, node("n", cpu=8), elastic("a", 8, queue="q")) == {"a": 3}


@pytest.mark.parametrize(
    ("size", "found"),
    [
        (GangSize.ELASTIC, {"a": 2, "b": 2}),
        (GangSize.FIXED_AT_START, {"a": 4}),
    ],
)
def test_a_job_of_fixed_size_takes_all_its_pods_at_once(size: GangSize, found: dict[str, int]) -> None:
    assert pods(node("n", cpu=4), replace(elastic("a", 4), size=size), elastic("b", 4, 2, at=1.0)) == found
