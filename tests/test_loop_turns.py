"""Large batches are processed in pieces, so that urgent tasks (the Lease) can run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from phalanx import loop
from phalanx.model.event import Event, NodeSeen
from phalanx.model.node import Node
from phalanx.model.plan import Plan
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests import clockwork


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
