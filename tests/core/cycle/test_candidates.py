"""`core/cycle/candidates.py`: the request classes that may be tried, in order, by a loop and by arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from phalanx.core.cycle import candidates
from phalanx.core.cycle.intake import receive
from phalanx.core.cycle.steps import Cycle
from phalanx.core.decide import decide
from phalanx.core.order.next_job import Arena, Draws
from phalanx.model.event import Adopted, QueueSeen
from phalanx.model.job import Job, Phase, Placement, Slot
from phalanx.model.plan import Wait
from phalanx.model.policy import Policy
from phalanx.model.queue import Limits, Queue, QueueOrder, QueuePreemption, Quota, WithinQueue
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

NOW_S = 10.0


def begun(book: Cluster) -> Cycle:
    """Return a cycle that is about to try its first request."""
    cycle = Cycle(book, Policy(), NOW_S)
    for request in receive.newcomers(cycle.state):
        receive.receive(cycle.state, request)
    cycle.field.refresh()
    return cycle


def names(draws: Iterable[tuple[Arena | None, Draws]]) -> dict[str, list[str]]:
    """Return arena -> the first job of each of its request classes, in order."""
    return {
        "lost pods" if arena is None else f"{arena.queue}{arena.account and '/'}{arena.account}": [
            candidate.entry.request.job for _, candidate in each
        ]
        for arena, each in draws
    }


def singly(cycle: Cycle) -> dict[str, list[str]]:
    return names(cycle.field.singly(cycle.pending.request_classes.values(), cycle.tournament).items())


def by_columns(cycle: Cycle) -> dict[str, list[str]]:
    return names(cycle.field.by_columns(cycle.field.tryable_classes(), cycle.tournament))


def one_queue(order: QueueOrder, *jobs: Job) -> Cycle:
    return begun(cluster(QueueSeen(Queue(name="q", order=order)), node("a", cpu=100), *jobs))


def asks(name: str, cpu: int, *, at: float = 0.0, priority: int = 0, queue: str = "q") -> Job:
    return job(name, role(cpu=cpu), queue=queue, at=at, priority=priority)


# --- order ------------------------------------------------------------------------------------------------------------


def test_classes_are_ordered_by_priority_then_arrival_then_name() -> None:
    jobs = (asks("old", 1, at=1), asks("b", 2, at=5), asks("a", 3, at=5), asks("urgent", 4, at=9, priority=5))
    cycle = one_queue(QueueOrder.PRIORITY, *jobs)
    [order] = singly(cycle).values()
    assert order == ["urgent", "old", "a", "b"]
    [same] = by_columns(cycle).values()
    assert same == order


def test_a_fifo_queue_ignores_priorities() -> None:
    cycle = one_queue(QueueOrder.FIFO, asks("first", 1, at=1), asks("urgent", 2, at=2, priority=9))
    assert [*singly(cycle).values()] == [*by_columns(cycle).values()] == [["first", "urgent"]]


def test_slots_of_lost_pods_come_before_everything_else() -> None:
    started = job("started", role(count=2, cpu=2), queue="q")
    lost = Adopted(started, 1, Phase.RUNNING, (Placement(0, 0, "a"),), open=(Slot(0, 1),))
    cycle = begun(cluster(QueueSeen(Queue(name="q")), node("a", cpu=9), lost, asks("urgent", 1, priority=99)))
    found = by_columns(cycle)
    assert [*found] == ["lost pods", *[arena for arena in found if arena != "lost pods"]]
    assert found["lost pods"] == ["started"]
    assert singly(cycle) == found


def random_book(random: Random) -> Cluster:
    """Return a cluster with queues of several orders, waiting jobs, and nodes that have capacity for some of them."""
    orders = (QueueOrder.PRIORITY, QueueOrder.FIFO, QueueOrder.FAIR)
    queues = [QueueSeen(Queue(name="root", order=random.choice(orders)))]
    for number in range(random.randint(1, 4)):
        queues.append(
            QueueSeen(
                Queue(
                    name=f"q{number}",
                    parent=random.choice(("", "root")),
                    order=random.choice(orders),
                    strict=random.random() < 0.2,
                    quotas=random.choice(((), (Quota(limit=(("cpu", random.randint(0, 9)),)),))),
                    per_user=random.choice((Limits(), Limits(running=1))),
                    preemption=QueuePreemption(within=random.choice(list(WithinQueue))),
                )
            )
        )
    nodes = [node(f"n{number}", cpu=random.randint(1, 9)) for number in range(3)]
    jobs = []
    for number in range(random.randint(5, 30)):
        name = f"q{random.randint(0, 3)}"
        asked = asks(
            f"j{number}", random.randint(1, 12), at=random.randint(0, 3), priority=random.randint(0, 2), queue=name
        )
        jobs.append(replace(asked, limit_s=random.choice((None, 60.0)), user=random.choice("ab")))
    return cluster(*queues, *nodes, *jobs)


@pytest.mark.parametrize("seed", range(30))
def test_both_ways_find_the_same_classes_in_the_same_order(seed: int) -> None:
    cycle = begun(random_book(Random(seed)))
    field = cycle.field
    count = len(cycle.pending.columns.request_classes)
    within = cycle.state.within_limits(cycle.pending.columns.placement_class[:count], cycle.pending.columns.row[:count])
    mask = field.tryable_mask(np.arange(count), within)
    classes = [each for each in cycle.pending.columns.request_classes if each is not None]
    assert [bool(mask[each.number]) for each in classes] == [field.may_be_tried(each) for each in classes]
    some = [each for each in classes if field.may_be_tried(each)]
    assert names(field.singly(some, cycle.tournament).items()) == by_columns(cycle)


@pytest.mark.parametrize("seed", range(10))
def test_the_decision_is_the_same_with_many_classes_and_with_few(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    for few in (0, 1000):
        monkeypatch.setattr(candidates, "FEW", few)
        plan = decide(random_book(Random(seed)), Policy(), NOW_S).plan
        waits = {
            action.job: (action.reason.code, action.reason.text) for action in plan.actions if isinstance(action, Wait)
        }
        plans.append(([action for action in plan.actions if not isinstance(action, Wait)], waits, plan.wake_s))
    assert plans[0] == plans[1]


# --- which classes may be tried ---------------------------------------------------------------------------------------


def test_a_class_that_is_done_is_not_tried_again() -> None:
    cycle = one_queue(QueueOrder.PRIORITY, asks("a", 1), asks("b", 2))
    done = cycle.pending.columns.request_classes[0]
    assert done is not None
    cycle.state.known.is_done[done.number] = 1
    assert not cycle.field.may_be_tried(done)
    assert len(cycle.field.tryable_classes()) == 1
    assert done.number not in cycle.field.tryable_classes()


def test_a_class_that_no_node_can_hold_is_tried_only_until_it_has_a_reason() -> None:
    """With one arena, a class that is tried too early changes nothing."""
    book = cluster(QueueSeen(Queue(name="q")), node("a", cpu=4), asks("huge", 9), asks("fits", 2, at=1))
    assert len(begun(book).field.tryable_classes()) == 2


def test_whether_a_class_of_some_priority_may_be_tried() -> None:
    cycle = one_queue(QueueOrder.PRIORITY, asks("a", 1, priority=3), asks("b", 2, priority=1))
    assert [cycle.field.any_from(priority) for priority in (0, 3, 4)] == [True, True, False]
    for each in cycle.pending.request_classes.values():
        cycle.state.known.is_done[each.number] = 1
    assert not cycle.field.any_from(0)


def test_the_next_request_of_a_class_represents_it_after_a_grant() -> None:
    cycle = one_queue(QueueOrder.PRIORITY, *(asks(f"j{at}", 1, at=at) for at in range(3)), asks("other", 2, at=1.5))
    [same] = [each for each in cycle.pending.request_classes.values() if each.first.request.job == "j0"]
    cycle.state.granted.add(same.first.request)
    rest = iter([*same][1:])
    cycle.state.remaining[same] = rest
    [order] = by_columns(cycle).values()
    assert order == ["j1", "other"]
