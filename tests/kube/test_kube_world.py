"""`kube/world/kube_world.py`: the events of a world, and the gangs that it knows."""

from __future__ import annotations

import asyncio

from phalanx.client.kind import JOBS
from phalanx.model.event import Finished, NodeSeen, Occupied, Submitted
from tests import clockwork
from tests.kube.double import job, node, pod
from tests.kube.stage import Stage


def test_the_first_events_describe_the_whole_cluster_and_come_once() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("j", 1), pod("theirs", scheduler="default-scheduler", node="n1"))
        async with stage.scheduler():
            events = stage.world.events()
            assert [type(each) for each in events if isinstance(each, NodeSeen | Submitted)] == [NodeSeen, Submitted]
            assert any(isinstance(each, Occupied) for each in events)
            assert list(stage.world.events()) == []

    clockwork.run(scene())


def test_a_gang_without_objects_is_forgotten() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("j", 1))
        async with stage.scheduler():
            stage.world.events()
            assert set(stage.world.gangs) == {"default/j"}
            stage.api.drop(JOBS, "default/j")
            stage.caches.deliver(all=True)
            (ended,) = stage.world.events()
            assert isinstance(ended, Finished)
            assert not stage.world.gangs

    clockwork.run(scene())


def test_a_world_waits_no_longer_than_until_the_next_timer_of_a_gang() -> None:
    async def scene() -> float:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("j", 1))
        async with stage.scheduler():
            await stage.until(lambda: bool(stage.api.writes))
            for _ in range(3):
                await stage.turn(controller=False)
            stage.world.events()
            began_s = asyncio.get_running_loop().time()
            await stage.world.wait(10_000.0)
            return asyncio.get_running_loop().time() - began_s

    assert 10.0 < clockwork.run(scene()) < 100.0, "its pods must exist by then"
