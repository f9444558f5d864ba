"""The Deployment controller. It maintains a ReplicaSet for each template of a Deployment, and changes the sizes of the
ReplicaSets step by step. Source: pkg/controller/deployment.

The name of a ReplicaSet ends with a hash of its template, so a template never has two ReplicaSets. The annotation
`deployment.kubernetes.io/revision` numbers the ReplicaSets; `kubectl rollout history` and `undo` read it.

`step` computes the next number of pods of each ReplicaSet from the present sizes of all ReplicaSets, without side
effects.

Source: pkg/controller/deployment (rolling, recreate), and the documentation of maxSurge and maxUnavailable."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import key_of
from phalanx.client.kind import DEPLOYMENTS, REPLICA_SETS
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.pod_state import controller_of, is_deleting, owner_reference, uid_of
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler
from phalanx.embedded.controllers.workloads.replica_set import FAILURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The numbers of pods of one ReplicaSet: the desired, the existing and the available pods."""

    wanted: int
    pods: int
    available: int


def bounds(spec: Mapping[str, Any]) -> tuple[int, int]:
    """Return (maxSurge, maxUnavailable) in pods. At least one of them is greater than zero, because otherwise no pod
    could ever be replaced."""
    rolling, count = (spec.get("strategy") or {}).get("rollingUpdate") or {}, int(spec.get("replicas", 1))
    surge = _pods(rolling.get("maxSurge", "25%"), count, up=True)
    unavailable = _pods(rolling.get("maxUnavailable", "25%"), count, up=False)
    return surge, unavailable if surge or unavailable else 1


