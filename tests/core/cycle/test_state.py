"""The state of one cycle is gone after it."""

from __future__ import annotations

import gc

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished, Ticked
from phalanx.model.policy import Backfill, Policy
from tests.core.builders import cluster, job, node, role


@pytest.mark.parametrize("backfill", list(Backfill))
def test_a_cycle_leaves_nothing_to_the_garbage_collector(backfill: Backfill) -> None:
    policy = Policy(backfill=backfill)
    book = cluster(
        node("a", cpu=2), *(job(name, role(cpu=cpu)) for name, cpu in (("one", 1), ("two", 2), ("three", 1)))
    )
    gc.disable()
    try:
        for now_s in (1.0, 2.0):
            gc.collect()
            plan = decide(book, policy, now_s)
            assert gc.collect() == 0, "some parts of the cycle know each other, and were not taken apart"
            fold_plan(book, plan)
            fold(book, [Ticked(now_s), Finished("one")])
    finally:
        gc.enable()
