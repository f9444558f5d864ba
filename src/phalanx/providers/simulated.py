"""A provider whose nodes exist only as objects of the API, for `phalanx up --node-group`.

Each node is a Node object that the node program simulates (`embedded.node.simulated`): the node becomes Ready, and its
pods run like other simulated pods. Nodes arrive after the group's delay. The settings of the group determine how often
the provider refuses a node, and how often a node arrives late, never arrives, or is lost later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random

from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.client.kind import NODES
from phalanx.model.node import Node
from phalanx.model.pod import format_amount
from phalanx.providers.provider import ProviderError, Requested, Status
from phalanx.simulator.workload import SimulatedGroup

PLAYED = "phalanx.dev/simulated-node"  # the annotation of Node objects that the node program simulates
REFUSED = "the simulated provider has no such nodes now"
RETRY_S = 1.0


class SimulatedProvider:
    """The provider of simulated groups. `random`: the random numbers that determine refusals, delays and losses."""

    def __init__(
        self, connection: Connection, groups: Sequence[SimulatedGroup], tasks: asyncio.TaskGroup, random: Random
    ) -> None:
        self._connection, self._tasks, self._random = connection, tasks, random
        self._groups = {each.group.name: each for each in groups}
        # requested node -> (group, time of the request, task that creates the node)
        self._coming: dict[str, tuple[str, float, asyncio.Task[None] | None]] = {}
        self._failed: dict[str, tuple[str, str]] = {}  # node -> (group, reason)

    async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
        for name in add:
            if name not in self._coming:
                self._failed.pop(name, None)
                self._request(self._groups[group], name)
        for name in remove:
            _, _, task = self._coming.pop(name, ("", 0.0, None))
            if task is not None:
                task.cancel()
            await self._delete(name)
        return {}

    async def status(self, group: str) -> Status:
        requested = (Requested(name, since_s) for name, (of, since_s, _) in self._coming.items() if of == group)
        failed = {name: why for name, (of, why) in self._failed.items() if of == group}
        return Status(requested=tuple(requested), failed=failed)

    def _request(self, group: SimulatedGroup, name: str) -> None:
        draw = self._random.random()
        task = None
        if draw < group.refused:
            task = self._tasks.create_task(self._refuse(group, name))
        elif draw >= group.refused + group.never:
            late_s = self._random.random() * group.late_s if self._random.random() < group.late else 0.0
            task = self._tasks.create_task(self._arrive(group, name, group.group.delay_s + late_s))
        self._coming[name] = group.group.name, time.time(), task

    async def _refuse(self, group: SimulatedGroup, name: str) -> None:
        await asyncio.sleep(group.group.delay_s)
        del self._coming[name]
        self._failed[name] = group.group.name, REFUSED

    async def _arrive(self, group: SimulatedGroup, name: str, delay_s: float) -> None:
        """Create the node after its delay. If the group's nodes have a mean lifetime, the node is lost after a random
        time."""
        await asyncio.sleep(delay_s)
        while True:
            try:
                await self._connection.create(NODES, node_object(group.node(name)))
            except ApiRefusal as error:
                if error.reason != "AlreadyExists":
                    self._coming.pop(name, None)
                    self._failed[name] = group.group.name, str(error)
                    return
            except ApiError:
                await asyncio.sleep(RETRY_S)
                continue
            break
        self._coming.pop(name, None)
        if group.lifetime_s:
            await asyncio.sleep(self._random.expovariate(1 / group.lifetime_s))
            with suppress(ProviderError):
                await self._delete(name)

    async def _delete(self, name: str) -> None:
        try:
            await self._connection.delete(NODES, name)
        except ApiRefusal as error:
            if error.code != 404:
                raise ProviderError(f"node {name} cannot be deleted: {error}") from error
        except ApiError as error:
            raise ProviderError(f"node {name} cannot be deleted: {error}") from error


def node_object(node: Node) -> dict[str, object]:
    """Return the Node object of a node that the node program simulates."""
    amounts = {name: format_amount(name, amount) for name, amount in node.allocatable}
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "type": "simulated",
        **dict(node.labels),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels, "annotations": {PLAYED: "true"}},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
