"""Searches for victims within a cycle: their number is bounded."""

from __future__ import annotations

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Adopted, Event, NodeSeen, QueueSeen, Submitted, Ticked
from phalanx.model.job import Phase, Placement
from phalanx.model.node import Node
from phalanx.model.plan import Preempt
from phalanx.model.pod import amounts
from phalanx.model.queue import Queue, QueuePreemption, WithinQueue
from phalanx.state.cluster import Cluster
from tests.core.preemption.test_search import POLICY, job


def test_jobs_whom_nobody_can_help_leave_the_scheduler_at_rest() -> None:
    """More of them than search in one cycle: each cycle the same eight searched again, were forgotten, and put off the
    ninth to the next cycle, at once, for ever."""
    book = Cluster()
    events: list[Event] = [Ticked(100.0), NodeSeen(Node(name="n", allocatable=amounts({"gpu": 4, "pods": 110})))]
    events += [QueueSeen(Queue(name="q", preemption=QueuePreemption(within=WithinQueue.LOWER)))]
    events += [Adopted(job("low", "q", 0, 1, 1, 4), 1, Phase.RUNNING, (Placement(0, 0, "n"),))]
    events += [Submitted(job(f"too-large-{gpus}", "q", 9, 1, 1, gpus)) for gpus in range(5, 25)]
    fold(book, events)
    plans = []
    for _ in range(6):
        plans.append(decide(book, POLICY, 100.0))
        fold_plan(book, plans[-1])
    assert not any(isinstance(action, Preempt) for plan in plans for action in plan.actions)
    assert plans[-1].plan.wake_s is None
