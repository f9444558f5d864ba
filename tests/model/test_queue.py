"""`model/queue.py`: errors in a queue's own numbers, limits of single users, and rights to borrow and to preempt."""

from __future__ import annotations

import math

import pytest

from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.queue import (
    BorrowingPolicy,
    Limits,
    Queue,
    QueuePreemption,
    Quota,
    ReclaimWithinCohort,
    WithinQueue,
    quota_errors,
)


@pytest.mark.parametrize(
    ("queue", "error"),
    [
        (Queue(name="q", quotas=(Quota(flavor="spot"),)), "queue 'q' names the flavor 'spot', which does not exist"),
        (Queue(name="q", quotas=(Quota(), Quota())), "queue 'q' names the flavor '' twice"),
        (
            Queue(name="q", quotas=(Quota(guaranteed=(("cpu", 4000),), limit=(("cpu", 1500),)),)),
            "queue 'q': its limit of 1.5 cpu is below its guarantee of 4",
        ),
        (
            Queue(name="q", quotas=(Quota(flavor="a100", limit=(("cpu", -1000),)),)),
            f"queue 'q': limit cpu of flavor 'a100' is -1; it must be from 0 to {MAX_AMOUNT}",
        ),
        (
            Queue(name="q", per_user=Limits(named=(("eve", Limits(running=-1)),))),
            f"queue 'q': its limit of running per eve is -1; it must be from 0 to {MAX_AMOUNT}",
        ),
        (
            Queue(name="q", weights=(("gpu", math.inf),)),
            "queue 'q': its weight of gpu is inf; it must be a number from 0",
        ),
    ],
)
def test_an_error_names_the_queue_and_the_value(queue: Queue, error: str) -> None:
    assert list(quota_errors(queue, {"", "a100"})) == [error]


def test_a_right_queue_has_no_errors() -> None:
    right = Quota(guaranteed=(("cpu", MAX_AMOUNT),), limit=(("cpu", MAX_AMOUNT),), lend=(("cpu", 0),))
    assert list(quota_errors(Queue(name="q", quotas=(right,), weight=0.0, total=Limits(running=0)), {""})) == []


def test_a_named_user_has_its_own_limits() -> None:
    own = Limits(running=9)
    limits = Limits(running=1, named=(("eve", own),))
    assert (limits.of("eve"), limits.of("ann")) == (own, limits)


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (BorrowingPolicy.ALL, [True, True]),
        (BorrowingPolicy.PREEMPTIBLE, [True, False]),
        (BorrowingPolicy.NONE, [False] * 2),
    ],
)
def test_who_may_borrow(policy: BorrowingPolicy, allowed: list[bool]) -> None:
    assert [policy.allows(preemptible=each) for each in (True, False)] == allowed


@pytest.mark.parametrize(
    ("preemption", "searches"),
    [
        (QueuePreemption(), False),
        (QueuePreemption(within=WithinQueue.LOWER), True),
        (QueuePreemption(reclaim=ReclaimWithinCohort.ANY), True),
        (QueuePreemption(borrowing=True), True),
        (QueuePreemption(consolidate=True), True),
        (QueuePreemption(min_run_s=60.0, reclaimable=False), False),
    ],
)
def test_preemption_is_off_unless_a_queue_enables_it(preemption: QueuePreemption, searches: bool) -> None:
    assert preemption.searches() is searches
