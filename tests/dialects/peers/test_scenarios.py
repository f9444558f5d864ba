"""Scenarios of the test suites of scheduler-plugins and Koordinator, as manifests of theirs, on `phalanx up`.

One node of 300 memory, as in coscheduling's own integration test; each scene has it for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import PODS, PRIORITY_CLASSES, Kind
from phalanx.dialects.frame import Object
from phalanx.dialects.koordinator import kinds as koordinator
from phalanx.dialects.scheduler_plugins import kinds as plugins
from tests.cli.upstart import started

pytestmark = pytest.mark.slow
NEW, OLD = plugins.GROUP_LABELS[:2]
MOST_S = 20.0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("peers")
    with started(found, "--no-local-node", "--simulate-nodes", "1", "--node-cpu", "64", "--node-memory", "300Mi"):
        asyncio.run(_high_class(found))
        yield found


async def _high_class(data: Path) -> None:
    async with await Connection.open(data / "kubeconfig") as api:
        kind = PRIORITY_CLASSES
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "high"}, "value": 100}
        await api.create(kind, body)


class Scene:
    """What a user applies, in a namespace of its own, and what became of it."""

    def __init__(self, api: Connection, name: str) -> None:
        self.api, self.name = api, name

    async def group(self, kind: Kind, name: str, minimum: int) -> None:
        await self.create(kind, name, {"spec": {"minMember": minimum}})

    async def pod(self, name: str, memory: int, *, scheduler: str = "", high: bool = False, **labels: str) -> None:
        asks = {"requests": {"memory": f"{memory}Mi"}}
        spec: Object = {"containers": [{"name": "c", "image": "pause", "resources": asks}]}
        spec |= {"schedulerName": scheduler} if scheduler else {}
        spec |= {"priorityClassName": "high"} if high else {}
        await self.create(PODS, name, {"metadata": {"labels": labels}, "spec": spec})

    async def create(self, kind: Kind, name: str, body: Object) -> None:
        meta = {**body.get("metadata", {}), "name": name}
        await self.api.create(
            kind, {**body, "apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}, self.name
        )

    async def placed(self) -> set[str]:
        """The pods that have a node."""
        found = await self.api.request("GET", PODS.path(self.name))
        return {one["metadata"]["name"] for one in found["items"] if one["spec"].get("nodeName")}

    async def waiting(self) -> set[str]:
        """The pods that were told why they wait."""
        found = await self.api.request("GET", PODS.path(self.name))
        return {
            pod["metadata"]["name"]
            for pod in found["items"]
            for one in (pod.get("status") or {}).get("conditions") or ()
            if one["type"] == "PodScheduled" and one["status"] == "False"
        }

    async def status(self, kind: Kind, name: str) -> Object:
        return dict((await self.api.request("GET", kind.path(self.name, name))).get("status") or {})

    async def until(self, reached: Callable[[set[str], set[str]], bool]) -> None:
        """Until those that are placed, and those that wait, are so."""
        async with asyncio.timeout(MOST_S):
            while not reached(await self.placed(), await self.waiting()):  # noqa: ASYNC110 (the server is waited for)
                await asyncio.sleep(0.1)

    async def clear(self) -> None:
        for name in [one["metadata"]["name"] for one in (await self.api.request("GET", PODS.path(self.name)))["items"]]:
            try:
                await self.api.request("DELETE", PODS.path(self.name, name), params={"gracePeriodSeconds": "0"})
            except ApiRefusal as error:
                if error.code != 404:
                    raise


def play(data: Path, name: str, scene: object) -> None:
    async def run() -> None:
        async with await Connection.open(data / "kubeconfig") as api:
            await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
            stage = Scene(api, name)
            try:
                await scene(stage)  # type: ignore[operator]  # each scene is a coroutine function
            finally:
                await stage.clear()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "kind", "label", "scheduler"),
    [
        ("plugins", plugins.POD_GROUPS, NEW, ""),
        ("renamed", plugins.POD_GROUPS, NEW, plugins.SCHEDULER_NAME),
        ("koord", koordinator.POD_GROUPS, OLD, koordinator.SCHEDULER_NAME),
    ],
)
def test_of_two_groups_the_one_that_fits_starts(data: Path, name: str, kind: Kind, label: str, scheduler: str) -> None:
    """pg1 is 3 pods of 50, pg2 4 of 100, created in turn with equal priority: exactly pg1's pods are placed."""

    async def scene(stage: Scene) -> None:
        await stage.group(kind, "pg1", 3)
        await stage.group(kind, "pg2", 4)
        for number in range(4):
            await stage.pod(f"big{number}", 100, scheduler=scheduler, **{label: "pg2"})
            if number < 3:
                await stage.pod(f"small{number}", 50, scheduler=scheduler, **{label: "pg1"})
        big, small = ({f"{what}{number}" for number in range(count)} for what, count in (("big", 4), ("small", 3)))
        await stage.until(lambda placed, waiting: placed == small and big <= waiting)
        async with asyncio.timeout(MOST_S):
            while (await stage.status(kind, "pg1")).get("phase") != "Running":  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (await stage.status(kind, "pg1"))["running"] == 3
        assert (await stage.status(kind, "pg2"))["phase"] in ("Scheduling", "PreScheduling")

    play(data, name, scene)


def test_an_incomplete_group_waits_and_ordinary_pods_start(data: Path) -> None:
    async def scene(stage: Scene) -> None:
        await stage.group(plugins.POD_GROUPS, "pg", 4)
        for number in range(3):
            await stage.pod(f"member{number}", 50, **{NEW: "pg"})
        await stage.pod("one", 100)
        await stage.pod("two", 100)
        members = {f"member{number}" for number in range(3)}
        await stage.until(lambda placed, waiting: placed == {"one", "two"} and members <= waiting)
        assert (await stage.status(plugins.POD_GROUPS, "pg")) == {"phase": "Pending"}

    play(data, "incomplete", scene)


def test_a_group_of_higher_priority_comes_first(data: Path) -> None:
    async def scene(stage: Scene) -> None:
        for name in ("pg1", "pg2"):
            await stage.group(plugins.POD_GROUPS, name, 3)
        await stage.pod("holder", 300)
        await stage.until(lambda placed, waiting: placed == {"holder"})
        for number in range(3):
            await stage.pod(f"low{number}", 100, **{NEW: "pg1"})
            await stage.pod(f"high{number}", 50, high=True, **{NEW: "pg2"})
        low, high = ({f"{what}{number}" for number in range(3)} for what in ("low", "high"))
        await stage.until(lambda placed, waiting: low | high <= waiting or high <= placed)
        await stage.api.request("DELETE", PODS.path(stage.name, "holder"), params={"gracePeriodSeconds": "0"})
        await stage.until(lambda placed, waiting: placed == high and low <= waiting)

    play(data, "higher", scene)


def test_a_namespace_with_an_elastic_quota_stays_within_it(data: Path) -> None:
    async def scene(stage: Scene) -> None:
        spec = {"min": {"memory": "100Mi"}, "max": {"memory": "100Mi"}}
        await stage.create(plugins.ELASTIC_QUOTAS, "quota", {"spec": spec})
        for number in range(3):
            await stage.pod(f"p{number}", 50)
        await stage.until(lambda placed, waiting: len(placed) == 2 and len(waiting) == 1)
        async with asyncio.timeout(MOST_S):
            while (await stage.status(plugins.ELASTIC_QUOTAS, "quota")) != {"used": {"memory": "100Mi"}}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert len(await stage.placed()) == 2

    play(data, "elastic", scene)
