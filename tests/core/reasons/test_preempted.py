"""`core/reasons/preempted.py`: why a job was preempted, and why its preemptor has not started yet."""

from __future__ import annotations

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.core.reasons.preempted import jobs_text, nodes_text, pods_text
from phalanx.model.event import QueueSeen, Started, Ticked
from phalanx.model.plan import Nominate, Preempt
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption, Quota, ReclaimWithinCohort, WithinQueue
from phalanx.model.reason import ReasonCode
from tests.core.builders import cluster, event, job, node, role

WITHIN = Queue(name="default", preemption=QueuePreemption(within=WithinQueue.LOWER))
RECLAIMS = Queue(
    name="default",
    quotas=(Quota(guaranteed=(("cpu", 4),)),),
    preemption=QueuePreemption(reclaim=ReclaimWithinCohort.ANY),
)


@pytest.mark.parametrize(
    ("queue", "of_victim", "rule", "kueue"),
    [(WITHIN, "default", "within", "InClusterQueue"), (RECLAIMS, "other", "reclaim", "InCohortReclamation")],
)
def test_victim_and_preemptor_are_told_of_each_other(queue: Queue, of_victim: str, rule: str, kueue: str) -> None:
    victim = job("victim", role(count=2, cpu=2), queue=of_victim)
    book = cluster(QueueSeen(queue), QueueSeen(Queue(name="other")), node("n", cpu=4), victim)
    fold_plan(book, decide(book, Policy(), 0.0))
    fold(book, [Started("victim", 1), Ticked(10.0), event(job("new", role(cpu=3), at=5.0, priority=7))])
    decision = decide(book, Policy(), 10.0)
    (preempt,) = (each for each in decision.actions if isinstance(each, Preempt))
    (nominate,) = (each for each in decision.actions if isinstance(each, Nominate))
    assert (preempt.job, preempt.by, preempt.reason.code) == ("victim", "new", ReasonCode.PREEMPTED)
    numbers = preempt.reason.numbers
    assert (numbers["rule"], numbers["kueue"], numbers["by_priority"], numbers["pods"]) == (rule, kueue, 7, 2)
    assert "new" in preempt.reason.text
    assert not preempt.reason.names("new")
    fold_plan(book, decision)
    fold_plan(book, decide(book, Policy(), 11.0))
    waits = book.reason("new")
    assert waits is not None
    assert waits.code is ReasonCode.PREEMPTING
    assert waits.text == "promised room on n for 1 pod; victim is still there"
    assert (waits.numbers["waits_for"], waits.numbers["until_s"]) == (["victim"], nominate.until_s)


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([], "others are"),
        (["a"], "a is"),
        (["a", "b", "c"], "a, b and c are"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more are"),
    ],
)
def test_jobs_are_listed_up_to_three(jobs: list[str], text: str) -> None:
    assert jobs_text(jobs) == text


def test_one_is_not_many() -> None:
    assert (pods_text(1), pods_text(2), nodes_text(1), nodes_text(2)) == ("1 pod", "2 pods", "1 node", "2 nodes")
