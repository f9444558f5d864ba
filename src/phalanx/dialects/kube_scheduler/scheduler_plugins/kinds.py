"""The kinds of scheduler-plugins, the labels of its pods, and the names of its queues in the queue tree.

Its PodGroup label has two spellings: `scheduling.x-k8s.io/pod-group`, and before release 0.22
`pod-group.scheduling.sigs.k8s.io`, with `/name` and `/min-available` for groups without an object.
"""

from __future__ import annotations

from phalanx.client.kind import Kind

NAME = "scheduler-plugins"
# The scheduler name in the Helm chart of scheduler-plugins. Users may choose another name; many use the name of the
# default scheduler.
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

TREE = f"{NAME}/elasticquotas"  # the parent of all ElasticQuotas' queues
_QUOTA = "elasticquota/"


def tree_quota(namespace: str) -> str:
    """Return the name of the queue of a namespace's ElasticQuota."""
    return _QUOTA + namespace


def is_quota(queue: str) -> bool:
    """Return whether a queue belongs to an ElasticQuota, by its name."""
    return queue.startswith(_QUOTA)
