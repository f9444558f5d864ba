"""Large batches are processed in pieces, so that urgent tasks (the Lease) can run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from phalanx import loop
from phalanx.kube import world as kube_world
from phalanx.model.event import Event, NodeSeen
from phalanx.model.node import Node
from phalanx.model.plan import Plan, Wait
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests import clockwork
from tests.kube.double import job, node
from tests.kube.stage import Stage


class Turns:
    """How often somebody else got a turn."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


class Full:
    """A world with very many nodes; `seen`: how many nodes the cluster had at each turn of others."""

    def __init__(self, nodes: int) -> None:
        self.left: list[Event] = [NodeSeen(Node(name=f"n{number}", allocatable=())) for number in range(nodes)]
        self.decided = asyncio.Event()

    def events(self) -> Sequence[Event]:
        found, self.left = self.left, []
        return found

    def apply(self, plan: Plan) -> None:
        self.decided.set()

    async def wait(self, timeout_s: float | None) -> None:
        await asyncio.Event().wait()


def test_the_first_events_of_a_large_cluster_are_folded_in_many_turns() -> None:
    async def scene() -> None:
        full, cluster, turns = Full(10 * loop.FOLDED), Cluster(), Turns()
        other = asyncio.ensure_future(turns.run())
        running = asyncio.ensure_future(loop.run(full, cluster, Policy(), lambda: 7.0))
        await full.decided.wait()
        assert turns.count >= 9
        assert len(cluster.columns.row_of) == 10 * loop.FOLDED
        for task in (other, running):
            task.cancel()

    clockwork.run(scene())


def test_a_large_plan_is_carried_out_while_the_world_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(*(job(f"j{number}", 1) for number in range(6)))
        async with stage.scheduler():
            await stage.turn()
            told: list[str] = []
            monkeypatch.setattr(stage.world.effects.reporter, "waits", lambda gang, reason: told.append(gang.id))
            monkeypatch.setattr(kube_world, "_MANY", 4)
            why = Reason(code=ReasonCode.BACKOFF, text="later")
            plan = Plan(actions=tuple(Wait(f"default/j{number}", why) for number in range(6)))
            stage.world.apply(plan)
            assert told == []
            stage.world._reconciler.mark("default/j0")
            await stage.world.wait(None)
            assert told == [f"default/j{number}" for number in range(6)]
            stage.world.apply(plan)
            stage.world.events()  # or at the latest then
            assert len(told) == 12

    clockwork.run(scene())
