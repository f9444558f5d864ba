"""How many pods of a class fit, as running jobs end."""

from __future__ import annotations

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished
from phalanx.model.plan import Plan, Start
from phalanx.model.policy import Policy
from tests.core.builders import cluster, job, node, role
from tests.invariants import check_invariants


def started(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Start)]


def test_a_class_is_open_as_soon_as_its_pods_are_counted() -> None:
    runs = [job(f"r{n}", role("w", 1, cpu=1), at=n) for n in range(4)]
    book = cluster(node("a", cpu=4), *runs, job("big", role("w", 3, cpu=1), at=9))
    fold_plan(book, decide(book, Policy(), 0.0))
    for name, starts in (("r0", []), ("r1", []), ("r2", ["big"])):
        fold(book, [Finished(name)])
        plan = decide(book, Policy(), 0.0)
        assert started(plan) == starts
        check_invariants(book)
        fold_plan(book, plan)
