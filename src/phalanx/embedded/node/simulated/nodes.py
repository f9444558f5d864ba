"""Simulate nodes, for tests at scale: pods become Ready as soon as they are bound, and end after a given time.

A pod with the annotation `phalanx.dev/run-seconds` becomes Succeeded this number of seconds after *all* pods of its job
are ready. So if only some pods of a job are bound, the job never ends, like a real job whose workers wait for each
other. A pod without the annotation runs for ever. `stages` groups and counts the pods of jobs.

A Node for KWOK (annotation `kwok.x-k8s.io/node: fake`) is simulated too: it becomes Ready with its own allocatable
amounts, and its pods end by KWOK's stages (`stages`).

A simulated pod needs only two writes: one PATCH makes it Running and Ready, and another PATCH makes it Succeeded. A
fixed number of writers sends these PATCHes from one queue. Pods are admitted by the same code as in the real agent.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import heapq
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import MERGE_PATCH, STRATEGIC_PATCH, ApiError, ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.client.quantity import amount
from phalanx.embedded.endless import endless
from phalanx.embedded.node.machine.registration import Registration, register, renew_lease
from phalanx.embedded.node.machine.settings import SimulatedSettings
from phalanx.embedded.node.pod.admission import GPU, Amounts, Rejection, admit, demand
from phalanx.embedded.node.pod.status import TERMINAL, at, rejected
from phalanx.embedded.node.simulated.stages import SimulatedGangs, StageEnding, ending, is_fake, is_provided

log = logging.getLogger(__name__)

SIMULATED = "phalanx.dev/simulated"  # label of simulated nodes
_FAKE = {"cpu": "1k", "memory": "1Ti", "pods": "1M"}  # KWOK's defaults for nodes without amounts
_GPU_MIB = "81920"  # the memory of each simulated GPU in MiB
_RETRY_S = 0.2
_REGISTER_AT_ONCE = 16
Write = Callable[[], Awaitable[None]]


async def retire(connection: Connection, nodes: int) -> None:
    """Delete the simulated nodes of an earlier run whose number is above `nodes`, because their Leases are not renewed
    any more. Controllers replace the pods of these nodes. Raises ApiError."""
    kept = {_name(number) for number in range(nodes)}
    listing = await connection.list(NODES, labelSelector=f"{SIMULATED}=true")
    for name in sorted({one["metadata"]["name"] for one in listing["items"]} - kept):
        log.info("node %s is not simulated any more", name)
        with suppress(ApiRefusal):  # another client has deleted the node
            await connection.delete(NODES, name)


def _gpu_labels(count: int) -> dict[str, str]:
    """Return the labels that NVIDIA's GPU feature discovery gives to a node with `count` GPUs. With these labels, pods
    may request a part of a GPU."""
    return {f"{GPU}.count": str(count), f"{GPU}.memory": _GPU_MIB} if count else {}


def _name(number: int) -> str:
    return f"sim-{number:03d}"


@dataclass(slots=True)
class _Node:
    """A simulated node. `made`: True if another program created its Node object. The simulation of such a node ends
    when the object is deleted. `fake`: True if the node was created for KWOK, so that its pods end by KWOK's stages."""

    object: Object
    allocatable: Amounts
    made: bool = False
    fake: bool = False
    used: Amounts = field(default_factory=dict)

    def charge(self, asked: Amounts, sign: int) -> None:
        for name, value in asked.items():
            self.used[name] = self.used.get(name, 0) + sign * value


