"""Training jobs of Kubeflow (`kubeflow.org/v1`: PyTorchJob and its like), seen as one batch/v1 Job per replica type.

A training job is a gang whose roles are its replica types. Everything that is known of Jobs, how they are resumed,
taken back, preempted and counted, then holds for it: `view` shows a replica type of it in the form of a Job, and
`change` says in its own words what was written for that form. The two are inverse: what is written is read back.

It waits while `runPolicy.suspend` is true, which its operator honours, and is named by its queue label. `TABLE` says of
every field what it becomes, or why nothing.

Sources: the API reference of kubeflow.org/v1 (training-operator, v1.9), and how its operator names and labels pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.dialects.peer_reasons import Ignored
from phalanx.dialects.volcano import Becomes, Use

Object = dict[str, Any]
NAME = "kubeflow"
GROUP_VERSION = "kubeflow.org/v1"
SPECS: Mapping[str, str] = {  # kind -> where its replica types are
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
_FIRST = ("Master", "Chief", "PS", "Worker", "Evaluator")  # roles are told in this order
_TYPE = "training.kubeflow.org/replica-type"
_MANAGER = "kubeflow.org/training-operator"
_OURS = "phalanx.dev/"
_BY_ROLE = (f"{_OURS}parallelism", f"{_OURS}template")  # annotations that each replica type has for itself
TABLE: Mapping[str, Use] = {
    "runPolicy.suspend": Becomes("queued", "true and a queue label: it waits; Phalanx sets it to false"),
    "runPolicy.activeDeadlineSeconds": Becomes("Job.limit_s"),
    "runPolicy.managedBy": Becomes("left alone", "where it names another than kubeflow.org/training-operator"),
    "runPolicy.schedulingPolicy.minAvailable": Becomes("Role.minimum", "of the replica types in turn, Master first"),
    "runPolicy.schedulingPolicy.queue": Becomes("Job.queue", "where no label phalanx.dev/queue names one"),
    "runPolicy.schedulingPolicy.priorityClass": Becomes("Job.priority", "where a template names none"),
    "runPolicy.schedulingPolicy.minResources": Ignored("its pods' templates say what they need"),
    "runPolicy.schedulingPolicy.scheduleTimeoutSeconds": Ignored("write phalanx.dev/deadline"),
    "runPolicy.backoffLimit": Ignored("its operator's"),
    "runPolicy.cleanPodPolicy": Ignored("its operator's"),
    "runPolicy.ttlSecondsAfterFinished": Ignored("its operator's"),
    "elasticPolicy": Becomes("Job.size", "elastic where it is given; else fixed at the start"),
    "nprocPerNode": Ignored("its operator's"),
    "*ReplicaSpecs": Becomes("Job.roles", "one for each replica type"),
    "*ReplicaSpecs.*.replicas": Becomes("Role.count"),
    "*ReplicaSpecs.*.template": Becomes("Role.shape"),
    "*ReplicaSpecs.*.restartPolicy": Ignored("its operator's"),
}


def roles(kind: str, obj: Object) -> list[str]:
    """Its replica types that have pods, leaders first."""
    specs = (obj.get("spec") or {}).get(SPECS[kind]) or {}
    order = {name: place for place, name in enumerate(_FIRST)}
    return sorted((name for name in specs if _count(specs[name])), key=lambda name: (order.get(name, len(order)), name))


def pod_role(labels: Mapping[str, str] | None) -> str:
    """The replica type that a pod says it is of, as `view` names it."""
    return str((labels or {}).get(_TYPE, "")).lower()


def view(kind: str, obj: Object, role: str) -> Object:
    """That replica type as a Job, whose uid is `UID/role`."""
    spec, policy = obj["spec"][SPECS[kind]][role], obj["spec"].get("runPolicy") or {}
    manager = policy.get("managedBy")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _meta(kind, obj, role),
        "spec": {
            "suspend": bool(policy.get("suspend")),
            "parallelism": _count(spec),
            "completions": _count(spec),
            "activeDeadlineSeconds": policy.get("activeDeadlineSeconds"),
            "managedBy": None if manager == _MANAGER else manager,
            "template": _template(spec, _scheduling(obj), role),
        },
        "status": _status(obj.get("status") or {}, role),
    }


def change(kind: str, role: str, spec: Object, words: Mapping[str, str | None]) -> tuple[Object, dict[str, str | None]]:
    """A merge patch of its spec, and its annotations, that come to this change of the Job that `view` shows."""
    policy = {name: spec[name] for name in ("suspend", "activeDeadlineSeconds") if name in spec}
    replica = {"template": spec["template"]} if "template" in spec else {}
    if "parallelism" in spec:
        replica["replicas"] = spec["parallelism"]
    found: Object = {"runPolicy": policy} if policy else {}
    if replica:
        found[SPECS[kind]] = {role: replica}
    return found, {f"{key}.{role.lower()}" if key in _BY_ROLE else key: text for key, text in words.items()}


# --- inside -----------------------------------------------------------------------------------------------------------


def _count(spec: Object) -> int:
    found = spec.get("replicas")
    return 1 if found is None else int(found)


def _scheduling(obj: Object) -> Object:
    found: Object = (obj["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}
    return found


def _meta(kind: str, obj: Object, role: str) -> Object:
    """With the words that the form of a Job has no field for."""
    meta, labels = obj["metadata"], dict(obj["metadata"].get("labels") or {})
    annotations = _of_role(meta.get("annotations") or {}, role)
    said = {**annotations, **labels}
    words = {f"{_OURS}job-roles": str(len(roles(kind, obj))), f"{_OURS}role": role.lower()}
    words |= {f"{_OURS}size": "elastic" if obj["spec"].get("elasticPolicy") is not None else "fixed-at-start"}
    if (least := _least(kind, obj, role)) is not None:
        words[f"{_OURS}min-available"] = str(least)
    if queue := _scheduling(obj).get("queue"):
        labels = {f"{_OURS}queue": str(queue)} | labels
    words = {key: text for key, text in words.items() if key not in said}
    uid = f"{meta['uid']}/{role.lower()}"
    return {**meta, "uid": uid, "labels": labels, "annotations": {**annotations, **words}}


def _of_role(annotations: Mapping[str, str], role: str) -> dict[str, str]:
    """What is said of this replica type counts as said of the Job."""
    found = dict(annotations)
    for key in _BY_ROLE:
        if (text := found.pop(f"{key}.{role.lower()}", None)) is not None:
            found[key] = text
    return found


def _least(kind: str, obj: Object, role: str) -> int | None:
    """The role's part of `minAvailable`: the first roles are whole, one pod of each is the least. None: all of it."""
    left = _scheduling(obj).get("minAvailable")
    if left is None:
        return None
    for name in roles(kind, obj):
        size = _count(obj["spec"][SPECS[kind]][name])
        own = max(1, min(size, int(left)))
        if name == role:
            return own if own < size else None
        left = int(left) - own
    return None


def _template(spec: Object, scheduling: Object, role: str) -> Object:
    template = spec.get("template") or {}
    meta, pod = template.get("metadata") or {}, template.get("spec") or {}
    if scheduling.get("priorityClass") and not pod.get("priorityClassName"):
        pod = {**pod, "priorityClassName": scheduling["priorityClass"]}
    return {"metadata": {**meta, "labels": {**(meta.get("labels") or {}), _TYPE: role.lower()}}, "spec": pod}


def _status(status: Object, role: str) -> Object:
    """Its conditions, in a Job's words, and how many of this type have succeeded."""
    ended = {"Succeeded": "Complete", "Failed": "Failed"}
    conditions = [{**one, "type": ended[one["type"]]} for one in status.get("conditions") or () if one["type"] in ended]
    succeeded = ((status.get("replicaStatuses") or {}).get(role) or {}).get("succeeded") or 0
    return {"conditions": conditions, "succeeded": succeeded}
