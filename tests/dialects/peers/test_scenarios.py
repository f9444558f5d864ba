"""Scenarios of the test suites of scheduler-plugins, Koordinator, KAI and YuniKorn, as their manifests, on `phalanx
up`. If Phalanx decides differently on purpose, the dialect's page states that, and the test has Phalanx's decision.

One node of 300 memory, as in coscheduling's own integration test; KAI's scenarios have nodes with GPUs, which are
simulated like KWOK's. Each scenario has all nodes for itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.client.connection import MERGE_PATCH, ApiRefusal, Connection
from phalanx.client.kind import NODES, PODS, PRIORITY_CLASSES, REPLICA_SETS, Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kai import kinds as kai
from phalanx.dialects.kube_scheduler.koordinator import kinds as koordinator
from phalanx.dialects.kube_scheduler.scheduler_plugins import kinds as plugins
from tests.cli.upstart import started

pytestmark = pytest.mark.slow
NEW, OLD = plugins.GROUP_LABELS[:2]
GPU = "nvidia.com/gpu"
MAPS = Kind(version="v1", plural="configmaps", name="ConfigMap")
YUNIKORN = "yunikorn.apache.org/"
MOST_S = 120.0


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
        self._made: list[str] = []  # paths of what is in no namespace

    async def group(self, kind: Kind, name: str, minimum: int) -> None:
        await self.create(kind, name, {"spec": {"minMember": minimum}})

    async def pod(
        self,
        name: str,
        asks: Mapping[str, Any],
        *,
        scheduler: str = "",
        high: bool = False,
        notes: Mapping[str, str] | None = None,
        selector: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        amounts = {resource: str(amount) for resource, amount in asks.items()}
        resources = {"requests": amounts, "limits": amounts}
        spec: Object = {"containers": [{"name": "c", "image": "pause", "resources": resources}]}
        spec |= {"schedulerName": scheduler} if scheduler else {}
        spec |= {"priorityClassName": "high"} if high else {}
        spec |= {"nodeSelector": selector} if selector else {}
        await self.create(PODS, name, {"metadata": {"labels": labels or {}, "annotations": notes or {}}, "spec": spec})

    async def create(self, kind: Kind, name: str, body: Object) -> None:
        meta = {**body.get("metadata", {}), "name": name}
        space = self.name if kind.namespaced else ""
        await self.api.create(
            kind, {**body, "apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}, space
        )
        if not kind.namespaced:
            self._made.append(kind.path("", name))

    async def pods(self) -> list[Object]:
        return list((await self.api.request("GET", PODS.path(self.name)))["items"])

    async def places(self) -> dict[str, str]:
        """Pod -> its node, of those that are not going."""
        return {
            one["metadata"]["name"]: one["spec"]["nodeName"]
            for one in await self.pods()
            if one["spec"].get("nodeName") and not one["metadata"].get("deletionTimestamp")
        }

    async def placed(self) -> set[str]:
        """The pods that have a node."""
        return set(await self.places())

    async def reasons(self) -> dict[str, str]:
        """Return pod -> its reason for waiting, for pods with one."""
        return {
            pod["metadata"]["name"]: one["message"]
            for pod in await self.pods()
            for one in (pod.get("status") or {}).get("conditions") or ()
            if one["type"] == "PodScheduled" and one["status"] == "False"
        }

    async def status(self, kind: Kind, name: str) -> Object:
        return dict((await self.api.request("GET", kind.path(self.name, name))).get("status") or {})

    async def until(self, reached: Callable[[set[str], set[str]], bool]) -> None:
        """Wait until the sets of placed and waiting pods satisfy the condition."""

        async def holds() -> bool:
            return reached(await self.placed(), set(await self.reasons()))

        await self.until_true(holds)

    async def until_placed(self, *names: str) -> None:
        await self.until(lambda placed, waiting: placed == set(names))

    async def until_waits(self, pod: str, word: str) -> None:
        """Until the pod was told a reason with the word in it."""

        async def holds() -> bool:
            return word in (await self.reasons()).get(pod, "")

        await self.until_true(holds)

    async def until_true(self, holds: Callable[[], Awaitable[bool]]) -> None:
        try:
            async with asyncio.timeout(MOST_S):
                while not await holds():  # noqa: ASYNC110 (the server is waited for)
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"placed: {await self.places()}; waiting: {await self.reasons()}") from None

    async def delete_pod(self, name: str) -> None:
        with suppress(ApiRefusal):  # it is gone
            await self.api.request("DELETE", PODS.path(self.name, name), params={"gracePeriodSeconds": "0"})

    async def clear(self) -> None:
        for one in (await self.api.request("GET", REPLICA_SETS.path(self.name)))["items"]:
            await self.api.request("DELETE", REPLICA_SETS.path(self.name, one["metadata"]["name"]))
        while found := await self.pods():
            for one in found:
                await self.delete_pod(one["metadata"]["name"])
        for path in reversed(self._made):
            await self._delete(path)

    async def _delete(self, path: str) -> None:
        """A queue is kept as long as its status names queues below it: this follows after these are gone."""
        async with asyncio.timeout(MOST_S):
            while True:
                try:
                    await self.api.request("DELETE", path)
                except ApiRefusal as error:
                    if error.code != 403:
                        raise
                    await asyncio.sleep(0.1)
                else:
                    return


def memory(amount: int) -> dict[str, str]:
    return {"memory": f"{amount}Mi"}


def play(data: Path, name: str, scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with await Connection.open(data / "kubeconfig") as api:
            await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
            stage = Scene(api, name)
            try:
                await scene(stage)
            finally:
                await stage.clear()

    asyncio.run(run())


# --- coscheduling and elastic quotas: scheduler-plugins, Koordinator --------------------------------------------------


GANG = ("name", "kind", "label", "scheduler")
PLUGINS = ("plugins", plugins.POD_GROUPS, NEW, "")
RENAMED = ("renamed", plugins.POD_GROUPS, NEW, plugins.SCHEDULER_NAME)
KOORD = ("koord", koordinator.POD_GROUPS, OLD, koordinator.SCHEDULER_NAME)


@pytest.mark.parametrize(GANG, [PLUGINS, RENAMED, KOORD])
def test_of_two_groups_the_one_that_fits_starts(data: Path, name: str, kind: Kind, label: str, scheduler: str) -> None:
    """pg1 is 3 pods of 50, pg2 4 of 100, created in turn with equal priority: exactly pg1's pods are placed."""

    async def scene(stage: Scene) -> None:
        await stage.group(kind, "pg1", 3)
        await stage.group(kind, "pg2", 4)
        for number in range(4):
            await stage.pod(f"big{number}", memory(100), scheduler=scheduler, labels={label: "pg2"})
            if number < 3:
                await stage.pod(f"small{number}", memory(50), scheduler=scheduler, labels={label: "pg1"})
        big, small = ({f"{what}{number}" for number in range(count)} for what, count in (("big", 4), ("small", 3)))
        await stage.until(lambda placed, waiting: placed == small and big <= waiting)
        async with asyncio.timeout(MOST_S):
            while (await stage.status(kind, "pg1")).get("phase") != "Running":  # noqa: ASYNC110 (the server is waited for)
                await asyncio.sleep(0.1)
        assert (await stage.status(kind, "pg1"))["running"] == 3
        assert (await stage.status(kind, "pg2"))["phase"] in ("Scheduling", "PreScheduling")

    play(data, name, scene)


