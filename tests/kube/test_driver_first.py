"""Point 10 of the protocol: room for pods that a driver creates later, as Spark does."""

from __future__ import annotations

from phalanx.client.kind import PODS
from tests.kube.double import job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

DRIVER = {"job": "app", "min_resources": "cpu=3", "min_available": "3"}


def test_the_driver_starts_only_when_there_is_room_for_all() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(pod("theirs", "2", scheduler="default-scheduler", node="n1"), pod("driver", **DRIVER))
        async with stage.scheduler():
            await settle(stage)
            assert "driver" not in stage.api.bound()
            stage.finish("theirs")
            await stage.until(lambda: "driver" in stage.api.bound())

    play(scene())


def test_six_drivers_on_six_cores_never_block_each_other() -> None:
    """The deadlock that Phalanx exists for: only two of six applications of three pods run at a time."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 6)])
        for number in range(6):
            stage.put(pod(f"driver-{number}", **{**DRIVER, "job": f"app-{number}"}))
        async with stage.scheduler():
            await settle(stage)
            assert len(stage.api.bound()) == 2
            (first, _) = sorted(stage.api.bound())
            app = first.replace("driver", "app")
            stage.put(pod(f"{app}-exec-1", job=app), pod(f"{app}-exec-2", job=app))
            await stage.until(lambda: len(stage.api.bound()) == 4)
            for name in (first, f"{app}-exec-1", f"{app}-exec-2"):
                stage.finish(name)
            await stage.until(lambda: sum(name.startswith("driver") for name in stage.api.bound()) == 3)

    play(scene())


def test_the_hold_is_cut_to_the_shape_of_the_first_real_pod() -> None:
    """Two cores held as one block become four executors of half a core."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)])
        stage.put(pod("driver", job="app", min_resources='{"cpu": "3"}'))
        async with stage.scheduler():
            await stage.until(lambda: "driver" in stage.api.bound())
            stage.put(job("waits", 1))
            for number in range(4):
                stage.put(pod(f"exec-{number}", "500m", job="app"))
            await stage.until(lambda: len(stage.api.bound()) == 5)
            assert stage.api.job("waits")["spec"]["suspend"] is True

    play(scene())


def test_a_restart_keeps_the_hold() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)])
        stage.put(pod("driver", **DRIVER))
        async with stage.scheduler():
            await stage.until(lambda: "driver" in stage.api.bound())
        stage.put(job("greedy", 2))
        async with stage.scheduler():
            await settle(stage)
            assert set(stage.api.bound()) == {"driver"}
            stage.put(pod("exec-1", job="app"), pod("exec-2", job="app"))
            await stage.until(lambda: set(stage.api.bound()) == {"driver", "exec-1", "exec-2"})

    play(scene())


def test_a_hold_ends_but_not_the_driver() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)])
        stage.put(pod("driver", **DRIVER), job("waits", 2))
        async with stage.scheduler():
            await stage.until(lambda: "driver" in stage.api.bound())
            await settle(stage)
            assert stage.api.job("waits")["spec"]["suspend"] is True
            stage.now_s += 601
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert stage.api.objects[PODS]["default/driver"]["spec"]["nodeName"] == "n1"

    play(scene())
