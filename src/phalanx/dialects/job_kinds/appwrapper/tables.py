"""State how Phalanx uses every field of an AppWrapper and of a QuotaSubtree, and their labels and annotations.

The page docs/dialects/appwrapper.md is generated from these tables. A test checks that they contain every field of the
CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use
from phalanx.dialects.job_kinds.appwrapper import kinds

_QUEUE = "for Kueue's own controller; here a flavor is granted together with nodes"
APP_WRAPPER: Mapping[str, Use] = {
    "spec.suspend": Becomes("queued", "true at its creation; false when all of its pods have a place"),
    "spec.managedBy": Becomes("left alone", f"where it names another than {kinds.MANAGER}"),
    "spec.components[].template": Becomes("created", "with the rights of who created the AppWrapper"),
    "spec.components[].podSets[].path": Becomes("Role.shape", "the template of pods there"),
    "spec.components[].podSets[].replicas": Becomes("Role.count", "1 if it is left out"),
    "spec.components[].podSets[].annotations": Ignored("for topologies: write phalanx.dev/closeness on the AppWrapper"),
    "spec.components[].podSetInfos[].labels": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].annotations": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].nodeSelector": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].tolerations": Becomes("created", _QUEUE),
    "spec.components[].podSetInfos[].schedulingGates": Becomes("created", _QUEUE),
    "spec.components[].annotations": Ignored("free text, with its controller as here"),
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
    f"{kinds.PREFIX}admissionGracePeriodDuration": Becomes("reset", "until all pods exist; 1m"),
    f"{kinds.PREFIX}warmupGracePeriodDuration": Becomes("reset", "until all pods run; 5m"),
    f"{kinds.PREFIX}failureGracePeriodDuration": Becomes("reset", "the time for which pods may be failed; 1m"),
    f"{kinds.PREFIX}retryPausePeriodDuration": Becomes("reset", "before it is created again; 90s"),
    f"{kinds.PREFIX}retryLimit": Becomes("reset", "so often; 3"),
    f"{kinds.PREFIX}forcefulDeletionGracePeriodDuration": Becomes("reset", "then pods are deleted at once; 10m"),
    f"{kinds.PREFIX}deletionOnFailureGracePeriodDuration": Becomes("failed", "until what it wraps is deleted; 0s"),
    f"{kinds.PREFIX}successTTLDuration": Becomes("succeeded", "until what it wraps is deleted; 7 days, and no more"),
    f"{kinds.PREFIX}terminalExitCodes": Becomes("failed", "no more retries after one of them"),
    f"{kinds.PREFIX}retryableExitCodes": Becomes("failed", "no more retries after any other"),
    f"{kinds.PREFIX}tas-pod-index-label": Ignored("for Kueue's topologies"),
    f"{kinds.PREFIX}tas-sub-group-index-label": Ignored("for Kueue's topologies"),
    f"{kinds.PREFIX}tas-sub-group-count": Ignored("for Kueue's topologies"),
    kinds.USER: Answered("the user who created it, where the name can be a label"),
    kinds.USER_ID: Ignored("phalanx.dev/user and phalanx.dev/user-groups say who created it"),
    kinds.INSTANCES: Ignored(
        "a label of InstaScale; node groups add machines for what pods ask for, and a pod names its machine type by "
        "nodeSelector node.kubernetes.io/instance-type; remove an affinity to the label that InstaScale puts on nodes"
    ),
}
_NOT_NAMED: Final = "of an unfinished API, which no program reads"
_ITEM: Final = "spec.resources.GenericItems[]"
_SCHEDULING: Final = "spec.schedulingSpec"
MCAD: Final[Mapping[str, Use]] = {
    "spec.suspend": Becomes("queued", "Phalanx sets true at the creation, and false when all pods have a node"),
    "spec.priority": Becomes("Job.priority", "the priority of all its pods, whatever class they name"),
    "spec.priorityslope": Ignored("a priority that grows with age is the factor `age` of the policy, for everybody"),
    "spec.service": Ignored("upstream does not read it either"),
    "spec.selector": Ignored("upstream does not read it either"),
    f"{_ITEM}.generictemplate": Becomes("created", "with the rights of who created the AppWrapper"),
    f"{_ITEM}.replicas": Ignored("one object is created of an item, as upstream; its pods are counted in it"),
    f"{_ITEM}.minavailable": Ignored("upstream does not read it either: write spec.schedulingSpec.minAvailable"),
    f"{_ITEM}.allocated": Ignored(_NOT_NAMED),
    f"{_ITEM}.priority": Ignored("an AppWrapper is queued as one, by its own priority"),
    f"{_ITEM}.priorityslope": Ignored("an AppWrapper is queued as one"),
    f"{_ITEM}.custompodresources": Answered(
        "in totalcpu, totalmemory and totalgpu; places are for the pods themselves"
    ),
    f"{_ITEM}.completionstatus": Becomes("completed", "types of conditions, by part of their name, whatever they say"),
    "spec.resources.Items": Ignored("of MCAD before 1.30; 1.40 does not know it either: write GenericItems"),
    f"{_SCHEDULING}.nodeSelector": Becomes("Role.shape", "of all its pods"),
    f"{_SCHEDULING}.minAvailable": Becomes("reset", "made again, when fewer of its pods run for too long"),
    f"{_SCHEDULING}.requeuing.timeInSeconds": Becomes("reset", "for so long"),
    f"{_SCHEDULING}.requeuing.growthType": Becomes("reset", "each time longer: twice, by a step, or not at all"),
    f"{_SCHEDULING}.requeuing.initialTimeInSeconds": Becomes("reset", "the step; timeInSeconds if it is left out"),
    f"{_SCHEDULING}.requeuing.maxTimeInSeconds": Becomes("reset", "and never longer"),
    f"{_SCHEDULING}.requeuing.maxNumRequeuings": Becomes("deleted", "after this number; upstream never reaches it"),
    f"{_SCHEDULING}.requeuing.numRequeuings": Ignored("status.numberOfRequeueings counts"),
    f"{_SCHEDULING}.dispatchDuration.limit": Becomes("failed", "so long after it was dispatched first"),
    f"{_SCHEDULING}.dispatchDuration.expected": Ignored("upstream does not read it either"),
    f"{_SCHEDULING}.dispatchDuration.overrun": Ignored("the mark of upstream's controller; the condition says it"),
    "status.state": Answered("Pending, Running, RunningHoldCompletion, Completed, Failed, Deleted"),
    "status.queuejobstate": Answered("the type of the last condition"),
    "status.conditions": Answered("Init, Queueing, Backoff, HeadOfLine, Dispatched, Running, PreemptCandidate, ..."),
    "status.message": Ignored("the conditions have the messages"),
    "status.canrun": Answered(),
    "status.isdispatched": Answered(),
    "status.systempriority": Answered("the priority"),
    "status.controllerfirsttimestamp": Answered(),
    "status.controllerfirstdispatchtimestamp": Answered(),
    "status.filterignore": Ignored("of upstream's own caches"),
    "status.sender": Ignored("of upstream's own caches"),
    "status.local": Ignored("upstream's dispatcher, which sends AppWrappers to other clusters, writes it"),
    "status.pending": Answered(),
    "status.running": Answered(),
    "status.Succeeded": Answered(),
    "status.failed": Answered(),
    "status.template": Answered("minAvailable"),
    "status.totalcpu": Answered("millicores"),
    "status.totalmemory": Answered("bytes"),
    "status.totalgpu": Answered(),
    "status.pendingpodconditions": Ignored("pods are created when each has a place"),
    "status.requeueingTimeInSeconds": Answered(),
    "status.numberOfRequeueings": Answered(),
}
_CHILD: Final = "spec.children[]"
QUOTA_SUBTREE: Final[Mapping[str, Use]] = {
    "spec.parent": Becomes("Queue.parent", "a node of the same tree; without one its children are roots"),
    "spec.parentNamespace": Ignored("a tree is one whatever namespaces its parts are in, as upstream"),
    f"{_CHILD}.name": Becomes("Queue.name", "quotasubtree/TREE/NODE"),
    f"{_CHILD}.namespace": Ignored("upstream does not read it either"),
    f"{_CHILD}.path": Ignored("upstream does not read it either"),
    f"{_CHILD}.quotas.requests": Becomes("Quota.guaranteed", "and the limit, with hardLimit and of a root"),
    f"{_CHILD}.quotas.hardLimit": Becomes("Quota.limit", "without it what siblings leave is borrowed"),
    f"{_CHILD}.quotas.disabled": Becomes("Quota", "the node bounds nothing"),
    "status": Ignored("upstream declares it and writes nothing"),
}
