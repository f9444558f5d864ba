"""A node rejects pods. Their replacements go to other nodes, if any other node fits."""

from __future__ import annotations

import pytest

from phalanx.client.informer import key_of
from phalanx.client.kind import JOBS, NODES, PODS
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

REASONS = [
    "OutOfcpu",
    "Evicted",
    "NodePorts",
    "NodeName",
    "Preempting",
    "VolumeAttachmentLimitExceeded",
    "NodeAffinity",
]


def pods_on(stage: Stage, name: str) -> list[Object]:
    return [one for one in stage.api.pods() if one["spec"].get("nodeName") == name and "status" in one]


def rejecting(stage: Stage, bad: str, reason: str) -> list[str]:
    """Let the kubelet of `bad` refuse every pod. Return the list of refused pods, which grows with each refusal."""
    refused: list[str] = []

    def turn() -> None:
        for one in pods_on(stage, bad):
            if one["status"]["phase"] == "Pending":
                refused.append(one["metadata"]["name"])
                stage.finish(one["metadata"]["name"], "Failed", reason)

    stage.events = turn
    return refused


@pytest.mark.parametrize("reason", REASONS)
def test_successors_of_rejected_pods_go_to_another_node(reason: str) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("bad", 4)])
        refused = rejecting(stage, "bad", reason)
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await settle(stage, 4)
            stage.put_node(node("good", 4))
            stage.caches.deliver(all=True)
            for _ in range(20):
                stage.now_s += 1.0
                stage.events()
                await stage.turn()
            assert len(refused) <= 4, refused
            alive = [one for one in pods_on(stage, "good") if one["status"]["phase"] == "Pending"]
            assert len(alive) == 2

    play(scene())


def test_the_reason_is_told() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("bad", 4), node("good", 4)])
        stage.put(job("j", 1))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            where = next(iter(stage.api.bound().values()))
            stage.finish("j-1", "Failed", "OutOfcpu")
            await settle(stage)
            said = stage.api.job("j")["metadata"]["annotations"]["phalanx.dev/reason"]
            assert f"the kubelet of {where} refused pod j-1 (OutOfcpu); other nodes are preferred" in said

    play(scene())


def test_replacements_do_not_go_back_to_a_node_that_repels_them() -> None:
    """A NoExecute taint deletes the pods of the node, and would delete every pod that is bound to it."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await settle(stage, 4)
            tainted = {**stage.api.objects[NODES]["n1"], "spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}}
            stage.put_node(tainted)
            stage.put_node(node("n2", 4))
            stage.caches.deliver(all=True)
            bound: list[str] = []
            for _ in range(20):
                for one in pods_on(stage, "n1"):
                    stage.api.drop(PODS, key_of(one))
                await stage.turn()
                bound += [name for name, where in stage.api.bound().items() if where == "n1"]
            assert bound == []
            assert sorted(stage.api.bound().values()) == ["n2", "n2"]

    play(scene())


def test_who_tolerates_the_taint_goes_there() -> None:
    async def scene() -> None:
        tainted = {**node("n1", 4), "spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}}
        stage = Stage(nodes=[tainted])
        obj = pod("p")
        obj["spec"]["tolerations"] = [{"key": "broken", "operator": "Exists"}]
        stage.put(obj, pod("q"))
        async with stage.scheduler():
            await settle(stage)
            assert list(stage.api.bound()) == ["p"]
            assert not stage.api.objects[JOBS]

    play(scene())
