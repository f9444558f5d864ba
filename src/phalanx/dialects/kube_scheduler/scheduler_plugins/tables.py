"""The use of every field of scheduler-plugins' kinds, and of its labels on pods.

The page docs/dialects/scheduler-plugins.md is generated from these tables, and a test compares them with every field of
every definition.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use
from phalanx.dialects.kube_scheduler.scheduler_plugins import kinds

_ZONES = Ignored("zones of nodes are read from the annotation phalanx.dev/zones of the node")
_NETWORK = Ignored("use phalanx.dev/closeness to place pods close together; Phalanx has no network costs")
POD_GROUP: Mapping[str, Use] = {
    "spec.minMember": Becomes("Role.minimum", "this number of pods must exist, and starts together"),
    "spec.minResources": Becomes(
        "Role (held)",
        "these amounts must be free when the group starts; the rest is reserved for later pods, at most ten minutes",
    ),
    "spec.scheduleTimeoutSeconds": Ignored("a waiting group holds no capacity, so nothing has to be released"),
    "status.phase": Answered("Pending, Scheduling, Running, Finished, Failed; the last two are final"),
    "status.occupiedBy": Answered("`namespace/owner` of the oldest pod"),
    "status.running": Answered("pods of its own namespace; upstream counts those of equally named groups as well"),
    "status.succeeded": Answered("the same"),
    "status.failed": Answered("the same"),
    "status.scheduleStartTime": Answered("when the group was complete; upstream declares it and never writes it"),
}
ELASTIC_QUOTA: Mapping[str, Use] = {
    "spec.min": Becomes("Quota.guaranteed", "borrowed while unused; all quotas together use no more than the sum"),
    "spec.max": Becomes("Quota.limit", "cpu, memory and ephemeral-storage are 0 if not named, as upstream"),
    "status.used": Answered("of running pods"),
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
    kinds.GROUP_LABELS[0]: Becomes("Job.id", "the PodGroup of that name; the pods wait until there is one"),
    kinds.GROUP_LABELS[1]: Becomes("Job.id", "the spelling before 0.22"),
    kinds.GROUP_LABELS[2]: Becomes("Job.id", "the same; with min-available no PodGroup is needed"),
    kinds.MIN_LABEL: Becomes("Role.minimum", "where there is no PodGroup of the name"),
    "appgroup.diktyo.x-k8s.io": _NETWORK,
    "appgroup.diktyo.x-k8s.io.workload": _NETWORK,
}