@pytest.mark.parametrize(GANG, [PLUGINS, KOORD])
def test_an_incomplete_group_waits_and_ordinary_pods_start(
    data: Path, name: str, kind: Kind, label: str, scheduler: str
) -> None:
    async def scene(stage: Scene) -> None:
        await stage.group(kind, "pg", 4)
        for number in range(3):
            await stage.pod(f"member{number}", memory(50), scheduler=scheduler, labels={label: "pg"})
        await stage.pod("one", memory(100), scheduler=scheduler)
        await stage.pod("two", memory(100), scheduler=scheduler)
        members = {f"member{number}" for number in range(3)}
        await stage.until(lambda placed, waiting: placed == {"one", "two"} and members <= waiting)
        assert (await stage.status(kind, "pg"))["phase"] == "Pending"

    play(data, f"incomplete-{name}", scene)


@pytest.mark.parametrize((*GANG, "gang"), [(*PLUGINS, True), (*PLUGINS, False), (*KOORD, True)])
def test_the_higher_priority_comes_first(
    data: Path, name: str, kind: Kind, label: str, scheduler: str, gang: bool
) -> None:
    """3 pods of 50 of high priority, a group, come before the older group of 3 of 100; so do 3 ordinary ones of 100,
    before a group of 50."""

    async def scene(stage: Scene) -> None:
        for group in ("pg1", "pg2")[: 1 + gang]:
            await stage.group(kind, group, 3)
        await stage.pod("holder", memory(300))
        await stage.until_placed("holder")
        older, higher = (100, 50) if gang else (50, 100)
        said = {label: "pg2"} if gang else {}
        for number in range(3):
            await stage.pod(f"low{number}", memory(older), scheduler=scheduler, labels={label: "pg1"})
            await stage.pod(f"high{number}", memory(higher), scheduler=scheduler, high=True, labels=said)
        low, high = ({f"{what}{number}" for number in range(3)} for what in ("low", "high"))
        await stage.until(lambda placed, waiting: low | high <= waiting or high <= placed)
        await stage.delete_pod("holder")
        await stage.until(lambda placed, waiting: placed == high and low <= waiting)
        assert await stage.placed() == high

    play(data, f"higher-{name}-{'gang' if gang else 'pods'}", scene)