class SimulatedNodes:
    def __init__(
        self, connection: Connection, informers: Callable[[Kind], Informer], settings: SimulatedSettings
    ) -> None:
        self._connection, self._settings = connection, settings
        self._pods, self._jobs, self._known = informers(PODS), informers(JOBS), informers(NODES)
        self._resources = _resources(settings)
        self._allocatable = {name: amount(name, text) for name, text in self._resources.items()}
        self._nodes: dict[str, _Node] = {}
        self._charged: dict[str, tuple[str, Amounts]] = {}  # pod uid -> node, requests
        self._gangs = SimulatedGangs(self._run_out)
        self._begun: set[str] = set()  # uids of pods whose first PATCH was started
        self._finishing: set[str] = set()
        self._ending: dict[str, StageEnding] = {}  # uid -> the end of a pod whose run time has begun
        self._deleting: set[str] = set()
        self._due: list[tuple[float, str]] = []  # a heap of (the time at which a pod finishes, its uid)
        self._pod_keys: dict[str, str] = {}  # uid -> namespace/name
        self._due_changed = asyncio.Event()
        self._born_s = time.time()
        self._writes: deque[Write] = deque()
        self._has_writes = asyncio.Semaphore(0)

    async def run(self) -> None:
        """Run until cancelled."""
        synced = (each.synced.wait() for each in (self._pods, self._jobs, self._known))
        await asyncio.gather(*synced, self._register_all())
        self._known.subscribe(self._take_node)
        self._jobs.subscribe(self._gangs.take_job)
        self._pods.subscribe(self._take)
        async with asyncio.TaskGroup() as group:
            group.create_task(endless("leases of simulated nodes", self._keep_leases))
            group.create_task(endless("ends of simulated pods", self._finish_in_time))
            for _ in range(self._settings.writes_at_once):
                group.create_task(self._write())

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def _register_all(self) -> None:
        gate = asyncio.Semaphore(_REGISTER_AT_ONCE)

        async def one(number: int) -> None:
            async with gate:
                name = _name(number)
                self._nodes[name] = _Node(await self._register(name), self._allocatable)

        await asyncio.gather(*(one(number) for number in range(self._settings.nodes)))

    async def _register(self, name: str) -> Object:
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "type": "simulated",
            SIMULATED: "true",
            **_gpu_labels(self._settings.gpu),
            **self._settings.labels,
        }
        registration = Registration(name=name, labels=labels, resources=self._resources, info=_INFO)
        while True:
            try:
                node = await register(self._connection, registration)
                await self._renew(name, node)
                return node
            except ApiUnknown as error:
                log.info("registering %s: %s", name, error)
                await asyncio.sleep(_RETRY_S)

    def _take_node(self, change: Change) -> None:
        """Begin to simulate a node that was created for KWOK or by a simulated provider."""
        node = change.new or change.old
        assert node is not None
        name = node["metadata"]["name"]
        if change.new is None:
            if name in self._nodes and self._nodes[name].made:
                del self._nodes[name]
        elif name not in self._nodes and (is_fake(node) or is_provided(node)):
            resources = (node.get("status") or {}).get("allocatable") or _FAKE
            resources = {key: str(text) for key, text in resources.items()}
            self._nodes[name] = _Node(node, {key: amount(key, text) for key, text in resources.items()})
            self._nodes[name].made, self._nodes[name].fake = True, is_fake(node)
            self._push(lambda: self._play(node, resources))

    async def _play(self, node: Object, resources: Mapping[str, str]) -> None:
        """Write a status in which the node is Ready. If the node was deleted in the meantime, do not create it
        again."""
        name, old = node["metadata"]["name"], node.get("status") or {}
        info = {**_INFO, **{key: text for key, text in (old.get("nodeInfo") or {}).items() if text}}
        said = Registration(name=name, labels={}, resources=resources, info=info).status(old, time.time())
        body = {"metadata": {"uid": node["metadata"]["uid"]}, "status": said}
        await self._connection.patch(NODES, name, body, subresource="status", content_type=STRATEGIC_PATCH)
        await self._renew(name, node)

    async def _renew(self, name: str, node: Object) -> None:
        await renew_lease(self._connection, name, node["metadata"]["uid"], self._settings.lease_duration_s)

    async def _keep_leases(self) -> None:
        """Renew the Leases of all nodes in one coroutine, evenly over the period. Like the real agent, create a deleted
        Node again."""
        while True:
            begun_s = time.monotonic()
            for position, (name, node) in enumerate(list(self._nodes.items()), 1):
                try:
                    if not node.made and name not in self._known.objects:
                        node.object = await self._register(name)
                    await self._renew(name, node.object)
                except ApiError as error:
                    log.info("lease of %s: %s", name, error)
                due_s = begun_s + self._settings.lease_renew_s * position / max(1, len(self._nodes))
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            if not self._nodes:
                await asyncio.sleep(self._settings.lease_renew_s)

    # --- pods -----------------------------------------------------------------------------------------------------

    def _take(self, change: Change) -> None:
        if change.new is None:
            assert change.old is not None
            self._forget(change.old["metadata"]["uid"])
            return
        pod, node = change.new, self._nodes.get(change.new["spec"].get("nodeName") or "")
        if node is None:
            return
        uid, phase = pod["metadata"]["uid"], (pod.get("status") or {}).get("phase")
        self._pod_keys[uid] = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            if uid not in self._deleting:
                self._deleting.add(uid)
                self._let_go(uid)
                self._push(lambda: self._delete(pod))
        elif phase in TERMINAL:
            self._let_go(uid)
        elif phase == "Running":
            self._charge(uid, node, pod)
            self._begun.add(uid)
            if (ends := ending(pod, fake=node.fake)) is not None and not ends.alone:
                self._gangs.is_ready(pod)
            elif ends is not None and uid not in self._ending:
                self._run_out(pod)
        elif uid not in self._begun:
            self._begin(uid, node, pod)

    def _begin(self, uid: str, node: _Node, pod: Object) -> None:
        self._begun.add(uid)
        known = self._known.objects.get(pod["spec"]["nodeName"], node.object)
        if rejection := admit(pod, known, node.allocatable, node.used):
            self._push(lambda: self._patch(pod, _rejected(pod, rejection)))
            return
        self._charge(uid, node, pod)
        self._push(lambda: self._patch(pod, _running(pod, time.time())))

    def _charge(self, uid: str, node: _Node, pod: Object) -> None:
        if uid not in self._charged:
            asked = demand(pod["spec"])
            self._charged[uid] = (pod["spec"]["nodeName"], asked)
            node.charge(asked, 1)

    def _let_go(self, uid: str) -> None:
        """Subtract the pod's requests from the used amounts of its node. The pod no longer counts as a ready pod of its
        job."""
        if uid in self._charged:
            name, asked = self._charged.pop(uid)
            if name in self._nodes:
                self._nodes[name].charge(asked, -1)
        self._gangs.is_over(uid)

    def _forget(self, uid: str) -> None:
        self._let_go(uid)
        for known in (self._begun, self._finishing, self._deleting):
            known.discard(uid)
        self._ending.pop(uid, None)
        self._pod_keys.pop(uid, None)

    # --- run times ------------------------------------------------------------------------------------------------

    def _run_out(self, pod: Object) -> None:
        """Schedule the end of the pod, because all pods of its job are ready. The run time may have begun before the
        start of this process."""
        node = self._nodes.get(pod["spec"]["nodeName"])
        ends = ending(pod, fake=node is not None and node.fake)
        if ends is None:
            return
        self._ending[pod["metadata"]["uid"]] = ends
        seconds = ends.after_s / self._settings.time_scale
        since_s, now_s = _ready_since_s(pod), time.time()
        # times in the API are whole seconds, so a difference below 1 s is ignored
        begun_s = since_s if since_s < self._born_s - 1 else now_s
        heapq.heappush(self._due, (begun_s + seconds, pod["metadata"]["uid"]))
        self._due_changed.set()

    async def _finish_in_time(self) -> None:
        while True:
            self._due_changed.clear()
            while self._due and self._due[0][0] <= time.time():
                self._finish(heapq.heappop(self._due)[1])
            pause_s = max(0.0, self._due[0][0] - time.time()) if self._due else None
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._due_changed.wait()

    def _finish(self, uid: str) -> None:
        pod = self._pods.objects.get(self._pod_keys.get(uid, ""))
        if pod is None or pod["metadata"]["uid"] != uid or uid in self._finishing or uid in self._deleting:
            return
        self._finishing.add(uid)
        ends = self._ending[uid]
        self._push(lambda: self._patch(pod, _finished(pod, ends, time.time())))

    # --- writes ---------------------------------------------------------------------------------------------------

    def _push(self, write: Write) -> None:
        self._writes.append(write)
        self._has_writes.release()

    async def _write(self) -> None:
        while True:
            await self._has_writes.acquire()
            write = self._writes.popleft()
            try:
                await write()
            except ApiRefusal as error:
                if error.code != 404 and error.reason != "Conflict":  # the pod was deleted, or another pod has its name
                    log.warning("simulated pod: %s", error)
            except ApiUnknown as error:
                log.info("a write about a simulated pod failed and will be repeated: %s", error)
                await asyncio.sleep(_RETRY_S)
                self._push(write)
            except Exception:  # a defect that one pod causes must not stop other pods
                log.exception("simulated pod")

    async def _patch(self, pod: Object, status: Mapping[str, object]) -> None:
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        answer = await self._connection.patch(PODS, meta["name"], body, meta["namespace"], "status", MERGE_PATCH)
        self._pods.observe(answer)

    async def _delete(self, pod: Object) -> None:
        meta = pod["metadata"]
        if (pod.get("status") or {}).get("phase") not in TERMINAL:
            await self._patch(pod, _killed(pod, time.time()))
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        await self._connection.delete(PODS, meta["name"], meta["namespace"], body)


