"""Nodes that do not exist, seen through a real API server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.embedded.node.machine.settings import SimulatedSettings
from phalanx.embedded.node.simulated.nodes import SIMULATED, retire, run_simulated_nodes
from phalanx.kube.read.node import read_node
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, client, registered, running
from tests.embedded.node.objects import asking

pytestmark = pytest.mark.slow  # real processes

SETTINGS = SimulatedSettings(nodes=2, cpu="4", memory="8Gi", gpu=8, pods=10, time_scale=10)


def scenario(server: ServerProcess, test: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    namespace = f"sim-{test.__code__.co_firstlineno}-{os.getpid()}"  # type: ignore[attr-defined]  # a plain function

    async def run() -> None:
        async with client(server, "sim-000", namespace) as api:
            part = lambda connection, informers: run_simulated_nodes(connection, informers, SETTINGS)  # noqa: E731 (it is passed on)
            async with running(api.connection, part):
                await registered(api.connection, "sim-001")
                await test(api)
                await api.connection.request("DELETE", PODS.path(namespace), body={"gracePeriodSeconds": 0})

    asyncio.run(run())


def lasting(seconds: str, **labels: str) -> dict[str, Any]:
    return {"annotations": {"phalanx.dev/run-seconds": seconds}, "labels": labels}


def test_the_nodes_are_there(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        node = await api.connection.get(NODES, "sim-001")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert node["metadata"]["labels"]["type"] == "simulated"
        assert [one.memory_bytes for one in read_node(node).devices] == [80 << 30] * 8  # pods may ask for a part

    scenario(api_server, test)


def test_those_of_an_earlier_run_are_retired_and_others_are_not(api_server: ServerProcess) -> None:
    async def test() -> None:
        async with client(api_server, "sim-000", f"retired-{os.getpid()}") as api:
            for name, labels in (("sim-777", {SIMULATED: "true"}), ("sim-778", {})):
                await api.connection.create(NODES, {"kind": "Node", "metadata": {"name": name, "labels": labels}})
            for nodes, left in ((778, {"sim-777", "sim-778"}), (2, {"sim-778"})):
                await retire(api.connection, nodes)
                found = {node["metadata"]["name"] for node in (await api.connection.list(NODES))["items"]}
                assert found & {"sim-777", "sim-778"} == left
            await api.connection.delete(NODES, "sim-778")

    asyncio.run(test())


def test_a_pod_is_ready_at_once_and_ends_in_time(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(asking("main", cpu="1"), name="long", meta=lasting("100000"))
        pod = await api.phase("Running", "long")
        assert {one["type"]: one["status"] for one in pod["status"]["conditions"]}["Ready"] == "True"
        await api.run(asking("main", cpu="1"), meta=lasting("5"))
        pod = await api.phase("Succeeded")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0

    scenario(api_server, test)


def test_what_does_not_fit_is_rejected_until_something_ended(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(asking("main", cpu="3"), name="first")
        await api.phase("Running", "first")
        await api.run(asking("main", cpu="3"), name="second")
        assert (await api.phase("Failed", "second"))["status"]["reason"] == "OutOfcpu"
        await api.delete("first")
        await api.until(lambda pod: pod is None, "first")
        await api.run(asking("main", cpu="3"), name="third")
        await api.phase("Running", "third")

    scenario(api_server, test)


def test_time_counts_from_when_all_pods_of_the_job_are_ready(api_server: ServerProcess) -> None:
    """The first of two waits for the second, however short it runs."""

    async def test(api: Client) -> None:
        template = {"spec": {"restartPolicy": "Never", "containers": [asking()]}}
        job = await api.make(JOBS, "j", spec={"parallelism": 2, "completions": 2, "template": template})
        meta = job["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": meta["uid"], "controller": True}
        await api.run(asking(), name="a", meta=lasting("0.01") | {"ownerReferences": [owner]})
        await api.run(asking(), name="alone", meta=lasting("0.01"))
        await api.phase("Running", "a")
        await api.phase("Succeeded", "alone")
        assert (await api.get("a"))["status"]["phase"] == "Running"
        await api.run(asking(), name="b", meta=lasting("0.01") | {"ownerReferences": [owner]})
        await api.phase("Succeeded", "a")
        await api.phase("Succeeded", "b")

    scenario(api_server, test)


def test_a_gang_by_label_says_how_many_it_needs(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        meta = lasting("0.01", **{"phalanx.dev/job": "g"})
        meta["annotations"]["phalanx.dev/min-available"] = "2"
        await api.run(asking(), name="a", meta=meta)
        await api.run(asking(), name="alone", meta=lasting("0.01"))
        await api.phase("Succeeded", "alone")
        assert (await api.get("a"))["status"]["phase"] == "Running"
        await api.run(asking(), name="b", meta=meta)
        await api.phase("Succeeded", "a")

    scenario(api_server, test)


def test_a_deleted_pod_goes(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(asking(), meta={"finalizers": ["test/keep"]})
        await api.phase("Running")
        await api.delete()
        await api.until(lambda pod: pod["metadata"]["deletionGracePeriodSeconds"] == 0)
        assert (await api.get())["status"]["phase"] == "Failed"

    scenario(api_server, test)


def test_a_node_that_was_made_for_kwok_is_played(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        name = f"kwok-{os.getpid()}"
        meta = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"type": "kwok"}}
        status = {"allocatable": {"cpu": 2, "memory": "4Gi", "pods": 10}}
        await api.connection.create(NODES, {"kind": "Node", "metadata": meta, "status": status})
        node = await registered(api.connection, name)
        while not (said := {one["type"]: one["status"] for one in node["status"].get("conditions") or ()}):
            node = await registered(api.connection, name)
        assert said["Ready"] == "True"
        assert node["status"]["allocatable"]["cpu"] == "2"
        assert node["metadata"]["labels"]["type"] == "kwok"

        owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "of-a-job"}
        await api.run(asking(cpu="1"), name="of-a-job", nodeName=name, meta={"ownerReferences": [owner]})
        await api.phase("Succeeded", "of-a-job")
        await api.run(asking(cpu="2"), name="for-ever", nodeName=name)
        await api.phase("Running", "for-ever")
        await api.run(asking(cpu="1"), name="too-much", nodeName=name)
        await api.phase("Failed", "too-much")
        failing = {"pod-container-running-failed.stage.kwok.x-k8s.io": "true"}
        await api.run(asking(), name="fails", nodeName="sim-000", meta={"labels": failing})
        pod = await api.phase("Failed", "fails")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "containerFailed"
        await api.connection.delete(NODES, name)

    scenario(api_server, test)