def test_a_namespace_with_an_elastic_quota_stays_within_it(data: Path) -> None:
    async def scene(stage: Scene) -> None:
        spec = {"min": {"memory": "100Mi"}, "max": {"memory": "100Mi"}}
        await stage.create(plugins.ELASTIC_QUOTAS, "quota", {"spec": spec})
        for number in range(3):
            await stage.pod(f"p{number}", memory(50))
        await stage.until(lambda placed, waiting: len(placed) == 2 and len(waiting) == 1)
        async with asyncio.timeout(MOST_S):
            while (await stage.status(plugins.ELASTIC_QUOTAS, "quota")) != {"used": {"memory": "100Mi"}}:  # noqa: ASYNC110 (the server is waited for)
                await asyncio.sleep(0.1)
        assert len(await stage.placed()) == 2

    play(data, "elastic", scene)


# --- KAI --------------------------------------------------------------------------------------------------------------


class KaiScene(Scene):
    """Its queues, pods and Jobs are KAI's."""

    async def node(self, name: str, gpus: int, devices: bool = False) -> None:
        notes = {"kwok.x-k8s.io/node": "fake"}
        if devices:
            notes["phalanx.dev/devices"] = json.dumps([{"name": f"g{number}"} for number in range(gpus)])
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "20", GPU: str(gpus)}
        status = {"allocatable": amounts, "capacity": amounts}
        await self.create(NODES, name, {"metadata": {"annotations": notes}, "status": status})

    async def queue(
        self, name: str, gpus: int, *, weight: int = 1, parent: str = "", notes: Mapping[str, str] | None = None
    ) -> None:
        open_end = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        gpu = {"quota": gpus, "limit": -1, "overQuotaWeight": weight}
        resources = {"cpu": open_end, "memory": open_end, "gpu": gpu}
        above = {"parentQueue": parent} if parent else {}
        await self.create(
            kai.QUEUES, name, {"metadata": {"annotations": notes or {}}, "spec": {**above, "resources": resources}}
        )

    async def work(self, name: str, queue: str, gpus: int = 1, *, kind: str = "train", fraction: str = "") -> None:
        """A pod; of the priority class `kind`, which says whether it may be preempted."""
        said = {"kai.scheduler/queue": queue, "priorityClassName": kind}
        if fraction:
            await self.pod(
                name, {"cpu": 1}, scheduler=kai.SCHEDULER_NAME, notes={"gpu-fraction": fraction}, labels=said
            )
        else:
            await self.pod(name, {GPU: gpus}, scheduler=kai.SCHEDULER_NAME, labels=said)

    async def replica(self, name: str, queue: str, *, kind: str = "train") -> None:
        """Create a ReplicaSet of one pod with one GPU, whose pod is replaced after an eviction."""
        resources = {"limits": {GPU: "1"}}
        spec = {
            "schedulerName": kai.SCHEDULER_NAME,
            "containers": [{"name": "c", "image": "pause", "resources": resources}],
        }
        mine = {"app": name}
        said = {**mine, "kai.scheduler/queue": queue, "priorityClassName": kind}
        template = {"metadata": {"labels": said}, "spec": spec}
        body = {"selector": {"matchLabels": mine}, "replicas": 1, "template": template}
        await self.create(REPLICA_SETS, name, {"spec": body})

    async def apart(self, queue: str, *, kind: str) -> None:
        """ReplicaSets `a` and `b` of a GPU each, on two nodes of two."""
        await self.node("n0", 2)
        await self.work("filler", queue, kind=kind)
        await self.replica("a", queue, kind=kind)
        await self.until(lambda placed, waiting: len(placed) == 2)
        await self.node("n1", 2)
        await self.replica("b", queue, kind=kind)
        await self.until(lambda placed, waiting: len(placed) == 3)
        await self.delete_pod("filler")

    async def replicas_at(self) -> dict[str, str]:
        """ReplicaSet -> the node of its pod."""
        return {pod.partition("-")[0]: node for pod, node in (await self.places()).items() if pod != "new"}


