"""`core/reasons/no_quota.py`: which setting of a queue does not allow a start, with the amounts and who holds them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import QueueSeen, Started
from phalanx.model.job import Job
from phalanx.model.policy import Policy
from phalanx.model.queue import BorrowingPolicy, Limits, Queue, Quota
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, event, job, node, role


def quota(**bounds: int) -> tuple[Quota, ...]:
    return (Quota(**{name: (("cpu", 1000 * amount),) for name, amount in bounds.items()}),)


def asks(name: str, cpu: int, queue: str = "q", at: float = 0.0, *, pods: int = 1, user: str = "ann") -> Job:
    return replace(job(name, role(count=pods, cpu=1000 * cpu), queue=queue, at=at), user=user)


def reason(queues: list[Queue], running: list[Job], waits: Job) -> Reason:
    """Return why the last job waits, while the others run on a node with enough capacity."""
    book: Cluster = cluster(node("n", cpu=64_000), *map(QueueSeen, queues), *running)
    fold_plan(book, decide(book, Policy(), 0.0))
    fold(book, [*(Started(each.id, 1) for each in running), event(waits)])
    fold_plan(book, decide(book, Policy(), 100.0))
    found = book.reason(waits.id)
    assert found is not None
    return found


def test_a_limit_is_told_with_the_jobs_that_use_it_and_when_enough_comes_back() -> None:
    running = [replace(asks("big", 4), limit_s=3600.0), asks("small", 2, at=1.0)]
    found = reason([Queue(name="q", quotas=quota(limit=8))], running, asks("late", 3, at=2.0))
    assert found.code is ReasonCode.QUEUE_LIMIT
    assert found.text == (
        "3 cpu asked, but queue 'q' uses 6 cpu of its limit of 8 cpu "
        "(most is used by big (4), small (2); enough is expected back by 01:00:00 UTC)"
    )
    numbers = found.numbers
    assert (numbers["asked"], numbers["used"], numbers["allowed"]) == (3000, 6000, 8000)
    assert numbers["holders"] == {"big": 4000, "small": 2000}
    assert found.names("big")
    assert not found.names("late")


def test_a_limit_above_the_queue_names_both_and_the_queues_below_it() -> None:
    queues = [Queue(name="up", quotas=quota(limit=8)), Queue(name="q", parent="up"), Queue(name="p", parent="up")]
    found = reason(queues, [asks("a", 5, "p"), asks("b", 2, "q", 1.0)], asks("late", 3, at=2.0))
    assert found.text == (
        "3 cpu asked, but queue 'up' (above 'q') uses 7 cpu of its limit of 8 cpu "
        "(most is used by queue 'p' (5), queue 'q' (2); the largest jobs are a (5), b (2))"
    )
    assert found.numbers["jobs"] == {"a": 5000, "b": 2000}


def test_a_gang_is_told_how_many_of_its_pods_would_be_within_the_limit() -> None:
    found = reason([Queue(name="q", quotas=quota(limit=8))], [asks("a", 3)], asks("gang", 2, at=1.0, pods=4))
    assert "2 of its 4 pods would be within that" in found.text
    assert (found.numbers["fit"], found.numbers["pods"]) == (2, 4)


@pytest.mark.parametrize(
    ("queue", "code", "text"),
    [
        (
            Queue(name="q", quotas=quota(guaranteed=4), borrow=BorrowingPolicy.NONE),
            ReasonCode.QUEUE_QUOTA,
            "3 cpu asked, but queue 'q' uses 2 cpu of the 4 cpu guaranteed to it, and this may not borrow",
        ),
        (Queue(name="q", total=Limits(running=1)), ReasonCode.QUEUE_LIMIT, "queue 'q' runs 1 of at most 1 jobs (a)"),
        (
            Queue(name="q", per_user=Limits(running=1)),
            ReasonCode.USER_LIMIT,
            "user 'ann' runs 1 of at most 1 jobs in queue 'q'",
        ),
        (
            Queue(name="q", per_user=Limits(resources=(("cpu", 4000),))),
            ReasonCode.USER_LIMIT,
            "3 cpu asked, but user 'ann' uses 2 cpu of at most 4 cpu in queue 'q'",
        ),
        (
            Queue(name="q", per_group=Limits(running=1)),
            ReasonCode.USER_LIMIT,
            "whoever names no group runs 1 of at most 1 jobs in queue 'q'",
        ),
    ],
)
def test_every_kind_of_limit_has_its_sentence(queue: Queue, code: ReasonCode, text: str) -> None:
    found = reason([queue], [asks("a", 2)], asks("late", 3, at=1.0))
    assert found.code is code
    assert found.text.startswith(text)


def test_what_other_queues_keep_is_not_there_to_borrow() -> None:
    queues = [Queue(name="keeps", quotas=quota(guaranteed=60, lend=0)), Queue(name="q")]
    found = reason(queues, [asks("a", 2)], asks("late", 3, at=1.0))
    assert found.code is ReasonCode.QUEUE_QUOTA
    assert found.text.startswith(
        "3 cpu to borrow, but only 2 cpu of the cluster's 64 cpu are neither in use nor kept by queues"
    )


def test_who_waits_behind_the_head_of_a_strict_queue_is_told_its_reason() -> None:
    head = asks("head", 5, at=1.0)
    book = cluster(node("n", cpu=64_000), QueueSeen(Queue(name="q", strict=True, quotas=quota(limit=8))), asks("a", 4))
    fold_plan(book, decide(book, Policy(), 0.0))
    fold(book, [event(head), event(asks("behind", 1, at=2.0))])
    fold_plan(book, decide(book, Policy(), 1.0))
    found = book.reason("behind")
    assert found is not None
    assert found.code is ReasonCode.BEHIND_HEAD
    assert (found.numbers["head"], found.numbers["head_code"]) == ("head", "QueueLimit")
