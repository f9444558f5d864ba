"""Nodes that an autoscaler adds for unschedulable pods, on a real API server. Each node is bought once, and only for
whole gangs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from phalanx import loop
from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.cli.local.node_groups.providers import provisioning
from phalanx.client.connection import Connection
from phalanx.client.kind import EVENTS, JOBS, NODES, PODS
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.world.capacity_sources import CapacitySources
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.model.reason import ReasonCode
from phalanx.providers.autoscaler import GROUP, AutoscalerGroup, AutoscalerProvider
from phalanx.state.cluster import Cluster
from tests.clockwork import settle
from tests.embedded.apiserver.process import ServerProcess
from tests.kube.double import Api, Caches, Client, Object, job, node

FILE = """
nodeGroups:
- name: spot
  provider: {autoscaler: {namespace: default}}
  nodeLabel: karpenter.sh/nodepool=spot
  max: 4
  allocatable: {cpu: 4, memory: 60Gi}
"""
FULL = {"karpenter.sh/nodepool": "spot"}


@pytest.fixture
def groups(tmp_path: Path) -> Any:
    file = tmp_path / "groups.yaml"
    file.write_text(FILE)
    return read_node_groups(file)


def played(scene: Callable[[Connection], Any], data: Path) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), await Connection.open(server.kubeconfig) as user:
            await scene(user)

    with ServerProcess.started(data) as server:
        asyncio.run(run())


@asynccontextmanager
async def scheduler(user: Connection, groups: Any) -> AsyncIterator[tuple[SharedInformers, Cluster, KubeWorld]]:
    cluster = Cluster()
    async with SharedInformers(user) as informers, asyncio.TaskGroup() as tasks:
        nodes = await provisioning(groups, user, informers, tasks)
        async with open_world(user, informers, sources=CapacitySources(nodes=nodes)) as world:
            parts = [
                asyncio.ensure_future(loop.run(world, cluster, Policy(), time.time)),
                asyncio.ensure_future(run_controllers(user, informers)),
            ]
            try:
                yield informers, cluster, world
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)


async def until(reached: Callable[[], bool]) -> None:
    """Wait for a condition of the informers or of the scheduler's state. The state changes a little later than the
    informers."""
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110 (the scheduler's state sends no notification of a change)
            await asyncio.sleep(0.01)


def asking(informers: SharedInformers) -> list[Object]:
    """Return the pods that request nodes from the autoscaler."""
    return [pod for pod in informers(PODS).objects.values() if GROUP in pod["metadata"].get("labels", {})]


def unschedulable(pod: Object) -> bool:
    """Return whether the Cluster Autoscaler and Karpenter act on the pod."""
    conditions = pod.get("status", {}).get("conditions") or ()
    said = [one["reason"] for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return said == ["Unschedulable"]


def bound(informers: SharedInformers) -> list[str]:
    return [pod["spec"]["nodeName"] for pod in informers(PODS).objects.values() if pod["spec"].get("nodeName")]


def code(cluster: Cluster, name: str) -> ReasonCode | None:
    reason = cluster.reason(f"default/{name}")
    return None if reason is None else reason.code


async def add_node(
    user: Connection,
    name: str,
    labels: Mapping[str, str] = MappingProxyType(FULL),
    provider_id: str = "",
    cpu: int = 4,
) -> None:
    """Add a node as an autoscaler does: the node is created first, and becomes ready later."""
    body = node(name, cpu)
    body["metadata"]["labels"] = dict(labels)
    spec = {"spec": {"providerID": provider_id}} if provider_id else {}
    await user.create(NODES, {"apiVersion": "v1", "kind": "Node", **spec, **body})
    await user.patch(NODES, name, {"status": body["status"]}, subresource="status")
    await user.patch(NODES, name, {"spec": {"taints": None}})


async def submit(user: Connection, *jobs: Object) -> None:
    for body in jobs:
        template = body["spec"]["template"]["spec"]
        template |= {"restartPolicy": "Never", "containers": [{**template["containers"][0], "image": "x"}]}
        await user.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **body}, "default")


@pytest.mark.slow
def test_a_suspended_gang_gets_its_nodes_from_an_autoscaler_once_and_starts_whole(tmp_path: Path, groups: Any) -> None:
    async def scene(user: Connection) -> None:
        async with scheduler(user, groups) as (informers, cluster, _):
            quota = {"spec": {"quotas": [{"limit": {"cpu": 8}}]}}
            await user.create(
                QUEUES, {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": "q"}, **quota}
            )
            await submit(user, job("gang", 2, "4", queue="q"), job("later", 1, "4", queue="q"))
            await until(lambda: len(asking(informers)) == 2 and all(map(unschedulable, asking(informers))))
            assert code(cluster, "gang") is ReasonCode.WAITING_FOR_NODES
            assert code(cluster, "later") is ReasonCode.QUEUE_LIMIT, "it has no quota, so nothing is bought"
            await add_node(user, "new-1")
            await until(lambda: "new-1" in informers(NODES).objects)
            await until(lambda: not cluster.columns.groups.coming or len(cluster.columns.groups.coming) == 1)
            assert (bound(informers), len(asking(informers))) == ([], 2), "half a gang starts nothing"
            await add_node(user, "new-2")
            await until(lambda: sorted(bound(informers)) == ["new-1", "new-2"])
            assert asking(informers) == [], "its own pods are not unschedulable beside them"
            assert len(informers(NODES).objects) == 2

    played(scene, tmp_path / "server")


@pytest.mark.slow
def test_a_program_adds_the_nodes_of_a_gang_and_removes_them_when_they_are_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.providers.provider.BINDINGS_S", 0.0)
    monkeypatch.setattr("phalanx.providers.provision.FIRST_PAUSE_S", 0.0)
    script, calls, file = (tmp_path / name for name in ("program", "calls", "groups.yaml"))
    script.write_text(f'#!/bin/sh\n[ "$1" = status ] || cat >> {calls}\n[ -e {calls} ] || exit 4\n')
    script.chmod(0o755)
    provider = f"{{exec: {{command: [{script}]}}}}"
    file.write_text(f"""
