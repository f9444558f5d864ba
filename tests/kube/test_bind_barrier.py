"""Points 1, 5 and 6 of the protocol: resume is not start. Nothing is bound before the whole minimum can be."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from phalanx.client.kind import NODES, PODS
from tests import clockwork
from tests.kube.double import Controller, job, node, pod
from tests.kube.stage import Stage


def play(scene: Coroutine[Any, Any, None]) -> None:
    clockwork.run(scene)


async def settle(stage: Stage, turns: int = 12) -> None:
    for _ in range(turns):
        await stage.turn()


def test_a_refused_pod_keeps_all_unbound_and_takes_the_start_back() -> None:
    """A quota refuses pod 3 of 4: none is bound; after a while the Job is suspended again, its room is free for others,
    and the reason quotes the Job controller."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.controller = Controller(
            stage.api, lambda name, k: "exceeded quota: team-a" if (name, k) == ("big", 3) else ""
        )
        stage.put(job("big", 4))
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.bound() == {}
            stage.now_s += 63
            stage.put(job("small", 2))
            await stage.until(lambda: len(stage.api.bound()) == 2)
            big = stage.api.job("big")
            assert big["spec"]["suspend"] is True
            assert "phalanx.dev/admitted" not in big["metadata"]["annotations"]
            assert "exceeded quota: team-a" in big["metadata"]["annotations"]["phalanx.dev/reason"]
            assert "3 of 4 pods" in stage.reason("big")
            assert {p["metadata"]["labels"]["job"] for p in stage.api.pods()} == {"small"}

    play(scene())


def test_after_its_rest_it_is_tried_again() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.controller = Controller(stage.api, lambda name, k: "no" if k == 3 else "")
        stage.put(job("big", 4))
        async with stage.scheduler():
            await settle(stage)
            stage.now_s += 63
            await stage.until(lambda: not stage.api.pods())
            await settle(stage)
            stage.controller = Controller(stage.api)
            stage.controller.made = 100
            assert stage.api.job("big")["spec"]["suspend"] is True
            stage.now_s += 31
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_a_foreign_pod_that_takes_the_planned_node_moves_the_gang() -> None:
    """A foreign pod takes the capacity between decision and binding: the gang is placed again, and no node is
    overcommitted."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 3))
        async with stage.scheduler():
            await stage.until(lambda: bool(stage.api.pods("j")))
            stage.api.put(PODS, pod("theirs", "4", scheduler="default-scheduler", node="n1"))
            await settle(stage)
            assert set(stage.api.bound()) == {"theirs"}
            stage.api.put(NODES, node("n2", 4))
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert [n for p, n in stage.api.bound().items() if p != "theirs"] == ["n2"] * 3

    play(scene())


def test_a_cordoned_node_gets_nothing_bound() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: bool(stage.api.pods("j")))
            stage.api.put(NODES, {**stage.api.objects[NODES]["n1"], "spec": {"unschedulable": True}})
            await settle(stage)
            assert stage.api.bound() == {}
            stage.api.put(NODES, node("n2", 4))
            await stage.until(lambda: list(stage.api.bound().values()) == ["n2", "n2"])

    play(scene())


def test_pods_larger_than_their_template_are_planned_again_before_any_is_bound() -> None:
    """Point 6: a webhook doubles the pods' demands. Two fit a node instead of four; the gang still starts whole."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4), node("n2", 4)])
        put = stage.api.put

        def doubling(kind: Any, obj: Any) -> Any:
            if kind is PODS and not obj["spec"].get("nodeName"):
                obj = {**obj, "spec": {**obj["spec"], "containers": [{"resources": {"requests": {"cpu": "2"}}}]}}
            return put(kind, obj)

        stage.api.put = doubling  # type: ignore[method-assign]  # admission on the way in
        stage.put(job("j", 4))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert sorted(stage.api.bound().values()) == ["n1", "n1", "n2", "n2"]

    play(scene())


def test_a_refused_binding_goes_to_another_node() -> None:
    """A pod's binding fails for good after others of its gang were bound: the gang is completed elsewhere."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        refused: list[str] = []

        def fault(write: str) -> str | None:
            if write == "bind j-2" and len(refused) < 2:
                refused.append(write)
                return "not today"
            return None

        stage.fault = fault
        stage.put(job("j", 3))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            for _ in range(40):
                stage.now_s += 0.2
                await stage.turn()
            assert len(stage.api.bound()) == 3
            assert stage.phase("j") == "running"

    play(scene())


def test_a_gang_that_cannot_be_completed_goes_back_whole() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.fault = lambda write: "never" if write == "bind j-2" else None
        stage.put(job("j", 3))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            for _ in range(60):
                stage.now_s += 2.0
                await stage.turn()
                if not stage.api.pods():
                    break
            await settle(stage)
            assert stage.api.job("j")["spec"]["suspend"] is True
            assert stage.phase("j") == "queued"

    play(scene())


def test_a_requeued_job_resumes_only_when_no_pod_is_left() -> None:
    """Point 8: its pods still terminate when its back-off ends; no job is nominated to their capacity in the
    meantime."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.timeouts = replace(stage.timeouts, backoff_s=0.001)
        stage.put(job("j", 3))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            stage.fault = lambda write: "no" if "bind" in write else None
            stage.finish("j-2", "Failed", "OutOfcpu")
            stage.put(job("other", 3))
            for _ in range(10):
                await stage.turn(controller=False)
            assert stage.api.job("other")["spec"]["suspend"] is True

    play(scene())
