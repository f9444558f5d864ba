"""`core/reasons/queue_settings.py`: why the settings of a queue exclude a job, whatever capacity is free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import FlavorSeen, QueueSeen
from phalanx.model.job import Dependency, Job
from phalanx.model.node import Flavor, Taint
from phalanx.model.plan import Start, Wait
from phalanx.model.policy import Policy
from phalanx.model.queue import Limits, Queue, QueueState, Quota
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

J = job("j", role(cpu=2), queue="q", at=10.0)


def reason(queue: Queue, asked: Job = J, *more: Flavor) -> Reason | None:
    """Return the reason of the job on a node with enough capacity; None: it starts."""
    book = cluster(node("n", cpu=8), *map(FlavorSeen, more), QueueSeen(queue), asked)
    (action,) = decide(book, Policy(), 100.0).actions
    assert isinstance(action, Start | Wait)
    return action.reason if isinstance(action, Wait) else None


@pytest.mark.parametrize(
    ("queue", "code"),
    [
        (Queue(name="q"), None),
        (Queue(name="q", state=QueueState.HELD), ReasonCode.QUEUE_HELD),
        (Queue(name="q", state=QueueState.CLOSED, state_since_s=5.0), ReasonCode.QUEUE_CLOSED),
        (Queue(name="q", state=QueueState.CLOSED, state_since_s=50.0), ReasonCode.QUEUE_HELD),
        (Queue(name="q", state=QueueState.DRAINING, state_since_s=5.0), ReasonCode.QUEUE_CLOSED),
        (Queue(name="q", state=QueueState.DRAINING, state_since_s=50.0), None),
        (Queue(name="q", parent="gone"), ReasonCode.QUEUE_MISCONFIGURED),
        (Queue(name="other"), ReasonCode.QUEUE_UNKNOWN),
        (Queue(name="q", quotas=(Quota(limit=(("cpu", 1),)),)), ReasonCode.NEVER_WITHIN_LIMIT),
        (Queue(name="q", per_job=Limits(resources=(("cpu", 1),))), ReasonCode.NEVER_WITHIN_LIMIT),
        (Queue(name="q", per_user=Limits(resources=(("cpu", 1),))), ReasonCode.NEVER_WITHIN_LIMIT),
        (Queue(name="q", total=Limits(submitted=0)), ReasonCode.QUEUE_LIMIT),
        (Queue(name="q", per_user=Limits(submitted=0)), ReasonCode.USER_LIMIT),
    ],
)
def test_a_queue_may_keep_a_job_from_being_tried(queue: Queue, code: ReasonCode | None) -> None:
    """A queue that drains or is closed since a time takes no job that was submitted later."""
    found = reason(queue)
    assert (None if found is None else found.code) == code


def test_a_block_by_the_world_is_told_before_anything_else() -> None:
    blocked = Reason(code=ReasonCode.UNSUPPORTED, text="not here")
    assert reason(Queue(name="q", state=QueueState.HELD), replace(J, blocked=blocked)) == blocked


def test_a_time_limit_beyond_the_queues_is_told_with_both() -> None:
    queue = Queue(name="q", per_job=Limits(wall_s=60.0))
    found = reason(queue, replace(J, limit_s=61.0))
    assert found is not None
    assert found.text == "a time limit of 61 s asked, but queue 'q' allows 60 s"
    assert reason(queue, replace(J, limit_s=60.0)) is None


def test_a_flavor_that_no_pod_tolerates_is_named() -> None:
    queue, spot = Queue(name="q", quotas=(Quota(flavor="spot"),)), Flavor(name="spot", taints=(Taint("spot"),))
    found = reason(queue, J, spot)
    assert found is not None
    assert found.code is ReasonCode.NO_NODE_MATCHES
    assert "flavor spot" in found.text


def waiting(book: Cluster) -> Cluster:
    fold_plan(book, decide(book, Policy(), 100.0))
    return book


def test_begin_times_and_dependencies_come_last_and_end_the_wait() -> None:
    late, dependent = replace(J, begin_s=500.0), replace(J, id="k", after=(Dependency(job="first"),))
    book = waiting(cluster(node("n", cpu=8), QueueSeen(Queue(name="q")), late, dependent, job("first", role(cpu=99))))
    codes = {name: book.jobs[name].reason for name in ("j", "k")}
    assert {name: found and found.code for name, found in codes.items()} == {
        "j": ReasonCode.BEGIN_TIME,
        "k": ReasonCode.DEPENDENCY,
    }
    assert decide(book, Policy(), 100.0).plan.wake_s == 500.0
    started = [action.job for action in decide(book, Policy(), 500.0).actions if isinstance(action, Start)]
    assert started == ["j"]


def test_a_queue_that_opens_lets_its_jobs_start() -> None:
    held = QueueSeen(Queue(name="q", state=QueueState.HELD))
    book = waiting(cluster(node("n", cpu=8), held, J))
    fold(book, [QueueSeen(Queue(name="q"))])
    (action,) = decide(book, Policy(), 101.0).actions
    assert isinstance(action, Start)
