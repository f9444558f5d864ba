"""The reservations of a cycle."""

from __future__ import annotations

from dataclasses import replace

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Started
from phalanx.model.plan import FirstReservation
from phalanx.model.policy import Policy
from tests.core.builders import cluster, job, node, role


def test_the_first_reservation_stands_while_nothing_happens() -> None:
    runs = replace(job("runs", role("w", 1, cpu=3), at=0), limit_s=60.0)
    book = cluster(node("a", cpu=4), runs, replace(job("big", role("w", 1, cpu=4), at=1), limit_s=60.0))
    decision = decide(book, Policy(), 0.0)
    fold_plan(book, decision)
    fold(book, [Started("runs", 1)])
    fold_plan(book, decide(book, Policy(), 0.0))
    idle = decide(book, Policy(), 1.0)
    assert idle.memory is None
    assert idle.plan.reserved == decision.plan.reserved == FirstReservation("big", None, 60.0)
