"""Pods leave nodes with NoExecute taints, those that tolerate the taint for a while after that while.

A lost node is tainted unreachable:NoExecute by `node_health`; admission gives every pod a toleration of five minutes
for it. Then the pod is deleted: it stays *terminating* until its node comes back and confirms, or the node is removed
and `pod_gc` fails it. Nobody deletes such a pod by force, because it may still run
(k8s.io/kubernetes/pkg/controller/tainteviction).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.client.connection import STRATEGIC_PATCH, ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import NODES, PODS
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.calls import Calls, Clock, gone
from phalanx.embedded.controllers.runtime.pod_state import is_active, is_ready
from phalanx.embedded.controllers.runtime.recorder import EventRecorder
from phalanx.embedded.controllers.runtime.timestamp import seconds
from phalanx.embedded.controllers.runtime.work_queue import Retry, WorkQueue

Taint = Mapping[str, Any]


class TaintEviction:
    """Call `start`, then run `queue`."""

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
    toleration with the shortest time decides; its time starts at the oldest taint that it tolerates."""
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


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Return True if the toleration matches the taint. Without an effect or a key it matches any
    (Toleration.ToleratesTaint of k8s.io/api/core/v1)."""
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("key") not in {None, "", taint["key"]}:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