def play_kai(data: Path, name: str, scene: Callable[[KaiScene], Awaitable[None]]) -> None:
    async def run(stage: Scene) -> None:
        kai_stage = KaiScene(stage.api, stage.name)
        kai_stage._made = stage._made  # the clean-up needs it
        await scene(kai_stage)

    play(data, name, run)


def test_kai_moves_a_pod_so_that_another_fits(data: Path) -> None:
    """Off here, since a pod without an owner would be gone, until the queue asks for it."""

    async def scene(stage: KaiScene) -> None:
        await stage.queue("team", 4)
        await stage.apart("team", kind="train")
        before = await stage.replicas_at()
        assert before == {"a": "n0", "b": "n1"}
        await stage.work("new", "team", 2)
        await stage.until_waits("new", "NoRoom")
        assert await stage.replicas_at() == before
        on = {"metadata": {"annotations": {"phalanx.dev/consolidate": "true"}}}
        await stage.api.patch(kai.QUEUES, "team", on, MERGE_PATCH)

        async def moved() -> bool:
            places = await stage.places()
            return "new" in places and len(places) == 3

        await stage.until_true(moved)
        after, new = await stage.replicas_at(), (await stage.places())["new"]
        assert set(after.values()) == {"n0", "n1"} - {new}
        assert sum(after[name] != before[name] for name in before) == 1

    play_kai(data, "consolidate", scene)


def test_kai_moves_no_builds(data: Path) -> None:
    async def scene(stage: KaiScene) -> None:
        await stage.queue("team", 4, notes={"phalanx.dev/consolidate": "true"})
        await stage.apart("team", kind="build")
        await stage.work("new", "team", 2)
        await stage.until_waits("new", "NoRoom")
        assert await stage.replicas_at() == {"a": "n0", "b": "n1"}

    play_kai(data, "builds", scene)


