"""`providers/simulated.py`: simulated nodes arrive after their delay, are refused, never come, or are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import NODES, Kind
from phalanx.model.node import NodeGroup
from phalanx.providers.provider import ProviderError
from phalanx.providers.simulated import PLAYED, REFUSED, SimulatedProvider, node_object
from phalanx.simulator.workload import SimulatedGroup
from tests import clockwork
from tests.core.builders import node

DELAY_S = 30.0


class Nodes:
    """An API that keeps nodes by name. `refusal`: the code with which it refuses to delete."""

    def __init__(self, refusal: int = 0) -> None:
        self.objects: dict[str, Any] = {}
        self.refusal = refusal

    async def create(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        assert kind is NODES
        if obj["metadata"]["name"] in self.objects:
            raise ApiRefusal(409, "AlreadyExists", "it is there")
        self.objects[obj["metadata"]["name"]] = obj
        return obj

    async def delete(self, kind: Kind, name: str) -> None:
        if self.refusal or name not in self.objects:
            raise ApiRefusal(self.refusal or 404, "Refused", "no")
        del self.objects[name]


def play(scene: Callable[[SimulatedProvider], Awaitable[None]], api: Nodes, **how: float) -> None:
    group = SimulatedGroup(group=NodeGroup(name="g", template=node("t", cpu=8000), delay_s=DELAY_S), **how)

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            await scene(SimulatedProvider(api, [group], tasks, Random(1)))  # type: ignore[arg-type]  # it answers as one does

    clockwork.run(run())


def test_a_node_arrives_once_after_its_delay() -> None:
    api = Nodes()

    async def scene(provider: SimulatedProvider) -> None:
        for _ in range(2):
            await provider.scale("g", ["g-1"], [])
        await asyncio.sleep(DELAY_S - 1)
        status = await provider.status("g")
        assert ([each.name for each in status.requested], api.objects) == (["g-1"], {})
        assert (await provider.status("other")).requested == ()
        await asyncio.sleep(2)
        assert list(api.objects) == ["g-1"]
        assert (await provider.status("g")).requested == ()

    play(scene, api)


def test_a_refused_node_has_failed_until_it_is_requested_again() -> None:
    async def scene(provider: SimulatedProvider) -> None:
        await provider.scale("g", ["g-1"], [])
        await asyncio.sleep(DELAY_S + 1)
        assert (await provider.status("g")).failed == {"g-1": REFUSED}
        await provider.scale("g", ["g-1"], [])
        assert (await provider.status("g")).failed == {}

    play(scene, Nodes(), refused=1.0)


def test_a_node_that_never_comes_stays_requested() -> None:
    api = Nodes()

    async def scene(provider: SimulatedProvider) -> None:
        await provider.scale("g", ["g-1"], [])
        await asyncio.sleep(100 * DELAY_S)
        assert len((await provider.status("g")).requested) == 1
        assert not api.objects

    play(scene, api, never=1.0)


def test_a_node_is_lost_after_some_time() -> None:
    api = Nodes()

    async def scene(provider: SimulatedProvider) -> None:
        await provider.scale("g", ["g-1"], [])
        await asyncio.sleep(DELAY_S + 0.01)
        assert list(api.objects) == ["g-1"]
        await asyncio.sleep(100_000.0)
        assert not api.objects

    play(scene, api, lifetime_s=60.0)


def test_a_node_that_is_given_up_does_not_arrive() -> None:
    api = Nodes()

    async def scene(provider: SimulatedProvider) -> None:
        await provider.scale("g", ["g-1"], [])
        await provider.scale("g", [], ["g-1"])
        await asyncio.sleep(2 * DELAY_S)
        assert not api.objects
        assert (await provider.status("g")).requested == ()

    play(scene, api)


def test_a_node_that_cannot_be_deleted_is_an_error() -> None:
    async def scene(provider: SimulatedProvider) -> None:
        with pytest.raises(ProviderError, match="node g-1 cannot be deleted"):
            await provider.scale("g", [], ["g-1"])

    play(scene, Nodes(refusal=403))


def test_the_node_program_knows_its_nodes() -> None:
    obj = node_object(node("g-1", labels={"zone": "a"}, cpu=8000, memory=2**30))
    assert obj["metadata"]["annotations"] == {PLAYED: "true"}
    assert obj["metadata"]["labels"]["zone"] == "a"
    assert obj["status"]["allocatable"] == {"cpu": "8", "memory": "1Gi", "pods": "110"}
