"""Create PodGroups for pods that name Volcano's scheduler but no PodGroup: one PodGroup for each owner of pods, or for
each pod without an owner.

When such a pod is created, the API server writes the name of its group into it (`apiserver.admission.volcano`), so the
scheduler never sees a pod without its group. The annotation `scheduling.volcano.sh/group-min-member` of the owner sets
the number of pods that start together; without it, each pod starts alone. The owner is a ReplicaSet (which has the
annotations of its Deployment), a StatefulSet or a DaemonSet.

Source: pkg/controllers/podgroup of Volcano v1.15.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import PODS, Kind
from phalanx.embedded.controllers.operators.volcano import kinds
from phalanx.embedded.controllers.operators.volcano.pods import least_of
from phalanx.embedded.controllers.runtime.calls import gone
from phalanx.embedded.controllers.runtime.pod_state import controller_of, is_terminal, owner_reference
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

_OF_PODS: Final = "podgroup-"  # the prefix of the names that the API server gives to these groups
_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
_QUEUE: Final = "scheduling.volcano.sh/queue-name"
_TOPOLOGY_MODE: Final = f"{kinds.PREFIX}network-topology-mode"
_TOPOLOGY_TIER: Final = f"{kinds.PREFIX}network-topology-highest-tier"
_OWNERS: Final = {
    kind: Kind(group="apps", plural=plural, name=kind)
    for kind, plural in (("ReplicaSet", "replicasets"), ("StatefulSet", "statefulsets"), ("DaemonSet", "daemonsets"))
}


class PodGroupController(Reconciler):
    kind, component, owns, reads = PODS, kinds.COMPONENT, (), (kinds.POD_GROUPS,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._groups = self._calls.cache(kinds.POD_GROUPS)

    async def reconcile(self, pod: Object) -> None:
        meta = pod["metadata"]
        name = str((meta.get("annotations") or {}).get(kinds.GROUP_NAME) or "")
        if not name.startswith(_OF_PODS) or is_terminal(pod) or f"{meta['namespace']}/{name}" in self._groups.objects:
            return
        of = controller_of(pod)
        owner = None if of is None else await self._owner(of, meta["namespace"])
        if of is not None and owner is None:
            return  # the garbage collector deletes the pod as well
        group = make_group(name, pod, owner)
        if owner is not None and (why := never_complete(owner, group["spec"]["minMember"])):
            for about in (owner, pod):
                self._recorder.tell(kinds.COMPONENT, about, "Warning", "GangNeverComplete", why)
        try:
            await self._calls.create(kinds.POD_GROUPS, group, meta["namespace"])
        except ApiRefusal as refusal:
            if refusal.reason == "AlreadyExists":
                return
            text = f"PodGroup {name}: {refusal}"
            self.tell(pod, "Warning", "FailedCreate", text)
            raise

    async def _owner(self, of: Mapping[str, Any], namespace: str) -> Object | None:
        kind = _OWNERS.get(of["kind"])
        try:
            return None if kind is None else await self._calls.get(kind, of["name"], namespace)
        except ApiRefusal as refusal:
            if gone(refusal):
                return None
            raise


def never_complete(owner: Object, minimum: int) -> str:
    """If the owner can never have `minimum` pods at the same time, return a message with the reason and a solution;
    otherwise return ""."""
    spec, kind = owner.get("spec") or {}, owner["kind"]
    replicas = int(spec.get("replicas", 1))
    if kind != "DaemonSet" and minimum > replicas:
        return (
            f"no pod can start: {_MIN_MEMBER} requires {minimum} pods to start together, but there are {replicas} "
            f"replicas; set at least {minimum} replicas, or lower the annotation in a new {kind}"
        )
    if kind == "StatefulSet" and minimum > 1 and spec.get("podManagementPolicy") != "Parallel":
        return (
            f"no pod can start: {_MIN_MEMBER} requires {minimum} pods to start together, but with "
            "podManagementPolicy: OrderedReady the second pod is created when the first is ready; make the StatefulSet "
            "anew with podManagementPolicy: Parallel, or without the annotation"
        )
    return ""


def make_group(name: str, pod: Object, owner: Object | None) -> Object:
    """Return the PodGroup of a pod and of all other pods of the same owner. `owner`: None if the pod has no owner."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    said = {**((owner or {}).get("metadata", {}).get("annotations") or {}), **(meta.get("annotations") or {})}
    text = str(said.get(_MIN_MEMBER) or "")
    minimum = max(1, int(text)) if text.isdecimal() else 1
    found: dict[str, Any] = {
        "minMember": minimum,
        "queue": said.get(_QUEUE) or "default",
        "minResources": least_of(spec, minimum),
    }
    if spec.get("priorityClassName"):
        found["priorityClassName"] = spec["priorityClassName"]
    if tier := str(said.get(_TOPOLOGY_TIER) or ""):
        mode = said.get(_TOPOLOGY_MODE) or "hard"
        found["networkTopology"] = {"mode": mode} | ({"highestTierAllowed": int(tier)} if tier.isdecimal() else {})
    kept = {key: value for key, value in said.items() if key.startswith(kinds.PREFIX)}
    whose = owner_reference(PODS, pod) if owner is None else owner_reference(_OWNERS[owner["kind"]], owner)
    return {
        "apiVersion": kinds.POD_GROUPS.api_version,
        "kind": kinds.POD_GROUPS.name,
        "metadata": {"name": name, "namespace": meta["namespace"], "annotations": kept, "ownerReferences": [whose]},
        "spec": found,
    }
