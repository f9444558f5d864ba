"""Jobs that consolidation must not move: autoscalers are told by the same annotations not to evict their pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.core.fold.fold import fold
from phalanx.loop import step
from phalanx.model.event import Adopted, QueueSeen
from phalanx.model.job import Phase, Placement
from phalanx.model.plan import Plan, Preempt
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption
from tests.core.builders import cluster, event, job, node, role


class Nowhere:
    def apply(self, plan: Plan) -> None:
        pass


@pytest.mark.parametrize("movable", [True, False])
def test_consolidation_moves_what_may_be_moved(movable: bool) -> None:
    book = cluster(node("a", cpu=4), node("b", cpu=4))
    fold(book, [QueueSeen(Queue(name="default", preemption=QueuePreemption(consolidate=True)))])
    for name, on in (("one", "a"), ("two", "b")):
        small = replace(job(name, role(cpu=2)), movable=movable)
        fold(book, [Adopted(small, 1, Phase.RUNNING, (Placement(0, 0, on),))])
    plan = step(book, [event(job("large", role(cpu=4)))], Policy(), 1000.0, Nowhere())
    assert len([each for each in plan.actions if isinstance(each, Preempt)]) == movable
