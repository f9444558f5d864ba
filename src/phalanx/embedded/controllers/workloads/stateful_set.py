"""The StatefulSet controller. It maintains pods with fixed names, host names and volume claims, and changes them one
after the other.

`step` computes the decision from plain objects. An ordered set creates or deletes one pod at a time, and waits until
the pod is ready or deleted. A set with `podManagementPolicy: Parallel` creates or deletes all its pods at once. Pods of
an older template are replaced one at a time from the highest ordinal down to the partition. Source:
pkg/controller/statefulset.

ControllerRevisions are not supported. So a recreated pod below the partition gets the present template, and `kubectl
rollout undo` finds no older revision. Volume claims are kept when their set is deleted or scaled down; the retention
policy of the set has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import PODS, STATEFUL_SETS, VOLUME_CLAIMS
from phalanx.embedded.controllers.runtime.pod_state import is_deleting, is_ready, is_terminal, owner_reference, uid_of
from phalanx.embedded.controllers.runtime.reconciler import Reconciler

COMPONENT = "statefulset-controller"
REVISION = "controller-revision-hash"
POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class StatefulSetStep:
    """The next step of a StatefulSet: the ordinals of pods to create, and the pods to delete."""

    create: tuple[int, ...] = ()
    delete: tuple[Object, ...] = ()


def step(stateful_set: Object, pods: Iterable[Object]) -> StatefulSetStep:
    """Return the next step. `pods`: the existing pods, including terminating pods."""
    spec = stateful_set["spec"]
    first = int((spec.get("ordinals") or {}).get("start", 0))
    wanted = range(first, first + int(spec.get("replicas", 1)))
    there = {ordinal: pod for pod in pods if (ordinal := ordinal_of(stateful_set, pod)) is not None}
    ended = tuple(pod for pod in there.values() if is_terminal(pod) and not is_deleting(pod))
    if ended:
        return StatefulSetStep(delete=ended)  # ended pods must be deleted first, because the new pods need their names
    missing = tuple(ordinal for ordinal in wanted if ordinal not in there)
    surplus = sorted((ordinal for ordinal in there if ordinal not in wanted), reverse=True)
    if spec.get("podManagementPolicy") == "Parallel":
        goes = tuple(there[ordinal] for ordinal in surplus if not is_deleting(there[ordinal]))
        if missing or goes:
            return StatefulSetStep(create=missing, delete=goes)
    else:
        unsettled = next((one for one in wanted if one not in there or not _is_settled(there[one])), None)
        if unsettled is not None:
            return StatefulSetStep(create=() if unsettled in there else (unsettled,))
        if surplus:
            last = there[surplus[0]]
            return StatefulSetStep() if is_deleting(last) else StatefulSetStep(delete=(last,))
    return _update(stateful_set, [there[ordinal] for ordinal in reversed(wanted)])


def _update(stateful_set: Object, pods: list[Object]) -> StatefulSetStep:
    """Replace the next pod of an older template, if all other pods are ready. `pods`: the pods of the set, the highest
    ordinal first."""
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return StatefulSetStep()
    partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
    for pod in pods:
        ordinal = ordinal_of(stateful_set, pod)
        assert ordinal is not None  # the caller passes only pods with an ordinal
        if is_deleting(pod):
            return StatefulSetStep()
        if ordinal >= partition and pod["metadata"].get("labels", {}).get(REVISION) != revision(stateful_set):
            return StatefulSetStep(delete=(pod,))
        if not is_ready(pod):
            return StatefulSetStep()
    return StatefulSetStep()


def _is_settled(pod: Object) -> bool:
    return is_ready(pod) and not is_deleting(pod)


def ordinal_of(stateful_set: Object, pod: Object) -> int | None:
    """Return the ordinal in a pod's name; None if the name is not that of a pod of this set."""
    head, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if head == stateful_set["metadata"]["name"] and number.isdigit() else None


def revision(stateful_set: Object) -> str:
    """Return the name of the revision that the present template defines."""
    text = json.dumps(stateful_set["spec"]["template"], sort_keys=True).encode()
    return f"{stateful_set['metadata']['name']}-{sha256(text).hexdigest()[:10]}"


