"""Mark nodes that stopped reporting: set their Ready condition to Unknown, and add taints. Also the taints of all other
conditions.

A node renews its Lease in kube-node-lease. When the Lease was not seen to change for a while (by our own clock:
clocks of nodes may differ), the node is lost (k8s.io/kubernetes/pkg/controller/nodelifecycle). A node without a Lease
is left unchanged. New nodes get not-ready:NoSchedule from admission; it goes when the node is Ready.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import STRATEGIC_PATCH, ApiRefusal, Object
from phalanx.client.informer import Change
from phalanx.client.kind import LEASES, NODES
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.calls import Calls, Clock
from phalanx.embedded.controllers.runtime.pod_state import condition
from phalanx.embedded.controllers.runtime.recorder import EventRecorder
from phalanx.embedded.controllers.runtime.work_queue import Retry, WorkQueue

LEASE_NAMESPACE = "kube-node-lease"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_HEALTH = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = {NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_PRESSURE.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The last observed renewal of a Lease, and the time of the observation."""

    renewed: str
    seen_s: float


class NodeHealth:
    """Call `start`, then run `queue` and `watch`."""

    def __init__(
        self,
        calls: Calls,
        recorder: EventRecorder,
        *,
        grace_s: float = 40.0,
        period_s: float = 5.0,
        retry: Retry | None = None,
        clock: Clock = time.time,
    ) -> None:
        self._calls, self._recorder, self._clock = calls, recorder, clock
        self._grace_s, self._period_s = grace_s, period_s
        self._nodes, self._leases = calls.cache(NODES), calls.cache(LEASES)
        self._sightings: dict[str, Sighting] = {}
        self.queue = WorkQueue("node", self._look, workers=8, retry=retry)

    def start(self) -> None:
        self._nodes.subscribe(self._node_changed)
        self._leases.subscribe(self._lease_changed)

    async def watch(self) -> None:
        """Look for Leases that are overdue, until cancelled."""
        while True:
            await asyncio.sleep(self._period_s)
            for name, node in list(self._nodes.objects.items()):
                if self.is_lost(name) and _status_of(node, "Ready") != "Unknown":
                    self.queue.add(name)

    def is_lost(self, name: str) -> bool:
        """Return whether its Lease is overdue."""
        sighting = self._sightings.get(name)
        return sighting is not None and self._clock() - sighting.seen_s > self._grace_s

    # --- inside ---------------------------------------------------------------------------------------------------

    def _node_changed(self, change: Change) -> None:
        if change.new is None:
            # A later node of that name is another node: only its own renewals count.
            self._sightings.pop((change.old or {})["metadata"]["name"], None)
        elif taints_of(change.new) != _taints(change.new):
            self.queue.add(change.new["metadata"]["name"])

    def _lease_changed(self, change: Change) -> None:
        lease = change.new or change.old
        assert lease is not None
        if lease["metadata"]["namespace"] != LEASE_NAMESPACE:
            return
        name, renewed = lease["metadata"]["name"], lease.get("spec", {}).get("renewTime", "")
        known = self._sightings.get(name)
        if change.new is None:
            return  # a lost node may lose its Lease too: it stays lost
        if known is None or known.renewed != renewed:
            self._sightings[name] = Sighting(renewed=renewed, seen_s=self._clock())

    async def _look(self, name: str) -> None:
        node = self._nodes.objects.get(name)
        if node is None:
            self._sightings.pop(name, None)
            return
        try:
            if self.is_lost(name) and (entries := unknown_conditions(node, write_moment(self._clock()))):
                body = {"status": {"conditions": entries}}
                node = await self._calls.patch(NODES, node, body, subresource="status", content_type=STRATEGIC_PATCH)
                message = f"Node {name} status is now: NodeNotReady"
                self._recorder.tell("node-controller", node, "Normal", "NodeNotReady", message)
            await self._write_taints(node)
        except ApiRefusal as refusal:
            if refusal.code == 409:
                await self._calls.get(NODES, name)
                self.queue.add_after(name, 0.05)
            elif refusal.code != 404:
                raise

    async def _write_taints(self, node: Object) -> None:
        wanted = taints_of(node)
        if wanted == _taints(node):
            return
        now = write_moment(self._clock())
        dated = [
            {**taint, "timeAdded": now} if taint["effect"] == "NoExecute" and "timeAdded" not in taint else taint
            for taint in wanted
        ]
        version = node["metadata"]["resourceVersion"]
        await self._calls.patch(
            NODES, node, {"metadata": {"resourceVersion": version}, "spec": {"taints": dated or None}}
        )


def unknown_conditions(node: Object, now: str) -> list[dict[str, Any]]:
    """Return the conditions of a lost node that are not yet Unknown, in the form that they must get."""
    changed = []
    for kind in _HEALTH:
        entry = condition(node, kind)
        if entry is not None and entry.get("status") == "Unknown":
            continue
        never = entry is None
        changed.append(
            {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                "message": "Kubelet never posted node status." if never else "Kubelet stopped posting node status.",
                "lastHeartbeatTime": (entry or {}).get("lastHeartbeatTime") or node["metadata"]["creationTimestamp"],
                "lastTransitionTime": now,
            }
        )
    return changed


def taints_of(node: Object) -> list[dict[str, Any]]:
    """Return the taints that the node must have: the taints of other writers unchanged, and this controller's taints by
    the node's conditions.

    A node that never reported Ready keeps the taints of admission."""
    present, ready = _taints(node), _status_of(node, "Ready")
    wanted: list[tuple[str, str]] = []
    if ready is None:
        wanted += [(one["key"], one["effect"]) for one in present if one["key"] in {NOT_READY, UNREACHABLE}]
    elif ready != "True":
        key = NOT_READY if ready == "False" else UNREACHABLE
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    if node["spec"].get("unschedulable"):
        wanted.append((_UNSCHEDULABLE, "NoSchedule"))
    wanted += [(key, "NoSchedule") for kind, key in _PRESSURE.items() if _status_of(node, kind) == "True"]
    kept = [one for one in present if one["key"] not in _OURS or (one["key"], one["effect"]) in wanted]
    known = {(one["key"], one["effect"]) for one in kept}
    return kept + [{"key": key, "effect": effect} for key, effect in wanted if (key, effect) not in known]


def _taints(node: Object) -> list[dict[str, Any]]:
    return list(node.get("spec", {}).get("taints") or ())


def _status_of(node: Object, kind: str) -> str | None:
    entry = condition(node, kind)
    return None if entry is None else str(entry.get("status"))
