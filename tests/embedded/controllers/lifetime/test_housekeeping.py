"""Namespaces, budgets, nodes and leftover pods on the real embedded API server."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from phalanx.client.connection import STRATEGIC_PATCH, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    VOLUME_CLAIMS,
    VOLUMES,
)
from phalanx.client.moment import write_micro_moment
from phalanx.embedded.controllers.lifetime.pod_gc import PodCollector, surplus
from phalanx.embedded.controllers.runtime.calls import Calls, SharedInformers
from phalanx.embedded.controllers.runtime.pod_state import condition
from phalanx.embedded.controllers.workloads.volumes.protection import VOLUME_FINALIZER, VolumeProtection
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import FAST, Cluster, scenario
from tests.embedded.controllers.objects import names, pod

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


def test_a_claim_whose_pod_the_watch_has_not_told_of_yet_stays(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        caches = {kind: Informer(here.connection, kind) for kind in (PODS, VOLUME_CLAIMS, VOLUMES)}
        protection = VolumeProtection(Calls(here.connection, caches.__getitem__))
        room = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await here.make(VOLUME_CLAIMS, "used", spec=room)
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "volumes": volumes}
        user = await here.make(PODS, "user", spec=spec)
        await here.connection.delete(VOLUME_CLAIMS, "used", here.namespace)
        caches[VOLUME_CLAIMS].observe(await here.get(VOLUME_CLAIMS, "used") or {})
        await protection._look(f"{here.namespace}/used")
        assert await here.get(VOLUME_CLAIMS, "used") is not None
        await here.end(user)
        caches[PODS].observe(await here.get(PODS, "user") or {})
        await protection._look(f"{here.namespace}/used")
        assert await here.get(VOLUME_CLAIMS, "used") is None

    scenario(api_server, play, settings=None)


def test_a_volume_goes_when_no_claim_is_bound_to_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        name = f"volume-{here.namespace}"
        room = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
        await here.make(VOLUMES, name, spec={**room, "storageClassName": name})
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await here.make(VOLUME_CLAIMS, "c", spec={**asked, "storageClassName": name})
        await here.until(lambda: here.get(VOLUMES, name), lambda one: one["status"]["phase"] == "Bound")
        await here.connection.delete(VOLUMES, name)
        await here.make(CONFIG_MAPS, "later")  # earlier changes have been processed when this one is
        found = await here.get(VOLUMES, name)
        assert found is not None
        assert found["metadata"]["finalizers"] == [VOLUME_FINALIZER]
        await here.connection.delete(VOLUME_CLAIMS, "c", here.namespace)
        await here.gone(VOLUMES, name)

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


def test_pods_of_a_node_that_is_gone_fail_after_a_while(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": f"gone-{here.namespace}"}
        await here.make(PODS, "lost", metadata={"finalizers": ["example.com/see"]}, spec=spec)
        async with SharedInformers(here.connection) as informers:
            calls, now_s = Calls(here.connection, informers), [0.0]
            collector = PodCollector(calls, clock=lambda: now_s[0] + 1_800_000_000)
            for kind in (PODS, NODES):
                await calls.cache(kind).synced.wait()
            await collector.collect()
            assert (await here.pods(1))[0]["status"]["phase"] == "Pending"
            now_s[0] = 41.0
            await collector.collect()
        [lost] = await here.pods(1)
        assert lost["status"]["phase"] == "Failed"
        assert (condition(lost, "DisruptionTarget") or {})["reason"] == "DeletionByPodGC"
        assert "deletionTimestamp" in lost["metadata"]

    scenario(api_server, play, settings=None)


def test_finished_pods_beyond_the_limit_go_oldest_first() -> None:
    pods = [pod("Succeeded", name="new"), pod("Failed", name="old"), pod("Running"), pod("Failed", name="evicted")]
    pods[1]["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    pods[3]["status"]["reason"] = "Evicted"
    assert names(surplus(pods, 1)) == ["evicted", "old"]
    assert surplus(pods, 3) == []
