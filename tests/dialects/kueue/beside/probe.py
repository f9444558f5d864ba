"""A probe of a control plane: a small Job in a queue of its own, which starts and goes at once where nobody is late."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection
from phalanx.client.kind import JOBS, NAMESPACES, PODS, Kind
from phalanx.dialects.kueue import kinds as kueue

Object = dict[str, Any]

NODE: Object = {
    "name": "probe",
    "pool": "probe",
    "labels": {"flavor": "probe"},
    "cpu": 500,
    "memory": "5000Gi",
    "pods": 500,
    "resources": {},
}
_NAME = {"name": "probe"}
_QUOTA = {"name": "probe", "resources": [{"name": "cpu", "nominalQuota": 500}]}
_GROUPS = [{"coveredResources": ["cpu"], "flavors": [_QUOTA]}]
_OBJECTS: tuple[tuple[Kind, Object], ...] = (
    (NAMESPACES, {"metadata": _NAME}),
    (kueue.RESOURCE_FLAVORS, {"metadata": _NAME, "spec": {"nodeLabels": {"flavor": "probe"}}}),
    (kueue.CLUSTER_QUEUES, {"metadata": _NAME, "spec": {"namespaceSelector": {}, "resourceGroups": _GROUPS}}),
    (kueue.LOCAL_QUEUES, {"metadata": {**_NAME, "namespace": "probe"}, "spec": {"clusterQueue": "probe"}}),
)


class Calls:
    """Calls that are tried again where nobody answers."""

    def __init__(self, connection: Connection) -> None:
        self._api = connection

    async def list(self, kind: Kind, namespace: str = "") -> list[Object]:
        try:
            items: list[Object] = (await self._api.request("GET", kind.path(namespace))).get("items") or []
        except (ApiRefusal, ApiUnknown):
            return []
        return items

    async def tried(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> int:
        """Return the code; 0 if nobody answered."""
        for pause_s in (0.3, 1.0, 3.0, 10.0, 0.0):
            try:
                await self._api.request(method, path, body=body, content_type=content_type)
            except ApiRefusal as error:
                return error.code
            except ApiUnknown:
                await asyncio.sleep(pause_s)
            else:
                return 200
        return 0


class Probe:
    def __init__(self, calls: Calls) -> None:
        self._calls, self._number = calls, 0

    async def prepare(self) -> None:
        for kind, body in _OBJECTS:
            path = kind.path(body["metadata"].get("namespace", ""))
            await self._calls.tried("POST", path, {"apiVersion": kind.api_version, "kind": kind.name, **body})

    async def answered(self, most_s: float) -> bool:
        """Tell whether a Job ran, and its Workload went with it, within this time."""
        self._number += 1
        name, until_s = f"probe-{self._number}", time.monotonic() + most_s
        await self._calls.tried("POST", JOBS.path("probe"), _job(name))
        ran = await self._becomes(until_s, running=True)
        await self._calls.tried("DELETE", JOBS.path("probe", name), {"propagationPolicy": "Background"})
        return await self._becomes(until_s, running=False) and ran

    async def _becomes(self, until_s: float, *, running: bool) -> bool:
        while time.monotonic() < until_s:
            pods = await self._calls.list(PODS, "probe")
            if running and any(pod.get("status", {}).get("phase") == "Running" for pod in pods):
                return True
            if not running and not pods and not await self._calls.list(kueue.WORKLOADS, "probe"):
                return True
            await asyncio.sleep(0.2)
        return False


def _job(name: str) -> Object:
    container = {"name": "m", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "namespace": "probe", "labels": {"kueue.x-k8s.io/queue-name": "probe"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    head = {"apiVersion": JOBS.api_version, "kind": JOBS.name, "metadata": meta}
    return {**head, "spec": {"parallelism": 1, "completions": 1, "suspend": True, "template": template}}
