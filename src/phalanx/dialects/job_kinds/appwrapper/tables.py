"""State how Phalanx uses every field of an AppWrapper and of a QuotaSubtree, and their labels and annotations.

The page docs/dialects/appwrapper.md is generated from these tables. A test checks that they contain every field of the
CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use
from phalanx.dialects.job_kinds.appwrapper import kinds

_QUEUE = "merged into the pod template; Kueue's controller writes it, or Phalanx for the flavor that the job gets"
APP_WRAPPER: Mapping[str, Use] = {
    "spec.suspend": Becomes(
        "queued", "an admission policy sets it to true; Phalanx sets it to false when there is capacity for all pods"
    ),
    "spec.managedBy": Becomes("left alone", f"if it names another controller than {kinds.MANAGER}"),
    "spec.components[].template": Becomes("created", "with the rights of the user who created the AppWrapper"),
    "spec.components[].podSets[].path": Becomes("Role.shape", "the path of a pod template in the component"),
    "spec.components[].podSets[].replicas": Becomes("Role.count", "1 if it is absent"),
    "spec.components[].podSets[].annotations": Ignored(
        "it is for Kueue's topologies; use the annotation phalanx.dev/closeness on the AppWrapper"
    ),
    "spec.components[].podSetInfos[].labels": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].annotations": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].nodeSelector": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].tolerations": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].schedulingGates": Becomes("created", _QUEUE),
    "spec.components[].annotations": Ignored("it is free text, which CodeFlare's controller does not read either"),
    "status.phase": Answered(),
    "status.resettingCount": Answered(),
    "status.conditions": Answered("QuotaReserved, ResourcesDeployed, PodsReady, Unhealthy, DeletingResources"),
    "status.componentStatus[].name": Answered(),
    "status.componentStatus[].kind": Answered(),
    "status.componentStatus[].apiVersion": Answered(),
    "status.componentStatus[].podSets": Answered(),
    "status.componentStatus[].conditions": Answered("ResourcesDeployed"),
}
WORDS: Final[Mapping[str, Use]] = {
    f"{kinds.PREFIX}admissionGracePeriodDuration": Becomes(
        "reset", "the time until all pods must exist; 1m by default"
    ),
    f"{kinds.PREFIX}warmupGracePeriodDuration": Becomes("reset", "the time until all pods must run; 5m by default"),
    f"{kinds.PREFIX}failureGracePeriodDuration": Becomes(
        "reset", "the time from the failure of a pod until the reset; 1m by default"
    ),
    f"{kinds.PREFIX}retryPausePeriodDuration": Becomes(
        "reset", "the time between the removal of the objects and their new creation; 90s by default"
    ),
    f"{kinds.PREFIX}retryLimit": Becomes("reset", "the maximum number of resets; 3 by default"),
    f"{kinds.PREFIX}forcefulDeletionGracePeriodDuration": Becomes(
        "reset", "the time after which remaining pods are deleted without a grace period; 10m by default"
    ),
    f"{kinds.PREFIX}deletionOnFailureGracePeriodDuration": Becomes(
        "failed", "the time from the failure until the wrapped objects are deleted; 0s by default"
    ),
    f"{kinds.PREFIX}successTTLDuration": Becomes(
        "succeeded", "the time from the end until the wrapped objects are deleted; 7 days by default and at most"
    ),
    f"{kinds.PREFIX}terminalExitCodes": Becomes(
        "failed", "if a pod ends with one of these exit codes, the AppWrapper is not retried"
    ),
    f"{kinds.PREFIX}retryableExitCodes": Becomes(
        "failed", "if a pod ends with any other exit code, the AppWrapper is not retried"
    ),
    f"{kinds.PREFIX}tas-pod-index-label": Ignored("it is for Kueue's topologies"),
    f"{kinds.PREFIX}tas-sub-group-index-label": Ignored("it is for Kueue's topologies"),
    f"{kinds.PREFIX}tas-sub-group-count": Ignored("it is for Kueue's topologies"),
    kinds.USER: Answered("the user who created the AppWrapper, if the user's name is a valid label value"),
    kinds.USER_ID: Ignored(
        "the annotations phalanx.dev/user and phalanx.dev/user-groups name the user who created the AppWrapper"
    ),
    kinds.INSTANCES: Ignored(
        "it is a label of InstaScale; in Phalanx node groups add machines for the requests of pods, "
        "and a pod selects its machine type by the "
        "nodeSelector node.kubernetes.io/instance-type; remove affinities to the label that "
        "InstaScale sets on nodes"
    ),
}
_NOT_NAMED: Final = "it belongs to an unfinished API that no program reads"
_ITEM: Final = "spec.resources.GenericItems[]"
_SCHEDULING: Final = "spec.schedulingSpec"
MCAD: Final[Mapping[str, Use]] = {
    "spec.suspend": Becomes(
        "queued", "Phalanx sets it to true at the creation, and to false when there is capacity for all pods"
    ),
    "spec.priority": Becomes("Job.priority", "the priority of all pods, whatever PriorityClass they name"),
    "spec.priorityslope": Ignored(
        "use the factor `age` of the policy, which increases the priority of all jobs with their age"
    ),
    "spec.service": Ignored("MCAD does not read this field either"),
    "spec.selector": Ignored("MCAD does not read this field either"),
    f"{_ITEM}.generictemplate": Becomes("created", "with the rights of the user who created the AppWrapper"),
    f"{_ITEM}.replicas": Ignored(
        "one object is created for each item, as in MCAD; the number of pods is read from the object"
    ),
    f"{_ITEM}.minavailable": Ignored("MCAD does not read this field either: use spec.schedulingSpec.minAvailable"),
    f"{_ITEM}.allocated": Ignored(_NOT_NAMED),
    f"{_ITEM}.priority": Ignored("an AppWrapper is queued as a whole, with its own priority"),
    f"{_ITEM}.priorityslope": Ignored("an AppWrapper is queued as a whole"),
    f"{_ITEM}.custompodresources": Answered(
        "counted in totalcpu, totalmemory and totalgpu; the scheduler uses the requests of the pods themselves"
    ),
    f"{_ITEM}.completionstatus": Becomes(
        "completed",
        "the item is complete when its object has a condition whose type contains one of these "
        "words, whatever the status of the condition is",
    ),
    "spec.resources.Items": Ignored(
        "it is a field of MCAD before 1.30, which 1.40 does not read either: use GenericItems"
    ),
    f"{_SCHEDULING}.nodeSelector": Becomes("Role.shape", "added to the node selector of all pods"),
    f"{_SCHEDULING}.minAvailable": Becomes(
        "reset", "if fewer pods than this run for too long, all objects are removed and created again"
    ),
    f"{_SCHEDULING}.requeuing.timeInSeconds": Becomes("reset", "the time for which too few pods may run"),
    f"{_SCHEDULING}.requeuing.growthType": Becomes(
        "reset", "how this time grows after each reset: it is doubled, it grows by a step, or it stays the same"
    ),
    f"{_SCHEDULING}.requeuing.initialTimeInSeconds": Becomes(
        "reset", "the step by which the time grows; timeInSeconds if absent"
    ),
    f"{_SCHEDULING}.requeuing.maxTimeInSeconds": Becomes("reset", "the maximum of this time"),
    f"{_SCHEDULING}.requeuing.maxNumRequeuings": Becomes(
        "deleted", "after this number of resets the AppWrapper is Deleted; in MCAD the number is never reached"
    ),
    f"{_SCHEDULING}.requeuing.numRequeuings": Ignored("status.numberOfRequeueings has this count"),
    f"{_SCHEDULING}.dispatchDuration.limit": Becomes(
        "failed", "the AppWrapper is Failed if it has not ended this time after its objects were first created"
    ),
    f"{_SCHEDULING}.dispatchDuration.expected": Ignored("MCAD does not read this field either"),
    f"{_SCHEDULING}.dispatchDuration.overrun": Ignored("MCAD's controller writes it; a condition reports the overrun"),
    "status.state": Answered("Pending, Running, RunningHoldCompletion, Completed, Failed or Deleted"),
    "status.queuejobstate": Answered("the type of the last condition"),
    "status.conditions": Answered("Init, Queueing, Backoff, HeadOfLine, Dispatched, Running, PreemptCandidate, ..."),
    "status.message": Ignored("the conditions have the messages"),
    "status.canrun": Answered(),
    "status.isdispatched": Answered(),
    "status.systempriority": Answered("the priority"),
    "status.controllerfirsttimestamp": Answered(),
    "status.controllerfirstdispatchtimestamp": Answered(),
    "status.filterignore": Ignored("it is for the caches of MCAD's controller"),
    "status.sender": Ignored("it is for the caches of MCAD's controller"),
    "status.local": Ignored("only MCAD's dispatcher writes it, which sends AppWrappers to other clusters"),
    "status.pending": Answered(),
    "status.running": Answered(),
    "status.Succeeded": Answered(),
    "status.failed": Answered(),
    "status.template": Answered("minAvailable"),
    "status.totalcpu": Answered("millicores"),
    "status.totalmemory": Answered("bytes"),
    "status.totalgpu": Answered(),
    "status.pendingpodconditions": Ignored("Phalanx creates pods only when there is capacity for all of them"),
    "status.requeueingTimeInSeconds": Answered(),
    "status.numberOfRequeueings": Answered(),
}
_CHILD: Final = "spec.children[]"
QUOTA_SUBTREE: Final[Mapping[str, Use]] = {
    "spec.parent": Becomes("Queue.parent", "a node of the same tree; without it, the children are roots"),
    "spec.parentNamespace": Ignored(
        "the QuotaSubtrees of all namespaces with the same label form one tree, as in MCAD"
    ),
    f"{_CHILD}.name": Becomes("Queue.name", "quotasubtree/TREE/NODE"),
    f"{_CHILD}.namespace": Ignored("MCAD does not read this field either"),
    f"{_CHILD}.path": Ignored("MCAD does not read this field either"),
    f"{_CHILD}.quotas.requests": Becomes(
        "Quota.guaranteed", "the guarantee of the node; with hardLimit, and for a root, also its limit"
    ),
    f"{_CHILD}.quotas.hardLimit": Becomes(
        "Quota.limit",
        "`true`: `requests` is also the limit; without it, the node may borrow unused quota of its siblings",
    ),
    f"{_CHILD}.quotas.disabled": Becomes("Quota", "`true`: the node has no quota and no limit"),
    "status": Ignored("MCAD declares this field and never writes it"),
}
