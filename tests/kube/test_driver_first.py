"""Point 10 of the protocol: room for pods that a driver creates later, as Spark does."""

from __future__ import annotations

from phalanx.client.kind import PODS
from phalanx.kube.gang.spec.held_resources import equal_pieces, pods_in_pieces, read_resources, remaining_resources
from phalanx.model.pod import Shape
from tests.kube.double import job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_barrier import play, settle

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


def test_pieces_for_known_members_are_equal() -> None:
    rest = remaining_resources(read_resources("cpu=3,memory=3Gi"), [(("cpu", 1000), ("memory", 2**30), ("pods", 1))])
    assert equal_pieces(rest, 2, {}) == (2, (("cpu", 1000), ("memory", 2**30), ("pods", 1)))


def test_blocks_are_as_few_as_the_largest_node_allows() -> None:
    assert equal_pieces({"cpu": 10_000}, None, {"cpu": 4_000})[0] == 3


def test_what_a_block_holds_is_counted_in_pods_of_the_real_shape() -> None:
    assert pods_in_pieces([(("cpu", 2000), ("pods", 1))] * 2, Shape((("cpu", 1500), ("pods", 1)))) == 2
