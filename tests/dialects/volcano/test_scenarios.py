"""Scenarios of Volcano's own test suites, as its manifests, on `phalanx up`: Phalanx decides like its scheduler.

Four nodes of 2 cpu, below two HyperNodes of tier 1, which are below one of tier 2. Each scenario has them for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import NODES, PODS, PRIORITY_CLASSES, Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.volcano.kinds import HYPER_NODES, JOBS, POD_GROUPS, QUEUES
from tests.cli.upstart import started

pytestmark = pytest.mark.slow
MOST_S = 120.0
MAPS = Kind(version="v1", plural="configmaps", name="ConfigMap")
COMMANDS = Kind(group="bus.volcano.sh", version="v1alpha1", plural="commands", name="Command")
SETTINGS = {
    "actions": "enqueue, allocate, preempt, reclaim",
    "tiers": [
        {"plugins": [{"name": name} for name in ("priority", "gang", "conformance", "proportion", "predicates")]}
    ],
}


class Scene:
    """A user's namespace: the applied objects and their outcomes."""

    def __init__(self, api: Connection, name: str) -> None:
        self.api, self.name = api, name

    async def make(self, kind: Kind, name: str, spec: Object, **meta: Any) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name, **meta}, "spec": spec}
        await self.api.create(kind, body, self.name if kind.namespaced else "")

    async def group(self, name: str, pods: int, cpu: str = "2", preemptable: bool = True, **spec: Any) -> None:
        """A PodGroup with its pods, `<name>-<i>`."""
        options = {"priorityClassName": spec["priorityClassName"]} if "priorityClassName" in spec else {}
        await self.make(POD_GROUPS, name, {"minMember": pods, **spec})
        asks = {"requests": {"cpu": cpu}}
        for number in range(pods):
            said = {"scheduling.k8s.io/group-name": name, "volcano.sh/preemptable": str(preemptable).lower()}
            body = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "pause", "resources": asks}]}
            await self.make(PODS, f"{name}-{number}", {**body, **options}, annotations=said)

    async def placed(self) -> dict[str, str]:
        """Pod -> its node."""
        found = await self.api.request("GET", PODS.path(self.name))
        return {
            one["metadata"]["name"]: one["spec"]["nodeName"] for one in found["items"] if one["spec"].get("nodeName")
        }

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(MOST_S):
            while not await holds():  # noqa: ASYNC110 (the server is waited for)
                await asyncio.sleep(0.1)

    async def until_placed(self, *names: str) -> dict[str, str]:
        async def holds() -> bool:
            return set(await self.placed()) == set(names)

        await self.until(holds)
        return await self.placed()

    async def until_waits(self, group: str, word: str) -> None:
        """Until the PodGroup's newest condition says `word`."""

        async def holds() -> bool:
            status = (await self.api.request("GET", POD_GROUPS.path(self.name, group))).get("status") or {}
            return any(word in one["message"] for one in status.get("conditions") or ())

        await self.until(holds)

    async def delete(self, kind: Kind, name: str = "") -> None:
        try:
            zero = {"gracePeriodSeconds": "0"}
            await self.api.request("DELETE", kind.path(self.name if kind.namespaced else "", name), params=zero)
        except ApiRefusal as error:
            if error.code != 404:
                raise


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("volcano")
    with started(found, "--no-local-node", "--simulate-nodes", "4", "--node-cpu", "2", "--node-memory", "4Gi"):
        asyncio.run(_fabric(found))
        yield found


async def _fabric(data: Path) -> None:
    async with await Connection.open(data / "kubeconfig") as api:
        nodes = sorted(one["metadata"]["name"] for one in (await api.list(NODES))["items"])
        await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "volcano-system"}})
        text = {"volcano-scheduler.conf": yaml.safe_dump(SETTINGS)}
        await api.create(MAPS, {"metadata": {"name": "volcano-scheduler-configmap"}, "data": text}, "volcano-system")
        stage = Scene(api, "default")
        for name, tier, kind, members in (
            ("s0", 1, "Node", nodes[:2]),
            ("s1", 1, "Node", nodes[2:]),
            ("s2", 2, "HyperNode", ["s0", "s1"]),
        ):
            listed = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members]
            await stage.make(HYPER_NODES, name, {"tier": tier, "members": listed})
        for name in ("q1", "q2"):
            await stage.make(QUEUES, name, {"weight": 1})
        for name, value, preempts in (("high", 100, "PreemptLowerPriority"), ("timid", 0, "Never")):
            body = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": "PriorityClass", "metadata": {"name": name}}
            await api.create(PRIORITY_CLASSES, {**body, "value": value, "preemptionPolicy": preempts})


