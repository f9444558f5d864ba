"""Deployments, ReplicaSets and ReplicationControllers on the real embedded API server."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import DEPLOYMENTS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

pytestmark = pytest.mark.slow  # real processes


def deployment(image: str, replicas: int, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {"spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template, **spec}}


async def make_ready(here: Cluster, pod: Object) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await here.connection.patch(PODS, pod["metadata"]["name"], {"status": status}, here.namespace, subresource="status")


def test_pods_are_kept_replaced_and_rolled_over(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.make(DEPLOYMENTS, "d", **deployment("one", 2))
        pods = await here.until(lambda: here.list(PODS), lambda found: len(found) == 2)
        for pod in pods:
            assert pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
            await make_ready(here, pod)
        await here.until(
            lambda: here.get(DEPLOYMENTS, "d"), lambda found: found["status"].get("availableReplicas") == 2
        )
        await here.connection.delete(PODS, pods[0]["metadata"]["name"], here.namespace)
        gone = pods[0]["metadata"]["uid"]
        pods = await here.until(
            lambda: here.list(PODS),
            lambda found: len(found) == 2 and all(one["metadata"]["uid"] != gone for one in found),
        )
        for pod in pods:
            await make_ready(here, pod)
        await here.set(DEPLOYMENTS, "d", **deployment("two", 2))

        async def rolled() -> bool:
            for pod in await here.list(PODS):
                if not pod["status"].get("conditions"):
                    await make_ready(here, pod)
            found = await here.get(DEPLOYMENTS, "d")
            images = {one["spec"]["containers"][0]["image"] for one in await here.list(PODS)}
            return bool(found and found["status"].get("updatedReplicas") == 2 and images == {"two"})

        await here.until(rolled, bool)
        sets = await here.list(REPLICA_SETS)
        assert sorted(one["spec"]["replicas"] for one in sets) == [0, 2]
        await here.connection.delete(DEPLOYMENTS, "d", here.namespace)
        await here.until(lambda: here.list(PODS), lambda found: not found)

    scenario(api_server, play)


def test_a_replication_controller_keeps_its_pods(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await here.make(REPLICATION_CONTROLLERS, "r", spec={"replicas": 2, "template": template})
        pods = await here.until(lambda: here.list(PODS), lambda found: len(found) == 2)
        owners = {(one["kind"], one["name"]) for pod in pods for one in pod["metadata"]["ownerReferences"]}
        assert owners == {("ReplicationController", "r")}
        await make_ready(here, pods[0])
        gone = pods[1]["metadata"]["name"]
        await here.connection.delete(PODS, gone, here.namespace)
        await here.until(
            lambda: here.list(PODS),
            lambda found: len(found) == 2 and gone not in {one["metadata"]["name"] for one in found},
        )
        await here.until(
            lambda: here.get(REPLICATION_CONTROLLERS, "r"),
            lambda found: found["status"].get("replicas") == 2 and found["status"].get("readyReplicas") == 1,
        )
        await here.connection.delete(REPLICATION_CONTROLLERS, "r", here.namespace)  # its pods stay, as for a Job
        kept = await here.until(
            lambda: here.list(PODS), lambda found: all("ownerReferences" not in one["metadata"] for one in found)
        )
        assert len(kept) == 2

    scenario(api_server, play)
