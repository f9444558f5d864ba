"""Write the Node object, and report by heartbeats and a Lease that this node is alive.

As in the kubelet, the Lease in kube-node-lease is small and renewed often. The status is written when it changes, and
every few minutes. A deleted Node is registered again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import STRATEGIC_PATCH, ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import LEASES, NODES
from phalanx.embedded.node.pod.status import at

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
_RETRY_S = 1.0
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The registration of one node. `conditions`: additional conditions as (type, status, reason, message).
    `pressures`: the present pressure conditions, such as DiskPressure; each of them is added and removed by the module
    that measures it."""

    name: str
    labels: Mapping[str, str]
    resources: Mapping[str, str]
    info: Mapping[str, str]
    address: str = ""
    port: int = 0
    conditions: tuple[tuple[str, str, str, str], ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    pressures: AbstractSet[str] = frozenset()

    def node(self, now_s: float) -> Object:
        meta: dict[str, Any] = {"name": self.name, "labels": dict(self.labels)}
        if self.annotations:
            meta["annotations"] = dict(self.annotations)
        return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": self.status({}, now_s)}

    def _now(self, entry: tuple[str, str, str, str]) -> tuple[str, str, str, str]:
        kind = entry[0]
        if kind not in self.pressures:
            return entry
        words = kind.removesuffix("Pressure").lower()
        return kind, "True", f"KubeletHas{kind}", f"kubelet has {words} pressure"

    def status(self, old: Mapping[str, Any], now_s: float) -> dict[str, Any]:
        """Return the status of the node. `old`: the earlier status; the transition time of a condition changes only if
        the condition's status has changed."""
        since = {(one["type"], one["status"]): one["lastTransitionTime"] for one in old.get("conditions") or ()}
        status: dict[str, Any] = {
            "capacity": dict(self.resources),
            "allocatable": dict(self.resources),
            "conditions": [
                {
                    "type": kind,
                    "status": value,
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": at(now_s),
                    "lastTransitionTime": since.get((kind, value)) or at(now_s),
                }
                for kind, value, reason, message in (*map(self._now, _CONDITIONS), *self.conditions)
            ],
            "nodeInfo": dict(self.info),
        }
        if self.address:
            status["addresses"] = [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name},
            ]
        if self.port:
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.port}}
        return status


async def tell_pressure(connection: Connection, registration: Registration, old: Object) -> Object:
    """Write the present conditions of the node if they differ from those in `old`. Return the resulting Node. Raises
    ApiError."""
    status = registration.status(old.get("status") or {}, time.time())
    known = {(one["type"], one["status"]) for one in (old.get("status") or {}).get("conditions") or ()}
    changed = [one for one in status["conditions"] if (one["type"], one["status"]) not in known]
    if not changed:
        return old
    body = {"status": {"conditions": changed}}
    return await connection.patch(NODES, registration.name, body, subresource="status", content_type=STRATEGIC_PATCH)


async def register(connection: Connection, registration: Registration) -> Object:
    """Create the Node, or update it if it exists. Labels that other clients wrote stay. Raises ApiError."""
    try:
        old = await connection.get(NODES, registration.name)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        old = await connection.create(NODES, registration.node(time.time()))
    ours = {"labels": dict(registration.labels), "annotations": dict(registration.annotations)}
    said = {part: old["metadata"].get(part) or {} for part in ours}
    if any(said[part].get(key) != value for part, words in ours.items() for key, value in words.items()):
        await connection.patch(NODES, registration.name, {"metadata": ours})
    body = {"status": registration.status(old.get("status") or {}, time.time())}
    return await connection.patch(NODES, registration.name, body, subresource="status", content_type=STRATEGIC_PATCH)


async def keep_registered(
    connection: Connection, registration: Registration, nodes: Informer, heartbeat_s: float
) -> None:
    """Write heartbeats of the node until cancelled. If the Node is deleted, create it again at once."""
    deleted = asyncio.Event()

    def take(change: Change) -> None:
        if change.new is None and change.old is not None and change.old["metadata"]["name"] == registration.name:
            deleted.set()

    nodes.subscribe(take)
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(heartbeat_s):
                await deleted.wait()
        if deleted.is_set():
            log.warning("node %s was deleted; it is registered again", registration.name)
        deleted.clear()
        if not await _quietly(register(connection, registration)):
            await asyncio.sleep(_RETRY_S)


async def keep_lease(connection: Connection, name: str, node_uid: str, renew_s: float, duration_s: int) -> None:
    """Renew the Lease of the node until cancelled."""
    while True:
        kept = await _quietly(renew_lease(connection, name, node_uid, duration_s))
        await asyncio.sleep(renew_s if kept else min(_RETRY_S, renew_s))


async def renew_lease(connection: Connection, name: str, node_uid: str, duration_s: int) -> None:
    """Renew the Lease of the node by one PATCH. Create the Lease if it does not exist. Raises ApiError."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": name, "leaseDurationSeconds": duration_s, "renewTime": now}
    try:
        await connection.patch(LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
        meta = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": meta, "spec": spec}
        await connection.create(LEASES, body, LEASE_NAMESPACE)


async def _quietly(call: Any) -> bool:
    try:
        await call
    except ApiError as error:
        log.info("%s", error)
        return False
    return True
