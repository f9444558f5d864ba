"""State how Phalanx uses KAI's fields.

The tables contain every field of KAI's kinds, and KAI's labels and annotations on pods and their owners.

The page docs/dialects/kai.md is generated from these tables. A test compares the tables with every field of every
CustomResourceDefinition.

`notes` lists the parts of one object or pod that have no effect in Phalanx, with the reasons.

`moved` finds the Phalanx equivalent of each object of a cluster with KAI. The list of these equivalents helps users to
plan a migration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use, unused
from phalanx.dialects.frame.moved import Moved, by_kind, each_moved
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.grouper import (
    BATCH_MIN_MEMBER,
    DEFAULT_QUEUE,
    DEVICES,
    FRACTION,
    GROUP_NAME,
    MEMORY,
    PREEMPTIBILITY,
    PREFERRED_LEVEL,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    RAY_PRIORITY,
    REQUIRED_LEVEL,
    SUBGROUP,
    TOPOLOGY,
    queue_named,
)
from phalanx.dialects.kai.queues import CONSOLIDATE, RESOURCES, KaiDefinitions, define

_SHARDS = Ignored(
    "one Phalanx scheduler serves the whole cluster: a queue has one quota for all nodes, and "
    "pods select nodes by node selectors"
)
_OPERATOR = Ignored("it configures the pods of KAI's operator, which Phalanx does not run")
_STALE = Becomes(
    "Queue.staleness_grace_s",
    "when the gang has had fewer pods than its minimum for this time, all its pods are evicted "
    "through the Eviction API; 60 s by default, and a negative value means no limit",
)
_DELAY = Ignored(
    "the time that a job waits before it preempts is a setting of its queue: use `preemption.delay` of a Phalanx Queue"
)
_SEGMENTS = Ignored("use the annotation phalanx.dev/slice on a job that is in a Phalanx Queue")
_NEAR = (
    "a level of the Topology, or the alias of a level; if the level does not exist, the group "
    "waits, and the reason names the level"
)
_RUNTIME = (
    "the longer one of the two minimum runtimes applies; a queue without one inherits it from "
    "the queues above, and then from the shard"
)
_LIMIT = (
    "-1: no limit; 0 or absent: **the queue admits no pods that request the resource**, and an "
    "event on the Queue reports that"
)
_QUOTA = "-1: every request is guaranteed, within the quotas of the queues above; 0 or absent: nothing is guaranteed"
QUEUE: Mapping[str, Use] = {
    "spec.displayName": Ignored("messages show the name of the Queue"),
    "spec.parentQueue": Becomes(
        "Queue.parent",
        "if it does not exist, all jobs of the queue and of queues below wait with the reason `QueueDoesNotExist`",
    ),
    "spec.resources.cpu.quota": Becomes("Quota.guaranteed", f"in millicores; {_QUOTA}"),
    "spec.resources.cpu.limit": Becomes("Quota.limit", _LIMIT),
    "spec.resources.cpu.overQuotaWeight": Becomes("Queue.weights"),
    "spec.resources.memory.quota": Becomes("Quota.guaranteed", f"in megabytes of 10^6 bytes; {_QUOTA}"),
    "spec.resources.memory.limit": Becomes("Quota.limit", _LIMIT),
    "spec.resources.memory.overQuotaWeight": Becomes("Queue.weights"),
    "spec.resources.gpu.quota": Becomes("Quota.guaranteed", f"the number of `nvidia.com/gpu`, rounded up; {_QUOTA}"),
    "spec.resources.gpu.limit": Becomes("Quota.limit", _LIMIT),
    "spec.resources.gpu.overQuotaWeight": Becomes("Queue.weights"),
    "spec.priority": Becomes(
        "Queue.priority", "the queue with the higher value gets amounts beyond its quota first; the default is 100"
    ),
    "spec.preemptMinRuntime": Becomes("QueuePreemption.min_run_s", _RUNTIME),
    "spec.reclaimMinRuntime": Becomes("QueuePreemption.min_run_s", _RUNTIME),
    "status.childQueues": Answered(),
    "status.allocated": Answered(),
    "status.allocatedNonPreemptible": Answered(),
    "status.requested": Answered(),
    "status.conditions": Ignored("KAI itself never writes conditions here"),
}
POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes(
        "Role.minimum", "has an effect in a group without sub-groups; otherwise the minimums of the sub-groups apply"
    ),
    "spec.minSubGroup": Becomes(
        "Group.minimum", "the number of sub-groups that must start together, for the topmost sub-groups"
    ),
    "spec.queue": Becomes("Job.queue"),
    "spec.priorityClassName": Becomes(
        "Job.priority", "the classes `train`, `build-preemptible`, `build` and `inference` always exist"
    ),
    "spec.preemptibility": Becomes(
        "Job.preemptible", "if unset, a job with a priority of at least 100 is not preemptible"
    ),
    "spec.topologyConstraint.topology": Becomes("Job.closeness", "the Topology to which the levels belong"),
    "spec.topologyConstraint.requiredTopologyLevel": Becomes("Job.closeness", _NEAR),
    "spec.topologyConstraint.preferredTopologyLevel": Becomes("Job.closeness", _NEAR),
    "spec.subGroups[].name": Becomes(
        "Group.name", "pods name their sub-group in the label kai.scheduler/subgroup-name"
    ),
    "spec.subGroups[].parent": Becomes("Group.parent"),
    "spec.subGroups[].minMember": Becomes("Role.minimum"),
    "spec.subGroups[].minSubGroup": Becomes(
        "Group.minimum", "the number of child sub-groups that must start together; if absent, all of them"
    ),
    "spec.subGroups[].topologyConstraint.topology": Becomes(
        "Group.closeness", "the Topology to which the levels belong"
    ),
    "spec.subGroups[].topologyConstraint.requiredTopologyLevel": Becomes("Group.closeness", _NEAR),
    "spec.subGroups[].topologyConstraint.preferredTopologyLevel": Becomes(
        "Group.closeness", "has an effect if the sub-group has no required level"
    ),
    "spec.markUnschedulable": Ignored("the condition PodScheduled of each waiting pod has the reason"),
    "spec.schedulingBackoff": Ignored(
        "Phalanx tries a job that does not fit again only after a change in the cluster, and never gives it up"
    ),
    "spec.preemptionDelay": _DELAY,
    "spec.stalenessGracePeriod": _STALE,
    "status.conditions": Ignored("KAI itself never writes conditions here"),
    "status.resourcesStatus.allocated": Answered(),
    "status.resourcesStatus.allocatedNonPreemptible": Answered(),
    "status.resourcesStatus.requested": Answered(),
    "status.schedulingConditions[].type": Answered("UnschedulableOnNodePool, while no pod of the group has a node"),
    "status.schedulingConditions[].status": Answered(),
    "status.schedulingConditions[].nodePool": Answered("`default`"),
    "status.schedulingConditions[].reason": Answered(),
    "status.schedulingConditions[].message": Answered("a text by Phalanx"),
    "status.schedulingConditions[].lastTransitionTime": Answered(),
    "status.schedulingConditions[].transitionID": Answered(),
    "status.schedulingConditions[].reasons[].reason": Answered("OverLimit, NonPreemptibleOverQuota, QueueDoesNotExist"),
    "status.schedulingConditions[].reasons[].message": Answered("a text by Phalanx"),
    "status.schedulingConditions[].reasons[].details.queueDetails.name": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.podGroupRequestedResources": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.podGroupRequestedNonPreemptibleResources": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueDeservedResources": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueResourceLimits": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueAllocatedResources": Ignored(
        "the status of the Queue has these amounts"
    ),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueAllocatedNonPreemptibleResources": Ignored(
        "the status of the Queue has these amounts"
    ),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueRequestedResources": Ignored(
        "the status of the Queue has these amounts"
    ),
}
TOPOLOGY_KIND: Mapping[str, Use] = {
    "spec.levels[].nodeLabel": Becomes("TopologyRequest.level"),
    "spec.levels[].alias": Becomes("TopologyRequest.level", "another name for the level"),
}
SHARD: Mapping[str, Use] = {
    "spec.minRuntime.preemptMinRuntime": Becomes(
        "QueuePreemption.min_run_s", "for queues without a minimum runtime; only the shard `default` is read"
    ),
    "spec.minRuntime.reclaimMinRuntime": Becomes(
        "QueuePreemption.min_run_s", "for queues without a minimum runtime; only the shard `default` is read"
    ),
    "spec.partitionLabelValue": _SHARDS,
    "spec.placementStrategy": Ignored("use the policy's setting `score: pack` in place of binpack, or `score: spread`"),
    "spec.kValue": Ignored("past usage counts only in Phalanx Queues with `order: multifactor`"),
    "spec.usageDBConfig": Ignored("past usage counts only in Phalanx Queues with `order: multifactor`"),
    "spec.queueDepthPerAction": Ignored("Phalanx considers all waiting jobs"),
    "spec.scenarioSearchBudgets": Ignored(
        "Phalanx limits a search by the number of jobs and nodes that it considers, and not by time"
    ),
    "spec.plugins": _OPERATOR,
    "spec.actions": _OPERATOR,
    "spec.args": _OPERATOR,
    "spec.goMemLimit": _OPERATOR,
    "spec.goMemLimitRatio": _OPERATOR,
    "status": _OPERATOR,
}
CONFIG: Mapping[str, Use] = {"spec": _OPERATOR, "status": _OPERATOR}
TABLES: Final[Mapping[str, Mapping[str, Use]]] = {
    "Queue": QUEUE,
    "PodGroup": POD_GROUP,
    "Topology": TOPOLOGY_KIND,
    "SchedulingShard": SHARD,
    "Config": CONFIG,
}
_DEVICE = Ignored("KAI's binder writes it for its own device pods, which Phalanx does not need")
WORDS: Final[Mapping[str, Use]] = {
    CONSOLIDATE: Becomes(
        "QueuePreemption.consolidate",
        "an annotation of Phalanx on a Queue; `true`: Phalanx moves running pods of this Queue and "
        "of Queues below, as KAI does",
    ),
    QUEUE_LABEL: Becomes(
        "Job.queue",
        "the label of the owner, or else of the pod; without it the label `project`; without both "
        "the Queue `default-queue`",
    ),
    PRIORITY_LABEL: Becomes(
        "Job.priority", "the label of the owner, or else of the pod; without it the pod's PriorityClass"
    ),
    RAY_PRIORITY: Becomes("Job.priority", "the same as the row above"),
    PREEMPTIBILITY: Becomes("Job.preemptible", "the value `semi-preemptible`, which KAI only plans, counts as unset"),
    GROUP_NAME: Becomes(
        "Job.id", "an annotation that names the PodGroup of the pod; the pod waits until the PodGroup exists"
    ),
    SUBGROUP: Becomes(
        "Role.name",
        "the sub-group of the pod; if the PodGroup has no such sub-group, the pod starts with the "
        "gang if there is capacity",
    ),
    BATCH_MIN_MEMBER: Becomes("Role.minimum", "read on a Job, on a JobSet, and on the templates of a JobSet"),
    f"{kinds.PREFIX}skip-podgrouper": Becomes(
        "–", "if a pod names a PodGroup, the pod belongs to it with or without this label"
    ),
    FRACTION: Becomes(
        "DeviceShare",
        "the pod gets this fraction of one GPU, on nodes that list their GPUs; Phalanx does not enforce the fraction",
    ),
    MEMORY: Becomes(
        "DeviceShare", "the pod gets this amount of one GPU's memory, in MiB; Phalanx does not enforce the amount"
    ),
    DEVICES: Becomes("DeviceShare", "the number of GPUs, all on one node; the pod gets the fraction of each of them"),
    "gpu-fraction-container-name": Becomes(
        "phalanx.dev/devices",
        "on `phalanx up` only this container sees the device; without the annotation all containers see it",
    ),
    "mps": Ignored("Phalanx counts parts of a GPU, and does not enforce them"),
    TOPOLOGY: Becomes("Job.closeness", "read on the owner or on the pod"),
    REQUIRED_LEVEL: Becomes("Job.closeness", "a level of this Topology, or the alias of a level"),
    PREFERRED_LEVEL: Becomes("Job.closeness", "the same as the row above"),
    f"{kinds.PREFIX}segment-size": _SEGMENTS,
    f"{kinds.PREFIX}segment-topology-required-placement": _SEGMENTS,
    f"{kinds.PREFIX}segment-topology-preferred-placement": _SEGMENTS,
    f"{kinds.PREFIX}preemption-delay": _DELAY,
    f"{kinds.PREFIX}staleness-grace-period": _STALE,
    f"{kinds.PREFIX}node-pool": _SHARDS,
    "runai-gpu-group": _DEVICE,
    "received-resource-type": _DEVICE,
    "runai/shared-gpu-configmap": _DEVICE,
}


def notes(kind: str, obj: Object) -> Iterator[str]:
    """Yield one sentence for each field, label and annotation of the object that has no effect."""
    if kind in TABLES:
        spec = obj.get("spec") or {}
        yield from unused(spec, TABLES[kind])
        if kind == kinds.QUEUES.name:
            yield from _no_room(spec.get("resources") or {})
        return
    meta = obj["metadata"]
    said: Mapping[str, object] = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    for key in said:
        match WORDS.get(key):
            case Ignored(why):
                yield f"{key} has no effect: {why}"
            case None if key.startswith(kinds.PREFIX):
                yield f"{key} is unknown to Phalanx, and has no effect"
            case _:
                pass


def _no_room(resources: Mapping[str, Mapping[str, object] | None]) -> Iterator[str]:
    """Yield a note with the resources for which a queue sets no limit. As in KAI, the queue admits no pods that request
    these resources. (In KAI, users find this out only from the waiting pods.)"""
    closed = [name for name in RESOURCES if not (resources.get(name) or {}).get("limit")]
    if closed:
        names = ", ".join(f"spec.resources.{name}.limit" for name in closed)
        yield f"{names}: if absent or 0, the queue admits no pods that request the resource; set -1 for no limit"


_GROUPS = (f"{kinds.GROUP}/", "kai.scheduler/")
STEPS = (
    "stop KAI, because its scheduler must not run at the same time as Phalanx: "
    "`kubectl -n kai-scheduler scale deployment --all --replicas=0`; then delete its ValidatingWebhookConfigurations "
    "and MutatingWebhookConfigurations, which refuse writes while KAI is stopped",
    "delete the pods in the namespaces kai-resource-reservation and kai-scale-adjust: Phalanx counts devices without "
    "such pods",
    "start `phalanx scheduler --dialect kai` (docs/guide/deploy.md), or apply the objects to a `phalanx up`",
    "running pods continue and are charged to their queues; Phalanx schedules waiting pods, which have "
    "`schedulerName: kai-scheduler`",
    "check the result with `phalanx queues` and `kubectl get podgroups.scheduling.run.ai -A`",
)


_DEFINITIONS = (kinds.QUEUES, kinds.TOPOLOGIES, kinds.SHARDS, PRIORITY_CLASSES)


def moved(objects: Iterable[Object]) -> tuple[Moved, ...]:
    """Return the equivalents of the objects in the order of the objects. Objects that have nothing to do with KAI are
    left out."""
    return each_moved(objects, lambda found: define(by_kind(found, _DEFINITIONS)), _moved)


def _moved(obj: Object, defined: KaiDefinitions) -> Moved | None:
    kind, name = str(obj.get("kind")), str(obj["metadata"].get("name") or obj["metadata"].get("generateName"))
    if str(obj.get("apiVersion", "")).startswith(_GROUPS):
        said = (*_faults(kind, name, defined), *notes(kind, obj)) if kind in TABLES else ()
        return Moved(object=f"{kind} {name}", becomes=_becomes(kind, name, obj), notes=said)
    if (pod := _template(obj)) is None:
        return None
    labels = {**((pod.get("metadata") or {}).get("labels") or {}), **(obj["metadata"].get("labels") or {})}
    queue = queue_named(labels) or DEFAULT_QUEUE
    where = f"jobs of the queue {kinds.tree_queue(queue)}" + (
        "" if queue in defined.known else ", which does not exist"
    )
    return Moved(object=f"{kind} {name}", becomes=where, notes=tuple(notes(kind, obj)))


def _template(obj: Object) -> Object | None:
    """Return the object if it has KAI's scheduler name. Otherwise return the first pod template of the object that has
    this scheduler name; None if no template has it."""
    for found in _templates(obj):
        if (found.get("spec") or {}).get("schedulerName") == kinds.SCHEDULER_NAME:
            return found
    return None


def _templates(value: object) -> Iterator[Object]:
    if isinstance(value, dict):
        if isinstance(value.get("spec"), dict):
            yield value
        for inner in value.values():
            yield from _templates(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _templates(inner)


def _becomes(kind: str, name: str, obj: Object) -> str:
    match kind:
        case "Queue":
            parent = (obj.get("spec") or {}).get("parentQueue")
            return f"the queue {kinds.tree_queue(name)}" + (f" below {kinds.tree_queue(parent)}" if parent else "")
        case "PodGroup":
            return "the gang of the pods that name it"
        case "Topology":
            return "levels that jobs name"
        case "SchedulingShard":
            return "the minimum runtimes of queues that set none"
    return "nothing"


def _faults(kind: str, name: str, defined: KaiDefinitions) -> Iterator[str]:
    found = defined.known.get(name) if kind == "Queue" else None
    if found is not None and found.lost:
        yield f"it starts no jobs: {found.fault}"
