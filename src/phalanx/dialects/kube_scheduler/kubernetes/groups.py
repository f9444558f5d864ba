"""Find the gang of a pod by its PodGroup, and write the conditions of the PodGroup.

A pod names its PodGroup in `spec.schedulingGroup`. In Kubernetes 1.35, `spec.workloadRef` names a Workload and a group
of this Workload instead. Pods with different values of `podGroupReplicaKey` form different gangs. A group with the
policy `gang` starts when `minCount` of its pods exist and fit together. Further pods of the group start one by one, as
soon as each fits. All pods of a group with the policy `basic` also start one by one.

The conditions are those of kube-scheduler: `PodGroupScheduled` (1.37: `PodGroupInitiallyScheduled`), which never
changes back from True, and `DisruptionTarget` on a preempted group. A Workload of 1.35 has no status.

Sources: KEP-4671, KEP-5832, KEP-5710; pkg/scheduler/framework/plugins/gangscheduling of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Answer, Claim, GangStage, GangView, GroupClaim, Object, Objects, Said
from phalanx.dialects.kube_scheduler.kubernetes import kinds
from phalanx.model.reason import Reason, ReasonCode

_OURS: Final = "phalanx.dev/"
_JOB, _CLOSENESS, _REPLACES = (f"{_OURS}{word}" for word in ("job", "closeness", "replaces-failed"))
_MARK: Final = f"{kinds.GROUP}:"  # a prefix that cannot occur in the name of a Job or a pod
OBJECT: Final = f"{kinds.GROUP}/group"  # the option of a pod that names its PodGroup (`options_of`)
# The option of a pod in 1.35 that names its Workload, and the group in it.
OF_WORKLOAD: Final = f"{kinds.GROUP}/workload"
_SCHEDULERS: Final = frozenset({"phalanx", "default-scheduler"})  # other pods belong to other schedulers
# Reasons for which the scheduler has not tried to start a gang.
_UNSPOKEN: Final = frozenset({ReasonCode.WAITING_FOR_MEMBERS, ReasonCode.BEHIND_HEAD})
_SCHEDULED, _TARGET = "Scheduled", "DisruptionTarget"


def options_of(meta: Mapping[str, Any], scheduler: str) -> Mapping[str, str]:
    """Return the group reference of a pod, translated to Phalanx's options; empty if the pod has no group reference.
    `meta`: the metadata of the pod, with the references to groups under the key `group`."""
    named = meta.get("group")
    if not named or scheduler not in _SCHEDULERS:
        return {}
    # A controller such as a Job replaces a failed pod, so the capacity of that pod stays reserved.
    made = any(owner.get("controller") for owner in meta.get("ownerReferences") or ())
    kept = {_REPLACES: "true"} if made else {}
    if group := (named.get("schedulingGroup") or {}).get("podGroupName"):
        return {_JOB: _MARK + str(group), OBJECT: str(group), **kept}
    reference = named.get("workloadRef") or {}
    parts = [str(reference.get(key) or "") for key in ("name", "podGroup", "podGroupReplicaKey")]
    if not parts[0]:
        return {}
    return {_JOB: _MARK + ":".join(parts), OF_WORKLOAD: "/".join(parts[:2]), **kept}


def claim(said: Said, objects: Objects, workloads: Mapping[str, Object]) -> Claim | None:
    """Return the settings of a gang from its PodGroup; None if the gang has no PodGroup. `workloads`: the Workloads of
    Kubernetes 1.35."""
    if (name := said.options.get(OBJECT)) is not None:
        _, found = _object(objects, f"{said.namespace}/{name}")
        return _claim(said, found and found.get("spec"), f"PodGroup {name}")
    if (of := said.options.get(OF_WORKLOAD)) is None:
        return None
    workload, _, name = of.partition("/")
    groups = ((workloads.get(f"{said.namespace}/{workload}") or {}).get("spec") or {}).get("podGroups") or ()
    group = next((one for one in groups if one.get("name") == name), None)
    return _claim(said, group and {"schedulingPolicy": group.get("policy")}, f"group {name} of the Workload {workload}")


def _claim(said: Said, spec: Mapping[str, Any] | None, what: str) -> Claim:
    if spec is None:
        text = f"the {what}, which its pods name, does not exist yet: create it"
        return Claim(queue=said.queue, blocked=Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text))
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    places = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    level = next((str(one.get("key") or one.get("level") or "") for one in places), "")
    return Claim(
        queue=said.queue,
        priority=spec.get("priority"),
        options={_CLOSENESS: level} if level else {},
        group=GroupClaim(minimum=max(1, int(gang.get("minCount") or 1)) if gang is not None else 1),
    )


def gang_of(group: Object) -> str:
    """Return the id of the gang that a PodGroup's pods form."""
    meta = group["metadata"]
    return f"{meta.get('namespace')}/{_MARK}{meta.get('name')}"


def answer(told: GangView, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the conditions of a gang's PodGroup."""
    key = f"{told.namespace}/{told.options.get(OBJECT, '')}"
    kind, group = _object(objects, key)
    if kind is None or group is None:
        return
    conditions = {str(one["type"]): one for one in (group.get("status") or {}).get("conditions") or ()}
    told_now = dict(_conditions(told, kinds.SCHEDULED[kind], conditions))
    generation = int(group["metadata"].get("generation") or 0)
    for name, (truth, reason, message) in told_now.items():
        old = conditions.get(name, {})
        said = "True" if truth else "False"
        since = old.get("lastTransitionTime") if old.get("status") == said else now
        found = {"type": name, "status": said, "reason": reason, "message": message[:32768]}
        conditions[name] = {**found, "lastTransitionTime": since, "observedGeneration": generation}
    if told_now:
        status = {**(group.get("status") or {}), "conditions": list(conditions.values())}
        yield Answer(kind=kind, key=key, status=status)


def _conditions(
    told: GangView, scheduled: str, before: Mapping[str, Object]
) -> Iterator[tuple[str, tuple[bool, str, str]]]:
    """Yield the type of each condition to write, and its status, reason and message. `scheduled`: the type of the
    condition that reports that the group was scheduled. `before`: the present conditions by type."""
    if told.evicted is not None and told.evicted.preempted:
        yield _TARGET, (True, "PreemptionByScheduler", told.evicted.reason.text)
    if before.get(scheduled, {}).get("status") == "True":
        return
    if told.stage is GangStage.RUNNING:
        yield scheduled, (True, _SCHEDULED, "the minimum of its pods has been bound")
    elif told.stage is GangStage.WAITING and told.reason is not None and told.reason.code not in _UNSPOKEN:
        yield scheduled, (False, "Unschedulable", told.reason.text)


def _object(objects: Objects, key: str) -> tuple[Kind | None, Object | None]:
    """Return (kind, object) of the PodGroup with this key; None for both if it does not exist."""
    for kind in kinds.POD_GROUPS:
        if (found := objects.get(kind, {}).get(key)) is not None:
            return kind, found
    return None, None
