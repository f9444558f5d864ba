"""Play all scenarios of a batch on a control plane at the same time, and take a picture after each step.

The player acts as the kubelet of the simulated nodes. Bound pods become Running, `finish` ends pods, and deleted pods
disappear. On a control plane without a scheduler the player binds the pods as well. Kueue decides by quota alone, and
the nodes have capacity for all pods.

A picture has the contents of a recording. It lists the pods of each job by pool of nodes, the refused objects, and the
status of the observed kinds without times, ids and free text. The player takes the picture after two conditions. No
object has changed for a while. And a probe, a small Job in a queue of its own, has started and ended in this time.
Without the probe, a busy machine that makes no progress would look settled.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import MERGE_PATCH, STRATEGIC_PATCH, Connection
from phalanx.client.kind import JOBS, LEASES, NAMESPACES, NODES, PODS, Kind
from phalanx.dialects.kueue import kinds as kueue
from tests.dialects.kueue.beside.generator import Object, Scenario
from tests.dialects.kueue.beside.probe import NODE, Calls, Probe

KINDS = {
    kind.name: kind
    for kind in (JOBS, NAMESPACES, kueue.RESOURCE_FLAVORS, kueue.COHORTS, kueue.CLUSTER_QUEUES, kueue.LOCAL_QUEUES)
} | {"WorkloadPriorityClass": kueue.PRIORITY_CLASSES}
_OBSERVED: tuple[Kind, ...] = (kueue.WORKLOADS, kueue.CLUSTER_QUEUES, kueue.LOCAL_QUEUES)
_DROP = re.compile(
    r"(time|timestamp|uid|resourceversion|generation|message|at|since|clock|lastprobe|transitionid|duration)$", re.I
)
_LEASE_S = 10.0
_STILL = 5  # a scenario is settled after this multiple of the quiet time, although others of its batch still change


@dataclass(slots=True)
class Picture:
    """The observations after one step. `decisions`: job -> its pods by pool, and the number of pods that succeeded.
    `settled`: False if objects kept changing, or the probe did not end."""

    decisions: dict[str, Object] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    settled: bool = True


class Player:
    """`binds`: whether the player binds pods. `quiet_s`: the time without a change that must pass before a picture is
    taken."""

    def __init__(self, connection: Connection, *, binds: bool, quiet_s: float = 2.0, most_s: float = 60.0) -> None:
        self._api, self._binds, self._quiet_s, self._most_s = connection, binds, quiet_s, most_s
        self._calls = Calls(connection)
        self._probe = Probe(self._calls)
        self._ended: set[str] = set()
        self._nodes: dict[str, Object] = {}
        self._applied: list[tuple[Kind, Object]] = []

    async def play(self, batch: Sequence[Scenario]) -> dict[str, list[Picture]]:
        """Return the pictures of each scenario, by its name."""
        taken: dict[str, list[Picture]] = {one.name: [] for one in batch}
        await self._make_nodes([node for one in batch for node in one.nodes] + [NODE])
        await self._probe.prepare()
        kubelet = asyncio.ensure_future(self._kubelet())
        try:
            for at in range(max(len(one.steps) for one in batch)):
                having = [one for one in batch if at < len(one.steps)]
                refused = await asyncio.gather(*(self._step(one, one.steps[at]) for one in having))
                pictures = await self._settled([one.name for one in having])
                for one, said in zip(having, refused, strict=True):
                    pictures[one.name].refused = said
                    taken[one.name].append(pictures[one.name])
        finally:
            await self._clear()
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)
        return taken

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def _make_nodes(self, nodes: Iterable[Object]) -> None:
        for one in nodes:
            amounts = {name: str(one[name]) for name in ("cpu", "memory", "pods")}
            amounts |= {name: str(amount) for name, amount in one["resources"].items()}
            labels = {"kubernetes.io/hostname": one["name"], "pool": one["pool"], **one["labels"]}
            conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
            status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
            node = {"metadata": {"name": one["name"], "labels": labels}, "spec": {}, "status": status}
            await self._api.request("POST", NODES.path(), body={"apiVersion": "v1", "kind": "Node", **node})
            for path, patch in (("status", {"status": status}), ("", {"spec": {"taints": None}})):
                path = NODES.path("", one["name"], path)
                await self._api.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
            self._nodes[one["name"]] = node

    async def _kubelet(self) -> None:
        beat_s = 0.0
        while True:
            if time.monotonic() - beat_s > _LEASE_S:
                beat_s = time.monotonic()
                await asyncio.gather(*(self._beat(name) for name in self._nodes))
            await asyncio.gather(*(self._pod(pod) for pod in await self._calls.list(PODS)))
            await asyncio.sleep(0.25)

    async def _beat(self, node: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now}
        path = LEASES.path("kube-node-lease", node)
        if await self._calls.tried("PATCH", path, {"spec": spec}, MERGE_PATCH) == 404:
            lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": node}, "spec": spec}
            await self._calls.tried("POST", LEASES.path("kube-node-lease"), lease)

    async def _pod(self, pod: Object) -> None:
        meta, spec, phase = pod["metadata"], pod["spec"], pod.get("status", {}).get("phase")
        path = PODS.path(meta["namespace"], meta["name"])
        bound = spec.get("nodeName")
        if meta.get("deletionTimestamp") and (not bound or phase in ("Succeeded", "Failed")):
            await self._calls.tried("DELETE", path, {"gracePeriodSeconds": 0})
        elif not bound and self._binds and not spec.get("schedulingGates") and phase != "Failed":
            await self._bind(pod)
        elif not bound or phase in ("Succeeded", "Failed"):
            return
        elif self._has_ended(pod) or meta.get("deletionTimestamp"):
            await self._calls.tried("PATCH", f"{path}/status", _ended(spec, well=self._has_ended(pod)), STRATEGIC_PATCH)
        elif phase != "Running":
            await self._calls.tried("PATCH", f"{path}/status", _running(spec), STRATEGIC_PATCH)

    async def _bind(self, pod: Object) -> None:
        wanted = (pod["spec"].get("nodeSelector") or {}).items()
        fits = [name for name, node in self._nodes.items() if wanted <= node["metadata"]["labels"].items()]
        if wanted and fits:
            meta = pod["metadata"]
            target = {"apiVersion": "v1", "kind": "Node", "name": fits[0]}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
            await self._calls.tried("POST", PODS.path(meta["namespace"], meta["name"], "binding"), body)

    def _has_ended(self, pod: Object) -> bool:
        meta = pod["metadata"]
        index = (meta.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index")
        return _owner(pod) in self._ended or f"{_owner(pod)}:{index}" in self._ended or meta["name"] in self._ended

    # --- steps ----------------------------------------------------------------------------------------------------

    async def _step(self, of: Scenario, step: Object) -> list[str]:
        """Apply a step. Return the objects that the API server refused, each with the code of the refusal."""
        refused: list[str] = []
        for obj in step.get("apply", ()):
            kind = KINDS[obj["kind"]]
            meta = obj["metadata"]
            code = await self._calls.tried("POST", kind.path(meta.get("namespace", "")), obj)
            if code >= 400:
                refused.append(f"{kind.name} {meta['name']} {code}")
            self._applied.append((kind, obj))
            await asyncio.sleep(step.get("pause", 0))
        self._ended.update(step.get("finish", ()))
        for said in step.get("delete", ()):
            await self._calls.tried("DELETE", _path_of(said, of.name), {"propagationPolicy": "Background"})
        if patch := step.get("patch"):
            code = await self._calls.tried("PATCH", _path_of(patch["object"], of.name), patch["patch"], MERGE_PATCH)
            if code >= 400:
                refused.append(f"{patch['object']} {code}")
        return refused

    async def _settled(self, names: Sequence[str]) -> dict[str, Picture]:
        begin_s = last_s = time.monotonic()
        before: dict[str, str] = {}
        changed_s: dict[str, float] = {}
        probed = False
        while True:
            now = await self._pictures(names)
            seen = {name: json.dumps([one.decisions, one.answers], sort_keys=True) for name, one in now.items()}
            late = time.monotonic() - begin_s > self._most_s
            if seen != before:
                last_s, probed = time.monotonic(), False
                changed_s |= {name: last_s for name in seen if seen[name] != before.get(name)}
                before = seen
            elif probed:
                return now
            elif time.monotonic() - last_s >= self._quiet_s:
                probed = await self._probe.answered(self._most_s)
            if late:
                for name, one in now.items():
                    one.settled = time.monotonic() - changed_s[name] > _STILL * self._quiet_s
                return now
            await asyncio.sleep(0.3)

    async def _pictures(self, names: Sequence[str]) -> dict[str, Picture]:
        found = {name: Picture() for name in names}
        units: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for pod in await self._calls.list(PODS):
            node, phase = pod["spec"].get("nodeName"), pod.get("status", {}).get("phase")
            if node in self._nodes and phase in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]:
                units[pod["metadata"]["namespace"], _owner(pod)][self._nodes[node]["metadata"]["labels"]["pool"]] += 1
        for job in await self._calls.list(JOBS):
            key = job["metadata"]["namespace"], job["metadata"]["name"]
            succeeded = job.get("status", {}).get("succeeded", 0)
            if key[0] in found and (units.get(key) or succeeded):
                bound = dict(sorted(units[key].items()))
                found[key[0]].decisions[key[1]] = {"bound": bound, "succeeded": succeeded}
        for kind in _OBSERVED:
            for obj in await self._calls.list(kind):
                name = obj["metadata"].get("namespace") or obj["metadata"]["name"].partition("-")[0]
                if name in found:
                    owners = obj["metadata"].get("ownerReferences") or []
                    title = f"{kind.name} {owners[0]['name'] if owners else obj['metadata']['name']}"
                    found[name].answers[title] = sorted(_leaves(obj.get("status") or {}))
        return found

    async def _clear(self) -> None:
        for kind, obj in sorted(self._applied, key=lambda pair: pair[0] is not JOBS):
            path = kind.path(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if kind is not NAMESPACES:
                await self._calls.tried("DELETE", path, {"propagationPolicy": "Background"})
        for _ in range(60):
            if not await self._calls.list(PODS) and not await self._calls.list(kueue.WORKLOADS):
                break
            await asyncio.sleep(0.5)
        for node in self._nodes:
            await self._calls.tried("DELETE", NODES.path("", node))
        self._applied, self._nodes, self._ended = [], {}, set()


def _path_of(said: str, namespace: str) -> str:
    kind, name = said.split(" ", 1)
    return KINDS[kind].path(namespace, name)


def _owner(pod: Object) -> str:
    owners: Iterable[Object] = pod["metadata"].get("ownerReferences") or ()
    return str(next((one["name"] for one in owners if one.get("controller")), pod["metadata"]["name"]))


def _running(spec: Object) -> Object:
    started = {"running": {"startedAt": _now()}}
    conditions = [{"type": one, "status": "True"} for one in ("Initialized", "Ready", "ContainersReady")]
    containers = _containers(spec, started, ready=True, started=True)
    phase = {"phase": "Running", "startTime": _now(), "podIP": "10.0.0.1"}
    return {"status": {**phase, "conditions": conditions, "containerStatuses": containers}}


def _ended(spec: Object, *, well: bool) -> Object:
    code = {"exitCode": 0, "reason": "Completed"} if well else {"exitCode": 1, "reason": "Error"}
    ended = {"terminated": {**code, "startedAt": _now(), "finishedAt": _now()}}
    conditions = [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]
    containers = _containers(spec, ended, ready=False)
    phase = "Succeeded" if well else "Failed"
    return {"status": {"phase": phase, "conditions": conditions, "containerStatuses": containers}}


def _containers(spec: Object, state: Object, **more: bool) -> list[Object]:
    same = {"image": "x", "imageID": "x", "restartCount": 0, "state": state, **more}
    return [{"name": each["name"], **same} for each in spec["containers"]]


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not _DROP.search(key):
                yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            names = [inner[key] for key in ("type", "name", "resource") if isinstance(inner, dict) and key in inner]
            yield from _leaves(inner, f"{path}[{names[0] if names else at}]")
    elif value not in (None, "", 0, False):
        yield f"{path}={value}"
