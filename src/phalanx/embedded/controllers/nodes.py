"""Taint nodes that stop reporting, and evict pods that do not tolerate a taint of their node. `NodeHealth` sets the
Ready condition of a node that stopped reporting to Unknown. It also adds and removes the taints for the conditions of a
node.

A node renews its Lease in kube-node-lease. A node is lost if its Lease has not changed for the grace period
(k8s.io/kubernetes/pkg/controller/nodelifecycle). The controller measures this time with its own clock, because the
clocks of nodes may differ. A node without a Lease is not changed. Admission adds the taint not-ready:NoSchedule to new
nodes; the controller removes it when the node is Ready.

`TaintEviction` deletes the pods on nodes with NoExecute taints. Pods that tolerate the taint for a limited time are
deleted after that time.

A lost node gets the taint unreachable:NoExecute. Admission gives each pod a toleration for this taint for five minutes.
After that, the controller deletes the pod. The pod stays *terminating* until the node comes back and confirms the end
of the pod, or until the node is removed and `pod_gc` marks the pod as failed. No controller removes such a pod with a
grace period of 0, because the pod may still run (k8s.io/kubernetes/pkg/controller/tainteviction)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import STRATEGIC_PATCH, ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import LEASES, NODES, PODS
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.calls import Calls, Clock, gone
from phalanx.embedded.controllers.runtime.pod_state import condition, is_active, is_ready, seconds
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue
from phalanx.embedded.controllers.runtime.recorder import EventRecorder

LEASE_NAMESPACE = "kube-node-lease"
GRACE_S = 50.0  # the default of kube-controller-manager's --node-monitor-grace-period since Kubernetes 1.32
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
    """The controller of the Ready conditions and the taints of nodes. Call `start`, then run `queue` and `watch`."""

    def __init__(
        self,
        calls: Calls,
        recorder: EventRecorder,
        *,
        grace_s: float = GRACE_S,
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
        """Check regularly for overdue Leases, until cancelled."""
        while True:
            await asyncio.sleep(self._period_s)
            for name, node in list(self._nodes.objects.items()):
                if self.is_lost(name) and _status_of(node, "Ready") != "Unknown":
                    self.queue.add(name)

    def is_lost(self, name: str) -> bool:
        """Return True if the Lease of the node is overdue."""
        sighting = self._sightings.get(name)
        return sighting is not None and self._clock() - sighting.seen_s > self._grace_s

    # --- internal -------------------------------------------------------------------------------------------------

    def _node_changed(self, change: Change) -> None:
        if change.new is None:
            # This is a new node with the name of a deleted node, so earlier renewals do not count.
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
            return  # a lost node stays lost if its Lease is deleted
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
    """Return the conditions of a lost node that must change: every condition whose status is not Unknown yet, with the
    status Unknown."""
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
    """Return the taints that the node must have: all taints that other clients have set, and the taints for the node's
    conditions. A node that never reported the condition Ready keeps the taints from admission."""
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


Taint = Mapping[str, Any]


class TaintEviction:
    """The controller that deletes pods from tainted nodes. Call `start`, then run `queue`."""

    def __init__(
        self, calls: Calls, recorder: EventRecorder, *, retry: Retry | None = None, clock: Clock = time.time
    ) -> None:
        self._calls, self._recorder, self._clock = calls, recorder, clock
        self._pods, self._nodes = calls.cache(PODS), calls.cache(NODES)
        self._tainted: dict[str, list[Taint]] = {}
        self.queue = WorkQueue("eviction", self._look, workers=8, retry=retry)

    def start(self) -> None:
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    def _node_changed(self, change: Change) -> None:
        node = change.new or change.old
        assert node is not None
        name = node["metadata"]["name"]
        taints = [one for one in node["spec"].get("taints") or () if one["effect"] == "NoExecute"] if change.new else []
        if taints == self._tainted.get(name, []):
            return
        if not taints:
            del self._tainted[name]
            return
        self._tainted[name] = taints
        for key, pod in self._pods.objects.items():
            if pod["spec"].get("nodeName") == name:
                self.queue.add(key)

    def _pod_changed(self, change: Change) -> None:
        if self._tainted and change.new is not None and change.new["spec"].get("nodeName") in self._tainted:
            self.queue.add(key_of(change.new))

    async def _look(self, key: str) -> None:
        pod = self._pods.objects.get(key)
        taints = self._tainted.get(pod["spec"].get("nodeName", "")) if pod is not None else None
        if pod is None or not taints or not is_active(pod):
            return
        now_s = self._clock()
        wait_s = stay_s(pod["spec"].get("tolerations") or (), taints, now_s)
        if wait_s is not None and wait_s > 0:
            self.queue.add_after(key, wait_s)
        try:
            if wait_s is not None and wait_s <= 0:
                await self._evict(pod, write_moment(now_s))
            elif is_ready(pod) and any(one["key"].startswith("node.kubernetes.io/") for one in taints):
                await self._write(pod, {"type": "Ready", "status": "False", "lastTransitionTime": write_moment(now_s)})
        except ApiRefusal as refusal:
            if not gone(refusal):
                raise

    async def _evict(self, pod: Object, now: str) -> None:
        meta = pod["metadata"]
        message = f"Marking for deletion Pod {meta['namespace']}/{meta['name']}"
        self._recorder.tell("taint-eviction-controller", pod, "Normal", "TaintManagerEviction", message)
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": now,
        }
        await self._write(pod, target)
        await self._calls.delete(PODS, pod)

    async def _write(self, pod: Object, condition: dict[str, str]) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
        await self._calls.patch(PODS, pod, body, subresource="status", content_type=STRATEGIC_PATCH)


def stay_s(tolerations: Sequence[Mapping[str, Any]], taints: Sequence[Taint], now_s: float) -> float | None:
    """Return the seconds for which a pod may stay on the tainted node; None: without limit; 0: not at all. The
    toleration with the shortest time applies. The time counts from the addition of the oldest of the taints."""
    ends: list[float] = []
    for taint in taints:
        matching = [one for one in tolerations if _tolerates(one, taint)]
        if not matching:
            return 0.0
        limits = [float(one["tolerationSeconds"]) for one in matching if one.get("tolerationSeconds") is not None]
        if limits:
            since_s = seconds(taint["timeAdded"]) if taint.get("timeAdded") else now_s
            ends.append(since_s + min(limits))
    return max(0.0, min(ends) - now_s) if ends else None


def _tolerates(toleration: Mapping[str, object], taint: Taint) -> bool:
    """Return True if the toleration matches the taint. A toleration without an effect matches all effects, and a
    toleration without a key matches all keys (Toleration.ToleratesTaint of k8s.io/api/core/v1)."""
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("key") not in {None, "", taint["key"]}:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
