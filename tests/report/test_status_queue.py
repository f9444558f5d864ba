"""The status of queues: the displayed values are those by which the core decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import NodeSeen, PolicySeen, QueueSeen, Submitted, Ticked
from phalanx.model.plan import Start
from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.policy import Policy, PriorityWeights
from phalanx.model.queue import Queue, QueueOrder, Quota
from phalanx.report.status import queue_positions, queue_statuses
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role

BY_SIZE = Policy(factors=PriorityWeights(size=1000, age=1, max_age_s=1000))


@pytest.mark.parametrize("order", [order for order in QueueOrder if order is not QueueOrder.FAIR])
def test_places_are_in_the_order_in_which_jobs_start(order: QueueOrder) -> None:
    asks = {"small": (1, 5, 0.0), "wide": (6, 0, 20.0), "urgent": (1, 9, 30.0), "early": (3, 0, 10.0)}
    jobs = [
        replace(job(name, role("w", pods, cpu=1000), queue="q", at=at_s), priority=priority)
        for name, (pods, priority, at_s) in asks.items()
    ]
    book = Cluster()
    fold(book, [PolicySeen(BY_SIZE), QueueSeen(Queue(name="q", order=order)), NodeSeen(node("a", cpu=99_000))])
    fold(book, [Ticked(100.0), *map(Submitted, jobs)])
    started = [action.job for action in decide(book, BY_SIZE, 100.0).actions if isinstance(action, Start)]
    assert [place.job for place in queue_positions(book, "q", 9)] == started


def test_parents_come_before_children_and_siblings_by_name() -> None:
    book = Cluster()
    fold(
        book,
        [QueueSeen(Queue(name=name, parent=above)) for name, above in (("b", ""), ("c", "b"), ("a", "b"), ("a0", ""))],
    )
    assert [(each.queue, each.depth) for each in queue_statuses(book)] == [("a0", 0), ("b", 0), ("a", 1), ("c", 1)]


def test_what_no_queue_is_guaranteed_cannot_be_borrowed() -> None:
    book, policy = Cluster(), Policy()
    owner = Queue(name="owner", quotas=(Quota(guaranteed=(("cpu", 8000),)),))
    fold(book, [PolicySeen(policy), QueueSeen(owner), QueueSeen(Queue(name="guest")), NodeSeen(node("a", cpu=8000))])
    fold(book, [Ticked(1.0), Submitted(job("j", role("w", 2, cpu=1000), queue="guest"))])
    fold_plan(book, decide(book, policy, 1.0))
    [guest] = [each for each in queue_statuses(book) if each.queue == "guest"]
    assert {one.resource: (one.used, one.borrowed) for one in guest.usage} == {"cpu": (2000, 2000), "pods": (2, 0)}


def test_who_has_a_right_to_all_it_asks_for_borrows_nothing_and_shares_the_cluster_out() -> None:
    """The children have no guarantee of their own. They use 2 and 1 of the cluster's 8 cpu."""
    book, policy = Cluster(), Policy()
    owner = Queue(name="owner", quotas=(Quota(guaranteed=(("cpu", MAX_AMOUNT),)),))
    children = [Queue(name=name, parent="owner") for name in ("more", "less")]
    fold(book, [PolicySeen(policy), *map(QueueSeen, (owner, *children)), NodeSeen(node("a", cpu=8000))])
    asked = [job(name, role("w", pods, cpu=1000), queue=name) for name, pods in (("more", 2), ("less", 1))]
    fold(book, [Ticked(1.0), *map(Submitted, asked)])
    fold_plan(book, decide(book, policy, 1.0))
    found = {each.queue: each for each in queue_statuses(book)}
    [cpu] = [one for one in found["owner"].usage if one.resource == "cpu"]
    assert (cpu.used, cpu.guaranteed, cpu.borrowed) == (3000, None, 0)
    assert {name: each.share for name, each in found.items()} == {"owner": 0.0, "more": 2 / 8, "less": 1 / 8}