def test_kai_reclaims_not_for_a_queue_that_is_at_its_share(data: Path) -> None:
    async def scene(stage: KaiScene) -> None:
        await stage.node("n", 4)
        await stage.queue("q0", 2, weight=2)
        await stage.queue("q1", 1)
        await stage.work("one", "q0")
        await stage.work("two", "q0", 2)
        await stage.work("mine", "q1")
        await stage.until_placed("one", "two", "mine")
        await stage.work("new", "q1")
        await stage.until_waits("new", "NoRoom")
        assert await stage.placed() == {"one", "two", "mine"}  # when it got this reason, no pod had been evicted
        await stage.delete_pod("mine")
        await stage.until_placed("one", "two", "new")

    play_kai(data, "share", scene)


def test_kai_reclaims_not_for_a_department_that_would_exceed_its_own(data: Path) -> None:
    async def scene(stage: KaiScene) -> None:
        await stage.node("n", 4)
        for department, queue in (("d1", "q0"), ("d2", "q1")):
            await stage.queue(department, 2)
            await stage.queue(queue, 2, parent=department)
        await stage.work("big", "q0", 3)
        await stage.work("build", "q1", kind="build")
        await stage.until_placed("big", "build")
        await stage.work("new", "q1", 2)
        await stage.until_waits("new", "NoRoom")
        assert await stage.placed() == {"big", "build"}
        await stage.work("within", "q1")  # with one GPU the department stays within its two
        await stage.until_placed("build", "within", "new")

    play_kai(data, "departments", scene)


def test_kai_preempts_one_whole_device_rather_than_two_halves(data: Path) -> None:
    async def scene(stage: KaiScene) -> None:
        await stage.node("n", 2, devices=True)
        await stage.queue("team", 2)
        for name in ("half1", "half2"):
            await stage.work(name, "team", fraction="0.5")
        await stage.until_placed("half1", "half2")
        await stage.work("whole", "team")
        await stage.until_placed("half1", "half2", "whole")
        await stage.work("build", "team", kind="build")
        await stage.until_placed("half1", "half2", "build")
        assert await stage.placed() == {"half1", "half2", "build"}

    play_kai(data, "halves", scene)


@pytest.mark.parametrize(("quota", "left"), [(4, {"build"}), (3, {"a", "b", "c"})])
def test_kai_preempts_for_a_build_within_the_quota_alone(data: Path, quota: int, left: set[str]) -> None:
    async def scene(stage: KaiScene) -> None:
        await stage.node("n", 4)
        await stage.queue("team", quota)
        for name, gpus in (("a", 1), ("b", 2), ("c", 1)):
            await stage.work(name, "team", gpus)
        await stage.until_placed("a", "b", "c")
        await stage.work("build", "team", 4, kind="build")
        if "build" not in left:
            await stage.until_waits("build", "NeverWithinLimit")
            assert await stage.placed() == left
        await stage.until_placed(*left)

    play_kai(data, f"quota-{quota}", scene)


def test_kai_starts_no_build_beyond_the_quota_on_free_gpus(data: Path) -> None:
    async def scene(stage: KaiScene) -> None:
        await stage.node("n", 4)
        await stage.queue("team", 1)
        await stage.work("build", "team", 2, kind="build")
        await stage.until_waits("build", "NeverWithinLimit")
        await stage.work("train", "team", 4)
        await stage.until_placed("train")

        async def said() -> bool:
            groups = (await stage.api.request("GET", kai.POD_GROUPS.path(stage.name)))["items"]
            return "NonPreemptibleOverQuota" in [
                reason["reason"]
                for group in groups
                for one in (group.get("status") or {}).get("schedulingConditions") or ()
                for reason in one["reasons"]
            ]

        await stage.until_true(said)
        assert await stage.placed() == {"train"}

    play_kai(data, "beyond", scene)


# --- YuniKorn ---------------------------------------------------------------------------------------------------------


def sandbox(name: str, share: str, policy: str = "default") -> Object:
    properties = {"preemption.delay": "1ms", "preemption.policy": policy}
    return {"name": name, "resources": {"guaranteed": {"memory": share}}, "properties": properties}


