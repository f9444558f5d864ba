"""Watch nodes and foreign pods: the amounts that foreign pods hold, and changes of the nodes' devices."""

from __future__ import annotations

from phalanx.client.kind import NODES
from tests.kube.double import job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle


def test_pods_of_others_count_where_they_are() -> None:
    """Points 15 and 16: pods that another scheduler has bound count until they have ended."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(pod("theirs", "3", scheduler="default-scheduler", node="n1"), job("j", 2))
        async with stage.scheduler():
            await settle(stage)
            assert set(stage.api.bound()) == {"theirs"}
            stage.finish("theirs", "Failed")
            await stage.until(lambda: len(stage.api.bound()) == 3)

    play(scene())


def test_a_node_whose_devices_go_for_a_while_takes_nothing_new_and_nobody_is_harmed() -> None:
    """Point 15: while a device plug-in restarts, the node reports 0 devices. Its running pods keep running."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 3))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            stage.api.put(NODES, node("n1", 0))
            stage.caches.deliver(all=True)
            important = job("waits", 1)
            important["spec"]["template"]["spec"]["priority"] = 1000
            stage.put(important)
            writes = len(stage.api.writes)
            await settle(stage)
            assert stage.api.writes[writes:] == []
            assert stage.phase("j") == "running"
            stage.api.put(NODES, node("n1", 4))
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())
