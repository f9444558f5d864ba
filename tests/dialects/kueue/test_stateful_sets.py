"""A StatefulSet with Kueue's queue name on `phalanx up`: its pods are queued, and run."""

from __future__ import annotations

import asyncio

import pytest

from phalanx.client.connection import Connection
from phalanx.dialects.frame.dialect import Object
from tests.cli.upstart import Up
from tests.dialects.kueue.test_examples import AROUND
from tests.dialects.manifests import Cluster

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/default/pods"


def stateful_set(policy: str) -> Object:
    asks = {"requests": {"cpu": "1", "memory": "1Gi"}}
    template = {
        "metadata": {"labels": {"app": "s"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": asks}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {
            "replicas": 3,
            "serviceName": "s",
            "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "s"}},
            "template": template,
        },
    }


def test_each_pod_is_made_when_the_one_before_is_ready_and_all_of_them_run(simulated: Up) -> None:
    async def scene() -> dict[str, list[str]]:
        found = {}
        async with await Connection.open(simulated.data / "kubeconfig") as api:
            cluster = Cluster(api)
            for obj in AROUND:
                await cluster.apply({**obj, "metadata": dict(obj["metadata"])})
            for policy in ("OrderedReady", "Parallel"):
                cluster.made, cluster.remains = [], (PODS,)
                assert await cluster.apply(stateful_set(policy)) == "taken"
                async with asyncio.timeout(120.0):
                    while len(running := await running_pods(api)) < 3:  # noqa: ASYNC110 (the server is waited for)
                        await asyncio.sleep(0.1)
                found[policy] = sorted(running)
                await cluster.clear()
        return found

    assert asyncio.run(scene()) == {key: ["s-0", "s-1", "s-2"] for key in ("OrderedReady", "Parallel")}


async def running_pods(api: Connection) -> list[str]:
    pods = (await api.request("GET", PODS))["items"]
    return [one["metadata"]["name"] for one in pods if one["status"].get("phase") == "Running"]
