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
    "`hard`: one HyperNode of at most that tier; without a tier no request (as in Volcano). `soft`: if possible",
)
_CLUSTERS = Ignored("one scheduler serves one cluster here")
_NOT_COUNTED = Ignored("Volcano has not written it since 1.10; its tools count PodGroups")
_PREFERRED = Ignored("node groups are taken or not: write the required ones, or taint the nodes of a group")
_NOT_WRITTEN = Ignored("not written")
_ALIGNED = Becomes(
    "Shape.aligned",
    "from one NUMA zone where that can be, whichever policy; phalanx.dev/numa-alignment: required takes no other node",
)
_AGENTS = Ignored("Volcano's node agent reads it, which does not run here")
_GROUPS = ".volcano.sh/"  # the end of the group in an apiVersion
_CONTROLLER = "the Job controller"
_CRON = "the CronJob controller"
_FLOW = "the JobFlow controller"

POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes(
        "Role.minimum", "this number of pods must exist, and is bound together; none or 0 means 1"
    ),
    "spec.minTaskMember": Becomes(
        "Role.minimum",
        "of the role that the pods' annotation volcano.sh/task-spec names, if minMember is at least the sum of these",
    ),
    "spec.minResources": Becomes(
        "Role (held)", "the part that existing pods do not request is reserved for later pods; names of quotas are not"
    ),
    "spec.queue": Becomes("Job.queue", "`default` if none is named"),
    "spec.priorityClassName": Becomes(
        "Job.priority", "the priority of the gang, whatever its pods have; none: the default class, or 0"
    ),
    "spec.networkTopology": _NEAR,
    "spec.subGroupPolicy[].name": Ignored("the subgroup has the name of the task that labelSelector selects"),
    "spec.subGroupPolicy[].labelSelector": Becomes("Group", "the task that volcano.sh/task-spec in matchLabels names"),
    "spec.subGroupPolicy[].matchLabelKeys": Ignored("only volcano.sh/partition-id divides the pods of a task"),
    "spec.subGroupPolicy[].subGroupSize": Becomes("Role.minimum", "of each partition"),
    "spec.subGroupPolicy[].minSubGroups": Becomes(
        "Group.minimum", "this number of partitions, or as many as minTaskMember needs"
    ),
    "spec.subGroupPolicy[].networkTopology": _NEAR,
    "status.phase": Answered("Pending, Inqueue, Running, Completed, Unknown: see below"),
    "status.running": Answered(),
    "status.succeeded": Answered(),
    "status.failed": Answered(),
    "status.conditions": Answered("Unschedulable and Scheduled, one of each; the newest counts"),
    "status.conditions[].transitionID": Ignored("there are no cycles with an id here"),
}
QUEUE: Mapping[str, Use] = {
    "spec.weight": Becomes("Queue.weight"),
    "spec.capability": Becomes("Quota.limit"),
    "spec.deserved": Becomes("Quota.guaranteed", "its jobs reclaim amounts that other queues borrowed"),
    "spec.guarantee.resource": Becomes("Quota.lend", "this part of the guarantee is never lent"),
    "spec.reclaimable": Becomes("QueuePreemption.reclaimable", "`false`: jobs of other queues do not preempt its jobs"),
    "spec.parent": Becomes("Queue.parent", "`root` is the unnamed root"),
    "spec.priority": Becomes("Queue.priority", "of queues beyond their guarantee it decides before shares"),
    "spec.dequeueStrategy": Becomes(
        "Queue.strict", "`fifo`: the first job blocks the others; no code of Volcano 1.15 reads it"
    ),
    "spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution": Becomes(
        "Quota.flavor", "the flavor `nodegroup/<name>`: nodes with the label volcano.sh/nodegroup-name; in their order"
    ),
    "spec.affinity.nodeGroupAffinity.preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED,
    "spec.affinity.nodeGroupAntiAffinity": _PREFERRED,
    "spec.type": _CLUSTERS,
    "spec.extendClusters": _CLUSTERS,
    "status.state": Becomes("Queue.state", "`Closing` and `Closed` start nothing; what runs goes on"),
    "status.allocated": Answered("of what its jobs hold, `pods` too"),
    "status.pending": _NOT_COUNTED,
    "status.running": _NOT_COUNTED,
    "status.inqueue": _NOT_COUNTED,
    "status.completed": _NOT_COUNTED,
    "status.unknown": _NOT_COUNTED,
    "status.reservation": _NOT_COUNTED,
}
_JOB_SPEC: Mapping[str, Use] = {
    "minAvailable": Becomes("PodGroup.minMember", "the minimum of all tasks; none or 0: the sum of their minimums"),
    "tasks[].name": Becomes("pod name", "`default<i>` if none is given"),
    "tasks[].replicas": Becomes(_CONTROLLER, "may change while it runs"),
    "tasks[].minAvailable": Becomes("PodGroup.minTaskMember", "none: all replicas"),
    "tasks[].template": Becomes("pods", "taken as it is, with what the plugins add"),
    "tasks[].policies": Becomes(_CONTROLLER, "they count before the job's"),
    "tasks[].maxRetry": Becomes(_CONTROLLER, "this number of container restarts causes the event TaskFailed"),
    "tasks[].dependsOn": Becomes(
        _CONTROLLER,
        "the task's pods are created when all the named tasks have their minimum; `any`: when one task has it",
    ),
    "tasks[].topologyPolicy": _ALIGNED,
    "tasks[].partitionPolicy.totalPartitions": Becomes(_CONTROLLER, "times partitionSize it is replicas"),
    "tasks[].partitionPolicy.partitionSize": Becomes("label volcano.sh/partition-id", "for RestartPartition"),
    "tasks[].partitionPolicy.minPartitions": Becomes("PodGroup.minTaskMember", "if minAvailable says nothing"),
    "tasks[].partitionPolicy.networkTopology": _NEAR,
    "queue": Becomes("PodGroup.queue"),
    "priorityClassName": Becomes("PodGroup.priorityClassName", "and the class of pods whose template names none"),
    "schedulerName": Becomes(
        "Pod.schedulerName",
        "the scheduler of pods whose template names none; the default is `volcano`. "
        "With the value `kueue.x-k8s.io/multikueue`, another cluster runs the Job",
    ),
    "plugins": Becomes(_CONTROLLER, "env, svc, ssh, pytorch, tensorflow, mpi, ray, hcclrank"),
    "policies": Becomes(_CONTROLLER, "see below"),
    "maxRetry": Becomes(_CONTROLLER, "3 if it is absent or 0; the restart that reaches it never happens"),
    "minSuccess": Becomes(_CONTROLLER, "so many pods that succeeded complete the job"),
    "ttlSecondsAfterFinished": Becomes(_CONTROLLER),
    "volumes": Becomes(_CONTROLLER, "claims are made, mounted, and kept until the job goes"),
    "networkTopology": _NEAR,
    "runningEstimate": Ignored("Volcano's scheduler carries it and does not use it either; write phalanx.dev/limit"),
}


