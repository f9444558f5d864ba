"""Namespaces, budgets, nodes and leftover pods on the real embedded API server."""

from __future__ import annotations

import time

import pytest

from phalanx.client.connection import STRATEGIC_PATCH, Object
from phalanx.client.kind import DISRUPTION_BUDGETS, LEASES, NODES, PODS
from phalanx.client.moment import write_micro_moment
from phalanx.embedded.controllers.runtime.pod_state import condition
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

pytestmark = pytest.mark.slow  # real processes


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
