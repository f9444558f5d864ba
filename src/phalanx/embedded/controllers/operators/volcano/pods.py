"""Build the pods and the PodGroup of a Job like Volcano's controller.

Pod i of a task is `<job>-<task>-<i>`. Annotations and labels of the pod name its job and its task. The annotation
`scheduling.k8s.io/group-name` names its PodGroup, `<job>-<uid>`. Source: pkg/controllers/job/job_controller_util.go and
job_controller_actions.go of Volcano v1.15.1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.quantity import QuantityError, parse
from phalanx.embedded.controllers.operators.volcano import kinds
from phalanx.embedded.controllers.operators.volcano.job_spec import JobSpec, VolcanoTask
from phalanx.embedded.controllers.operators.volcano.plugins import apply_plugins, pod_name
from phalanx.embedded.controllers.runtime.pod_state import owner_reference

_TO_PODS = ("preemptable", "cooldown-time", "revocable-zone")
_TO_LABELS = ("preemptable", "cooldown-time")
# if the job has several of these annotations, the first one applies
_DISRUPTION = ("jdb-min-available", "jdb-max-unavailable")


def group_name(job: JobSpec) -> str:
    """Return the name of the job's PodGroup."""
    return f"{job.name}-{job.uid}"


def make_pod(owner: Object, job: JobSpec, task: VolcanoTask, index: int, claims: Sequence[str] = ()) -> Object:
    """Return the pod `index` of a task. `claims`: the name of the volume claim for each of the job's volumes, in their
    order. Raises JobFault."""
    template = copy.deepcopy(dict(task.template))
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    status = owner.get("status") or {}
    name = pod_name(job.name, task.name, index)
    own = {
        kinds.TASK_INDEX: str(index),
        kinds.TASK_SPEC: task.name,
        kinds.JOB_NAME: job.name,
        kinds.QUEUE_NAME: job.queue,
    }
    more = {
        kinds.GROUP_NAME: group_name(job),
        kinds.JOB_VERSION: str(status.get("version", 0)),
        kinds.TEMPLATE_UID: f"{job.name}-{task.name}",
        kinds.JOB_RETRY_COUNT: str(status.get("retryCount", 0)),
    }
    if task.topology_policy:
        more[kinds.NUMA_POLICY] = task.topology_policy
    labels = {**(meta.get("labels") or {}), **own, kinds.JOB_NAMESPACE: job.namespace, **_labels(owner)}
    if task.partition:
        labels[kinds.PARTITION_ID] = str(index // task.partition)
    spec.setdefault("schedulerName", job.scheduler)
    if job.priority_class and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.priority_class
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": labels,
            "annotations": {**(meta.get("annotations") or {}), **own, **more, **_annotations(owner)},
            "ownerReferences": [owner_reference(kinds.JOBS, owner)],
        },
        "spec": spec,
    }
    _mount_volumes(job, spec, claims)
    apply_plugins(job, task, index, pod)
    return pod


def _mount_volumes(job: JobSpec, spec: Object, claims: Sequence[str]) -> None:
    """Mount the volumes in every container. If two volumes name the same claim, the pod has one volume for both."""
    for volume, claim in zip(job.volumes, claims, strict=False):
        name = f"{job.name}-{claim}"[:63] if volume.get("volumeClaimName") else claim[:63]
        listed = spec.get("volumes") or []
        if not any(one["name"] == name for one in listed):
            spec["volumes"] = [*listed, {"name": name, "persistentVolumeClaim": {"claimName": claim}}]
        for container in spec["containers"]:
            mount = {"name": name, "mountPath": volume["mountPath"]}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _annotations(owner: Object) -> dict[str, str]:
    said = owner["metadata"].get("annotations") or {}
    found = {f"{kinds.PREFIX}{word}": said.get(f"{kinds.PREFIX}{word}") for word in _TO_PODS}
    first = next((word for word in _DISRUPTION if f"{kinds.PREFIX}{word}" in said), None)
    if first is not None:
        found[f"{kinds.PREFIX}{first}"] = said[f"{kinds.PREFIX}{first}"]
    return {key: text for key, text in found.items() if text is not None}


def _labels(owner: Object) -> dict[str, str]:
    said = owner["metadata"].get("labels") or {}
    keys = [f"{kinds.PREFIX}{word}" for word in _TO_LABELS]
    return {key: said[key] for key in keys if key in said}


