"""KAI's pod grouper: find the gang of a pod from the pod alone.

The annotation `pod-group-name` of a pod names its PodGroup; without it the kind of its owner decides. The owner states
the number of pods of the gang (`owners`). The PodGroup has the name that KAI would give it: `pg-OWNER-UID`.


Source: pkg/podgrouper/podgrouper/plugins of v0.17.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from phalanx.dialects.kai import kinds

_OURS = "phalanx.dev/"
QUEUE, JOB, ROLE = (f"{_OURS}{word}" for word in ("queue", "job", "role"))
MIN_AVAILABLE, PREEMPTIBLE, SUBGROUPS = (f"{_OURS}{word}" for word in ("min-available", "preemptible", "subgroups"))
STALENESS = f"{_OURS}staleness-grace-period"
CLOSENESS, PREFERRED = f"{_OURS}closeness", f"{_OURS}preferred-closeness"
_REPLACES, _FRACTION, _MEMORY, _COUNT = (
    f"{_OURS}{word}" for word in ("replaces-failed", "gpu-fraction", "gpu-memory", "gpu-count")
)

GROUP_NAME: Final = "pod-group-name"
QUEUE_LABEL, SUBGROUP = f"{kinds.PREFIX}queue", f"{kinds.PREFIX}subgroup-name"
PRIORITY_LABEL, PREEMPTIBILITY = "priorityClassName", f"{kinds.PREFIX}preemptibility"
RAY_PRIORITY = "ray.io/priority-class-name"
FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
TOPOLOGY = f"{kinds.PREFIX}topology"
GRACE_PERIOD = f"{kinds.PREFIX}staleness-grace-period"
REQUIRED_LEVEL, PREFERRED_LEVEL = f"{TOPOLOGY}-required-placement", f"{TOPOLOGY}-preferred-placement"
OWNER: Final = f"{kinds.PREFIX}owner"  # an option of a pod: the object by which it is grouped (`OwnerName`)
CONTROLLER: Final = f"{kinds.PREFIX}controller"  # an option of a pod: its controller, in the same form
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
DEFAULT_QUEUE: Final = "default-queue"
DEPLOYMENT: Final = "Deployment"  # as the kind of an owner: a pod of a Deployment, which is a gang by itself
_PROJECT, _NODE_POOL = "project", f"{kinds.PREFIX}node-pool"
_NOTHING: Mapping[str, Any] = {}
_PLACED = (TOPOLOGY, REQUIRED_LEVEL, PREFERRED_LEVEL)
_KEPT = (QUEUE_LABEL, PREEMPTIBILITY, *_PLACED, LWS_SIZE, GROUP_NAME, GRACE_PERIOD)


class OwnerName(NamedTuple):
    """The object by whose kind a pod is grouped; for a pod without an owner the pod itself."""

    api_version: str
    kind: str
    name: str
    uid: str


class KaiGroup(NamedTuple):
    """The gang of a pod. `role`: the pod's role in the gang; empty if the gang has only one role."""

    pod_group: str
    owner: OwnerName
    role: str = ""


def options_of(meta: Mapping[str, Any], scheduler: str) -> Mapping[str, str]:
    """Return the Phalanx options of a pod; empty if it has another scheduler name, or Phalanx's queue label."""
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    if scheduler != kinds.SCHEDULER_NAME or QUEUE in labels:
        return _NOTHING
    group, made_by = grouped(meta), controller(meta)
    by_hand = GROUP_NAME in notes
    found = {
        QUEUE: kinds.tree_queue(f"podgroup:{group.pod_group}" if by_hand else queue_named(labels) or DEFAULT_QUEUE),
        JOB: kinds.gang_name(group.pod_group),
        ROLE: str(labels.get(SUBGROUP) or "") if by_hand else group.role,
        OWNER: "|".join(group.owner),
        CONTROLLER: "|".join(made_by or ()),
        PRIORITY_LABEL: str(labels.get(PRIORITY_LABEL) or labels.get(RAY_PRIORITY) or ""),
        _FRACTION: str(notes.get(FRACTION, "")),
        _MEMORY: f"{notes[MEMORY]}Mi" if MEMORY in notes else "",
        _COUNT: str(notes.get(DEVICES, "")) if FRACTION in notes or MEMORY in notes else "",
        _REPLACES: "true" if group.owner.kind not in ("Pod", DEPLOYMENT) else "",
    }
    found |= {key: str({**notes, **labels}.get(key, "")) for key in _KEPT}
    return {key: text for key, text in found.items() if text}


def queue_named(labels: Mapping[str, Any]) -> str:
    """Return the queue that the labels name; empty if they name none."""
    if found := labels.get(QUEUE_LABEL):
        return str(found)
    project, pool = labels.get(_PROJECT), labels.get(_NODE_POOL)
    return f"{project}-{pool}" if project and pool else str(project or "")


def owner_of(options: Mapping[str, str]) -> OwnerName:
    """Return the owner in a pod's options."""
    return _named(options.get(OWNER, "")) or OwnerName("v1", "Pod", "", "")


def controller_of(options: Mapping[str, str]) -> OwnerName | None:
    """Return the controller in a pod's options; None if it has none."""
    return _named(options.get(CONTROLLER, ""))


def controller(meta: Mapping[str, Any]) -> OwnerName | None:
    """Return the controller among an object's owners, otherwise its first owner; None if it has none."""
    refs = meta.get("ownerReferences") or ()
    first = next((ref for ref in refs if ref.get("controller")), refs[0] if refs else None)
    if first is None:
        return None
    return OwnerName(*(str(first.get(key, "")) for key in ("apiVersion", "kind", "name", "uid")))


def grouped(meta: Mapping[str, Any]) -> KaiGroup:
    """Return the gang of a pod."""
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    own = OwnerName("v1", "Pod", str(meta.get("name", "")), str(meta.get("uid", "")))
    above = controller(meta) or own
    if name := notes.get(GROUP_NAME):
        return KaiGroup(str(name), above)
    if (app := labels.get("spark-app-selector")) and "spark-app-name" in labels:
        return KaiGroup(str(app), own)
    if above.kind == "ReplicaSet" and "pod-template-hash" in labels:  # each pod of a Deployment is a gang by itself
        return KaiGroup(f"pg-{own.name}-{own.uid}", own._replace(kind=DEPLOYMENT))
    return _of_owner(above, labels)


def _named(text: str) -> OwnerName | None:
    parts = text.split("|")
    return OwnerName(*parts) if len(parts) == len(OwnerName._fields) else None


def _of_owner(owner: OwnerName, labels: Mapping[str, Any]) -> KaiGroup:
    """Return the gang of a pod from the labels that its owner's controller has set on the pod."""
    if name := labels.get("leaderworkerset.sigs.k8s.io/name"):
        return KaiGroup(f"pg-{name}-group-{labels.get('leaderworkerset.sigs.k8s.io/group-index', '0')}", owner)
    if name := labels.get("jobset.sigs.k8s.io/jobset-name"):
        job_set = OwnerName(
            kinds.JOB_SETS.api_version, "JobSet", str(name), str(labels.get("jobset.sigs.k8s.io/jobset-uid", ""))
        )
        index = labels.get("jobset.sigs.k8s.io/job-index", "0")
        role = f"{labels.get('jobset.sigs.k8s.io/replicatedjob-name', '')}-replica-{index}"
        return KaiGroup(f"pg-{name}-{job_set.uid}".removesuffix("-"), job_set, role)
    role = str(labels.get("training.kubeflow.org/replica-type") or labels.get("ray.io/group") or "").lower()
    return KaiGroup(f"pg-{owner.name}-{owner.uid}", owner, role)
