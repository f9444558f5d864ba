"""The kinds of scheduler-plugins, the labels of its pods, and the names that its queues have in our tree.

Of its labels two spellings are in use: `scheduling.x-k8s.io/pod-group`, and `pod-group.scheduling.sigs.k8s.io` of the
releases before 0.22, with `/name` and `/min-available` for groups without an object.
"""

from __future__ import annotations

from phalanx.client.kind import Kind

NAME = "scheduler-plugins"
# The name that its chart gives its scheduler. The name is free there, and often the default one.
SCHEDULER_NAME = "scheduler-plugins-scheduler"
DEFAULT_SCHEDULER = "default-scheduler"
GROUP = "scheduling.x-k8s.io"

POD_GROUPS = Kind(group=GROUP, version="v1alpha1", plural="podgroups", name="PodGroup")
ELASTIC_QUOTAS = Kind(group=GROUP, version="v1alpha1", plural="elasticquotas", name="ElasticQuota")
NODE_TOPOLOGIES = Kind(
    group="topology.node.k8s.io",
    version="v1alpha2",
    plural="noderesourcetopologies",
    name="NodeResourceTopology",
    namespaced=False,
)
APP_GROUPS = Kind(group="appgroup.diktyo.x-k8s.io", version="v1alpha1", plural="appgroups", name="AppGroup")
NETWORK_TOPOLOGIES = Kind(
    group="networktopology.diktyo.x-k8s.io", version="v1alpha1", plural="networktopologies", name="NetworkTopology"
)

_OLD = "pod-group.scheduling.sigs.k8s.io"
GROUP_LABELS = (f"{GROUP}/pod-group", _OLD, f"{_OLD}/name")
MIN_LABEL = f"{_OLD}/min-available"

TREE = f"{NAME}/elasticquotas"  # the queue above all that ElasticQuotas are
_QUOTA = "elasticquota/"


def tree_quota(namespace: str) -> str:
    """Return the queue in our tree that a namespace's ElasticQuota is."""
    return _QUOTA + namespace


def is_quota(queue: str) -> bool:
    """Return whether a queue is named as those of ElasticQuotas are."""
    return queue.startswith(_QUOTA)
