"""Recordings of Volcano's Jobs and of Kueue (`recorded_jobs/`), played on `phalanx up`: after each step the same pods
are on the same pools of nodes. The test is the kubelet of the nodes.

A step is over when all is as recorded, and still is after the scheduler has told a pod, which was created then and fits
no node, why it waits: what the scheduler was to decide about the step, it has decided.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from phalanx.client.connection import MERGE_PATCH, STRATEGIC_PATCH, ApiRefusal, Connection
from phalanx.client.kind import JOBS, LEASES, NODES, PODS
from phalanx.kube.read.labels import SCHEDULER_NAME
from tests.cli.upstart import started
from tests.dialects.peers.play import ENDINGS, node_of, read, unit_of
from tests.kube.double import Object
from tests.seeds import mostly_slow

pytestmark = pytest.mark.slow
RECORDED = sorted((Path(__file__).parent / "recorded_jobs").glob("*/*.yaml"))
MOST_S = 60.0
CONDITIONS = ("Initialized", "ContainersReady", "Ready")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("peers")
    with started(found, "--no-local-node"):
        yield found


class Player:
    def __init__(self, api: Connection, recording: Object) -> None:
        self.api, self.recording = api, recording
        self.ended = dict[str, str]()
        self.paths = dict[tuple[str, str], str]()  # (apiVersion, kind) -> path of its objects in `default`
        self.made = dict[str, str]()  # `Kind name` -> path
        self.probes = 0

    async def play(self) -> None:
        for each in self.recording["nodes"]:
            await self.node(node_of(each, each["name"]))
        for at, step in enumerate(self.recording["steps"]):
            await self.step(step)
            await self.until_decided(at, self.recording["recorded"][at]["decisions"])

    async def node(self, node: Object) -> None:
        name, status = node["metadata"]["name"], node["status"]
        await self.api.request("POST", NODES.path(), body={"apiVersion": "v1", "kind": "Node", **node})
        await self.api.request(
            "PATCH", NODES.path("", name, "status"), body={"status": status}, content_type=MERGE_PATCH
        )
        taints = {"spec": {"taints": node["spec"]["taints"]}}  # without those of admission
        await self.api.request("PATCH", NODES.path("", name), body=taints, content_type=MERGE_PATCH)
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2100-01-01T00:00:00.000000Z"}
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": {"name": name}, "spec": spec}
        with suppress(ApiRefusal):  # it is there
            await self.api.request("POST", LEASES.path("kube-node-lease"), body=lease)
        self.made[f"Node {name}"] = NODES.path("", name)

    async def step(self, step: Object) -> None:
        for obj in yaml.safe_load_all(step.get("apply", "")):
            path = await self.path(obj)
            reference, own = f"{obj['kind']} {obj['metadata']['name']}", f"{path}/{obj['metadata']['name']}"
            if reference in self.made:
                await self.api.request("PATCH", own, body=obj, content_type=MERGE_PATCH)
            else:
                await self.api.request("POST", path, body=obj)
            self.made[reference] = own
        for verb, phase in ENDINGS.items():
            self.ended |= dict.fromkeys(step.get(verb) or (), phase)
        for reference in step.get("delete") or ():
            await self.api.request("DELETE", self.made[reference], params={"propagationPolicy": "Background"})
        if patch := step.get("patch"):
            path = self.made[patch["object"]]
            await self.api.request("PATCH", path, body=patch["patch"], content_type=MERGE_PATCH)

    async def path(self, obj: Object) -> str:
        key = obj["apiVersion"], obj["kind"]
        if key not in self.paths:
            root = f"/apis/{key[0]}" if "/" in key[0] else f"/api/{key[0]}"
            for each in (await self.api.request("GET", root))["resources"]:
                space = "/namespaces/default" if each["namespaced"] else ""
                if "/" not in each["name"]:
                    self.paths[key[0], each["kind"]] = f"{root}{space}/{each['name']}"
        return self.paths[key]

    async def until_decided(self, at: int, wanted: Object) -> None:
        seen: Object = {}
        try:
            async with asyncio.timeout(MOST_S):
                while seen != wanted or not await self.is_decided(wanted):
                    seen = await self.picture()
        except TimeoutError:
            raise AssertionError(f"step {at}: {seen}, recorded was {wanted}") from None

    async def is_decided(self, wanted: Object) -> bool:
        """Return whether all is still as wanted when the scheduler has looked at a new pod."""
        self.probes += 1
        name = f"probe-{self.probes}"
        containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
        spec = {"schedulerName": SCHEDULER_NAME, "nodeSelector": {"no": "node"}, "containers": containers}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await self.api.request("POST", PODS.path("default"), body=pod)

        async def is_told() -> bool:
            status = (await self.api.request("GET", PODS.path("default", name))).get("status") or {}
            return any(one["type"] == "PodScheduled" for one in status.get("conditions") or ())

        await until(is_told)
        await self.api.request("DELETE", PODS.path("default", name), params={"gracePeriodSeconds": "0"})
        return await self.picture() == wanted

    async def picture(self) -> Object:
        """Return the decisions, as recorded, after the kubelet has seen all pods."""
        pods = (await self.api.request("GET", PODS.path("default")))["items"]
        moved = [await self.kubelet(pod) for pod in pods]
        if any(moved):
            return {}
        pools = {each["name"]: each["pool"] for each in self.recording["nodes"]}
        bound, succeeded = defaultdict[str, Counter[str]](Counter), Counter[str]()
        for pod in pods:
            phase, node = pod["status"].get("phase"), pod["spec"].get("nodeName")
            if "deletionTimestamp" not in pod["metadata"] and node and phase != "Failed":
                name = f"default/{unit_of(pod)}"
                bound[name] += Counter() if phase == "Succeeded" else Counter([pools[node]])
                succeeded[name] += phase == "Succeeded"
        for job in (await self.api.request("GET", JOBS.path("default")))["items"]:
            succeeded[f"default/{job['metadata']['name']}"] = (job.get("status") or {}).get("succeeded", 0)
        names = sorted(name for name in {*bound, *succeeded} if bound[name] or succeeded[name])
        return {name: {"bound": dict(sorted(bound[name].items())), "succeeded": succeeded[name]} for name in names}

    async def kubelet(self, pod: Object) -> bool:
        """Bring a pod to its next phase. Return whether it changed."""
        meta, phase = pod["metadata"], pod["status"].get("phase")
        path = PODS.path("default", meta["name"])
        if "deletionTimestamp" in meta:
            await self.api.request("DELETE", path, params={"gracePeriodSeconds": "0"})
            return True
        wanted = self.ended.get(unit_of(pod)) or self.ended.get(meta["name"]) or "Running"
        if not pod["spec"].get("nodeName") or phase in (wanted, *ENDINGS.values()):
            return False
        ready = "True" if wanted == "Running" else "False"
        conditions = [{"type": one, "status": ready} for one in CONDITIONS]
        code = {"terminated": {"exitCode": int(wanted == "Failed")}} if ready == "False" else {"running": {}}
        said = {"ready": ready == "True", "restartCount": 0, "imageID": "", "image": "x", "state": code}
        containers = [{"name": each["name"], **said} for each in pod["spec"]["containers"]]
        status = {"phase": wanted, "conditions": conditions, "containerStatuses": containers}
        await self.api.request("PATCH", f"{path}/status", body={"status": status}, content_type=STRATEGIC_PATCH)
        return True

    async def clear(self) -> None:
        for path in reversed(self.made.values()):
            with suppress(ApiRefusal):  # it is gone
                await self.api.request("DELETE", path, params={"propagationPolicy": "Background"})

        async def is_empty() -> bool:
            pods = (await self.api.request("GET", PODS.path("default")))["items"]
            for pod in pods:
                with suppress(ApiRefusal):
                    path = PODS.path("default", pod["metadata"]["name"])
                    await self.api.request("DELETE", path, params={"gracePeriodSeconds": "0"})
            return not pods

        await until(is_empty)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(MOST_S):
        while not await holds():  # noqa: ASYNC110 (the server is waited for)
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "path", mostly_slow(RECORDED[::-1], fast=0, sample=4), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_recorded_decisions_about_jobs_are_those_of_phalanx_too(data: Path, path: Path) -> None:
    async def scene() -> None:
        async with await Connection.open(data / "kubeconfig") as api:
            player = Player(api, read(path))
            try:
                await player.play()
            finally:
                await player.clear()

    asyncio.run(scene())
