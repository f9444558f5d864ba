"""State how Phalanx uses every field of Kueue's kinds, and Kueue's labels and annotations on jobs and pods.

The page docs/dialects/kueue.md is generated from these tables. A test compares the tables with every field of every
CustomResourceDefinition. A field with subfields has one row if all its subfields have the same use; otherwise each
subfield has its own row. `[]` stands for each entry of a list.

`notes` lists the parts of one object that have no effect in Phalanx, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use, unused
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.configuration import (
    CONFIGURATIONS,
    KueueConfigurationError,
    decoded,
    read_configuration,
    text_of,
)

_CHECKS = Ignored("the controller with this name sets the condition Active, and decides about each job")
_PARAMETERS = Becomes(
    "NodeGroup.on_demand",
    "for the controller kueue.x-k8s.io/provisioning-request; any other controller reads its parameters itself",
)
_GATE = Becomes(
    "Claim.gate",
    "when a job has quota, it waits for each check; while a check is missing or inactive, the queue starts no jobs",
)
_MULTI = Ignored("one Phalanx scheduler serves one cluster")
_CONCURRENT = Ignored("it is an alpha feature of Kueue; Phalanx chooses the flavors again at each start")
_TOPOLOGY = Ignored("Phalanx binds pods to nodes at once, so it delays no topology assignment")
_CONDITIONS: Mapping[str, Use] = {"status.conditions": Answered()}
_QUOTAS: Mapping[str, Use] = {
    "spec.resourceGroups[].coveredResources": Becomes(
        "Quota", "a job that requests another resource waits with the reason NoMatchingFlavor"
    ),
    "spec.resourceGroups[].flavors[].name": Becomes("Quota.flavor", "flavors are tried in the order of the list"),
    "spec.resourceGroups[].flavors[].resources[].name": Becomes("Quota", "the name of the resource"),
    "spec.resourceGroups[].flavors[].resources[].nominalQuota": Becomes("Quota.guaranteed"),
    "spec.resourceGroups[].flavors[].resources[].borrowingLimit": Becomes(
        "Quota.limit", "the limit is the nominal quota plus this amount"
    ),
    "spec.resourceGroups[].flavors[].resources[].lendingLimit": Becomes("Quota.lend"),
    "spec.fairSharing.weight": Becomes("Queue.weight", "it has an effect if the Configuration enables fair sharing"),
}
_FAIR_STATUS: Mapping[str, Use] = {
    "status.fairSharing.weightedShare": Answered("written if fair sharing is enabled"),
    "status.fairSharing.admissionFairSharingStatus": Ignored("Phalanx writes it only for LocalQueues, as Kueue does"),
}
CLUSTER_QUEUE: Mapping[str, Use] = {
    **_QUOTAS,
    "spec.cohort": Becomes("Queue.parent", "the name of the field in v1beta1; cohortName takes precedence"),
    "spec.cohortName": Becomes("Queue.parent", "the Cohort exists even if there is no object of this name"),
    "spec.queueingStrategy": Becomes("Queue.strict", "StrictFIFO: the first job blocks the jobs behind it"),
    "spec.namespaceSelector": Becomes(
        "Claim.blocked", "a job of a namespace that it does not select waits with the reason Misconfigured"
    ),
    "spec.flavorFungibility.whenCanBorrow": Becomes("FlavorFungibility.borrow_before_next"),
    "spec.flavorFungibility.whenCanPreempt": Becomes("FlavorFungibility.preempt_before_next"),
    "spec.flavorFungibility.preference": Becomes("FlavorFungibility.prefer_preemption"),
    "spec.preemption.withinClusterQueue": Becomes("QueuePreemption.within"),
    "spec.preemption.reclaimWithinCohort": Becomes("QueuePreemption.reclaim"),
    "spec.preemption.borrowWithinCohort.policy": Becomes("QueuePreemption.borrowing"),
    "spec.preemption.borrowWithinCohort.maxPriorityThreshold": Becomes("QueuePreemption.borrowing_threshold"),
    "spec.admissionChecks": _GATE,
    "spec.admissionChecksStrategy.admissionChecks[].name": _GATE,
    "spec.admissionChecksStrategy.admissionChecks[].onFlavors": Becomes(
        "Claim.gate", "only jobs that get one of these flavors wait for the check"
    ),
    "spec.stopPolicy": Becomes("Queue.state", "Hold: no job starts; HoldAndDrain: running jobs are stopped, too"),
    "spec.admissionScope.admissionMode": Becomes(
        "QueueOrder.USAGE", "UsageBasedAdmissionFairSharing, if the Configuration has admissionFairSharing"
    ),
    "spec.concurrentAdmissionPolicy": _CONCURRENT,
    **_CONDITIONS,
    **_FAIR_STATUS,
    "status.flavorsReservation": Answered("it is larger than flavorsUsage while jobs wait for admission checks"),
    "status.flavorsUsage": Answered(),
    "status.pendingWorkloads": Answered(),
    "status.reservingWorkloads": Answered(),
    "status.admittedWorkloads": Answered(),
    "status.pendingWorkloadsStatus": Ignored("Kueue removed it in v1beta2; `phalanx jobs` lists waiting jobs"),
}
LOCAL_QUEUE: Mapping[str, Use] = {
    "spec.clusterQueue": Becomes("Job.queue"),
    "spec.stopPolicy": Becomes("Claim.blocked", "Hold: no job starts; HoldAndDrain: running jobs are stopped, too"),
    "spec.fairSharing.weight": Becomes(
        "Queue.accounts", "the shares of the LocalQueue in its ClusterQueue; with 0 its jobs are last"
    ),
    **_CONDITIONS,
    "status.fairSharing.admissionFairSharingStatus": Answered(
        "once in each sampling interval, if the ClusterQueue orders jobs by usage"
    ),
    "status.fairSharing.weightedShare": Answered("always 0, as in Kueue"),
    "status.flavorsReservation": Answered(),
    "status.flavorsUsage": Answered(),
    "status.flavorUsage": Ignored("it is the name of flavorsUsage in v1beta1"),
    "status.flavors": Ignored("Kueue removed it in v1beta2"),
    "status.pendingWorkloads": Answered(),
    "status.reservingWorkloads": Answered(),
    "status.admittedWorkloads": Answered(),
}
COHORT: Mapping[str, Use] = {
    **_QUOTAS,
    "spec.parentName": Becomes(
        "Queue.parent", "the parent of the Cohort; if Cohorts form a cycle, no queue below them starts jobs"
    ),
    **_FAIR_STATUS,
}
RESOURCE_FLAVOR: Mapping[str, Use] = {
    "spec.nodeLabels": Becomes(
        "Flavor.labels", "added to the node selector of the pods when the job starts, and removed when it is stopped"
    ),
    "spec.nodeTaints": Becomes("Flavor.taints", "only pods that tolerate these taints get the flavor"),
    "spec.tolerations": Becomes(
        "Flavor.tolerations", "added to the pods when the job starts, and removed when it is stopped"
    ),
    "spec.topologyName": Answered("the topology assignment in a Workload has the levels of this Topology"),
}
TOPOLOGY: Mapping[str, Use] = {
    "spec.levels": Becomes(
        "Topology.levels",
        "from coarse to fine; if a topology of the policy has the same level, the topology of the policy is used",
    )
}
PRIORITY_CLASS: Mapping[str, Use] = {
    "value": Becomes("Job.priority", "a change also applies to waiting jobs"),
    "description": Ignored("it is for people only"),
}
ADMISSION_CHECK: Mapping[str, Use] = {
    "spec.controllerName": _CHECKS,
    "spec.parameters": _PARAMETERS,
    "spec.retryDelayMinutes": Ignored("it has had no effect in Kueue since 0.8"),
    "status.conditions": Becomes(
        "Queue.state",
        "while Active is True, ClusterQueues with the check admit jobs; Phalanx writes the condition "
        "in place of Kueue's two controllers",
    ),
}
_IN_REQUEST = Becomes("NodeGroup.on_demand", "written into the ProvisioningRequest")
PROVISIONING_REQUEST_CONFIG: Mapping[str, Use] = {
    "spec.provisioningClassName": _IN_REQUEST,
    "spec.parameters": Becomes(
        "NodeGroup.on_demand",
        "written into the ProvisioningRequest, together with parameters from annotations of the job",
    ),
    "spec.managedResources": Becomes(
        "OnDemand.resources", "a job that requests none of these resources needs no ProvisioningRequest"
    ),
    "spec.retryStrategy.backoffLimitCount": Becomes(
        "Claim.blocked", "after this number of failures the job is deactivated"
    ),
    "spec.retryStrategy.backoffBaseSeconds": Becomes(
        "Claim.blocked", "the pause after the first failure; it doubles with each further failure"
    ),
    "spec.retryStrategy.backoffMaxSeconds": Becomes("Claim.blocked", "the longest pause"),
    "spec.podSetUpdates.nodeSelector[].key": Becomes("Claim.updates", "a key in the node selector of the pods"),
    "spec.podSetUpdates.nodeSelector[].valueFromProvisioningClassDetail": Becomes(
        "Claim.updates", "the value of this key"
    ),
    "spec.podSetMergePolicy": Becomes(
        "NodeGroup.on_demand", "equal pod sets become one pod set of the ProvisioningRequest"
    ),
}
_KUBECONFIG = Becomes("Worker.source", "a Secret in the namespace kueue-system with the key kubeconfig, or a file")
MULTI_KUEUE_CLUSTER: Mapping[str, Use] = {
    "spec.clusterSource.kubeConfig": _KUBECONFIG,
    "spec.kubeConfig": _KUBECONFIG,
    "spec.clusterSource.clusterProfileRef": Ignored(
        "Phalanx does not support it; the condition Active is False with the reason BadKubeConfig"
    ),
    "spec.clusterProfileRef": Ignored(
        "Phalanx does not support it; the condition Active is False with the reason BadKubeConfig"
    ),
    "status": Answered("the condition Active with the reason Connected, or with the problem and how to correct it"),
}
MULTI_KUEUE_CONFIG: Mapping[str, Use] = {
    "spec.clusters": Becomes("Worker", "the clusters to which jobs with the check may be sent"),
    "spec.quotaManagement": Ignored("the ClusterQueues of the manager cluster have the quotas"),
}
WORKLOAD: Mapping[str, Use] = {
    "spec.active": Becomes(
        "Claim.drained",
        "`false`: Phalanx suspends the Jobs of the Workload until the field is true again, and evicts its pods",
    ),
    "spec.maximumExecutionTimeSeconds": Becomes("Claim.drained", "after this time the Workload is deactivated"),
    "spec.podSets[].name": Answered("`main`, or the name of the role"),
    "spec.podSets[].count": Answered(),
    "spec.podSets[].minCount": Answered(),
    "spec.podSets[].template": Answered("the pod template as the user wrote it"),
    "spec.podSets[].topologyRequest": Answered("the request that annotations of the pod template state"),
    "spec.priority": Answered(),
    "spec.priorityClassRef": Answered(),
    "spec.priorityClassName": Answered("the form of priorityClassRef in v1beta1"),
    "spec.priorityClassSource": Answered("the form of priorityClassRef in v1beta1"),
    "spec.queueName": Answered(),
    "spec.preemptionGates": _MULTI,
    **_CONDITIONS,
    "status.admission.clusterQueue": Answered(),
    "status.admission.podSetAssignments[].name": Answered(),
    "status.admission.podSetAssignments[].count": Answered(),
    "status.admission.podSetAssignments[].flavors": Answered(),
    "status.admission.podSetAssignments[].resourceUsage": Answered(),
    "status.admission.podSetAssignments[].topologyAssignment": Answered(
        "for flavors with a topologyName, in the form of slices"
    ),
    "status.admission.podSetAssignments[].delayedTopologyRequest": _TOPOLOGY,
    "status.admissionChecks": Becomes(
        "Claim.gate",
        "the controllers of the checks write Ready, Retry or Rejected; Phalanx applies podSetUpdates "
        "to the pod templates of Jobs",
    ),
    "status.resourceRequests": Answered(),
    "status.requeueState": Answered(
        "written when a check has the state Retry; after other failed starts Phalanx uses its own back-off"
    ),
    "status.reclaimablePods": Answered(
        "for Jobs, training jobs and pod groups; other jobs may use the released quota at once"
    ),
    "status.schedulingStats": Answered(),
    "status.accumulatedPastExecutionTimeSeconds": Answered(),
    "status.accumulatedPastExexcutionTimeSeconds": Ignored("it is the spelling of the field in v1beta1"),
    "status.clusterName": Answered("the cluster to which the job was sent"),
    "status.nominatedClusterNames": Becomes("Claim.clusters", "it has an effect if an external dispatcher writes it"),
    "status.preemptionGates": _MULTI,
    "status.unhealthyNodes": Ignored("Phalanx always places the pods of a lost node again"),
}
_ELSEWHERE = Ignored("it is for Kueue's own controller; Phalanx neither reads nor writes it")
WORDS: Mapping[str, Use] = {
    "queue-name": Becomes("Job.queue", "on Jobs, pods, and jobs of frameworks (frameworks.md): the LocalQueue"),
    "priority-class": Becomes("Job.priority"),
    "max-exec-time-seconds": Becomes("Workload.spec.maximumExecutionTimeSeconds"),
    "job-min-parallelism": Becomes(
        "Role.minimum", "the job starts with the largest number of pods that fits, at least this number"
    ),
    "job-completions-equal-parallelism": Becomes(
        "phalanx.dev/completions",
        "for Indexed Jobs: if the Job starts with fewer pods, its completions are reduced, too",
    ),
    "pod-group-name": Becomes("Job.id", "the bare pods with the same value form a gang, with one Workload"),
    "pod-group-total-count": Becomes("Role.minimum", "this number of pods must exist, and these pods start together"),
    "pod-group-fast-admission": Ignored("a pod group waits until all its pods exist"),
    "pod-group-serving": Ignored("a pod group ends when its pods end"),
    "retriable-in-group": Becomes(
        "phalanx.dev/replaces-failed",
        "`false`: no pod replaces a failed pod, so the capacity of a failed pod is free at once",
    ),
    "elastic-job": Becomes(
        "Role.count",
        "the job grows pod by pod when there is capacity, and shrinks at once; Phalanx updates the "
        "counts in its Workload",
    ),
    "prebuilt-workload-name": Becomes(
        "Claim.blocked",
        "the job waits for this Workload and takes it over; if the Workload has other pods than the "
        "job, the job waits with OutOfSync",
    ),
    "admission-gated-by": Becomes(
        "Claim.blocked", "on jobs and pods: the job waits until the list of names in it is empty"
    ),
    "podset-required-topology": Becomes(
        "Role.closeness", "all pods must be in one domain of this level, which is a node label"
    ),
    "podset-preferred-topology": Becomes(
        "Role.closeness",
        "all pods are in one domain of this level if possible, else in one domain of a coarser level of the Topology",
    ),
    "podset-unconstrained-topology": Becomes("Role.shape", "the pods may run on any nodes, as without the annotation"),
    "podset-slice-required-topology": Becomes(
        "TopologyRequest.slices", "the level of the slices; each slice is in one domain of it"
    ),
    "podset-slice-size": Becomes("TopologyRequest.slices", "the number of pods in a slice"),
    "podset-slice-required-topology-constraints": Becomes(
        "TopologyRequest.slices", "several layers of slices, in place of the two annotations above"
    ),
    "podset-group-name": Becomes(
        "Role.group", "all pod sets with the same value are placed in one domain; a job has at most one such group"
    ),
    "managed": _ELSEWHERE,
    "job-uid": Answered("written on Workloads"),
    "is-group-workload": Answered("written on Workloads of pod groups"),
    "podset": _ELSEWHERE,
    "cluster-queue-name": _ELSEWHERE,
    "local-queue-name": _ELSEWHERE,
    "role-hash": Becomes("Role.name", "on a pod of a pod group: the name of its pod set; `main` without it"),
    "job-owner-gvk": Answered("written on Workloads of StatefulSets and LeaderWorkerSets"),
    "job-owner-name": Answered("written on Workloads of StatefulSets and LeaderWorkerSets"),
    "component-workload-index": Answered("written on Workloads of LeaderWorkerSets"),
    "priority-boost": Ignored("it is an alpha feature of Kueue"),
}
TABLES: Mapping[str, Mapping[str, Use]] = {
    "ClusterQueue": CLUSTER_QUEUE,
    "LocalQueue": LOCAL_QUEUE,
    "Cohort": COHORT,
    "ResourceFlavor": RESOURCE_FLAVOR,
    "WorkloadPriorityClass": PRIORITY_CLASS,
    "AdmissionCheck": ADMISSION_CHECK,
    "Workload": WORKLOAD,
    "Topology": TOPOLOGY,
    "ProvisioningRequestConfig": PROVISIONING_REQUEST_CONFIG,
    "MultiKueueCluster": MULTI_KUEUE_CLUSTER,
    "MultiKueueConfig": MULTI_KUEUE_CONFIG,
}
_PROCESS = Ignored("it configures only Kueue's own process")
CONFIGURATION: Mapping[str, Use] = {
    "fairSharing.enable": Becomes(
        "QueueOrder.FAIR", "a field of v1beta1; in v1beta2 the presence of fairSharing enables fair sharing"
    ),
    "fairSharing.preemptionStrategies": Becomes("QueuePreemption.strategy"),
    "waitForPodsReady.timeout": Becomes("Queue.start_timeout_s"),
    "waitForPodsReady.enable": Ignored("waiting for ready pods is always enabled, as in Kueue since 0.19"),
    "waitForPodsReady.blockAdmission": Ignored(
        "a job gets its quota together with its nodes, so no job waits until the pods of another job are ready"
    ),
    "waitForPodsReady.recoveryTimeout": Ignored("Phalanx always places the pods of a lost node again"),
    "waitForPodsReady.requeuingStrategy": Ignored("Phalanx retries a failed start after its own back-off"),
    "resources.excludeResourcePrefixes": Becomes(
        "Shape.charged", "a resource whose name has this prefix needs no quota"
    ),
    "resources.quotaCheckStrategy": Becomes(
        "Shape.charged", "IgnoreUndeclared: a resource for which the ClusterQueue has no quota needs none"
    ),
    "resources.transformations[].input": Becomes(
        "Shape.charged", "the outputs are charged to the quota; the requests of the pods are charged to the nodes"
    ),
    "resources.transformations[].strategy": Becomes(
        "Shape.charged", "Replace: the input resource itself needs no quota"
    ),
    "resources.transformations[].outputs": Becomes(
        "Shape.charged", "computed for each pod and rounded up; negative amounts count as 0"
    ),
    "resources.transformations[].multiplyBy": Becomes(
        "Shape.charged", "the outputs are multiplied by the amount of this resource; the input is not"
    ),
    "resources.deviceClassMappings": Ignored("Phalanx has no quota for resource claims"),
    "admissionFairSharing.usageHalfLifeTime": Becomes("UsageTerms.half_life_s", "with 0, past usage does not count"),
    "admissionFairSharing.usageSamplingInterval": Becomes(
        "UsageTerms.entry_s",
        "a job that starts is charged as if it had run for this time; it is also the interval in "
        "which the status is written",
    ),
    "admissionFairSharing.resourceWeights": Becomes("UsageTerms.billing"),
    "multiKueue.gcInterval": Becomes(
        "Dispatcher.settings", "the interval in which Phalanx searches for copies whose job no longer exists"
    ),
    "multiKueue.origin": Becomes(
        "Dispatcher.settings", "the value of the label that marks copies of jobs in other clusters"
    ),
    "multiKueue.workerLostTimeout": Becomes(
        "Dispatcher.settings", "when a cluster has been unreachable for this time, its jobs run in another cluster"
    ),
    "multiKueue.dispatcherName": Becomes(
        "Claim.clusters",
        "an external dispatcher nominates the clusters; with either of Kueue's two dispatchers, the "
        "scheduler chooses the cluster",
    ),
    "multiKueue.incrementalDispatcherConfig.stepSize": Ignored(
        "Phalanx sends a job to one cluster, so it does not add clusters step by step; invalid "
        "values are errors, as in Kueue"
    ),
    "multiKueue.externalFrameworks": Ignored(
        "Phalanx sends jobs of the kinds that docs/guide/several-clusters.md lists, and no other kinds"
    ),
    "multiKueue": Ignored("with either dispatcher, Phalanx sends a job to one cluster only"),
    "managedJobsNamespaceSelector": Becomes(
        "Claim.queue",
        "a job of a namespace that is not selected has no Workload, and starts like a job that names no queue",
    ),
    "manageJobsWithoutQueueName": Becomes(
        "Claim.blocked",
        "jobs outside of kube-system and kueue-system wait until they name a LocalQueue, and pods without an owner "
        "where integrations.frameworks has pod; those of a namespace that the selector above does not select start at "
        "once",
    ),
    "integrations": Ignored("the option --dialect of the scheduler sets which kinds of jobs are read"),
    "featureGates": _PROCESS,
    "objectRetentionPolicies.workloads.afterFinished": Becomes(
        "Answer.gone", "finished Workloads are deleted after this time; without it a Workload is deleted with its job"
    ),
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": Becomes(
        "Answer.gone",
        "jobs are deleted this time after they were deactivated, because their maximum execution "
        "time has passed or a check was rejected; bare pods are not deleted",
    ),
    "metrics": Ignored("metrics for each flavor and for each LocalQueue are always enabled"),
    "namespace": Ignored("the namespace is always kueue-system"),
    "visibilityServer": _PROCESS,
    "queueVisibility": Ignored("Kueue removed it in v1beta2; `phalanx jobs` lists waiting jobs"),
    "controller": _PROCESS,
    "clientConnection": _PROCESS,
    "health": _PROCESS,
    "webhook": _PROCESS,
    "leaderElection": _PROCESS,
    "pprofBindAddress": _PROCESS,
    "internalCertManagement": _PROCESS,
    "tls": _PROCESS,
}


_HEAD = ("apiVersion", "kind")


def notes(kind: str, obj: Object) -> Iterator[str]:
    """Yield one sentence for each field, label and annotation of the object that has no effect."""
    if kind in TABLES:
        yield from unused(obj.get("spec") or {}, TABLES[kind])
        return
    if kind == kinds.PROVISIONING_REQUESTS.name:  # Phalanx itself creates these objects, with Kueue's labels
        return
    if kind == CONFIGURATIONS.name:
        yield from _of_configuration(obj)
        return
    spec = obj.get("spec") or {}
    for meta in (obj["metadata"], (spec.get("template") or {}).get("metadata") or {}):
        said: Mapping[str, object] = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
        for key in said:
            if key.startswith(kinds.PREFIX):
                yield from _word(key)


def _of_configuration(config_map: Object) -> Iterator[str]:
    """Yield one sentence for each field of Kueue's Configuration in a ConfigMap that has no effect. If the
    Configuration cannot be read, yield the reason."""
    if (text := text_of(config_map)) is None:
        return
    try:
        said = decoded(text)
        read_configuration(said)
    except KueueConfigurationError as error:
        yield f"{error}; Kueue's defaults are used"
        return
    yield from unused({key: value for key, value in said.items() if key not in _HEAD}, CONFIGURATION, "")


def _word(key: str) -> Iterator[str]:
    match WORDS.get(key.removeprefix(kinds.PREFIX)):
        case Ignored(why):
            yield f"{key} has no effect: {why}"
        case None:
            yield f"{key} is unknown to Phalanx, and has no effect"
        case _:
            pass
