"""The cycle as a whole: what scenarios do not show."""

from __future__ import annotations

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import NodeSeen, QueueSeen, Submitted
from phalanx.model.plan import Plan, Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster
from tests.invariants import check_invariants

from .builders import cluster, free, job, node, role


def crowd() -> Cluster:
    jobs = [job(f"j{n}", role("w", 1 + n % 3, cpu=1 + n % 4), at=n) for n in range(30)]
    return cluster(node("a", cpu=8), node("b", cpu=8), *jobs)


def started(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Start)]


def test_deciding_twice_decides_the_same_and_changes_nothing() -> None:
    book = crowd()
    first, second = decide(book, Policy(), 0.0), decide(book, Policy(), 0.0)
    assert first.actions == second.actions
    assert started(first)
    assert free(book, "a") == free(book, "b") == 8
    check_invariants(book)


@pytest.mark.slow
def test_a_chain_of_queues_may_be_as_long_as_people_like() -> None:
    chain = [QueueSeen(Queue(name=f"q{n}", parent=f"q{n - 1}" if n else "")) for n in range(1200)]
    book = Cluster()
    fold(book, [*chain, NodeSeen(node("a", cpu=8)), Submitted(job("deep", role("w", 1, cpu=1), queue="q1199"))])
    plan = decide(book, Policy(), 0.0)
    assert started(plan) == ["deep"]
    fold_plan(book, plan)
    check_invariants(book)
