"""Namespaces, budgets, nodes and leftover pods on the real embedded API server."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from phalanx.client.connection import STRATEGIC_PATCH, Object
from phalanx.client.kind import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    VOLUME_CLAIMS,
)
from phalanx.client.moment import write_micro_moment
from phalanx.embedded.controllers.runtime.pod_state import condition
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import FAST, Cluster, scenario

pytestmark = pytest.mark.slow  # real processes


def test_a_namespace_goes_when_its_content_is_gone(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.make(CONFIG_MAPS, "plain")
        await here.make(CONFIG_MAPS, "held", metadata={"finalizers": ["example.com/hold"]})
        await here.connection.delete(NAMESPACES, here.namespace)
        await here.gone(CONFIG_MAPS, "plain")
        namespace = await here.until(
            lambda: here.get(NAMESPACES, here.namespace), lambda found: condition(found, "NamespaceFinalizersRemaining")
        )
        remaining = condition(namespace, "NamespaceFinalizersRemaining")
        assert remaining is not None
        assert remaining["message"].endswith("finalizers remaining: example.com/hold in 1 resource instances")
        await here.set(CONFIG_MAPS, "held", metadata={"finalizers": None})
        await here.gone(NAMESPACES, here.namespace)

    scenario(api_server, play)


def test_a_claim_goes_when_no_pod_uses_it_and_its_namespace_with_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        room = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        for name in ("used", "idle"):
            await here.make(VOLUME_CLAIMS, name, spec=room)
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "volumes": volumes}
        user = await here.make(PODS, "user", spec=spec)
        for name in ("used", "idle"):
            await here.connection.delete(VOLUME_CLAIMS, name, here.namespace)
        await here.gone(VOLUME_CLAIMS, "idle")
        assert await here.get(VOLUME_CLAIMS, "used") is not None
        await here.end(user)
        await here.gone(VOLUME_CLAIMS, "used")
        await here.make(VOLUME_CLAIMS, "last", spec=room)
        await here.connection.delete(NAMESPACES, here.namespace)
        await here.gone(VOLUME_CLAIMS, "last")

    scenario(api_server, play)


def test_a_namespace_begins_with_an_account_and_the_authority(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.until(lambda: here.get(SERVICE_ACCOUNTS, "default"), bool)
        published = await here.until(lambda: here.get(CONFIG_MAPS, "kube-root-ca.crt"), bool)
        assert published["data"] == {"ca.crt": "-----BEGIN"}

    scenario(api_server, play, replace(FAST, root_ca="-----BEGIN"))


def test_a_budget_follows_its_pods(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        await here.make(DISRUPTION_BUDGETS, "b", spec=spec)
        containers = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        for name in ("one", "two"):
            await here.make(PODS, name, metadata={"labels": {"app": "x"}}, spec=containers)
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await here.connection.patch(PODS, name, {"status": ready}, here.namespace, "status", STRATEGIC_PATCH)
        budget = await here.until(
            lambda: here.get(DISRUPTION_BUDGETS, "b"), lambda found: found["status"].get("disruptionsAllowed") == 1
        )
        assert (budget["status"]["currentHealthy"], budget["status"]["expectedPods"]) == (2, 2)

    scenario(api_server, play)


async def report(here: Cluster, name: str, ready: str) -> Object:
    body = {"status": {"conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}]}}
    return await here.connection.patch(NODES, name, body, "", "status", STRATEGIC_PATCH)


def taints(node: Object) -> set[str]:
    return {f"{one['key'].split('/')[-1]}:{one['effect']}" for one in node["spec"].get("taints", ())}


def test_a_node_is_usable_while_it_reports_and_marked_when_it_stops(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        name = f"n-{here.namespace}"
        await here.make(NODES, name)
        await report(here, name, "True")
        lease = {
            "metadata": {"name": name},
            "spec": {"renewTime": write_micro_moment(time.time()), "holderIdentity": name},
        }
        await here.connection.create(LEASES, lease, "kube-node-lease")

        async def reporting() -> Object | None:
            """It renews its lease and says that it is ready, as often as it is looked at."""
            renewed = {"spec": {"renewTime": write_micro_moment(time.time())}}
            await here.connection.patch(LEASES, name, renewed, "kube-node-lease")
            await report(here, name, "True")
            return await here.get(NODES, name)

        await here.until(reporting, lambda node: not taints(node))
        lost = await here.until(
            lambda: here.get(NODES, name),
            lambda node: taints(node) == {"unreachable:NoSchedule", "unreachable:NoExecute"},
        )
        assert (condition(lost, "Ready") or {})["status"] == "Unknown"
        await here.until(reporting, lambda node: not taints(node))
        await here.connection.delete(NODES, name)

    scenario(api_server, play)
