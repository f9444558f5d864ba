"""State how Phalanx uses every field of Workload and PodGroup, and the fields by which pods name them.

The page docs/dialects/kubernetes.md is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use

_TEMPLATE = Ignored("it is a template: Phalanx reads only the PodGroup that is created from it, as kube-scheduler does")
_CLAIMS = Ignored("Phalanx schedules devices only as resources that pods request")
_INFORMS = Ignored("it only names the object from which this object was created")
POD_GROUP: Mapping[str, Use] = {
    "spec.podGroupTemplateRef": _INFORMS,
    "spec.workloadRef": Ignored(
        "it is the name of podGroupTemplateRef in 1.37, and only names the object from which the PodGroup was created"
    ),
    "spec.schedulingPolicy.gang.minCount": Becomes(
        "Role.minimum", "this number of pods must exist, and these pods start together"
    ),
    "spec.schedulingPolicy.basic": Becomes(
        "Role.minimum", "the minimum is 1: each pod starts as soon as there is capacity for it"
    ),
    "spec.schedulingConstraints.topology[].key": Becomes(
        "TopologyRequest.level", "all pods are placed in one domain of this topology level"
    ),
    "spec.priority": Becomes("Job.priority", "the priority of the gang, which replaces the priorities of its pods"),
    "spec.priorityClassName": Becomes(
        "Job.priority", "the API server copies the value of the class into spec.priority"
    ),
    "spec.preemptionPolicy": Ignored("it is an alpha feature of 1.37; Phalanx reads preemptionPolicy of the pods"),
    "spec.disruptionMode": Ignored("Phalanx always preempts a gang as a whole, and pods above its minimum one by one"),
    "spec.resourceClaims": _CLAIMS,
    "spec.parentCompositePodGroupName": Ignored(
        "it is an alpha feature of 1.37; in Phalanx each PodGroup starts by itself"
    ),
    "status.conditions": Answered("PodGroupScheduled (1.37: PodGroupInitiallyScheduled), DisruptionTarget"),
    "status.resourceClaimStatuses": _CLAIMS,
}
WORKLOAD: Mapping[str, Use] = {
    "spec.controllerRef": _INFORMS,
    "spec.podGroups[].name": Becomes(
        "Job.id", "1.35: a gang is identified by this name, the Workload's name and the podGroupReplicaKey of its pods"
    ),
    "spec.podGroups[].policy.gang.minCount": Becomes(
        "Role.minimum", "1.35: this number of pods must exist, and these pods start together"
    ),
    "spec.podGroups[].policy.basic": Becomes(
        "Role.minimum", "1.35: the minimum is 1, so each pod starts as soon as there is capacity for it"
    ),
    "spec.podGroupTemplates": _TEMPLATE,
    "spec.compositePodGroupTemplates": _TEMPLATE,
}
POD: Mapping[str, Use] = {
    "spec.schedulingGroup.podGroupName": Becomes(
        "Job.id", "since 1.36: the PodGroup with this name; the pods wait until it exists"
    ),
    "spec.workloadRef.name": Becomes("Job.id", "1.35: the Workload with this name; the pods wait until it exists"),
    "spec.workloadRef.podGroup": Becomes("Job.id", "1.35: the group in the Workload"),
    "spec.workloadRef.podGroupReplicaKey": Becomes(
        "Job.id", "1.35: pods with different keys belong to different gangs"
    ),
}
TABLES: Mapping[str, Mapping[str, Use]] = {"PodGroup": POD_GROUP, "Workload": WORKLOAD, "Pod": POD}