nodeGroups:
- {{name: spot, provider: {provider}, nodeLabel: karpenter.sh/nodepool=spot, idle: 0s, allocatable: {{cpu: 4}}}}
""")

    def asked() -> list[Any]:
        return [json.loads(each) for each in calls.read_text().replace("}{", "}\n{").splitlines()]

    async def scene(user: Connection) -> None:
        async with scheduler(user, read_node_groups(file)) as (informers, cluster, _):
            nodes = informers(NODES).objects
            await submit(user, job("gang", 2, "4"))
            async with asyncio.timeout(60):
                while not asked():  # noqa: ASYNC110 (a file sends no notification)
                    await asyncio.sleep(0.02)
            assert code(cluster, "gang") is ReasonCode.WAITING_FOR_NODES
            for name in ("new-1", "new-2"):
                await add_node(user, name)
            await until(lambda: sorted(bound(informers)) == ["new-1", "new-2"])
            for pod in list(informers(PODS).objects):
                await user.patch(PODS, pod.partition("/")[2], {"status": {"phase": "Succeeded"}}, "default", "status")
            await until(lambda: not nodes)

    calls.touch()
    played(scene, tmp_path / "server")
    first, *removals = asked()
    assert (first["count"], len(first["add"]), first["remove"]) == (2, 2, [])
    assert sorted(name for each in removals for name in each["remove"]) == ["new-1", "new-2"]


PRICED = """
nodeGroups:
- {name: full, price: 1, nodeLabel: pool=full, PLACE}
- {name: slow, price: 2, nodeLabel: pool=slow, delay: 1s, timeout: 2s, PLACE}
- {name: sure, price: 3, nodeLabel: pool=sure, PLACE}
""".replace("PLACE", "provider: {autoscaler: {namespace: default}}, max: 4, allocatable: {cpu: 4}")


async def autoscale(user: Connection, informers: SharedInformers, tried: list[str]) -> None:
    """Act as the Cluster Autoscaler: the group `full` adds no nodes, and nodes of the group `slow` never arrive."""
    served: set[str] = set()
    while True:
        for pod in asking(informers):
            meta, pool = pod["metadata"], pod["spec"]["nodeSelector"]["pool"]
            if not unschedulable(pod) or meta["uid"] in served:
                continue
            served.add(meta["uid"])
            tried.append(pool)
            if pool == "full":
                about = {"kind": "Pod", "namespace": "default", "name": meta["name"], "uid": meta["uid"]}
                event = {
                    "involvedObject": about,
                    "reason": "NotTriggerScaleUp",
                    "message": "max node group size reached",
                }
                body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e-{meta['name']}"}, **event}
                await user.create(EVENTS, body, "default")
            elif pool == "sure":
                # Two pods in succession may have the same name, but two nodes may not. So the node is named by the
                # pod's uid.
                await add_node(user, f"node-{meta['uid']}", {"pool": "sure"})
        await asyncio.sleep(0.05)


@pytest.mark.slow
def test_cheaper_groups_that_refuse_or_are_late_are_left_and_nothing_of_them_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.providers.provision.LOOK_S", 0.1)
    (tmp_path / "groups.yaml").write_text(PRICED)
    tried: list[str] = []

    async def scene(user: Connection) -> None:
        async with scheduler(user, read_node_groups(tmp_path / "groups.yaml")) as (informers, cluster, _):
            autoscaler = asyncio.create_task(autoscale(user, informers, tried))
            try:
                await submit(user, job("gang", 2, "4"))
                await until(lambda: len(bound(informers)) == 2)
                await until(lambda: not asking(informers))
            finally:
                autoscaler.cancel()
            assert len(informers(NODES).objects) == 2
            assert {name: each.text for name, each in cluster.columns.groups.failed.items()} == {
                "full": "max node group size reached",
                "slow": "",
            }

    played(scene, tmp_path / "server")
    assert tried == ["full", "full", "slow", "slow", "sure", "sure"], "by price, each once, and whole"


async def provided(groups: Any, api: Api, scene: Callable[[AutoscalerProvider, Caches], Any]) -> None:
    client = Client(api)
    caches = Caches(api, 0, client)
    async with asyncio.TaskGroup() as tasks:
        here = AutoscalerGroup(groups[0].group, groups[0].label, "default", "pause")
        await scene(AutoscalerProvider(client, caches, [here], tasks), caches)  # type: ignore[arg-type]  # doubles


def test_a_restarted_scheduler_knows_what_was_requested_and_what_the_autoscaler_has_not(groups: Any) -> None:
    api = Api()

    async def before(provider: AutoscalerProvider, _: Caches) -> None:
        assert await provider.scale("spot", ["spot-1", "spot-2"], ()) == {}
        assert await provider.scale("spot", ["spot-1", "spot-2"], ()) == {}, "a repeated call changes nothing"
        await provider.scale("spot", ["spot-3"], ())
        await provider.scale("spot", (), ["spot-3", "spot-9"])

    async def after(provider: AutoscalerProvider, _: Caches) -> None:
        assert [each.name for each in (await provider.status("spot")).requested] == ["spot-1", "spot-2"]
        about = {"kind": "Pod", "uid": api.objects[PODS]["default/spot-2"]["metadata"]["uid"]}
        event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": about}
        api.put(EVENTS, {**event, "reason": "NotTriggerScaleUp", "message": "max node group size reached"})
        assert (await provider.status("spot")).failed == {"spot-2": "max node group size reached"}

    for scene in (before, after):
        asyncio.run(provided(groups, api, scene))


def test_a_request_whose_pod_was_deleted_by_another_client_has_failed(groups: Any) -> None:
    api = Api()

    async def scene(provider: AutoscalerProvider, _: Caches) -> None:
        await provider.scale("spot", ["spot-1", "spot-2", "spot-3"], ())
        await provider.scale("spot", (), ["spot-3"])
        del api.objects[PODS]["default/spot-1"]
        status = await provider.status("spot")
        assert [each.name for each in status.requested] == ["spot-2"]
        assert status.failed == {"spot-1": "the pod default/spot-1, which requested the node, was deleted"}
        assert (await provider.status("spot")).failed == {}, "it is reported once"

    asyncio.run(provided(groups, api, scene))


def arrive(api: Api, name: str, *, ready: bool = True, **taint: str) -> None:
    found = node(name)
    found["metadata"]["labels"] = dict(FULL)
    found["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    found["status"]["conditions"][0]["status"] = str(ready)
    api.put(NODES, {**found, "spec": {"taints": [taint] if taint else []}})


def test_what_happens_while_the_state_is_read_is_no_failure(groups: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()

    async def scene(provider: AutoscalerProvider, caches: Caches) -> None:
        read = Client.list

        async def meanwhile(client: Client, kind: Any, *rest: Any, **selectors: str) -> Object:
            """Let the node of the first request arrive after the pods are listed, while a second request is made."""
            found = await read(client, kind, *rest, **selectors)
            if kind == PODS:
                arrive(api, "n1")
                caches.deliver(all=True)
                await settle(20)
                await provider.scale("spot", ["spot-2"], ())
            return found

        await provider.scale("spot", ["spot-1"], ())
        with monkeypatch.context() as patched:
            patched.setattr(Client, "list", meanwhile)
            status = await provider.status("spot")
        assert ([each.name for each in status.requested], status.failed) == (["spot-2"], {})
        assert [each["metadata"]["name"] for each in api.pods()] == ["spot-2"]
        assert (await provider.status("spot")).failed == {}

    asyncio.run(provided(groups, api, scene))


def test_the_pods_of_a_request_stay_until_all_its_nodes_have_arrived(groups: Any) -> None:
    api = Api()

    async def scene(provider: AutoscalerProvider, caches: Caches) -> None:
        async def names() -> list[str]:
            caches.deliver(all=True)
            await settle(20)
            return sorted(each["metadata"]["name"] for each in api.pods())

        await provider.scale("spot", ["spot-1", "spot-2"], ())
        await provider.scale("spot", ["spot-3"], ())
        arrive(api, "n1", ready=False)
        arrive(api, "n2", key="startup", effect="NoSchedule")
        arrive(api, "n3")
        assert await names() == ["spot-1", "spot-2", "spot-3"]
        arrive(api, "n1")
        assert await names() == ["spot-3"]
        arrive(api, "n2")
        assert await names() == []

    asyncio.run(provided(groups, api, scene))