class StatefulSetController(Reconciler):
    kind, component = STATEFUL_SETS, COMPONENT

    async def reconcile(self, stateful_set: Object) -> None:
        todo = step(stateful_set, self._pods(stateful_set))
        for ordinal in todo.create:
            await self._create(stateful_set, ordinal)
        for pod in todo.delete:
            await self._calls.remove(PODS, pod, policy=None)
            name = pod["metadata"]["name"]
            text = f"delete Pod {name} in StatefulSet {stateful_set['metadata']['name']} successful"
            self.tell(stateful_set, "Normal", "SuccessfulDelete", text)
        await self.write_status(stateful_set, status_of(stateful_set, self._pods(stateful_set)))

    def _pods(self, stateful_set: Object) -> list[Object]:
        return self._index.owned_by(uid_of(stateful_set))

    async def _create(self, stateful_set: Object, ordinal: int) -> None:
        """Create the claims of the pod, and then the pod. The claims remain for the next pod with this name. Raises
        ApiError."""
        space = stateful_set["metadata"]["namespace"]
        for claim in claims_of(stateful_set, ordinal):
            try:
                await self._calls.create(VOLUME_CLAIMS, claim, space)
            except ApiRefusal as refusal:
                if refusal.code != 409:
                    raise
        pod = pod_of(stateful_set, ordinal)
        what = f"create Pod {pod['metadata']['name']} in StatefulSet {stateful_set['metadata']['name']}"
        try:
            await self._calls.create(PODS, pod, space)
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":  # after AlreadyExists, the pod exists but is not in the cache yet
                text = f"{what} failed error: {refusal}"
                self.tell(stateful_set, "Warning", "FailedCreate", text)
            raise
        self.tell(stateful_set, "Normal", "SuccessfulCreate", f"{what} successful")


def claims_of(stateful_set: Object, ordinal: int) -> list[Object]:
    """Return the volume claims of the pod with this ordinal."""
    name, labels = stateful_set["metadata"]["name"], (stateful_set["spec"]["selector"].get("matchLabels") or {})
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{template['metadata']['name']}-{name}-{ordinal}",
                "labels": {**(template["metadata"].get("labels") or {}), **labels},
                **({"annotations": said} if (said := template["metadata"].get("annotations")) else {}),
            },
            "spec": template["spec"],
        }
        for template in stateful_set["spec"].get("volumeClaimTemplates") or ()
    ]


def pod_of(stateful_set: Object, ordinal: int) -> Object:
    """Return the pod with this ordinal."""
    meta, spec, template = stateful_set["metadata"], stateful_set["spec"], stateful_set["spec"]["template"]
    name, said = f"{meta['name']}-{ordinal}", template.get("metadata") or {}
    marks = {REVISION: revision(stateful_set), POD_NAME: name, POD_INDEX: str(ordinal)}
    claims = [one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or ()]
    volumes = [one for one in template["spec"].get("volumes") or () if one["name"] not in claims]
    volumes += [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {**(said.get("labels") or {}), **marks},
            "annotations": said.get("annotations") or {},
            "ownerReferences": [owner_reference(STATEFUL_SETS, stateful_set)],
        },
        "spec": {
            **template["spec"],
            "hostname": name,
            **({"subdomain": spec["serviceName"]} if spec.get("serviceName") else {}),
            **({"volumes": volumes} if volumes else {}),
        },
    }


def status_of(stateful_set: Object, pods: list[Object]) -> dict[str, object]:
    """Return the status of the set with these pods. `currentRevision` names the older revision until every pod has the
    present template."""
    new, before = revision(stateful_set), stateful_set.get("status") or {}
    live = [pod for pod in pods if not is_terminal(pod)]
    updated = [pod for pod in live if pod["metadata"].get("labels", {}).get(REVISION) == new]
    ready = sum(1 for pod in live if _is_settled(pod))
    done = len(updated) == len(live) == int(stateful_set["spec"].get("replicas", 1)) == ready
    current = new if done else str(before.get("currentRevision") or new)
    of_current = sum(1 for pod in live if pod["metadata"].get("labels", {}).get(REVISION) == current)
    counts = {"readyReplicas": ready, "currentReplicas": of_current, "updatedReplicas": len(updated)}
    return {
        "observedGeneration": stateful_set["metadata"]["generation"],
        "replicas": len(live),
        "availableReplicas": ready,
        "currentRevision": current,
        "updateRevision": new,
        "collisionCount": 0,
        **{name: count for name, count in counts.items() if count},
    }
