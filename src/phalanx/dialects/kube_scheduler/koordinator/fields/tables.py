"""State how Phalanx uses every field of Koordinator's kinds, and Koordinator's labels and annotations.

The page docs/dialects/koordinator.md is generated from these tables. A test checks that they contain every field of
every CustomResourceDefinition. The row of a field with subfields applies to all its subfields.

`notes` lists the fields, labels and annotations of one object that have no effect in Phalanx, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use, unused
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.definitions import cpus

_WAITS = Ignored("a waiting gang holds no capacity, so nothing has to be released")
_AGENT = Ignored("it is for koordlet, the agent on nodes, and Koordinator's manager")
_OWNS = Ignored("only Reservations reserve capacity, and only for their owners")
_CHANGES = "the pod, as it is created, on `phalanx up`; on a cluster nothing changes pods"
_MIGRATES = Ignored("running pods are moved only by consolidation: preemption.consolidate of a queue")
_EXPLAINS = Ignored("`phalanx explain` says why a job waits")
_GATHER = Ignored("use phalanx.dev/closeness to place pods close together; the policy names its levels")
_NEAR = Ignored(
    "a pod's GPUs and network cards come from one NUMA zone if one has enough, else from as few zones as possible"
)
_PARTITIONS = Ignored("any GPUs of the node may be combined, preferably of one NUMA zone")
_OF_PODS = Ignored("pods say it themselves: resource-spec, numa-topology-spec; zones are filled up one by one")
_LOAD = Ignored("only the requests of pods count, not their usage")
_BATCH = Becomes(
    "Shape.requests",
    "an ordinary resource of nodes that report it, and of quotas that name it",
)
_TREES = Ignored("there is one tree: a quota is below the quota that its label names, in whatever tree")
POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes("Role.minimum", "this number of pods must exist, and starts together; 0: any pod starts"),
    "spec.minResources": Ignored("only the pods themselves count; Koordinator's scheduler does not read it either"),
    "spec.scheduleTimeoutSeconds": _WAITS,
    "status.phase": Answered("Pending, PreScheduling, Scheduling, Scheduled, Running, Finished, Failed"),
    "status.occupiedBy": Answered(),
    "status.scheduled": Answered("pods that have a node"),
    "status.running": Answered(),
    "status.succeeded": Answered(),
    "status.failed": Answered(),
    "status.scheduleStartTime": Answered(),
}
ELASTIC_QUOTA: Mapping[str, Use] = {
    "spec.min": Becomes("Quota.guaranteed", "lent while unused, and not reclaimed, as in Koordinator by default"),
    "spec.max": Becomes("Quota.limit", "resources that it does not name are unlimited"),
    "status.used": Answered("of pods that have a node; a parent's is the sum of its children's"),
}
QUOTA_PROFILE: Mapping[str, Use] = {
    "spec.quotaName": Becomes(
        "ElasticQuota", "created in its namespace and updated; it stays when the profile is deleted"
    ),
    "spec.quotaLabels": Becomes("ElasticQuota", "its labels, besides is-root, profile and tree-id"),
    "spec.resourceRatio": Becomes(
        "Quota.guaranteed", "`min` is this fraction of the nodes' capacity; all of it by default"
    ),
    "spec.nodeSelector": Becomes(
        "Quota.limit", "the tree's total is the capacity of these nodes; its pods may run on any node"
    ),
    "status": Ignored("Koordinator does not write this field either"),
}
COLOCATION_PROFILE: Mapping[str, Use] = {
    "spec.namespaceSelector": Becomes("selects", "pods of these namespaces"),
    "spec.selector": Becomes("selects", "pods with these labels"),
    "spec.probability": Becomes("selects", "a random choice of this number"),
    "spec.qosClass": Becomes("changes", f"the label koordinator.sh/qosClass of {_CHANGES}"),
    "spec.priorityClassName": Becomes(
        "changes", "the PriorityClass, with its priority and preemption policy, if it exists"
    ),
    "spec.koordinatorPriority": Becomes("changes", "the label koordinator.sh/priority"),
    "spec.labels": Becomes("changes"),
    "spec.annotations": Becomes("changes"),
    "spec.labelKeysMapping": Becomes("changes", "copy the value of one label to another"),
    "spec.annotationKeysMapping": Becomes("changes", "the same of annotations"),
    "spec.labelSuffixes": Becomes("changes", "the value of a label that the pod has"),
    "spec.schedulerName": Becomes("changes"),
    "spec.patch": Ignored("say it in the template of the pods"),
    "status": Ignored("Koordinator does not write this field either"),
}
_AFTERWARDS = Ignored("running pods are not put under a reservation afterwards")
RESERVATION: Mapping[str, Use] = {
    "spec.template": Becomes(
        "NodePart.allocatable", "its requests are reserved on a node that fits a pod with this template"
    ),
    "spec.owners": Becomes("PartUse.names", "`object`, `controller` and `labelSelector` of pods"),
    "spec.ttl": Becomes(
        "Reservation.expires_s", "counted from its creation, 24h by default; after it the Reservation is Failed"
    ),
    "spec.expires": Becomes("Reservation.expires_s"),
    "spec.allocateOnce": Becomes(
        "Reservation.once", "after its first owner, the rest of its capacity is free for all pods"
    ),
    "spec.allocatePolicy": Ignored(
        "as Restricted: a pod that does not fit into the reserved capacity is placed on another node"
    ),
    "spec.preAllocation": _AFTERWARDS,
    "spec.preAllocationPolicy": _AFTERWARDS,
    "spec.unschedulable": Becomes("NodePart.closed"),
    "spec.taints": Becomes("PartUse.names", "for pods that tolerate them in their reservation-affinity"),
    "status.phase": Answered("none, or Pending, until its capacity is reserved; Available, Succeeded, Failed"),
    "status.conditions": Answered("Scheduled, with the reason to wait, and Ready"),
    "status.nodeName": Answered(),
    "status.allocatable": Answered(),
    "status.allocated": Answered("the part of the reserved amounts that owners request"),
    "status.currentOwners": Answered(),
}
_ITS = "spec.devices[]"
DEVICE: Mapping[str, Use] = {
    f"{_ITS}.type": Becomes("Device.resource", "GPUs count as nvidia.com/gpu, or as their vendor's plugin calls them"),
    f"{_ITS}.id": Becomes("device-allocated"),
    f"{_ITS}.minor": Becomes("Device.name"),
    f"{_ITS}.moduleID": Ignored("GPUs are identified by their minors"),
    f"{_ITS}.health": Becomes("Node.devices", "an unhealthy device does not count"),
    f"{_ITS}.conditions": Ignored("what `health` says counts"),
    f"{_ITS}.resources": Becomes("Device.memory_bytes", "koordinator.sh/gpu-memory; parts of the rest are hundredths"),
    f"{_ITS}.labels": Ignored("pods choose nodes by their labels, not devices"),
    f"{_ITS}.topology": Becomes("Device.zone", "`nodeID`; PCIe switches are not distinguished"),
    f"{_ITS}.vfGroups": Ignored("a part of a card is counted in hundredths, not as virtual functions"),
    "status.allocations": Ignored("the pods have the assignment of devices; upstream writes nothing here either"),
}
_MEASURES = Ignored("it is for koordlet, which measures; nothing measures nodes for the scheduler")
NODE_METRIC: Mapping[str, Use] = {
    "spec.metricCollectPolicy": _MEASURES,
    "status.nodeMetric": _LOAD,
    "status.podsMetric": _LOAD,
    "status.hostApplicationMetric": _LOAD,
    "status.prodReclaimableMetric": Ignored("batch and mid resources are the amounts that nodes report"),
    "status.updateTime": Ignored("a node whose metric is old is not refused"),
}
MIGRATION_JOB: Mapping[str, Use] = {
    "spec.podRef": _MIGRATES,
    "spec.mode": _MIGRATES,
    "spec.ttl": _MIGRATES,
    "spec.paused": _MIGRATES,
    "spec.reservationOptions": _MIGRATES,
    "spec.deleteOptions": _MIGRATES,
    "status": _MIGRATES,
}
_RENAMES = Ignored("requests are never renamed to mid-* and batch-*: no node agent says how much of them nodes have")
TABLES: Mapping[str, Mapping[str, Use]] = {
    "PodGroup": POD_GROUP,
    "ElasticQuota": ELASTIC_QUOTA,
    "ElasticQuotaProfile": QUOTA_PROFILE,
    "ClusterColocationProfile": COLOCATION_PROFILE,
    "Reservation": RESERVATION,
    "Device": DEVICE,
    "PodMigrationJob": MIGRATION_JOB,
    "ClusterNetworkTopology": {"spec": _GATHER, "status": _GATHER},
    "ScheduleExplanation": {"spec": _EXPLAINS, "status": _EXPLAINS},
    "NodeMetric": NODE_METRIC,
    "NodeSLO": {"spec": _AGENT, "status": _AGENT},
    "Recommendation": {"spec": _AGENT, "status": _AGENT},
    "NodeResourceTopology": {
        "attributes": Ignored("cpus are read from its annotations"),
        "topologyPolicies": Ignored("the kubelet applies the node's policy; pods set a policy in numa-topology-spec"),
        "zones": Becomes(
            "Zone.allocatable", "memory of zones that are NUMA nodes; their cpus are those of cpu-topology"
        ),
    },
}
_S, _K = f"{kinds.SCHEDULING}/", "koordinator.sh/"
POD_WORDS: Mapping[str, Use] = {
    kinds.GROUP_LABEL: Becomes("Job.id", "the PodGroup of that name; the pods wait until there is one"),
    kinds.LIGHT_LABEL: Becomes("Job.id", "a gang without an object"),
    kinds.LIGHT_MIN_LABEL: Becomes("Role.minimum", "of the oldest pod"),
    f"{kinds.GROUP_LABEL}/match-policy": Ignored("see match-policy"),
    kinds.GANG_NAME: Becomes("Job.id"),
    kinds.GANG_MIN: Becomes(
        "Role.minimum", "the oldest pod's value; an invalid number keeps the gang waiting, as upstream"
    ),
    f"{kinds.GANG}total-number": Ignored("the existing pods form the gang"),
    f"{kinds.GANG}waiting-time": _WAITS,
    f"{kinds.GANG}timeout": _WAITS,
    f"{kinds.GANG}mode": Ignored(
        "Strict and NonStrict differ in pods that hold nodes while other pods wait; in Phalanx no pod does"
    ),
    f"{kinds.GANG}match-policy": Ignored(
        "as once-satisfied: pods that are created after the start are placed one by one"
    ),
    kinds.GANG_GROUPS: Becomes(
        "Role", "gangs of one namespace start together, by annotations of their pods or of their PodGroups"
    ),
    f"{kinds.GANG}network-topology-spec": _GATHER,
    f"{kinds.GANG}network-topology-index": _GATHER,
    kinds.QUOTA_NAME: Becomes("Job.queue", "else the quota of the namespace, else koordinator-default-quota"),
    kinds.PREEMPTIBLE: Becomes("Job.preemptible", "`false`: the pod is not preempted, and stays within `min`"),
    f"{kinds.QUOTA}tree-id": _TREES,
    kinds.QOS: Becomes(
        "Shape.requests", "a class that contradicts the priority is refused; LSE and LSR get exclusive cores"
    ),
    kinds.PRIORITY_CLASS: Becomes("–", "for these two; the priority is that of the pod's PriorityClass"),
    kinds.PRIORITY: Ignored("its own scheduler's queue does not read it either"),
    "kubernetes.io/batch-cpu": _BATCH,
    "kubernetes.io/batch-memory": _BATCH,
    "kubernetes.io/mid-cpu": _BATCH,
    "kubernetes.io/mid-memory": _BATCH,
    cpus.SPEC: Becomes(
        "Shape.requests", "the binding policy: this number of whole cores; resource-status has their ids"
    ),
    cpus.NUMA: Becomes(
        "Shape.aligned", "SingleNUMANode: required; Restricted: where a zone is large enough; BestEffort"
    ),
    cpus.STATUS: Answered("with the binding: cpuset of cores; numaNodeResources of pods in one zone"),
    f"{_S}device-allocate-hint": _NEAR,
    f"{_S}device-joint-allocate": _NEAR,
    f"{_S}gpu-partition-spec": _PARTITIONS,
    kinds.DEVICES_ALLOCATED: Answered("with the binding, of devices that a Device lists"),
    kinds.AFFINITY: Becomes("PartUse", "by name or by labels, with tolerations; the Reservation is then required"),
    kinds.EXACT: Becomes("PartUse.names", "the Reservation must have exactly the requested amounts of these resources"),
    kinds.ALLOCATED: Answered("with the binding"),
    f"{_S}reservation-ignored": _OWNS,
    f"{_S}operating-mode": _OWNS,
    f"{_S}reservation-owners": _OWNS,
    f"{_S}eviction-cost": _MIGRATES,
    f"{_S}soft-eviction": _MIGRATES,
    f"{_K}eviction-enabled": _MIGRATES,
    f"{_K}eviction-policy": _MIGRATES,
    f"{_S}preemption-policy": Ignored("write preemptionPolicy in the pod's spec, or in its PriorityClass"),
    f"{_S}disable-preemptible": Ignored("write phalanx.dev/preemptible"),
    f"{_S}load-estimated-scaling-factors": _LOAD,
    f"{_S}load-estimated-seconds-after-pod-scheduled": _LOAD,
    f"{_S}load-estimated-seconds-after-initialized": _LOAD,
}
_Q = kinds.QUOTA
QUOTA_WORDS: Mapping[str, Use] = {
    kinds.PARENT: Becomes("Queue.parent", "koordinator-root-quota if none is named"),
    kinds.IS_PARENT: Becomes("Claim.blocked", "no pod may use it"),
    kinds.LENT: Becomes("Quota.lend", "`false`: the unused part of `min` is not lent"),
    kinds.WEIGHT: Becomes("Queue.weights", "`max` by default"),
    kinds.NAMESPACES: Becomes("Job.queue", "for pods of these namespaces that name no quota"),
    kinds.LIMIT: Becomes("Quota.limit", "where it is below `max`"),
    f"{_Q}tree-id": _TREES,
    kinds.IS_ROOT: Becomes("Quota.limit", "its annotation total-resource limits all quotas below it"),
    f"{_Q}profile": Answered("of the profile that created it"),
    f"{_Q}ignore-default-tree": _TREES,
    f"{_Q}allow-force-update": Ignored("Phalanx does not refuse these updates"),
    kinds.TOTAL: Becomes("Quota.limit", "of the root of a tree; written if a profile creates it"),
    f"{_Q}unschedulable-resource": Answered("where a profile makes the root"),
    f"{_Q}resource-keys": Becomes("ElasticQuota", "of a profile: the resources of its root; cpu and memory if none"),
    f"{_Q}max-strict-check-resource-keys": Ignored("all resources are checked"),
    f"{_Q}runtime": Answered("of the nodes' allocatable, by Koordinator's own computation"),
    f"{_Q}request": Answered("child-request, and at least `min` of a quota that does not lend it"),
    f"{_Q}child-request": Answered(
        "the requests of pods that have not ended; for children their `request`, capped by their `max`"
    ),
    f"{_Q}non-preemptible-request": Answered(),
    f"{_Q}non-preemptible-used": Answered(),
    f"{_Q}guaranteed": Ignored("behind a feature gate upstream, and not written without it"),
    f"{_Q}allocated": Ignored("behind a feature gate upstream, and not written without it"),
}
RESERVATION_WORDS: Mapping[str, Use] = {
    kinds.PRIORITY: Becomes(
        "Job.priority", "if the Reservation's template states no priority; without either, the highest priority"
    ),
    f"{_S}reservation-order": Ignored("a pod uses the matching Reservation with the least free capacity"),
    f"{_S}reservation-restricted-options": Ignored("an owner may use at most the reserved amounts"),
    f"{_S}pre-allocation-required": _AFTERWARDS,
    f"{_S}can-preempt": Ignored("no pod is preempted for a Reservation"),
}
_N = "node.koordinator.sh/"
TOPOLOGY_WORDS: Mapping[str, Use] = {
    cpus.SAID[0]: Becomes("Node.devices", "cores, in their zones"),
    cpus.SAID[1]: Becomes("Node.devices", "a core of which kubelet gave away a cpu is no device"),
    cpus.SAID[2]: Becomes("Node.devices", "nor one with a cpu among `reservedCPUs`"),
    cpus.SAID[3]: Becomes("Node.devices", "the same of `reservedCPUs`"),
    f"{_N}cpu-shared-pools": Becomes("–", "it is for koordlet, which keeps the other pods to these cpus"),
}
PROFILE_WORDS: Mapping[str, Use] = {"config.koordinator.sh/skip-update-resources": _RENAMES}
NODE_WORDS: Mapping[str, Use] = {
    f"{_N}reservation": Ignored("say what nodes keep for themselves to their kubelets: --system-reserved"),
    f"{_N}resource-amplification-ratio": Ignored("a node has what it says is allocatable"),
    f"{_N}raw-allocatable": Ignored("a node has what it says is allocatable"),
    f"{_N}numa-topology-policy": _OF_PODS,
    f"{_N}cpu-bind-policy": _OF_PODS,
    f"{_N}numa-allocate-strategy": _OF_PODS,
    f"{_N}gpu-partition-policy": _PARTITIONS,
    f"{_N}gpu-model": Becomes("–", "a label like any other: selectors read it"),
    f"{_N}gpu-vendor": Becomes("–", "a label like any other: selectors read it"),
    f"{_N}gpu-driver-version": Becomes("–", "a label like any other: selectors read it"),
    f"{_S}usage-thresholds": _LOAD,
}


_PREFIXES = (
    "koordinator.sh/",
    "scheduling.koordinator.sh/",
    "gang.scheduling.koordinator.sh/",
    "quota.scheduling.koordinator.sh/",
    "node.koordinator.sh/",
    "pod.koordinator.sh/",
)
_WHOLE = frozenset({"PodMigrationJob", "ScheduleExplanation", "ClusterNetworkTopology"})


def notes(kind: str, obj: Object) -> Iterator[str]:
    """Yield one sentence for each field, label and annotation of the object that has no effect."""
    match kind:
        case "Pod" | "PodGroup":
            yield from _words(obj, POD_WORDS)
        case "Node":
            yield from _words(obj, NODE_WORDS)
        case "ElasticQuota":
            yield from _words(obj, QUOTA_WORDS)
        case "Reservation":
            yield from _words(obj, RESERVATION_WORDS)
        case "ClusterColocationProfile":
            yield from _words(obj, PROFILE_WORDS)
        case "NodeResourceTopology":
            yield from _words(obj, TOPOLOGY_WORDS)
        case _:
            pass
    if kind in _WHOLE:
        why = next(use.why for use in TABLES[kind].values() if isinstance(use, Ignored))
        yield f"it has no effect: {why}"
    elif kind in TABLES:
        yield from unused(obj.get("spec") or {}, TABLES[kind])


def _words(obj: Object, table: Mapping[str, object]) -> Iterator[str]:
    meta = obj["metadata"]
    for key in {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}:
        if isinstance(use := table.get(key), Ignored):
            yield f"{key} has no effect: {use.why}"
        elif use is None and str(key).startswith(_PREFIXES):
            yield f"{key} is not known here, and has no effect"