def play(data: Path, name: str, scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with await Connection.open(data / "kubeconfig") as api:
            await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
            stage = Scene(api, name)
            try:
                await scene(stage)
            finally:
                await stage.delete(JOBS)
                for one in (await api.request("GET", PODS.path(name)))["items"]:
                    await stage.delete(PODS, one["metadata"]["name"])

    asyncio.run(run())


def test_hard_topology(data: Path) -> None:
    """Three pods of a node each: none are below one HyperNode of tier 1, all below that of tier 2; two fit in one."""

    async def scene(stage: Scene) -> None:
        near, far = ({"mode": "hard", "highestTierAllowed": tier} for tier in (1, 2))
        await stage.group("near", 3, networkTopology=near)
        await stage.until_waits("near", "NeverFits")
        await stage.group("far", 3, networkTopology=far)
        await stage.until_placed("far-0", "far-1", "far-2")
        for number in range(3):
            await stage.delete(PODS, f"far-{number}")
        await stage.group("soft", 3, networkTopology={"mode": "soft"})
        await stage.until_placed("soft-0", "soft-1", "soft-2")
        for number in range(3):
            await stage.delete(PODS, f"soft-{number}")
        await stage.group("pair", 2, networkTopology=near)
        at = await stage.until_placed("pair-0", "pair-1")
        nodes = sorted(one["metadata"]["name"] for one in (await stage.api.list(NODES))["items"])
        assert sorted(at.values()) in (nodes[:2], nodes[2:])

    play(data, "hard", scene)


def test_reclaim_takes_the_one_that_is_preemptable(data: Path) -> None:
    async def scene(stage: Scene) -> None:
        names = [f"r{number}" for number in range(8)]
        for name in names:
            await stage.group(name, 1, "1", queue="q1", preemptable=name == "r3")
        await stage.until_placed(*(f"{name}-0" for name in names))
        await stage.group("never", 1, "1", queue="q2", priorityClassName="timid")
        await stage.until_waits("never", ":")
        assert len(await stage.placed()) == 8
        await stage.delete(PODS, "never-0")
        await stage.group("asks", 1, "1", queue="q2")
        await stage.until_placed("asks-0", *(f"{name}-0" for name in names if name != "r3"))

    play(data, "reclaim", scene)


def test_a_closed_queue_takes_no_group(data: Path) -> None:
    async def scene(stage: Scene) -> None:
        await stage.make(QUEUES, "q3", {"weight": 1})
        queue = await stage.api.request("GET", QUEUES.path("", "q3"))
        target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "q3", "uid": queue["metadata"]["uid"]}
        body = {"apiVersion": COMMANDS.api_version, "kind": "Command", "action": "CloseQueue", "target": target}
        await stage.api.create(COMMANDS, {**body, "metadata": {"name": "close-q3"}}, "default")

        async def closed() -> bool:
            status = (await stage.api.request("GET", QUEUES.path("", "q3"))).get("status") or {}
            return bool(status.get("state") == "Closed")

        await stage.until(closed)
        names = [f"c{number}" for number in range(8)]
        for name in names:
            await stage.group(name, 1, "1", queue="q1")
        await stage.until_placed(*(f"{name}-0" for name in names))
        with pytest.raises(ApiRefusal, match="status is `Closed`"):
            await stage.group("asks", 1, "1", queue="q3")
        assert len(await stage.placed()) == 8

    play(data, "closed", scene)


def test_within_a_queue_the_lower_priority_gives_way(data: Path) -> None:
    async def scene(stage: Scene) -> None:
        await stage.group("low", 4, queue="q1")
        await stage.until_placed(*(f"low-{number}" for number in range(4)))
        await stage.group("high", 1, queue="q1", priorityClassName="high")
        await stage.until_placed("high-0")
        assert set(await stage.placed()) == {"high-0"}  # a gang that cannot keep its minimum goes whole

    play(data, "within", scene)


def test_a_volcano_job_with_a_topology(data: Path) -> None:
    """The Job controller hands networkTopology to the PodGroup, and partitions to its sub-groups."""

    async def scene(stage: Scene) -> None:
        asks = {"requests": {"cpu": "2"}}
        spec = {"containers": [{"name": "c", "image": "pause", "resources": asks}], "restartPolicy": "Never"}
        near = {"mode": "hard", "highestTierAllowed": 1}
        policy = {"totalPartitions": 2, "partitionSize": 2, "networkTopology": near}
        task = {"name": "w", "replicas": 4, "partitionPolicy": policy, "template": {"spec": spec}}
        await stage.make(JOBS, "ring", {"minAvailable": 4, "queue": "q1", "tasks": [task]})
        at = await stage.until_placed(*(f"ring-w-{number}" for number in range(4)))
        nodes = sorted(one["metadata"]["name"] for one in (await stage.api.list(NODES))["items"])
        for first in (0, 2):
            pair = sorted(at[f"ring-w-{number}"] for number in (first, first + 1))
            assert pair in (nodes[:2], nodes[2:])

    play(data, "ring", scene)