def _below(path: str, table: Mapping[str, Use]) -> dict[str, Use]:
    return {f"{path}.{field}": use for field, use in table.items()}


JOB: Mapping[str, Use] = {
    **_below("spec", _JOB_SPEC),
    "status.state": Answered("phase and lastTransitionTime; reason and message stay empty, as there"),
    "status.conditions": Answered("one for each phase, the newest last"),
    "status.minAvailable": Answered(),
    "status.pending": Answered(),
    "status.running": Answered(),
    "status.succeeded": Answered(),
    "status.failed": Answered(),
    "status.terminating": Answered(),
    "status.unknown": Answered(),
    "status.taskStatusCount": Answered(),
    "status.version": Answered("one more whenever the whole job is taken away"),
    "status.retryCount": Answered(),
    "status.runningDuration": Answered("from creation, as there"),
    "status.controlledResources": Answered(),
}
COMMAND: Mapping[str, Use] = {
    "action": Becomes(_CONTROLLER, "of Jobs; CloseQueue and OpenQueue of Queues"),
    "target": Becomes("the Job in its namespace, or a Queue", "a Queue for commands in the namespace `default` only"),
    "reason": Ignored("no program reads it, neither upstream"),
    "message": Ignored("no program reads it, neither upstream"),
}
JOB_FLOW: Mapping[str, Use] = {
    "spec.flows[].name": Becomes(_FLOW, "the JobTemplate; the Job is `<flow>-<template>`"),
    "spec.flows[].dependsOn.targets": Becomes(_FLOW, "their Jobs are Completed first"),
    "spec.flows[].dependsOn.probe": Ignored("no code of Volcano 1.15 reads it; a dependency is met by completion"),
    "spec.flows[].patch": Ignored("no code of Volcano 1.15 reads it; write a JobTemplate of its own"),
    "spec.jobRetainPolicy": Becomes(_FLOW, "`delete`: the Jobs go once all are Completed"),
    "status.state": Answered("Pending, Running, Succeed, Failed"),
    "status.pendingJobs": Answered(),
    "status.runningJobs": Answered(),
    "status.completedJobs": Answered(),
    "status.failedJobs": Answered(),
    "status.terminatedJobs": Answered(),
    "status.unKnowJobs": Answered("in phases for which there is no other list"),
    "status.conditions": Answered(),
    "status.jobStatusList": Answered(),
    "status.jobStatusList[].runningHistories": _NOT_WRITTEN,
}
JOB_TEMPLATE: Mapping[str, Use] = {
    **_below("spec", _JOB_SPEC),
    "status.jobDependsOnList": Ignored("not written: a JobFlow's status names its Jobs"),
}
CRON_JOB: Mapping[str, Use] = {
    "spec.schedule": Becomes(_CRON),
    "spec.timeZone": Becomes(_CRON),
    "spec.startingDeadlineSeconds": Becomes(_CRON),
    "spec.concurrencyPolicy": Becomes(_CRON),
    "spec.suspend": Becomes(_CRON),
    "spec.successfulJobsHistoryLimit": Becomes(_CRON),
    "spec.failedJobsHistoryLimit": Becomes(_CRON),
    "spec.jobTemplate": Becomes("Job", "with its labels and annotations"),
    "status.active": Answered(),
    "status.lastScheduleTime": Answered(),
    "status.lastSuccessfulTime": Answered(),
}
HYPER_NODE: Mapping[str, Use] = {
    "spec.tier": Becomes("Topology.levels", "the node label topology.volcano.sh/tier-<n>, which nodes need not carry"),
    "spec.tierName": Becomes("Topology.levels", "what highestTierName means"),
    "spec.members": Becomes("Node.labels", "by name, regular expression or labels; HyperNodes by name or expression"),
    "status.nodeCount": Answered("nodes in it and in those below it"),
    "status.conditions": Ignored("Volcano's own discovery writes them, which does not run here"),
}
NUMA_TOPOLOGY: Mapping[str, Use] = {
    "spec.cpuDetail": Becomes("Zone.allocatable", "the cpus of each zone; what a node says itself counts first"),
    "spec.numares": Ignored("what is free of a zone is known from the pods"),
    "spec.policies": Ignored("a pod says how it is aligned, whatever its node's kubelet does"),
    "spec.resReserved": Ignored("the node's allocatable amounts count as well"),
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
        "Job.id", "the gang of the PodGroup of that name; it waits until there is one"
    ),
    "scheduling.volcano.sh/group-name": Becomes("Job.id", "the same; Volcano's scheduler reads only the first"),
    "scheduling.volcano.sh/queue-name": Becomes(
        "Job.queue", "of pods without a PodGroup; of a namespace: of its PodGroups that name none, or `default`"
    ),
    "volcano.sh/task-spec": Becomes("Role.name"),
    "volcano.sh/preemptable": Becomes(
        "Job.preemptible",
        "a pod that does not say may be, as in Volcano since 1.8; one that may not spares its whole PodGroup here",
    ),
    "scheduling.volcano.sh/group-min-member": Becomes(
        "Role.minimum",
        "for a Deployment, ReplicaSet, StatefulSet or DaemonSet: this many pods start together; on `phalanx up`",
    ),
    "volcano.sh/jdb-min-available": Ignored("write a PodDisruptionBudget, which is kept"),
    "volcano.sh/jdb-max-unavailable": Ignored("write a PodDisruptionBudget, which is kept"),
    "volcano.sh/cooldown-time": Ignored("queues say how long a job is spared: preemption.minRun"),
    "volcano.sh/revocable-zone": Ignored("reservations set nodes aside for a time"),
    "volcano.sh/numa-topology-policy": _ALIGNED,
    "volcano.sh/sla-waiting-time": Ignored("backfill gives the job that waits longest a reservation"),
    "volcano.sh/task-topology-affinity": Ignored("write affinity in the tasks' templates"),
    "volcano.sh/task-topology-anti-affinity": Ignored("write affinity in the tasks' templates"),
    "volcano.sh/task-priority": Ignored("write priorityClassName in the tasks' templates"),
    "volcano.sh/qos-level": _AGENTS,
    "volcano.sh/hierarchy": Ignored("of queues: write spec.parent"),
    "volcano.sh/hierarchy-weights": Ignored("of queues: write spec.parent and spec.weight"),
}


def notes(kind: str, obj: Object) -> Iterator[str]:
    """Yield one sentence for each field, label and annotation of the object that has no effect. For objects of other
    API groups, for example a batch/v1 Job, only labels and annotations are checked."""
    theirs = _GROUPS in str(obj.get("apiVersion") or "")
    table = TABLES.get(kind, {}) if theirs else {}
    if isinstance(whole := table.get("spec"), Ignored):
        yield f"it has no effect: {whole.why}"
        return
    if theirs and kind == "Queue" and (fault := fault_of(obj)):
        yield f"{fault}: nothing of this queue starts until that is mended"
    if table:
        yield from unused(obj.get("spec") or {}, table)
    said = {**(obj["metadata"].get("labels") or {}), **(obj["metadata"].get("annotations") or {})}
    for key in said:
        if isinstance(use := WORDS.get(key), Ignored):
            yield f"{key} has no effect: {use.why}"
