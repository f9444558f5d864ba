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

_CHECKS = Ignored("the controller of that name sets the condition Active, and decides")
_PARAMETERS = Becomes("NodeGroup.on_demand", "for provisioning-request; otherwise for the controller of that name")
_GATE = Becomes(
    "Claim.gate",
    "quota is reserved, then the job waits for each check; the queue is held while one is missing or inactive",
)
_MULTI = Ignored("one scheduler serves one cluster here")
_CONCURRENT = Ignored("an alpha feature of Kueue: flavors are chosen anew at each start")
_TOPOLOGY = Ignored("pods are bound to nodes at once, so no assignment is delayed")
_CONDITIONS: Mapping[str, Use] = {"status.conditions": Answered()}
_QUOTAS: Mapping[str, Use] = {
    "spec.resourceGroups[].coveredResources": Becomes(
        "Quota", "a job that asks for another resource waits with NoMatchingFlavor"
    ),
    "spec.resourceGroups[].flavors[].name": Becomes("Quota.flavor", "tried in this order"),
    "spec.resourceGroups[].flavors[].resources[].name": Becomes("Quota", "the resource"),
    "spec.resourceGroups[].flavors[].resources[].nominalQuota": Becomes("Quota.guaranteed"),
    "spec.resourceGroups[].flavors[].resources[].borrowingLimit": Becomes("Quota.limit", "nominal plus this"),
    "spec.resourceGroups[].flavors[].resources[].lendingLimit": Becomes("Quota.lend"),
    "spec.fairSharing.weight": Becomes("Queue.weight", "if the Configuration enables fair sharing"),
}
_FAIR_STATUS: Mapping[str, Use] = {
    "status.fairSharing.weightedShare": Answered("where fair sharing is on"),
    "status.fairSharing.admissionFairSharingStatus": Ignored("only for LocalQueues, as in Kueue"),
}
CLUSTER_QUEUE: Mapping[str, Use] = {
    **_QUOTAS,
    "spec.cohort": Becomes("Queue.parent", "v1beta1; cohortName takes precedence"),
    "spec.cohortName": Becomes("Queue.parent", "a Cohort without an object exists implicitly"),
    "spec.queueingStrategy": Becomes("Queue.strict", "StrictFIFO: the first job blocks the others"),
    "spec.namespaceSelector": Becomes("Claim.blocked", "a job of another namespace waits with Misconfigured"),
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
        "Claim.gate", "only for jobs with these flavors"
    ),
    "spec.stopPolicy": Becomes("Queue.state", "Hold starts no job; HoldAndDrain also stops running jobs"),
    "spec.admissionScope.admissionMode": Becomes(
        "QueueOrder.USAGE", "UsageBasedAdmissionFairSharing, where the Configuration has admissionFairSharing"
    ),
    "spec.concurrentAdmissionPolicy": _CONCURRENT,
    **_CONDITIONS,
    **_FAIR_STATUS,
    "status.flavorsReservation": Answered("larger than the usage while jobs wait for admission checks"),
    "status.flavorsUsage": Answered(),
    "status.pendingWorkloads": Answered(),
    "status.reservingWorkloads": Answered(),
    "status.admittedWorkloads": Answered(),
    "status.pendingWorkloadsStatus": Ignored("deprecated, and removed in v1beta2; `phalanx jobs` lists waiting jobs"),
}
LOCAL_QUEUE: Mapping[str, Use] = {
    "spec.clusterQueue": Becomes("Job.queue"),
    "spec.stopPolicy": Becomes("Claim.blocked", "Hold starts no job; HoldAndDrain also stops running jobs"),
    "spec.fairSharing.weight": Becomes("Queue.accounts", "of the ClusterQueue; 0: last"),
    **_CONDITIONS,
    "status.fairSharing.admissionFairSharingStatus": Answered("once an interval; of queues that are ordered by usage"),
    "status.fairSharing.weightedShare": Answered("0, as Kueue writes it"),
    "status.flavorsReservation": Answered(),
    "status.flavorsUsage": Answered(),
    "status.flavorUsage": Ignored("v1beta1's name of flavorsUsage"),
    "status.flavors": Ignored("gone in v1beta2"),
    "status.pendingWorkloads": Answered(),
    "status.reservingWorkloads": Answered(),
    "status.admittedWorkloads": Answered(),
}
COHORT: Mapping[str, Use] = {
    **_QUOTAS,
    "spec.parentName": Becomes("Queue.parent", "of the cohort; a cycle holds all of it"),
    **_FAIR_STATUS,
}
RESOURCE_FLAVOR: Mapping[str, Use] = {
    "spec.nodeLabels": Becomes("Flavor.labels", "added to the pods' selector at the start, and removed again"),
    "spec.nodeTaints": Becomes("Flavor.taints", "the flavor is given only to pods that tolerate them"),
    "spec.tolerations": Becomes("Flavor.tolerations", "added to pods at the start, and removed again"),
    "spec.topologyName": Answered("the topology assignment of pods has the levels of that Topology"),
}
TOPOLOGY: Mapping[str, Use] = {
    "spec.levels": Becomes(
        "Topology.levels", "from coarse to fine; if several topologies name a level, the policy's is used"
    )
}
PRIORITY_CLASS: Mapping[str, Use] = {
    "value": Becomes("Job.priority", "also while it waits"),
    "description": Ignored("for people"),
}
ADMISSION_CHECK: Mapping[str, Use] = {
    "spec.controllerName": _CHECKS,
    "spec.parameters": _PARAMETERS,
    "spec.retryDelayMinutes": Ignored("without effect in Kueue since 0.8"),
    "status.conditions": Becomes(
        "Queue.state",
        "with Active=True its ClusterQueues admit jobs; Phalanx writes it for Kueue's own two controllers",
    ),
}
_IN_REQUEST = Becomes("NodeGroup.on_demand", "in the ProvisioningRequest")
PROVISIONING_REQUEST_CONFIG: Mapping[str, Use] = {
    "spec.provisioningClassName": _IN_REQUEST,
    "spec.parameters": Becomes(
        "NodeGroup.on_demand", "in the ProvisioningRequest, with those of the job's annotations"
    ),
    "spec.managedResources": Becomes("OnDemand.resources", "jobs that request none of them need no request"),
    "spec.retryStrategy.backoffLimitCount": Becomes("Claim.blocked", "after that many failures the job is deactivated"),
    "spec.retryStrategy.backoffBaseSeconds": Becomes(
        "Claim.blocked", "the pause after a failure, twice as long each time"
    ),
    "spec.retryStrategy.backoffMaxSeconds": Becomes("Claim.blocked", "the longest pause"),
    "spec.podSetUpdates.nodeSelector[].key": Becomes("Claim.updates", "in the pods' selector"),
    "spec.podSetUpdates.nodeSelector[].valueFromProvisioningClassDetail": Becomes("Claim.updates", "its value"),
    "spec.podSetMergePolicy": Becomes("NodeGroup.on_demand", "equal pod sets are one pod set of the request"),
}
_KUBECONFIG = Becomes("Worker.source", "a Secret of kueue-system with the key kubeconfig, or a file")
MULTI_KUEUE_CLUSTER: Mapping[str, Use] = {
    "spec.clusterSource.kubeConfig": _KUBECONFIG,
    "spec.kubeConfig": _KUBECONFIG,
    "spec.clusterSource.clusterProfileRef": Ignored("the cluster is not Active: BadKubeConfig"),
    "spec.clusterProfileRef": Ignored("the cluster is not Active: BadKubeConfig"),
    "status": Answered("Active: Connected, or the problem and its remedy"),
}
MULTI_KUEUE_CONFIG: Mapping[str, Use] = {
    "spec.clusters": Becomes("Worker", "the clusters of a check"),
    "spec.quotaManagement": Ignored("quotas of the manager are those of its ClusterQueues"),
}
WORKLOAD: Mapping[str, Use] = {
    "spec.active": Becomes("Claim.drained", "false stops its Jobs until it is true again, and ends its pods"),
    "spec.maximumExecutionTimeSeconds": Becomes("Claim.drained", "after this time the Workload is deactivated"),
    "spec.podSets[].name": Answered("`main`, or the role"),
    "spec.podSets[].count": Answered(),
    "spec.podSets[].minCount": Answered(),
    "spec.podSets[].template": Answered("as its user wrote it"),
    "spec.podSets[].topologyRequest": Answered("as set by the annotations of the template"),
    "spec.priority": Answered(),
    "spec.priorityClassRef": Answered(),
    "spec.priorityClassName": Answered("v1beta1's form of priorityClassRef"),
    "spec.priorityClassSource": Answered("v1beta1's form of priorityClassRef"),
    "spec.queueName": Answered(),
    "spec.preemptionGates": _MULTI,
    **_CONDITIONS,
    "status.admission.clusterQueue": Answered(),
    "status.admission.podSetAssignments[].name": Answered(),
    "status.admission.podSetAssignments[].count": Answered(),
    "status.admission.podSetAssignments[].flavors": Answered(),
    "status.admission.podSetAssignments[].resourceUsage": Answered(),
    "status.admission.podSetAssignments[].topologyAssignment": Answered("of flavors with a topologyName, in slices"),
    "status.admission.podSetAssignments[].delayedTopologyRequest": _TOPOLOGY,
    "status.admissionChecks": Becomes(
        "Claim.gate",
        "Ready, Retry and Rejected as their controllers write them; podSetUpdates go into the templates of Jobs",
    ),
    "status.resourceRequests": Answered(),
    "status.requeueState": Answered("after a check in Retry; other starts are retried after Phalanx's own back-off"),
    "status.reclaimablePods": Answered("of Jobs, training jobs and pod groups; others use it at once"),
    "status.schedulingStats": Answered(),
    "status.accumulatedPastExecutionTimeSeconds": Answered(),
    "status.accumulatedPastExexcutionTimeSeconds": Ignored("v1beta1's spelling"),
    "status.clusterName": Answered("the cluster that has the job"),
    "status.nominatedClusterNames": Becomes("Claim.clusters", "if an external dispatcher writes it"),
    "status.preemptionGates": _MULTI,
    "status.unhealthyNodes": Ignored("a pod of a lost node is placed again in any case"),
}
_ELSEWHERE = Ignored("for Kueue's own controller: Phalanx neither reads nor writes it")
WORDS: Mapping[str, Use] = {
    "queue-name": Becomes("Job.queue", "of Jobs, pods, and the jobs of frameworks (frameworks.md)"),
    "priority-class": Becomes("Job.priority"),
    "max-exec-time-seconds": Becomes("Workload.spec.maximumExecutionTimeSeconds"),
    "job-min-parallelism": Becomes("Role.minimum", "the largest count that fits runs"),
    "job-completions-equal-parallelism": Becomes(
        "phalanx.dev/completions", "for Indexed Jobs: an admission with fewer pods also lowers the completions"
    ),
    "pod-group-name": Becomes("Job.id", "a gang of bare pods, with one Workload"),
    "pod-group-total-count": Becomes("Role.minimum", "this number of pods must exist, and starts together"),
    "pod-group-fast-admission": Ignored("a group waits until all its pods exist"),
    "pod-group-serving": Ignored("a group ends when its pods do"),
    "retriable-in-group": Becomes(
        "phalanx.dev/replaces-failed", "`false`: the capacity of a failed pod is free at once"
    ),
    "elastic-job": Becomes(
        "Role.count", "it grows pod by pod when there is capacity, and shrinks at once; its Workload follows"
    ),
    "prebuilt-workload-name": Becomes(
        "Claim.blocked", "the job waits for that Workload and takes it over; OutOfSync if it requests other pods"
    ),
    "admission-gated-by": Becomes("Claim.blocked", "for jobs and pods: the job waits until no name is left"),
    "podset-required-topology": Becomes("Role.closeness", "required; the level is the node label"),
    "podset-preferred-topology": Becomes("Role.closeness", "preferred; then the coarser levels of its Topology"),
    "podset-unconstrained-topology": Becomes("Role.shape", "any nodes, as without it"),
    "podset-slice-required-topology": Becomes("TopologyRequest.slices", "the level, with podset-slice-size"),
    "podset-slice-size": Becomes("TopologyRequest.slices", "the pods"),
    "podset-slice-required-topology-constraints": Becomes(
        "TopologyRequest.slices", "each layer; instead of the other two"
    ),
    "podset-group-name": Becomes("Role.group", "the pod sets of a group share a domain; a job has at most one group"),
    "managed": _ELSEWHERE,
    "job-uid": Answered("on Workloads"),
    "is-group-workload": Answered("on Workloads of pod groups"),
    "podset": _ELSEWHERE,
    "cluster-queue-name": _ELSEWHERE,
    "local-queue-name": _ELSEWHERE,
    "role-hash": Becomes("Role.name", "of a pod in a group: the name of its pod set, else `main`"),
    "job-owner-gvk": Answered("on Workloads of StatefulSets and LeaderWorkerSets"),
    "job-owner-name": Answered("on Workloads of StatefulSets and LeaderWorkerSets"),
    "component-workload-index": Answered("on Workloads of LeaderWorkerSets"),
    "priority-boost": Ignored("an alpha feature of Kueue"),
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
_PROCESS = Ignored("of Kueue's own process")
CONFIGURATION: Mapping[str, Use] = {
    "fairSharing.enable": Becomes("QueueOrder.FAIR", "v1beta1; in v1beta2 fairSharing itself turns fair sharing on"),
    "fairSharing.preemptionStrategies": Becomes("QueuePreemption.strategy"),
    "waitForPodsReady.timeout": Becomes("Queue.start_timeout_s"),
    "waitForPodsReady.enable": Ignored("it is always enabled, as in Kueue since 0.19"),
    "waitForPodsReady.blockAdmission": Ignored(
        "quota is granted together with nodes: no job waits for another job's pods"
    ),
    "waitForPodsReady.recoveryTimeout": Ignored("a pod of a lost node is placed again in any case"),
    "waitForPodsReady.requeuingStrategy": Ignored("a failed start is retried after Phalanx's own back-off"),
    "resources.excludeResourcePrefixes": Becomes("Shape.charged", "a resource with this prefix needs no quota"),
    "resources.quotaCheckStrategy": Becomes(
        "Shape.charged", "IgnoreUndeclared: a resource without a quota in its ClusterQueue needs none"
    ),
    "resources.transformations[].input": Becomes(
        "Shape.charged", "quota is charged with the outputs, nodes with the requests of pods"
    ),
    "resources.transformations[].strategy": Becomes("Shape.charged", "Replace: the input itself needs no quota"),
    "resources.transformations[].outputs": Becomes("Shape.charged", "for each pod, rounded up; negative amounts are 0"),
    "resources.transformations[].multiplyBy": Becomes("Shape.charged", "multiplies the outputs, not the input"),
    "resources.deviceClassMappings": Ignored("resource claims have no quota"),
    "admissionFairSharing.usageHalfLifeTime": Becomes("UsageTerms.half_life_s", "0: past usage does not count"),
    "admissionFairSharing.usageSamplingInterval": Becomes(
        "UsageTerms.entry_s",
        "a job that starts counts as if it had run for this time; also how often the status is written",
    ),
    "admissionFairSharing.resourceWeights": Becomes("UsageTerms.billing"),
    "multiKueue.gcInterval": Becomes("Dispatcher.settings", "how often copies without a job are looked for"),
    "multiKueue.origin": Becomes("Dispatcher.settings", "the label of copies"),
    "multiKueue.workerLostTimeout": Becomes(
        "Dispatcher.settings", "after this time jobs of that cluster run in another one"
    ),
    "multiKueue.dispatcherName": Becomes(
        "Claim.clusters", "an external dispatcher nominates the clusters; both of Kueue's: the scheduler chooses"
    ),
    "multiKueue.incrementalDispatcherConfig.stepSize": Ignored(
        "checked as in Kueue; one cluster is chosen, so no clusters are added in rounds"
    ),
    "multiKueue.externalFrameworks": Ignored(
        "kinds that docs/guide/several-clusters.md lists are sent without it, and other kinds are not sent"
    ),
    "multiKueue": Ignored("both dispatchers: one cluster is chosen, and no other gets the job"),
    "managedJobsNamespaceSelector": Becomes(
        "Claim.queue", "a job of another namespace has no Workload, and starts as one that names no queue"
    ),
    "manageJobsWithoutQueueName": Becomes(
        "Claim.blocked",
        "jobs outside of kube-system and kueue-system wait until they name a LocalQueue, and pods without an owner "
        "where integrations.frameworks has pod; those of a namespace that the selector above does not select start at "
        "once",
    ),
    "integrations": Ignored("which job kinds are read is the scheduler's option --dialect"),
    "featureGates": _PROCESS,
    "objectRetentionPolicies.workloads.afterFinished": Becomes(
        "Answer.gone", "finished Workloads are deleted; without it a Workload is deleted with its job"
    ),
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": Becomes(
        "Answer.gone", "deletes jobs whose maximum execution time is over, or whose check was rejected; not bare pods"
    ),
    "metrics": Ignored("metrics by flavor and by LocalQueue are always enabled"),
    "namespace": Ignored("it is kueue-system"),
    "visibilityServer": _PROCESS,
    "queueVisibility": Ignored("removed in v1beta2; `phalanx jobs` lists waiting jobs"),
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
        yield f"{error}; Kueue's defaults hold"
        return
    yield from unused({key: value for key, value in said.items() if key not in _HEAD}, CONFIGURATION, "")


def _word(key: str) -> Iterator[str]:
    match WORDS.get(key.removeprefix(kinds.PREFIX)):
        case Ignored(why):
            yield f"{key} has no effect: {why}"
        case None:
            yield f"{key} is not known here, and has no effect"
        case _:
            pass
