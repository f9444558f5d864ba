"""What the book remembers does not grow with time."""

from __future__ import annotations

import gc

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished, QueueGone, Started, Ticked
from phalanx.model.job import Placement
from phalanx.model.plan import Preempt, Start
from phalanx.model.policy import Backfill, Policy
from phalanx.model.reason import Reason, ReasonCode
from tests.core.builders import cluster, job, node, role

WHY = Reason(code=ReasonCode.NO_ROOM, text="gives way")


def test_of_preemptions_the_last_hour_is_remembered_and_as_long_as_the_queue_is_there() -> None:
    book = cluster(node("n", cpu=9), *(job(name, role(cpu=1)) for name in "abc"))
    for name, at_s in zip("abc", (100.0, 3000.0, 4000.0), strict=True):
        start = Start(name, 1, (Placement(0, 0, "n"),), at_s, (), None)
        fold(book, [Ticked(at_s), start, Started(name, 1), Preempt(name, 1, "x", WHY)])
    assert list(book.preempted_at["default"]) == [3000.0, 4000.0]
    fold(book, [QueueGone("default")])
    assert not book.preempted_at


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
