"""Tables of the effect of every field of Workload and PodGroup, and of the fields of pods that name them.

The page docs/dialects/kubernetes.md is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use

_TEMPLATE = Ignored("a template: what counts is the PodGroup that is made from it, as for kube-scheduler")
_CLAIMS = Ignored("devices are asked for as resources of the pods")
_INFORMS = Ignored("for people: it says who made it")
POD_GROUP: Mapping[str, Use] = {
    "spec.podGroupTemplateRef": _INFORMS,
    "spec.workloadRef": Ignored("1.37's name of podGroupTemplateRef: it says who made it"),
    "spec.schedulingPolicy.gang.minCount": Becomes(
        "Role.minimum", "this number of pods must exist, and starts together"
    ),
    "spec.schedulingPolicy.basic": Becomes("Role.minimum", "1: each pod starts as there is room"),
    "spec.schedulingConstraints.topology[].key": Becomes("TopologyRequest.level", "all pods in one domain of it"),
    "spec.priority": Becomes("Job.priority", "instead of its pods' own"),
    "spec.priorityClassName": Becomes("Job.priority", "the API server resolves it"),
    "spec.preemptionPolicy": Ignored("1.37, an alpha feature: that of the pods counts"),
    "spec.disruptionMode": Ignored("a gang is preempted whole; pods above its minimum one by one"),
    "spec.resourceClaims": _CLAIMS,
    "spec.parentCompositePodGroupName": Ignored("1.37, an alpha feature: each PodGroup starts by itself"),
    "status.conditions": Answered("PodGroupScheduled (1.37: PodGroupInitiallyScheduled), DisruptionTarget"),
    "status.resourceClaimStatuses": _CLAIMS,
}
WORKLOAD: Mapping[str, Use] = {
    "spec.controllerRef": _INFORMS,
    "spec.podGroups[].name": Becomes("Job.id", "1.35: with the Workload's name and the pod's podGroupReplicaKey"),
    "spec.podGroups[].policy.gang.minCount": Becomes(
        "Role.minimum", "1.35: this number of pods must exist, and starts together"
    ),
    "spec.podGroups[].policy.basic": Becomes("Role.minimum", "1.35: 1, each pod starts as there is room"),
    "spec.podGroupTemplates": _TEMPLATE,
    "spec.compositePodGroupTemplates": _TEMPLATE,
}
POD: Mapping[str, Use] = {
    "spec.schedulingGroup.podGroupName": Becomes("Job.id", "since 1.36; the pods wait until there is that PodGroup"),
    "spec.workloadRef.name": Becomes("Job.id", "1.35; the pods wait until there is that Workload"),
    "spec.workloadRef.podGroup": Becomes("Job.id", "1.35"),
    "spec.workloadRef.podGroupReplicaKey": Becomes("Job.id", "1.35: with another key, another gang"),
}
TABLES: Mapping[str, Mapping[str, Use]] = {"PodGroup": POD_GROUP, "Workload": WORKLOAD, "Pod": POD}
