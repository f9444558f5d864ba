"""The loop: steps when something happened or its time has come."""

from __future__ import annotations

import asyncio

import pytest

from phalanx import loop
from phalanx.model.event import Event, NodeSeen, QueueSeen, Refused, Submitted
from phalanx.model.plan import Plan, Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role


class Scripted:
    """A world that returns its script, one entry for each step, and whose clock advances by the waiting times."""

    def __init__(self, script: list[list[Event]]) -> None:
        self.script, self.starts, self.waited, self.now_s = script, [], [], 100.0

    def events(self) -> list[Event]:
        return self.script.pop(0) if self.script else []

    def apply(self, plan: Plan) -> None:
        self.starts += [action for action in plan.actions if isinstance(action, Start)]

    async def wait(self, timeout_s: float | None) -> None:
        self.waited.append(timeout_s)
        self.now_s += timeout_s or 0.0
        if not self.script and timeout_s is None:
            raise asyncio.CancelledError


def test_a_refused_job_is_started_again_when_its_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "spare_the_book", lambda: None)
    world = Scripted(
        [
            [NodeSeen(node("a", cpu=1)), QueueSeen(Queue(name="default")), Submitted(job("j", role("w", 1, cpu=1)))],
            [Refused("j", 1, Reason(code=ReasonCode.BACKOFF, text="no"), not_before_s=130.0)],
        ]
    )
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(loop.run(world, Cluster(), Policy(), lambda: world.now_s))
    assert [start.attempt for start in world.starts] == [1, 2]
    assert world.waited == [None, 30.0, None]


def test_garbage_is_collected_between_cycles_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[str] = []
    monkeypatch.setattr(loop, "spare_the_book", lambda: swept.append("all"))
    monkeypatch.setattr(loop.gc, "collect", lambda generation=2: swept.append(f"generation {generation}"))
    monkeypatch.setattr(loop.gc, "freeze", lambda: swept.append("kept"))
    monkeypatch.setattr(loop.gc, "unfreeze", lambda: swept.append("not kept any more"))
    monkeypatch.setattr(loop, "WHOLE", 2 * loop.OLD)
    sweeps = loop.Sweeps()
    sweeps.after(loop.SWEPT)  # the first cycle: the book as it was found
    for _ in range(4 * loop.OLD):
        sweeps.after(loop.SWEPT // 2)
    new = ["generation 0"] * (loop.OLD - 1)
    assert swept == ["all", *new, "generation 1", "kept", *new, "not kept any more", "generation 2", "kept"]