QUEUES = {
    "partitions": [
        {
            "name": "default",
            "placementrules": [{"name": "provided"}],
            "queues": [
                {
                    "name": "root",
                    "submitacl": "*",
                    "queues": [
                        sandbox("third", "100Mi"),
                        sandbox("other-third", "100Mi"),
                        sandbox("fenced-third", "100Mi", policy="fence"),
                        sandbox("all", "300Mi"),
                        {"name": "gangs"},
                    ],
                }
            ],
        }
    ]
}


@pytest.fixture(scope="module")
def yunikorn(data: Path) -> Path:
    """Its queues are there."""

    async def configure() -> None:
        async with await Connection.open(data / "kubeconfig") as api:
            await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "yunikorn"}})
            text = {"queues.yaml": yaml.safe_dump(QUEUES)}
            await api.create(MAPS, {"metadata": {"name": "yunikorn-configs"}, "data": text}, "yunikorn")

    asyncio.run(configure())
    return data


@pytest.mark.parametrize(
    ("holder", "asking", "one_goes"),
    [("third", "other-third", True), ("all", "other-third", False), ("third", "fenced-third", False)],
)
def test_yunikorn_preempts_for_a_queue_below_its_guarantee(
    yunikorn: Path, holder: str, asking: str, one_goes: bool
) -> None:
    """Not from a queue within its own guarantee, and not for one with a fence."""

    async def scene(stage: Scene) -> None:
        async def pod(name: str, queue: str) -> None:
            said = {"applicationId": name, "queue": f"root.{queue}"}
            await stage.pod(name, memory(100), scheduler="yunikorn", labels=said)

        held = {f"held{number}" for number in range(3)}
        for name in sorted(held):
            await pod(name, holder)
        await stage.until_placed(*held)
        await pod("new", asking)
        if one_goes:
            await stage.until(lambda placed, waiting: "new" in placed and len(placed & held) == 2)
        else:
            await stage.until_waits("new", "NoRoom")
            assert await stage.placed() == held

    play(yunikorn, f"{holder}-{asking}", scene)


@pytest.mark.parametrize("style", ["Soft", "Hard", ""])
def test_yunikorn_gang_with_a_group_that_fits_nowhere(yunikorn: Path, style: str) -> None:
    """The gang waits whole for its time. Then the pods of a Soft one start one by one, as those without task groups do,
    and those of a Hard one fail."""
    limits = {"cpu": "1", "memory": "10M"}
    groups = [
        {"name": "ganga", "minMember": 3, "minResource": limits},
        {"name": "gangb", "minMember": 1, "minResource": limits, "nodeSelector": {"kubernetes.io/hostname": "none"}},
    ]
    gang = {
        f"{YUNIKORN}task-groups": json.dumps(groups),
        f"{YUNIKORN}schedulingPolicyParameters": f"placeholderTimeoutInSeconds=4 gangSchedulingStyle={style}",
    }

    async def scene(stage: Scene) -> None:
        said = {f"{YUNIKORN}app-id": "app", f"{YUNIKORN}queue": "root.gangs"}
        for name in ("b0", "a0", "a1", "a2"):
            notes = {f"{YUNIKORN}task-group-name": f"gang{name[0]}", **gang} if style else {}
            nowhere = {"kubernetes.io/hostname": "none"} if name == "b0" else {}
            await stage.pod(name, limits, scheduler="yunikorn", notes=notes, selector=nowhere, labels=said)

        async def have_failed() -> bool:
            told = [(one["status"]["phase"], one["status"].get("reason")) for one in await stage.pods()]
            return set(told) == {("Failed", "ResourceReservationTimeout")}

        if style == "Hard":
            await stage.until_true(have_failed)
            assert await stage.placed() == set()
        else:
            await stage.until_placed("a0", "a1", "a2")

    play(yunikorn, f"gang-{style.lower() or 'none'}", scene)
