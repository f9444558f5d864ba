"""The use of every field of KAI's kinds, and of its labels and annotations on pods and their owners.

The page docs/dialects/kai.md is generated from these tables, and a test compares them with every field of every
definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.gang.grouper import (
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
)
from phalanx.dialects.kai.gang.owners import BATCH_MIN_MEMBER
from phalanx.dialects.kai.queues import CONSOLIDATE

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