_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "simulated://1",
    "kernelVersion": "simulated",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.36.2",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "simulated",
    "systemUUID": "",
}


def _resources(settings: SimulatedSettings) -> dict[str, str]:
    found = {"cpu": settings.cpu, "memory": settings.memory, "pods": str(settings.pods), "ephemeral-storage": "1Ti"}
    return found | ({GPU: str(settings.gpu)} if settings.gpu else {})


def _ready_since_s(pod: Object) -> float:
    times = [one["lastTransitionTime"] for one in pod["status"].get("conditions") or () if one["type"] == "Ready"]
    return dt.datetime.fromisoformat(times[0]).timestamp() if times and times[0] else time.time()


# --- statuses (merge patches, which must contain complete lists) ----------------------------------------------------


def _conditions(pod: Object, now_s: float, ready: str, reason: str | None = None) -> list[dict[str, object]]:
    """Return the conditions that a kubelet sets, followed by the conditions that other programs have set."""
    ours: dict[str, tuple[str, str | None]] = {
        "PodReadyToStartContainers": (ready, None),
        "Initialized": ("True", reason if reason == "PodCompleted" else None),
        "Ready": (ready, reason),
        "ContainersReady": (ready, reason),
    }
    found = [
        {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": at(now_s)}
        | ({"reason": why} if why else {})
        for kind, (status, why) in ours.items()
    ]
    others = [one for one in (pod.get("status") or {}).get("conditions") or () if one["type"] not in ours]
    if not any(one["type"] == "PodScheduled" for one in others):
        others.append(
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": at(now_s)}
        )
    return [*found, *others]


def _containers(pod: Object, state: Mapping[str, object], *, ready: bool) -> list[dict[str, object]]:
    return [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": one["image"],
            "containerID": f"simulated://{pod['metadata']['uid']}/{one['name']}",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
            "lastState": {},
        }
        for one in pod["spec"]["containers"]
    ]


