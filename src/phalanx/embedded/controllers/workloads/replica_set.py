"""The ReplicaSet controller: as many pods as the set says, no more and no less. Source: pkg/controller/replicaset.

Pods that nobody owns are not adopted.
"""

from __future__ import annotations

import asyncio
from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import PODS, REPLICA_SETS
from phalanx.embedded.controllers.job.pods import slow_start
from phalanx.embedded.controllers.runtime.calls import Calls, gone
from phalanx.embedded.controllers.runtime.pod_index import PodIndex
from phalanx.embedded.controllers.runtime.pod_state import (
    controller_of,
    is_active,
    is_deleting,
    is_ready,
    owner_reference,
    phase,
    uid_of,
)
from phalanx.embedded.controllers.runtime.recorder import Recorder
from phalanx.embedded.controllers.runtime.work_queue import Retry, WorkQueue

COMPONENT = "replicaset-controller"


class ReplicaSetController:
    """`start`, then run `queue`."""

    def __init__(self, calls: Calls, index: PodIndex, recorder: Recorder, *, retry: Retry | None = None) -> None:
        self._calls, self._index, self._recorder = calls, index, recorder
        self._sets, self._pods = calls.cache(REPLICA_SETS), calls.cache(PODS)
        self.queue = WorkQueue("replica set", self._look, workers=4, retry=retry)

    def start(self) -> None:
        self._sets.subscribe(self._changed)
        self._pods.subscribe(self._pod_changed)

    def _changed(self, change: Change) -> None:
        if change.new is not None:
            self.queue.add(key_of(change.new))

    def _pod_changed(self, change: Change) -> None:
        pod = change.new or change.old
        assert pod is not None
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == REPLICA_SETS.name:
            self.queue.add(f"{pod['metadata']['namespace']}/{owner['name']}")

    async def _look(self, key: str) -> None:
        replica_set = self._sets.objects.get(key)
        if replica_set is None or is_deleting(replica_set):
            return
        pods = [pod for pod in self._index.owned_by(uid_of(replica_set)) if is_active(pod)]
        surplus = len(pods) - int(replica_set["spec"].get("replicas", 1))
        if surplus < 0:
            await self._create(replica_set, -surplus)
        elif surplus > 0:
            await self._delete(replica_set, sorted(pods, key=_worth)[:surplus])
        await self._tell_status(key, replica_set)

    async def _create(self, replica_set: Object, count: int) -> None:
        """In growing batches, so that who refuses all is asked once. Raises ApiError."""
        pod = _pod(replica_set)
        for batch in slow_start([None] * count):
            made = await asyncio.gather(*(self._calls.create(PODS, pod, _space(pod)) for _ in batch))
            for one in made:
                text = f"Created pod: {one['metadata']['name']}"
                self._recorder.tell(COMPONENT, replica_set, "Normal", "SuccessfulCreate", text)

    async def _delete(self, replica_set: Object, pods: list[Object]) -> None:
        for pod in pods:
            try:
                await self._calls.delete(PODS, pod)
            except ApiRefusal as refusal:
                if not gone(refusal):
                    raise
            text = f"Deleted pod: {pod['metadata']['name']}"
            self._recorder.tell(COMPONENT, replica_set, "Normal", "SuccessfulDelete", text)

    async def _tell_status(self, key: str, replica_set: Object) -> None:
        pods = [pod for pod in self._index.owned_by(uid_of(replica_set)) if is_active(pod)]
        ready = sum(map(is_ready, pods))
        counts = {"replicas": len(pods), "fullyLabeledReplicas": len(pods), "readyReplicas": ready}
        status: dict[str, Any] = {"replicas": 0} | {name: count for name, count in counts.items() if count}
        if ready:
            status["availableReplicas"] = ready
        status["observedGeneration"] = replica_set["metadata"]["generation"]
        if status == replica_set.get("status"):
            return
        try:
            await self._calls.replace(REPLICA_SETS, {**replica_set, "status": status}, "status")
        except ApiRefusal as refusal:
            if refusal.code not in (404, 409):
                raise
            self.queue.add_after(key, 0.1)


def _space(obj: Object) -> str:
    return str(obj["metadata"]["namespace"])


def _worth(pod: Object) -> tuple[bool, bool, bool, str]:
    """What goes first comes first: not bound, not running, not ready, younger."""
    born = str(pod["metadata"]["creationTimestamp"])
    younger_first = "".join(chr(0x7F - ord(sign)) for sign in born)
    return "nodeName" in pod["spec"], phase(pod) == "Running", is_ready(pod), younger_first


def _pod(replica_set: Object) -> Object:
    meta, template = replica_set["metadata"], replica_set["spec"]["template"]
    said = template.get("metadata") or {}
    kept = {key: said[key] for key in ("labels", "annotations", "finalizers") if said.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{meta['name'][:57]}-",
            "namespace": meta["namespace"],
            "ownerReferences": [owner_reference(REPLICA_SETS, replica_set)],
            **kept,
        },
        "spec": template["spec"],
    }