def _pods(amount: int | str, count: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    share = int(amount.rstrip("%")) * count / 100
    return math.ceil(share) if up else math.floor(share)


def step(spec: Mapping[str, Any], new: Size, old: Sequence[Size]) -> tuple[int, list[int]]:
    """Return the next number of pods of the newest ReplicaSet, and of each older ReplicaSet, the oldest first."""
    count = int(spec.get("replicas", 1))
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        return (new.wanted if any(one.pods for one in old) else count), [0] * len(old)
    surge, unavailable = bounds(spec)
    room = max(0, count + surge - new.wanted - sum(one.wanted for one in old))
    grown = min(count, new.wanted + room)
    spare = sum(one.wanted for one in (new, *old)) - (count - unavailable) - max(0, new.wanted - new.available)
    left = []
    for one in old:
        fewer = min(one.wanted, max(0, spare))
        left.append(one.wanted - fewer)
        spare -= fewer
    return grown, left


COMPONENT = "deployment-controller"
HASH, REVISION = "pod-template-hash", "deployment.kubernetes.io/revision"
# Annotations of a Deployment that its ReplicaSets do not get.
_OWN_ANNOTATIONS = ("deployment.kubernetes.io/", "kubectl.kubernetes.io/last-applied-configuration")


class DeploymentController(Reconciler):
    kind, component, owns = DEPLOYMENTS, COMPONENT, (REPLICA_SETS,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._sets = self._calls.cache(REPLICA_SETS)

    async def reconcile(self, deployment: Object) -> None:
        own = [one for one in self._sets.objects.values() if _is_of(one, deployment) and not is_deleting(one)]
        own.sort(key=_revision)
        name = _set_name(deployment)
        new = next((one for one in own if one["metadata"]["name"] == name), None)
        old = [one for one in own if one is not new]
        if not deployment["spec"].get("paused"):
            new = await self._newest(deployment, new, old)
            grown, left = step(deployment["spec"], _size(new), [_size(one) for one in old])
            new = await self._scale(new, grown)
            old = [await self._scale(one, count) for one, count in zip(old, left, strict=True)]
            await self._forget(deployment, old)
        await self._tell_status(deployment, new, old)

    async def _newest(self, deployment: Object, new: Object | None, old: list[Object]) -> Object:
        """Return the ReplicaSet of the present template, with the highest revision. Create it if it does not exist."""
        revision = max([0, *map(_revision, old)]) + 1
        if new is None:
            body = _replica_set(deployment, revision)
            try:
                new = await self._calls.create(REPLICA_SETS, body, deployment["metadata"]["namespace"])
            except ApiRefusal as refusal:
                if refusal.code != 409:
                    raise
                new = await self._calls.get(REPLICA_SETS, body["metadata"]["name"], body["metadata"]["namespace"])
        elif _revision(new) < revision:
            new = await self._calls.patch(REPLICA_SETS, new, {"metadata": {"annotations": {REVISION: str(revision)}}})
        shown = (deployment["metadata"].get("annotations") or {}).get(REVISION)
        if shown != str(_revision(new)):
            meta = {"annotations": {REVISION: str(_revision(new))}}
            await self._calls.patch(DEPLOYMENTS, deployment, {"metadata": meta})
        return new

    async def _scale(self, replica_set: Object, count: int) -> Object:
        if replica_set["spec"].get("replicas") == count:
            return replica_set
        return await self._calls.patch(REPLICA_SETS, replica_set, {"spec": {"replicas": count}})

    async def _forget(self, deployment: Object, old: list[Object]) -> None:
        """Delete the oldest ReplicaSets without pods that exceed the limit of the history."""
        empty = [one for one in old if not _size(one).wanted and not _size(one).pods]
        for one in empty[: max(0, len(empty) - int(deployment["spec"].get("revisionHistoryLimit", 10)))]:
            await self._calls.remove(REPLICA_SETS, one)

    async def _tell_status(self, deployment: Object, new: Object | None, old: list[Object]) -> None:
        status = _status(deployment, new, old, write_moment(self._clock()))
        # The revision of the Deployment may have been written since this reconciliation began.
        fresh = self.objects.get(key_of(deployment)) or deployment
        await self.write_status(fresh, status)


def _is_of(replica_set: Object, deployment: Object) -> bool:
    owner = controller_of(replica_set)
    return owner is not None and owner["uid"] == uid_of(deployment)


def _revision(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def _size(replica_set: Object) -> Size:
    status = replica_set.get("status") or {}
    return Size(
        wanted=int(replica_set["spec"].get("replicas", 0)),
        pods=int(status.get("replicas", 0)),
        available=int(status.get("availableReplicas", 0)),
    )


def _hash(deployment: Object) -> str:
    return sha256(json.dumps(deployment["spec"]["template"], sort_keys=True).encode()).hexdigest()[:10]


def _set_name(deployment: Object) -> str:
    return f"{deployment['metadata']['name']}-{_hash(deployment)}"


def _replica_set(deployment: Object, revision: int) -> Object:
    meta, spec, mark = deployment["metadata"], deployment["spec"], {HASH: _hash(deployment)}
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), **mark}
    selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), **mark}}
    said = meta.get("annotations") or {}
    kept = {key: text for key, text in said.items() if not key.startswith(_OWN_ANNOTATIONS)}
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.name,
        "metadata": {
            "name": _set_name(deployment),
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {**kept, REVISION: str(revision)},
            "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
        },
        "spec": {
            "replicas": 0,
            "selector": selector,
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def _status(deployment: Object, new: Object | None, old: list[Object], now: str) -> dict[str, object]:
    spec, sets = deployment["spec"], [*old, *([new] if new is not None else ())]
    total, available = sum(_size(one).pods for one in sets), sum(_size(one).available for one in sets)
    ready = sum(int((one.get("status") or {}).get("readyReplicas", 0)) for one in sets)
    updated, wanted = _size(new).pods if new is not None else 0, int(spec.get("replicas", 1))
    counts = {"replicas": total, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": available}
    counts["unavailableReplicas"] = max(0, max(total, wanted) - available)
    is_there = available >= wanted - bounds(spec)[1]
    is_done = updated == total == available == wanted
    shown = new["metadata"]["name"] if new is not None else ""
    before = {one["type"]: one for one in (deployment.get("status") or {}).get("conditions") or ()}
    lacking = "Deployment has minimum availability." if is_there else "Deployment does not have minimum availability."
    moving = (
        f'ReplicaSet "{shown}" has successfully progressed.' if is_done else f'ReplicaSet "{shown}" is progressing.'
    )
    return {
        "observedGeneration": deployment["metadata"]["generation"],
        **{name: count for name, count in counts.items() if count},
        "conditions": [
            _condition(
                before,
                "Available",
                is_there,
                "MinimumReplicas" + ("A" if is_there else "Una") + "vailable",
                lacking,
                now,
            ),
            _condition(
                before, "Progressing", True, "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated", moving, now
            ),
            *_failures(new),
        ],
    }


def _failures(new: Object | None) -> list[dict[str, object]]:
    """Return the conditions of the newest ReplicaSet that explain why its pods cannot be created."""
    conditions = ((new or {}).get("status") or {}).get("conditions") or ()
    return [one | {"lastUpdateTime": one["lastTransitionTime"]} for one in conditions if one["type"] == FAILURE]


def _condition(
    before: dict[str, Any], kind: str, holds: bool, reason: str, message: str, now: str
) -> dict[str, object]:
    said = {"type": kind, "status": str(holds), "reason": reason, "message": message}
    known = before.get(kind) or {}
    if all(known.get(key) == value for key, value in said.items()):
        return dict(known)
    since = known.get("lastTransitionTime") if known.get("status") == said["status"] else None
    return {**said, "lastUpdateTime": now, "lastTransitionTime": since or now}
