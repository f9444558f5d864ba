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
_AGENT = Ignored("only koordlet, Koordinator's agent on nodes, and Koordinator's manager read it")
_OWNS = Ignored("in Phalanx only Reservations reserve capacity, and only for their owners")
_CHANGES = "new pods, on `phalanx up` only; on other clusters Phalanx does not change pods"
_MIGRATES = Ignored("Phalanx moves running pods only for consolidation: use preemption.consolidate of a queue")
_EXPLAINS = Ignored("`phalanx explain` shows why a job waits")
_GATHER = Ignored("use phalanx.dev/closeness to place pods close together; the policy defines its levels")
_NEAR = Ignored(
    "Phalanx always takes a pod's GPUs and network cards from one NUMA zone if one has enough of "
    "them, or else from as few zones as possible"
)
_PARTITIONS = Ignored("a pod may get any GPUs of the node together, preferably GPUs of one NUMA zone")
_OF_PODS = Ignored(
    "pods set their own policy in resource-spec and numa-topology-spec; Phalanx fills one zone after the other"
)
_LOAD = Ignored("Phalanx considers the requests of pods, not their usage")
_BATCH = Becomes(
    "Shape.requests",
    "an ordinary resource, for nodes that report it and for quotas that name it",
)
_TREES = Ignored(
    "Phalanx has one quota tree: the parent of a quota is the quota that its label names, whatever tree is named"
)
POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes(
        "Role.minimum",
        "this number of pods must exist, and these pods start together; with 0, each pod starts by itself",
    ),
    "spec.minResources": Ignored(
        "Phalanx considers the requests of the pods; Koordinator's scheduler does not read this field either"
    ),
    "spec.scheduleTimeoutSeconds": _WAITS,
    "status.phase": Answered("Pending, PreScheduling, Scheduling, Scheduled, Running, Finished, Failed"),
    "status.occupiedBy": Answered(),
    "status.scheduled": Answered("the number of pods that have a node"),
    "status.running": Answered(),
    "status.succeeded": Answered(),
    "status.failed": Answered(),
    "status.scheduleStartTime": Answered(),
}
ELASTIC_QUOTA: Mapping[str, Use] = {
    "spec.min": Becomes(
        "Quota.guaranteed",
        "other quotas may borrow the unused part, and it is not reclaimed; this is Koordinator's default",
    ),
    "spec.max": Becomes("Quota.limit", "a resource that it does not name is unlimited"),
    "status.used": Answered("the requests of pods that have a node; for a parent, the sum over its children"),
}
QUOTA_PROFILE: Mapping[str, Use] = {
    "spec.quotaName": Becomes(
        "ElasticQuota",
        "Phalanx creates this ElasticQuota in the profile's namespace, and updates it; the quota "
        "stays when the profile is deleted",
    ),
    "spec.quotaLabels": Becomes("ElasticQuota", "the labels of the quota, in addition to is-root, profile and tree-id"),
    "spec.resourceRatio": Becomes(
        "Quota.guaranteed",
        "`min` is this fraction of the capacity of the selected nodes; by default the whole capacity",
    ),
    "spec.nodeSelector": Becomes(
        "Quota.limit", "the total of the quota tree is the capacity of these nodes; its pods may run on any node"
    ),
    "status": Ignored("Koordinator itself does not write this field"),
}
COLOCATION_PROFILE: Mapping[str, Use] = {
    "spec.namespaceSelector": Becomes("selects", "the pods in these namespaces"),
    "spec.selector": Becomes("selects", "the pods with these labels"),
    "spec.probability": Becomes("selects", "each pod is selected with this probability"),
    "spec.qosClass": Becomes("changes", f"the label koordinator.sh/qosClass of {_CHANGES}"),
    "spec.priorityClassName": Becomes(
        "changes", "the PriorityClass of the pod, with its priority and preemption policy, if this class exists"
    ),
    "spec.koordinatorPriority": Becomes("changes", "the label koordinator.sh/priority"),
    "spec.labels": Becomes("changes"),
    "spec.annotations": Becomes("changes"),
    "spec.labelKeysMapping": Becomes("changes", "copies the value of one label to another label"),
    "spec.annotationKeysMapping": Becomes("changes", "copies the value of one annotation to another annotation"),
    "spec.labelSuffixes": Becomes("changes", "appends a text to the value of a label of the pod"),
    "spec.schedulerName": Becomes("changes"),
    "spec.patch": Ignored("write the change into the pod template instead"),
    "status": Ignored("Koordinator itself does not write this field"),
}
_AFTERWARDS = Ignored("Phalanx does not charge pods that already run to a Reservation")
RESERVATION: Mapping[str, Use] = {
    "spec.template": Becomes(
        "NodePart.allocatable",
        "the requests of the template are reserved on a node on which a pod of the template fits",
    ),
    "spec.owners": Becomes(
        "PartUse.names", "the pods that may use the Reservation, by `object`, `controller` and `labelSelector`"
    ),
    "spec.ttl": Becomes(
        "Reservation.expires_s",
        "counted from the creation of the Reservation, 24h by default; after this time it is Failed",
    ),
    "spec.expires": Becomes("Reservation.expires_s"),
    "spec.allocateOnce": Becomes(
        "Reservation.once", "after the first owner has started, the rest of the reserved capacity is free for all pods"
    ),
    "spec.allocatePolicy": Ignored(
        "every Reservation is treated as Restricted: a pod that does not fit into the reserved "
        "capacity is placed on another node"
    ),
    "spec.preAllocation": _AFTERWARDS,
    "spec.preAllocationPolicy": _AFTERWARDS,
    "spec.unschedulable": Becomes("NodePart.closed"),
    "spec.taints": Becomes(
        "PartUse.names", "only pods that tolerate these taints in their reservation-affinity may use the Reservation"
    ),
    "status.phase": Answered(
        "absent or Pending until capacity is reserved; then Available; at the end Succeeded or Failed"
    ),
    "status.conditions": Answered("Scheduled, with the reason why the Reservation waits, and Ready"),
    "status.nodeName": Answered(),
    "status.allocatable": Answered(),
    "status.allocated": Answered("the reserved amounts that running owners request"),
    "status.currentOwners": Answered(),
}
_ITS = "spec.devices[]"
DEVICE: Mapping[str, Use] = {
    f"{_ITS}.type": Becomes(
        "Device.resource", "the resource of GPUs is nvidia.com/gpu, or the resource of their vendor's device plugin"
    ),
    f"{_ITS}.id": Becomes("device-allocated"),
    f"{_ITS}.minor": Becomes("Device.name"),
    f"{_ITS}.moduleID": Ignored("GPUs are identified by their minor numbers"),
    f"{_ITS}.health": Becomes("Node.devices", "Phalanx leaves out unhealthy devices"),
    f"{_ITS}.conditions": Ignored("Phalanx reads `health` only"),
    f"{_ITS}.resources": Becomes(
        "Device.memory_bytes", "only koordinator.sh/gpu-memory is read; parts of a device are counted in hundredths"
    ),
    f"{_ITS}.labels": Ignored("pods cannot select devices by labels"),
    f"{_ITS}.topology": Becomes("Device.zone", "only `nodeID` is read; PCIe switches are ignored"),
    f"{_ITS}.vfGroups": Ignored("parts of a card are counted in hundredths, not as virtual functions"),
    "status.allocations": Ignored(
        "the annotations of pods have the assigned devices; Koordinator writes nothing into this field either"
    ),
}
_MEASURES = Ignored("it configures koordlet's measurements of nodes, which Phalanx does not use")
NODE_METRIC: Mapping[str, Use] = {
    "spec.metricCollectPolicy": _MEASURES,
    "status.nodeMetric": _LOAD,
    "status.podsMetric": _LOAD,
    "status.hostApplicationMetric": _LOAD,
    "status.prodReclaimableMetric": Ignored(
        "the batch and mid resources of a node are the amounts that the node reports"
    ),
    "status.updateTime": Ignored("Phalanx also uses nodes whose metrics are old"),
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
_RENAMES = Ignored(
    "Phalanx never renames requests to mid-* and batch-*, because it has no node agent that reports these resources"
)
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
        "attributes": Ignored("Phalanx reads the cpus from annotations of the object"),
        "topologyPolicies": Ignored(
            "the kubelet applies the policy of its node; pods set their own policy in numa-topology-spec"
        ),
        "zones": Becomes(
            "Zone.allocatable",
            "the memory of each zone that is a NUMA node; the cpus of zones come from the annotation cpu-topology",
        ),
    },
}
_S, _K = f"{kinds.SCHEDULING}/", "koordinator.sh/"
POD_WORDS: Mapping[str, Use] = {
    kinds.GROUP_LABEL: Becomes("Job.id", "the PodGroup with this name; the pods wait until it exists"),
    kinds.LIGHT_LABEL: Becomes("Job.id", "the name of a gang without a PodGroup"),
    kinds.LIGHT_MIN_LABEL: Becomes("Role.minimum", "the minimum of the gang; the value on its oldest pod applies"),
    f"{kinds.GROUP_LABEL}/match-policy": Ignored("it is treated like gang.scheduling.koordinator.sh/match-policy"),
    kinds.GANG_NAME: Becomes("Job.id"),
    kinds.GANG_MIN: Becomes(
        "Role.minimum",
        "the minimum of the gang; the value on its oldest pod applies. If it is not a number, the "
        "gang waits, as in Koordinator",
    ),
    f"{kinds.GANG}total-number": Ignored("the gang consists of the pods that exist"),
    f"{kinds.GANG}waiting-time": _WAITS,
    f"{kinds.GANG}timeout": _WAITS,
    f"{kinds.GANG}mode": Ignored(
        "Strict and NonStrict differ only for gangs of which some pods hold nodes; in Phalanx a "
        "waiting gang holds no nodes"
    ),
    f"{kinds.GANG}match-policy": Ignored(
        "every gang is treated as once-satisfied: pods that are created after its start are placed one by one"
    ),
    kinds.GANG_GROUPS: Becomes(
        "Role",
        "the listed gangs, all in one namespace, start together; the annotation is on their "
        "PodGroups or, without PodGroups, on their pods",
    ),
    f"{kinds.GANG}network-topology-spec": _GATHER,
    f"{kinds.GANG}network-topology-index": _GATHER,
    kinds.QUOTA_NAME: Becomes(
        "Job.queue",
        "the quota of the pod; without the label the quota of its namespace, or else koordinator-default-quota",
    ),
    kinds.PREEMPTIBLE: Becomes(
        "Job.preemptible", "`false`: the pod is not preempted, and may use only the `min` of its quota"
    ),
    f"{kinds.QUOTA}tree-id": _TREES,
    kinds.QOS: Becomes(
        "Shape.requests",
        "pods of the classes LSE and LSR get exclusive cores; a class that contradicts the pod's priority is refused",
    ),
    kinds.PRIORITY_CLASS: Becomes(
        "–",
        "it decides together with the QoS class whether the pod gets exclusive cores; the pod has "
        "the priority of its PriorityClass",
    ),
    kinds.PRIORITY: Ignored("the queue of Koordinator's scheduler does not read it either"),
    "kubernetes.io/batch-cpu": _BATCH,
    "kubernetes.io/batch-memory": _BATCH,
    "kubernetes.io/mid-cpu": _BATCH,
    "kubernetes.io/mid-memory": _BATCH,
    cpus.SPEC: Becomes(
        "Shape.requests",
        "the policy by which the pod gets exclusive cores; the annotation resource-status lists their cpus",
    ),
    cpus.NUMA: Becomes(
        "Shape.aligned",
        "SingleNUMANode: one zone is required; Restricted: one zone is required if any zone is large "
        "enough; BestEffort: one zone is preferred",
    ),
    cpus.STATUS: Answered(
        "written when the pod is bound: `cpuset` for exclusive cores, and `numaNodeResources` for pods in one zone"
    ),
    f"{_S}device-allocate-hint": _NEAR,
    f"{_S}device-joint-allocate": _NEAR,
    f"{_S}gpu-partition-spec": _PARTITIONS,
    kinds.DEVICES_ALLOCATED: Answered("written when the pod is bound: its devices, if a Device object lists them"),
    kinds.AFFINITY: Becomes(
        "PartUse",
        "the pod uses only Reservations that the annotation selects by name or by labels; it also "
        "lists tolerations of taints",
    ),
    kinds.EXACT: Becomes(
        "PartUse.names", "the pod uses only a Reservation that reserves exactly the pod's requests of these resources"
    ),
    kinds.ALLOCATED: Answered("written when the pod is bound"),
    f"{_S}reservation-ignored": _OWNS,
    f"{_S}operating-mode": _OWNS,
    f"{_S}reservation-owners": _OWNS,
    f"{_S}eviction-cost": _MIGRATES,
    f"{_S}soft-eviction": _MIGRATES,
    f"{_K}eviction-enabled": _MIGRATES,
    f"{_K}eviction-policy": _MIGRATES,
    f"{_S}preemption-policy": Ignored("use preemptionPolicy in the pod's spec or in its PriorityClass"),
    f"{_S}disable-preemptible": Ignored("use the label phalanx.dev/preemptible"),
    f"{_S}load-estimated-scaling-factors": _LOAD,
    f"{_S}load-estimated-seconds-after-pod-scheduled": _LOAD,
    f"{_S}load-estimated-seconds-after-initialized": _LOAD,
}
_Q = kinds.QUOTA
QUOTA_WORDS: Mapping[str, Use] = {
    kinds.PARENT: Becomes("Queue.parent", "koordinator-root-quota if there is no label"),
    kinds.IS_PARENT: Becomes("Claim.blocked", "pods that name this quota wait, because it is only for child quotas"),
    kinds.LENT: Becomes("Quota.lend", "`false`: other quotas cannot borrow the unused part of `min`"),
    kinds.WEIGHT: Becomes("Queue.weights", "the weight is `max` by default"),
    kinds.NAMESPACES: Becomes("Job.queue", "the quota of pods in these namespaces that name no quota"),
    kinds.LIMIT: Becomes("Quota.limit", "the limit, if it is below `max`"),
    f"{_Q}tree-id": _TREES,
    kinds.IS_ROOT: Becomes(
        "Quota.limit",
        "the quota is the root of a tree; its annotation total-resource limits all quotas below it together",
    ),
    f"{_Q}profile": Answered("written on the quotas that a profile creates"),
    f"{_Q}ignore-default-tree": _TREES,
    f"{_Q}allow-force-update": Ignored("Phalanx does not refuse the updates that this label allows"),
    kinds.TOTAL: Becomes(
        "Quota.limit",
        "the total of a quota tree, on the root of the tree; Phalanx writes it if a profile creates the root",
    ),
    f"{_Q}unschedulable-resource": Answered("written on a root that a profile creates"),
    f"{_Q}resource-keys": Becomes(
        "ElasticQuota", "on a profile: the resources of the quota that it creates; cpu and memory by default"
    ),
    f"{_Q}max-strict-check-resource-keys": Ignored("Phalanx always checks all resources"),
    f"{_Q}runtime": Answered(
        "the amounts that the quota may use now, computed from the allocatable amounts of the nodes as Koordinator does"
    ),
    f"{_Q}request": Answered("child-request, but at least `min` if the quota does not lend its `min`"),
    f"{_Q}child-request": Answered(
        "the requests of the quota's pods that have not ended, and the `request` of each child quota up to its `max`"
    ),
    f"{_Q}non-preemptible-request": Answered(),
    f"{_Q}non-preemptible-used": Answered(),
    f"{_Q}guaranteed": Ignored("Koordinator writes it only with a feature gate that is off by default"),
    f"{_Q}allocated": Ignored("Koordinator writes it only with a feature gate that is off by default"),
}
RESERVATION_WORDS: Mapping[str, Use] = {
    kinds.PRIORITY: Becomes(
        "Job.priority",
        "the priority of a Reservation whose template states no priority; without both it has the highest priority",
    ),
    f"{_S}reservation-order": Ignored("Phalanx chooses the matching Reservation with the least free capacity"),
    f"{_S}reservation-restricted-options": Ignored("an owner may always use at most the reserved amounts"),
    f"{_S}pre-allocation-required": _AFTERWARDS,
    f"{_S}can-preempt": Ignored("Phalanx preempts no pod for a Reservation"),
}
_N = "node.koordinator.sh/"
TOPOLOGY_WORDS: Mapping[str, Use] = {
    cpus.SAID[0]: Becomes("Node.devices", "the cores of the node, with their NUMA zones"),
    cpus.SAID[1]: Becomes("Node.devices", "pods get no core of which the kubelet has allocated a cpu"),
    cpus.SAID[2]: Becomes("Node.devices", "pods get no core that has a cpu in `reservedCPUs`"),
    cpus.SAID[3]: Becomes("Node.devices", "pods get no core that has a cpu in `reservedCPUs` of the kubelet"),
    f"{_N}cpu-shared-pools": Becomes(
        "–", "only koordlet reads it, which restricts pods without exclusive cpus to these cpus"
    ),
}
PROFILE_WORDS: Mapping[str, Use] = {"config.koordinator.sh/skip-update-resources": _RENAMES}
NODE_WORDS: Mapping[str, Use] = {
    f"{_N}reservation": Ignored("use the kubelet's option --system-reserved to reserve amounts for the node itself"),
    f"{_N}resource-amplification-ratio": Ignored("the capacity of a node is always its status.allocatable"),
    f"{_N}raw-allocatable": Ignored("the capacity of a node is always its status.allocatable"),
    f"{_N}numa-topology-policy": _OF_PODS,
    f"{_N}cpu-bind-policy": _OF_PODS,
    f"{_N}numa-allocate-strategy": _OF_PODS,
    f"{_N}gpu-partition-policy": _PARTITIONS,
    f"{_N}gpu-model": Becomes("–", "an ordinary label, which node selectors can use"),
    f"{_N}gpu-vendor": Becomes("–", "an ordinary label, which node selectors can use"),
    f"{_N}gpu-driver-version": Becomes("–", "an ordinary label, which node selectors can use"),
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
            yield f"{key} is unknown to Phalanx, and has no effect"