def _running(pod: Object, now_s: float) -> dict[str, Any]:
    return {
        "phase": "Running",
        "startTime": at(now_s),
        "conditions": _conditions(pod, now_s, "True"),
        "containerStatuses": _containers(pod, {"running": {"startedAt": at(now_s)}}, ready=True),
    }


def _ended(pod: Object, now_s: float, phase: str, code: int, reason: str, message: str = "") -> dict[str, object]:
    began = (pod.get("status") or {}).get("startTime") or at(now_s)
    ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": at(now_s)}
    if message:
        ended["message"] = message
    return {
        "phase": phase,
        "startTime": began,
        "conditions": _conditions(pod, now_s, "False", "PodCompleted" if phase == "Succeeded" else "PodFailed"),
        "containerStatuses": _containers(pod, {"terminated": ended}, ready=False),
    }


def _finished(pod: Object, ends: StageEnding, now_s: float) -> dict[str, object]:
    return _ended(pod, now_s, ends.phase, ends.code, ends.reason, ends.message)


def _killed(pod: Object, now_s: float) -> dict[str, object]:
    return _ended(pod, now_s, "Failed", 137, "Error")


def _rejected(pod: Object, rejection: Rejection) -> dict[str, object]:
    return rejected(pod, rejection.reason, rejection.message, time.time())


async def run_simulated_nodes(
    connection: Connection, informers: Callable[[Kind], Informer], settings: SimulatedSettings
) -> None:
    """Run simulated nodes (sim-000 …) until cancelled."""
    await SimulatedNodes(connection, informers, settings).run()
