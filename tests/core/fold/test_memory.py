"""What one cycle remembers for the next saves time, and decides nothing."""

from __future__ import annotations

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished, NodeSeen
from phalanx.model.plan import Plan, Start
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role


def crowd() -> Cluster:
    jobs = [job(f"j{n}", role("w", 1 + n % 3, cpu=1 + n % 4), at=n) for n in range(30)]
    return cluster(node("a", cpu=8), node("b", cpu=8), *jobs)


def started(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Start)]


def test_memory_only_saves_time() -> None:
    """A loop that forgets them decides the same, cycle after cycle."""
    knowing, forgetful = crowd(), crowd()
    for name in ("j0", "j1", "j2", "j3", "j4", "j5"):
        plan, other = decide(knowing, Policy(), 0.0), decide(forgetful, Policy(), 0.0)
        assert started(plan) == started(other)
        fold_plan(knowing, plan)
        fold(forgetful, other.actions)
        for book in (knowing, forgetful):
            fold(book, [Finished(name)])


def test_memory_from_before_an_event_is_not_folded() -> None:
    book = cluster(node("a", cpu=1), job("j", role("w", 2, cpu=1)))
    plan = decide(book, Policy(), 0.0)
    fold(book, [NodeSeen(node("b", cpu=1))])
    fold_plan(book, plan)
    assert started(decide(book, Policy(), 0.0)) == ["j"]
