"""State how Phalanx uses every field of scheduler-plugins' kinds, and its labels on pods.

The page docs/dialects/scheduler-plugins.md is generated from these tables. A test compares the tables with every field
of every CustomResourceDefinition.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use
from phalanx.dialects.kube_scheduler.scheduler_plugins import kinds

_ZONES = Ignored("Phalanx reads the NUMA zones of a node from its annotation phalanx.dev/zones")
_NETWORK = Ignored("use phalanx.dev/closeness to place pods close together; Phalanx has no network costs")
POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes("Role.minimum", "this number of pods must exist, and these pods start together"),
    "spec.minResources": Becomes(
        "Role (held)",
        "these amounts must be free when the group starts; amounts that exceed the requests of its "
        "existing pods are reserved for later pods, for at most ten minutes",
    ),
    "spec.scheduleTimeoutSeconds": Ignored("a waiting group holds no capacity, so nothing has to be released"),
    "status.phase": Answered("Pending, Scheduling, Running, Finished or Failed; Finished and Failed are final"),
    "status.occupiedBy": Answered("`namespace/owner` of the oldest pod"),
    "status.running": Answered(
        "the number of running pods; scheduler-plugins also counts the pods of groups with the same "
        "name in other namespaces"
    ),
    "status.succeeded": Answered("counted as for status.running"),
    "status.failed": Answered("counted as for status.running"),
    "status.scheduleStartTime": Answered(
        "the time when the group was complete; scheduler-plugins never writes this field"
    ),
}
ELASTIC_QUOTA: Mapping[str, Use] = {
    "spec.min": Becomes(
        "Quota.guaranteed",
        "other quotas may borrow the unused part; all quotas together may use at most the sum of all `min`",
    ),
    "spec.max": Becomes(
        "Quota.limit",
        "the limit of cpu, memory or ephemeral-storage is 0 if `max` does not name it, as in scheduler-plugins",
    ),
    "status.used": Answered("the requests of running pods"),
}
NODE_TOPOLOGY: Mapping[str, Use] = {"attributes": _ZONES, "topologyPolicies": _ZONES, "zones": _ZONES}
APP_GROUP: Mapping[str, Use] = {
    "spec.numMembers": _NETWORK,
    "spec.topologySortingAlgorithm": _NETWORK,
    "spec.workloads": _NETWORK,
    "status": _NETWORK,
}
NETWORK_TOPOLOGY: Mapping[str, Use] = {"spec.configmapName": _NETWORK, "spec.weights": _NETWORK, "status": _NETWORK}
TABLES: Mapping[str, Mapping[str, Use]] = {
    "PodGroup": POD_GROUP,
    "ElasticQuota": ELASTIC_QUOTA,
    "NodeResourceTopology": NODE_TOPOLOGY,
    "AppGroup": APP_GROUP,
    "NetworkTopology": NETWORK_TOPOLOGY,
}
WORDS: Mapping[str, Use] = {
    kinds.GROUP_LABELS[0]: Becomes("Job.id", "the PodGroup with this name; the pods wait until it exists"),
    kinds.GROUP_LABELS[1]: Becomes("Job.id", "the same label, as it was spelled before 0.22"),
    kinds.GROUP_LABELS[2]: Becomes("Job.id", "the name of a group; with the label min-available it needs no PodGroup"),
    kinds.MIN_LABEL: Becomes("Role.minimum", "the minimum of a group without a PodGroup"),
    "appgroup.diktyo.x-k8s.io": _NETWORK,
    "appgroup.diktyo.x-k8s.io.workload": _NETWORK,
}