# --- the PodGroup -----------------------------------------------------------------------------------------------------


def make_group(owner: Object, job: JobSpec, priorities: Mapping[str, int]) -> Object:
    """Return the PodGroup. `priorities`: the value of each PriorityClass."""
    meta = owner["metadata"]
    spec: dict[str, Any] = {
        "minMember": job.minimum,
        "minTaskMember": {task.name: task.minimum for task in job.tasks},
        "queue": job.queue,
        "minResources": least_resources(job, priorities),
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.topology is not None:
        spec["networkTopology"] = dict(job.topology)
    if policies := [_subgroups(task) for task in job.tasks if task.partition_policy]:
        spec["subGroupPolicy"] = policies
    kept = {key: meta[key] for key in ("labels", "annotations") if meta.get(key)}
    if "annotations" in kept:
        kept["annotations"] = {
            key: text for key, text in kept["annotations"].items() if not key.startswith("kubectl.kubernetes.io/")
        }
    named = {"name": group_name(job), "namespace": job.namespace}
    owners = {"ownerReferences": [owner_reference(kinds.JOBS, owner)]}
    kind = {"apiVersion": kinds.POD_GROUPS.api_version, "kind": kinds.POD_GROUPS.name}
    return {**kind, "metadata": {**named, **kept, **owners}, "spec": spec}


def _subgroups(task: VolcanoTask) -> Object:
    said = task.partition_policy or {}
    found: dict[str, Any] = {
        "name": task.name,
        "subGroupSize": task.partition,
        "minSubGroups": int(said.get("minPartitions") or 0),
        "labelSelector": {"matchLabels": {kinds.TASK_SPEC: task.name}},
        "matchLabelKeys": [kinds.PARTITION_ID],
    }
    return found | ({"networkTopology": said["networkTopology"]} if said.get("networkTopology") else {})


def least_resources(job: JobSpec, priorities: Mapping[str, int]) -> dict[str, str]:
    """Return the sum of the requests of `minAvailable` pods. The pods of tasks with a higher priority class are counted
    first."""

    def rank(task: VolcanoTask) -> int:
        return -priorities.get((task.template.get("spec") or {}).get("priorityClassName") or job.priority_class, 0)

    total: dict[str, Any] = {}
    for task, count in _least_pods(job, sorted(job.tasks, key=rank)):
        for resource, amount in _requests(task.template.get("spec") or {}).items():
            total[resource] = total.get(resource, 0) + amount * count
    return {resource: _quantity(resource, amount) for resource, amount in sorted(total.items())}


def least_of(spec: Mapping[str, object], pods: int) -> dict[str, str]:
    """Return the requests of `pods` pods of one spec."""
    found = _requests(spec)
    return {resource: _quantity(resource, amount * pods) for resource, amount in sorted(found.items())}


def _least_pods(job: JobSpec, tasks: Sequence[VolcanoTask]) -> Iterator[tuple[VolcanoTask, int]]:
    left = job.minimum
    if left < sum(task.minimum for task in tasks):
        for task in tasks:
            taken = min(task.replicas, left)
            left -= taken
            yield task, taken
        return
    for task in tasks:
        yield task, task.minimum
        left -= task.minimum
    for task in tasks:
        taken = min(task.replicas - task.minimum, max(0, left))
        left -= taken
        yield task, taken


def _requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requests of one pod. For each resource, the request is the pod's overhead plus the larger of two
    amounts: the sum of the requests of the containers, and the largest request of an init container."""
    found: dict[str, Any] = {}
    for container in spec.get("containers") or ():
        for resource, amount in _asked(container):
            found[resource] = found.get(resource, 0) + amount
    for container in spec.get("initContainers") or ():
        for resource, amount in _asked(container):
            found[resource] = max(found.get(resource, 0), amount)
    for resource, amount in _amounts(spec.get("overhead") or {}):
        found[resource] = found.get(resource, 0) + amount
    return found


def _asked(container: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (resource, amount) for each request of the container, and for each limit of a resource without a
    request."""
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(said: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """Yield (resource, amount). A value that is not a valid amount is left out, because the API server will refuse such
    a pod."""
    for resource, text in said.items():
        try:
            yield resource, parse(str(text))
        except QuantityError:
            continue


def _quantity(resource: str, amount: Any) -> str:
    """Return the amount as a Kubernetes quantity. An amount that is not a whole number is written in thousandths
    (`m`)."""
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"
