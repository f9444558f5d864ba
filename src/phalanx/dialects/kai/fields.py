"""State how Phalanx uses KAI's fields.

The tables contain every field of KAI's kinds, and KAI's labels and annotations on pods and their owners.

The page docs/dialects/kai.md is generated from these tables. A test compares the tables with every field of every
CustomResourceDefinition.

`notes` lists the parts of one object or pod that have no effect in Phalanx, with the reasons.

`moved` finds the Phalanx equivalent of each object of a cluster with KAI. Users read the list when they plan a
migration."""

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

_SHARDS = Ignored("one scheduler serves the whole cluster: queues have one quota, and nodes are chosen by selectors")
_OPERATOR = Ignored("it configures the pods of KAI's operator, which does not run")
_STALE = Becomes(
    "Queue.staleness_grace_s",
    "60 s by default; a negative value means no limit. Then all its pods are evicted, by the Eviction API",
)
_DELAY = Ignored("how long a job waits before it preempts is its queue's: `preemption.delay` of a queue of ours")
_SEGMENTS = Ignored("write phalanx.dev/slice, on a job of ours")
_NEAR = "of the level or its alias; where it is missing, the group waits and says so"
_RUNTIME = "of both minimum runtimes the longer one; inherited from above, then from the shard"
_LIMIT = "-1: none; 0 or absent: **no room at all**, which is said on the queue"
_QUOTA = "-1: all it asks for, within the quotas above it; 0 or absent: nothing is deserved"
QUEUE: Mapping[str, Use] = {
    "spec.displayName": Ignored("reasons name the queue"),
    "spec.parentQueue": Becomes("Queue.parent", "one that does not exist: `QueueDoesNotExist` for all below"),
    "spec.resources.cpu.quota": Becomes("Quota.guaranteed", f"millicores; {_QUOTA}"),
    "spec.resources.cpu.limit": Becomes("Quota.limit", _LIMIT),
    "spec.resources.cpu.overQuotaWeight": Becomes("Queue.weights"),
    "spec.resources.memory.quota": Becomes("Quota.guaranteed", f"megabytes of 10^6 bytes; {_QUOTA}"),
    "spec.resources.memory.limit": Becomes("Quota.limit", _LIMIT),
    "spec.resources.memory.overQuotaWeight": Becomes("Queue.weights"),
    "spec.resources.gpu.quota": Becomes("Quota.guaranteed", f"of `nvidia.com/gpu`, rounded up; {_QUOTA}"),
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
    "status.conditions": Ignored("KAI declares them and never writes them"),
}
POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes("Role.minimum", "without sub-groups; with them, their minimums count"),
    "spec.minSubGroup": Becomes("Group.minimum", "of the whole"),
    "spec.queue": Becomes("Job.queue"),
    "spec.priorityClassName": Becomes(
        "Job.priority", "`train`, `build-preemptible`, `build`, `inference` always exist"
    ),
    "spec.preemptibility": Becomes("Job.preemptible", "unset: a priority of 100 or more is not preemptible"),
    "spec.topologyConstraint.topology": Becomes("Job.closeness", "the Topology that has the levels"),
    "spec.topologyConstraint.requiredTopologyLevel": Becomes("Job.closeness", _NEAR),
    "spec.topologyConstraint.preferredTopologyLevel": Becomes("Job.closeness", _NEAR),
    "spec.subGroups[].name": Becomes("Group.name", "pods say it by the label kai.scheduler/subgroup-name"),
    "spec.subGroups[].parent": Becomes("Group.parent"),
    "spec.subGroups[].minMember": Becomes("Role.minimum"),
    "spec.subGroups[].minSubGroup": Becomes("Group.minimum", "all, if it is left out"),
    "spec.subGroups[].topologyConstraint.topology": Becomes("Group.closeness", "the Topology that has the levels"),
    "spec.subGroups[].topologyConstraint.requiredTopologyLevel": Becomes("Group.closeness", _NEAR),
    "spec.subGroups[].topologyConstraint.preferredTopologyLevel": Becomes(
        "Group.closeness", "where no level is required"
    ),
    "spec.markUnschedulable": Ignored("every pod that waits says why, in its condition PodScheduled"),
    "spec.schedulingBackoff": Ignored("what fits nowhere costs nothing while nothing changes, and is never given up"),
    "spec.preemptionDelay": _DELAY,
    "spec.stalenessGracePeriod": _STALE,
    "status.conditions": Ignored("KAI declares them and never writes them"),
    "status.resourcesStatus.allocated": Answered(),
    "status.resourcesStatus.allocatedNonPreemptible": Answered(),
    "status.resourcesStatus.requested": Answered(),
    "status.schedulingConditions[].type": Answered("UnschedulableOnNodePool, while nothing of it has a node"),
    "status.schedulingConditions[].status": Answered(),
    "status.schedulingConditions[].nodePool": Answered("`default`"),
    "status.schedulingConditions[].reason": Answered(),
    "status.schedulingConditions[].message": Answered("our sentence"),
    "status.schedulingConditions[].lastTransitionTime": Answered(),
    "status.schedulingConditions[].transitionID": Answered(),
    "status.schedulingConditions[].reasons[].reason": Answered("OverLimit, NonPreemptibleOverQuota, QueueDoesNotExist"),
    "status.schedulingConditions[].reasons[].message": Answered("our sentence"),
    "status.schedulingConditions[].reasons[].details.queueDetails.name": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.podGroupRequestedResources": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.podGroupRequestedNonPreemptibleResources": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueDeservedResources": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueResourceLimits": Answered(),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueAllocatedResources": Ignored(
        "it stands in the status of the Queue"
    ),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueAllocatedNonPreemptibleResources": Ignored(
        "it stands in the status of the Queue"
    ),
    "status.schedulingConditions[].reasons[].details.queueDetails.queueRequestedResources": Ignored(
        "it stands in the status of the Queue"
    ),
}
TOPOLOGY_KIND: Mapping[str, Use] = {
    "spec.levels[].nodeLabel": Becomes("TopologyRequest.level"),
    "spec.levels[].alias": Becomes("TopologyRequest.level", "another name of the label"),
}
SHARD: Mapping[str, Use] = {
    "spec.minRuntime.preemptMinRuntime": Becomes("QueuePreemption.min_run_s", "of queues that say none; default shard"),
    "spec.minRuntime.reclaimMinRuntime": Becomes("QueuePreemption.min_run_s", "of queues that say none; default shard"),
    "spec.partitionLabelValue": _SHARDS,
    "spec.placementStrategy": Ignored("a setting of the policy: `score: pack` for binpack, `score: spread`"),
    "spec.kValue": Ignored("past usage orders jobs by Queue.order: multifactor, on queues of ours"),
    "spec.usageDBConfig": Ignored("past usage orders jobs by Queue.order: multifactor, on queues of ours"),
    "spec.queueDepthPerAction": Ignored("all that waits is looked at"),
    "spec.scenarioSearchBudgets": Ignored("searches are bounded by what they look at, not by time"),
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
_DEVICE = Ignored("written by KAI's binder for its own device pods")
WORDS: Final[Mapping[str, Use]] = {
    CONSOLIDATE: Becomes(
        "QueuePreemption.consolidate",
        "ours, annotation of a Queue: `true` for it and those below moves pods as KAI does",
    ),
    QUEUE_LABEL: Becomes("Job.queue", "of the owner, then of the pod; then the label `project`; else `default-queue`"),
    PRIORITY_LABEL: Becomes("Job.priority", "label of the owner, then of the pod; then the pod's own class"),
    RAY_PRIORITY: Becomes("Job.priority", "the same"),
    PREEMPTIBILITY: Becomes("Job.preemptible", "`semi-preemptible` is a design there, and counts as unset"),
    GROUP_NAME: Becomes("Job.id", "annotation: the PodGroup whose member the pod is; it waits until there is one"),
    SUBGROUP: Becomes("Role.name", "one that the PodGroup does not have: it starts where there is room"),
    BATCH_MIN_MEMBER: Becomes("Role.minimum", "on a Job, a JobSet, and on the templates of a JobSet"),
    f"{kinds.PREFIX}skip-podgrouper": Becomes("–", "a PodGroup that a pod names counts with it and without it"),
    FRACTION: Becomes(
        "DeviceShare", "a fraction of one GPU, on nodes whose GPUs are known; the fraction is not enforced"
    ),
    MEMORY: Becomes("DeviceShare", "MiB of one device's memory; it is not enforced"),
    DEVICES: Becomes("DeviceShare", "the number of GPUs of one node; the pod gets the fraction of each"),
    "gpu-fraction-container-name": Becomes(
        "phalanx.dev/devices", "on `phalanx up` that container alone sees the device; without it all containers do"
    ),
    "mps": Ignored("parts of a GPU are counted, not enforced"),
    TOPOLOGY: Becomes("Job.closeness", "on the owner or the pod"),
    REQUIRED_LEVEL: Becomes("Job.closeness", "a level of that Topology, or its alias"),
    PREFERRED_LEVEL: Becomes("Job.closeness", "the same"),
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
                yield f"{key} is not known here, and has no effect"
            case _:
                pass


def _no_room(resources: Mapping[str, Mapping[str, object] | None]) -> Iterator[str]:
    """Yield a note for a queue that sets no limit. As in KAI, such a queue runs no pods. (In KAI, users see this only
    from the pods.)"""
    closed = [name for name in RESOURCES if not (resources.get(name) or {}).get("limit")]
    if closed:
        names = ", ".join(f"spec.resources.{name}.limit" for name in closed)
        yield f"{names}: absent or 0 is no room at all for pods that ask for it; write -1 for no limit"


_GROUPS = (f"{kinds.GROUP}/", "kai.scheduler/")
STEPS = (
    "stop KAI, whose scheduler must not run beside us: `kubectl -n kai-scheduler scale deployment --all --replicas=0`, "
    "then delete its ValidatingWebhookConfigurations and MutatingWebhookConfigurations, which refuse writes while it "
    "is down",
    "delete what waits in the namespaces kai-resource-reservation and kai-scale-adjust: devices are counted without "
    "such pods here",
    "start `phalanx scheduler --dialect kai` (docs/guide/deploy.md), or apply the objects to a `phalanx up`",
    "pods that run go on, and are counted in their queues; those that wait name `schedulerName: kai-scheduler`, which "
    "is answered to",
    "look at `phalanx queues` and `kubectl get podgroups.scheduling.run.ai -A`",
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
    where = f"jobs of the queue {kinds.tree_queue(queue)}" + ("" if queue in defined.known else ", which is not here")
    return Moved(object=f"{kind} {name}", becomes=where, notes=tuple(notes(kind, obj)))


def _template(obj: Object) -> Object | None:
    """Return the object, or the first pod template in it, if it has KAI's scheduler name; None if neither has this
    name."""
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
            return "the minimum runtimes of queues that say none"
    return "nothing"


def _faults(kind: str, name: str, defined: KaiDefinitions) -> Iterator[str]:
    found = defined.known.get(name) if kind == "Queue" else None
    if found is not None and found.lost:
        yield f"it starts nothing as it stands here: {found.fault}"
