"""State how Phalanx uses every field of Volcano's kinds, and Volcano's labels and annotations on pods.

The page docs/dialects/volcano.md is generated from these tables. A test compares the tables with every field of every
CustomResourceDefinition. If an object has fields without effect, an event on the object lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use, unused
from phalanx.dialects.volcano.definitions.queues import fault_of

_NEAR = Becomes(
    "TopologyRequest",
    "`hard`: all pods are placed in one HyperNode of at most that tier; without a tier it "
    "requests nothing, as in Volcano. `soft`: as close together as possible",
)
_CLUSTERS = Ignored("one Phalanx scheduler serves one cluster")
_NOT_COUNTED = Ignored("Volcano has not written this field since 1.10; its tools count PodGroups instead")
_PREFERRED = Ignored(
    "a Queue either uses a node group or does not: list the required groups, or taint the nodes of a group"
)
_NOT_WRITTEN = Ignored("Phalanx does not write this field")
_ALIGNED = Becomes(
    "Shape.aligned",
    "with any policy, each pod gets its resources from one NUMA zone if possible; with "
    "`phalanx.dev/numa-alignment: required` a pod runs only on a node where that is possible",
)
_AGENTS = Ignored("only Volcano's node agent reads this field, and Phalanx does not run that agent")
_GROUPS = ".volcano.sh/"  # the end of the group in an apiVersion
_CONTROLLER = "the Job controller"
_CRON = "the CronJob controller"
_FLOW = "the JobFlow controller"

POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes(
        "Role.minimum", "this number of pods must exist, and these pods are bound together; if absent or 0, it is 1"
    ),
    "spec.minTaskMember": Becomes(
        "Role.minimum",
        "the minimum of each task, which is a role in Phalanx (pods name their task in the "
        "annotation volcano.sh/task-spec); it has an effect only if minMember is at least the sum of "
        "these minimums",
    ),
    "spec.minResources": Becomes(
        "Role (held)",
        "amounts that exceed the requests of the existing pods are reserved for later pods; names of "
        "ResourceQuota entries, such as limits.cpu, are ignored",
    ),
    "spec.queue": Becomes("Job.queue", "the Queue `default` if the PodGroup names none"),
    "spec.priorityClassName": Becomes(
        "Job.priority",
        "the priority of the gang, which replaces the priorities of its pods; without a class, the "
        "gang has the priority of the default PriorityClass, or else 0",
    ),
    "spec.networkTopology": _NEAR,
    "spec.subGroupPolicy[].name": Ignored("a subgroup is named after the task that labelSelector selects"),
    "spec.subGroupPolicy[].labelSelector": Becomes(
        "Group", "the task that the label volcano.sh/task-spec in matchLabels names"
    ),
    "spec.subGroupPolicy[].matchLabelKeys": Ignored(
        "only the label volcano.sh/partition-id divides the pods of a task into partitions"
    ),
    "spec.subGroupPolicy[].subGroupSize": Becomes("Role.minimum", "the number of pods in each partition"),
    "spec.subGroupPolicy[].minSubGroups": Becomes(
        "Group.minimum",
        "the number of partitions that start together; if absent, as many as the task's minTaskMember needs",
    ),
    "spec.subGroupPolicy[].networkTopology": _NEAR,
    "status.phase": Answered("Pending, Inqueue, Running, Completed or Unknown: see the section *Status of a PodGroup*"),
    "status.running": Answered(),
    "status.succeeded": Answered(),
    "status.failed": Answered(),
    "status.conditions": Answered("one condition Unschedulable and one condition Scheduled; the newer one applies"),
    "status.conditions[].transitionID": Ignored("scheduling cycles have no ids in Phalanx"),
}
QUEUE: Mapping[str, Use] = {
    "spec.weight": Becomes("Queue.weight"),
    "spec.capability": Becomes("Quota.limit"),
    "spec.deserved": Becomes("Quota.guaranteed", "jobs of the Queue reclaim amounts that other Queues have borrowed"),
    "spec.guarantee.resource": Becomes("Quota.lend", "this part of the guarantee is never lent to other Queues"),
    "spec.reclaimable": Becomes(
        "QueuePreemption.reclaimable", "`false`: jobs of other Queues do not preempt jobs of this Queue"
    ),
    "spec.parent": Becomes("Queue.parent", "`root` means that the Queue has no parent in Phalanx"),
    "spec.priority": Becomes(
        "Queue.priority",
        "among Queues that use more than their guarantee, the one with the highest priority is next; "
        "the share decides only between equal priorities",
    ),
    "spec.dequeueStrategy": Becomes(
        "Queue.strict",
        "`fifo`: the first job of the Queue blocks its other jobs; Volcano 1.15 itself does not read this field",
    ),
    "spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution": Becomes(
        "Quota.flavor",
        "the flavor `nodegroup/<name>`, which contains the nodes with this value of the label "
        "volcano.sh/nodegroup-name; several flavors are tried in the order of the list",
    ),
    "spec.affinity.nodeGroupAffinity.preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED,
    "spec.affinity.nodeGroupAntiAffinity": _PREFERRED,
    "spec.type": _CLUSTERS,
    "spec.extendClusters": _CLUSTERS,
    "status.state": Becomes(
        "Queue.state", "a Queue that is `Closing` or `Closed` starts no jobs; running jobs continue"
    ),
    "status.allocated": Answered("the amounts that the Queue's jobs hold, including the number of pods"),
    "status.pending": _NOT_COUNTED,
    "status.running": _NOT_COUNTED,
    "status.inqueue": _NOT_COUNTED,
    "status.completed": _NOT_COUNTED,
    "status.unknown": _NOT_COUNTED,
    "status.reservation": _NOT_COUNTED,
}
_JOB_SPEC: Mapping[str, Use] = {
    "minAvailable": Becomes(
        "PodGroup.minMember",
        "the minimum for all tasks together; if absent or 0, it is the sum of the minimums of the tasks",
    ),
    "tasks[].name": Becomes("pod name", "`default<i>` if the task has no name; i is its index"),
    "tasks[].replicas": Becomes(_CONTROLLER, "the number may change while the Job runs"),
    "tasks[].minAvailable": Becomes("PodGroup.minTaskMember", "if absent, all replicas"),
    "tasks[].template": Becomes("pods", "the template is used unchanged, except for additions by the Job's plugins"),
    "tasks[].policies": Becomes(_CONTROLLER, "policies of a task take precedence over the policies of the Job"),
    "tasks[].maxRetry": Becomes(_CONTROLLER, "this number of container restarts causes the event TaskFailed"),
    "tasks[].dependsOn": Becomes(
        _CONTROLLER,
        "the task's pods are created when all the named tasks have their minimum; `any`: when one task has it",
    ),
    "tasks[].topologyPolicy": _ALIGNED,
    "tasks[].partitionPolicy.totalPartitions": Becomes(
        _CONTROLLER, "totalPartitions times partitionSize must equal replicas"
    ),
    "tasks[].partitionPolicy.partitionSize": Becomes(
        "label volcano.sh/partition-id",
        "the number of pods with the same label; the action RestartPartition restarts these pods",
    ),
    "tasks[].partitionPolicy.minPartitions": Becomes("PodGroup.minTaskMember", "used if the task has no minAvailable"),
    "tasks[].partitionPolicy.networkTopology": _NEAR,
    "queue": Becomes("PodGroup.queue"),
    "priorityClassName": Becomes(
        "PodGroup.priorityClassName", "it is also the class of pods whose template names no class"
    ),
    "schedulerName": Becomes(
        "Pod.schedulerName",
        "the scheduler of pods whose template names none; the default is `volcano`. "
        "With the value `kueue.x-k8s.io/multikueue`, another cluster runs the Job",
    ),
    "plugins": Becomes(_CONTROLLER, "env, svc, ssh, pytorch, tensorflow, mpi, ray, hcclrank"),
    "policies": Becomes(_CONTROLLER, "the actions and events are in the section *Job, on `phalanx up`*"),
    "maxRetry": Becomes(
        _CONTROLLER,
        "the maximum number of restarts, 3 if absent or 0; "
        "instead of the restart that reaches this number, the Job fails",
    ),
    "minSuccess": Becomes(_CONTROLLER, "the Job is complete when this number of pods has succeeded"),
    "ttlSecondsAfterFinished": Becomes(_CONTROLLER),
    "volumes": Becomes(_CONTROLLER, "PersistentVolumeClaims are created and mounted, and are deleted with the Job"),
    "networkTopology": _NEAR,
    "runningEstimate": Ignored(
        "Volcano's scheduler does not use this field either; set the annotation phalanx.dev/limit instead"
    ),
}


def _below(path: str, table: Mapping[str, Use]) -> dict[str, Use]:
    return {f"{path}.{field}": use for field, use in table.items()}


JOB: Mapping[str, Use] = {
    **_below("spec", _JOB_SPEC),
    "status.state": Answered("phase and lastTransitionTime; reason and message stay empty, as in Volcano"),
    "status.conditions": Answered("one condition for each phase; the newest is the last"),
    "status.minAvailable": Answered(),
    "status.pending": Answered(),
    "status.running": Answered(),
    "status.succeeded": Answered(),
    "status.failed": Answered(),
    "status.terminating": Answered(),
    "status.unknown": Answered(),
    "status.taskStatusCount": Answered(),
    "status.version": Answered("increased by 1 each time that all pods of the Job are killed"),
    "status.retryCount": Answered(),
    "status.runningDuration": Answered("the time since the Job was created, as in Volcano"),
    "status.controlledResources": Answered(),
}
COMMAND: Mapping[str, Use] = {
    "action": Becomes(_CONTROLLER, "the actions for Jobs, and CloseQueue and OpenQueue for Queues"),
    "target": Becomes(
        "the Job in its namespace, or a Queue", "only a Command in the namespace `default` may name a Queue"
    ),
    "reason": Ignored("no program reads this field, in Volcano or in Phalanx"),
    "message": Ignored("no program reads this field, in Volcano or in Phalanx"),
}
JOB_FLOW: Mapping[str, Use] = {
    "spec.flows[].name": Becomes(
        _FLOW, "the name of the JobTemplate; the created Job has the name `<flow>-<template>`"
    ),
    "spec.flows[].dependsOn.targets": Becomes(_FLOW, "the Job is created when the Jobs of these targets are Completed"),
    "spec.flows[].dependsOn.probe": Ignored(
        "Volcano 1.15 does not read this field either; a dependency is satisfied when its Job is Completed"
    ),
    "spec.flows[].patch": Ignored("Volcano 1.15 does not read this field either; write another JobTemplate instead"),
    "spec.jobRetainPolicy": Becomes(_FLOW, "`delete`: the Jobs are deleted as soon as all of them are Completed"),
    "status.state": Answered("Pending, Running, Succeed, Failed"),
    "status.pendingJobs": Answered(),
    "status.runningJobs": Answered(),
    "status.completedJobs": Answered(),
    "status.failedJobs": Answered(),
    "status.terminatedJobs": Answered(),
    "status.unKnowJobs": Answered("the Jobs in phases for which no other field exists"),
    "status.conditions": Answered(),
    "status.jobStatusList": Answered(),
    "status.jobStatusList[].runningHistories": _NOT_WRITTEN,
}
JOB_TEMPLATE: Mapping[str, Use] = {
    **_below("spec", _JOB_SPEC),
    "status.jobDependsOnList": Ignored("Phalanx does not write this field; the status of a JobFlow names its Jobs"),
}
CRON_JOB: Mapping[str, Use] = {
    "spec.schedule": Becomes(_CRON),
    "spec.timeZone": Becomes(_CRON),
    "spec.startingDeadlineSeconds": Becomes(_CRON),
    "spec.concurrencyPolicy": Becomes(_CRON),
    "spec.suspend": Becomes(_CRON),
    "spec.successfulJobsHistoryLimit": Becomes(_CRON),
    "spec.failedJobsHistoryLimit": Becomes(_CRON),
    "spec.jobTemplate": Becomes("Job", "the spec of the created Jobs, with the labels and annotations of the template"),
    "status.active": Answered(),
    "status.lastScheduleTime": Answered(),
    "status.lastSuccessfulTime": Answered(),
}
HYPER_NODE: Mapping[str, Use] = {
    "spec.tier": Becomes(
        "Topology.levels", "tier n is the level topology.volcano.sh/tier-<n>; nodes need no label of this name"
    ),
    "spec.tierName": Becomes("Topology.levels", "the name by which highestTierName refers to the tier"),
    "spec.members": Becomes(
        "Node.labels",
        "nodes are selected by name, by a regular expression or by labels; HyperNodes by name or by "
        "a regular expression",
    ),
    "status.nodeCount": Answered("the number of nodes in the HyperNode and in the HyperNodes below it"),
    "status.conditions": Ignored(
        "only Volcano's discovery controller writes conditions, and Phalanx does not run that controller"
    ),
}
NUMA_TOPOLOGY: Mapping[str, Use] = {
    "spec.cpuDetail": Becomes(
        "Zone.allocatable", "the cpus of each NUMA zone; zones that the node itself declares take precedence"
    ),
    "spec.numares": Ignored("Phalanx computes the free amounts of a zone from the pods"),
    "spec.policies": Ignored("the NUMA alignment follows from the pod, and not from the kubelet's policy"),
    "spec.resReserved": Ignored("the allocatable amounts of the node limit its pods in any case"),
}
TABLES: Mapping[str, Mapping[str, Use]] = {
    "PodGroup": POD_GROUP,
    "Queue": QUEUE,
    "Job": JOB,
    "Command": COMMAND,
    "JobFlow": JOB_FLOW,
    "JobTemplate": JOB_TEMPLATE,
    "CronJob": CRON_JOB,
    "HyperNode": HYPER_NODE,
    "Numatopology": NUMA_TOPOLOGY,
    "NodeShard": {"spec": _CLUSTERS, "status": _CLUSTERS},
    "ColocationConfiguration": {"spec": _AGENTS, "status": _AGENTS},
}
WORDS: Mapping[str, Use] = {
    "scheduling.k8s.io/group-name": Becomes(
        "Job.id", "the pod belongs to the gang of the PodGroup with this name; the gang waits until the PodGroup exists"
    ),
    "scheduling.volcano.sh/group-name": Becomes(
        "Job.id", "the same; Volcano's scheduler reads only the annotation above"
    ),
    "scheduling.volcano.sh/queue-name": Becomes(
        "Job.queue",
        "on a pod without a PodGroup: its Queue. On a namespace: the Queue of those PodGroups in the "
        "namespace that name no Queue or the Queue `default`",
    ),
    "volcano.sh/task-spec": Becomes("Role.name"),
    "volcano.sh/preemptable": Becomes(
        "Job.preemptible",
        "a pod without it is preemptible, as in Volcano since 1.8; `false` on one pod protects its whole PodGroup",
    ),
    "scheduling.volcano.sh/group-min-member": Becomes(
        "Role.minimum",
        "on a Deployment, ReplicaSet, StatefulSet or DaemonSet: this number of pods starts together; "
        "it has an effect only on `phalanx up`",
    ),
    "volcano.sh/jdb-min-available": Ignored("use a PodDisruptionBudget, which Phalanx respects"),
    "volcano.sh/jdb-max-unavailable": Ignored("use a PodDisruptionBudget, which Phalanx respects"),
    "volcano.sh/cooldown-time": Ignored(
        "use the queue's setting preemption.minRun, the time after its start during which a job is not preempted"
    ),
    "volcano.sh/revocable-zone": Ignored("use a reservation of Phalanx, which reserves nodes for a period"),
    "volcano.sh/numa-topology-policy": _ALIGNED,
    "volcano.sh/sla-waiting-time": Ignored("backfill reserves capacity for the first waiting job"),
    "volcano.sh/task-topology-affinity": Ignored("use affinity in the pod templates of the tasks"),
    "volcano.sh/task-topology-anti-affinity": Ignored("use affinity in the pod templates of the tasks"),
    "volcano.sh/task-priority": Ignored("use priorityClassName in the pod templates of the tasks"),
    "volcano.sh/qos-level": _AGENTS,
    "volcano.sh/hierarchy": Ignored("it belongs to Queues: use spec.parent of the Queue"),
    "volcano.sh/hierarchy-weights": Ignored("it belongs to Queues: use spec.parent and spec.weight of the Queue"),
}


def notes(kind: str, obj: Object) -> Iterator[str]:
    """Yield one sentence for each field, label and annotation of the object that has no effect. For objects of other
    API groups, for example a batch/v1 Job, only labels and annotations are checked."""
    is_volcano = _GROUPS in str(obj.get("apiVersion") or "")
    table = TABLES.get(kind, {}) if is_volcano else {}
    if isinstance(whole := table.get("spec"), Ignored):
        yield f"it has no effect: {whole.why}"
        return
    if is_volcano and kind == "Queue" and (fault := fault_of(obj)):
        yield f"{fault}: no job of this queue starts until this is corrected"
    if table:
        yield from unused(obj.get("spec") or {}, table)
    said = {**(obj["metadata"].get("labels") or {}), **(obj["metadata"].get("annotations") or {})}
    for key in said:
        if isinstance(use := WORDS.get(key), Ignored):
            yield f"{key} has no effect: {use.why}"
