"""The controllers of ReplicaSets and of ReplicationControllers, which differ only in the kind. They keep the number of
pods that the spec requires. Source: pkg/controller/replicaset, pkg/controller/replication.

Pods without an owner are not adopted. While the API server refuses new pods, the set has the condition ReplicaFailure
with the message of the API server. The Deployment of the set gets this condition as well.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Kind
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.job.pods import slow_start
from phalanx.embedded.controllers.runtime.pod_state import (
    deletion_cost,
    is_active,
    is_ready,
    owner_reference,
    removal_rank,
    uid_of,
)
from phalanx.embedded.controllers.runtime.reconciler import Reconciler

FAILURE = "ReplicaFailure"


class ReplicaSetController(Reconciler):
    kind, component = REPLICA_SETS, "replicaset-controller"

    async def reconcile(self, replica_set: Object) -> None:
        pods = [pod for pod in self._index.owned_by(uid_of(replica_set)) if is_active(pod)]
        surplus = len(pods) - int(replica_set["spec"].get("replicas", 1))
        try:
            if surplus < 0:
                await self._create(replica_set, -surplus)
            elif surplus > 0:
                await self._delete(replica_set, going_first(pods)[:surplus])
        except ApiRefusal as refusal:
            await self._tell_status(replica_set, "FailedCreate" if surplus < 0 else "FailedDelete", str(refusal))
            raise
        await self._tell_status(replica_set)

    async def _create(self, replica_set: Object, count: int) -> None:
        """Create `count` pods in growing batches, so that a server that refuses all pods gets only one request. Raises
        ApiError."""
        pod = _pod(self.kind, replica_set)
        for batch in slow_start([None] * count):
            try:
                made = await asyncio.gather(*(self._calls.create(PODS, pod, _space(pod)) for _ in batch))
            except ApiRefusal as refusal:
                self.tell(replica_set, "Warning", "FailedCreate", f"Error creating: {refusal}")
                raise
            for one in made:
                text = f"Created pod: {one['metadata']['name']}"
                self.tell(replica_set, "Normal", "SuccessfulCreate", text)

    async def _delete(self, replica_set: Object, pods: list[Object]) -> None:
        for pod in pods:
            await self._calls.remove(PODS, pod, policy=None)
            text = f"Deleted pod: {pod['metadata']['name']}"
            self.tell(replica_set, "Normal", "SuccessfulDelete", text)

    async def _tell_status(self, replica_set: Object, failed: str = "", why: str = "") -> None:
        """Write the status of the ReplicaSet. `failed`: the action that failed; "" if none failed. `why`: the reason
        for the failure."""
        pods = [pod for pod in self._index.owned_by(uid_of(replica_set)) if is_active(pod)]
        ready = sum(map(is_ready, pods))
        counts = {"replicas": len(pods), "fullyLabeledReplicas": len(pods), "readyReplicas": ready}
        status: dict[str, Any] = {"replicas": 0} | {name: count for name, count in counts.items() if count}
        if ready:
            status["availableReplicas"] = ready
        status["observedGeneration"] = replica_set["metadata"]["generation"]
        if conditions := _conditions(replica_set, failed, why, write_moment(self._clock())):
            status["conditions"] = conditions
        await self.write_status(replica_set, status)


class ReplicationControllerController(ReplicaSetController):
    kind, component = REPLICATION_CONTROLLERS, "replication-controller"


def _conditions(replica_set: Object, failed: str, why: str, now: str) -> list[dict[str, object]]:
    """Return the conditions of the set. The condition ReplicaFailure stays unchanged until all pods can be created and
    deleted again."""
    before = (replica_set.get("status") or {}).get("conditions") or []
    others = [one for one in before if one["type"] != FAILURE]
    if not failed:
        return others
    told = next((one for one in before if one["type"] == FAILURE), None)
    words = {"type": FAILURE, "status": "True", "reason": failed, "message": why, "lastTransitionTime": now}
    return [*others, told or words]


def _space(obj: Object) -> str:
    return str(obj["metadata"]["namespace"])


def going_first(pods: list[Object]) -> list[Object]:
    """Return the active pods in the order in which a ReplicaSet deletes them when it is scaled down."""
    on_node = Counter(pod["spec"].get("nodeName") for pod in pods)
    return sorted(pods, key=lambda pod: removal_rank(pod, deletion_cost(pod), on_node[pod["spec"].get("nodeName")]))


def _pod(kind: Kind, replica_set: Object) -> Object:
    meta, template = replica_set["metadata"], replica_set["spec"]["template"]
    said = template.get("metadata") or {}
    kept = {key: said[key] for key in ("labels", "annotations", "finalizers") if said.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{meta['name'][:57]}-",
            "namespace": meta["namespace"],
            "ownerReferences": [owner_reference(kind, replica_set)],
            **kept,
        },
        "spec": template["spec"],
    }
