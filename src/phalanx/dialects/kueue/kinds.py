"""Define Kueue's kinds, and the names that its queues and flavors have in Phalanx's queue tree.

In the tree, the name of a ClusterQueue, a Cohort or a ResourceFlavor begins with its kind. So a ClusterQueue and a
Cohort of the same name have different names in the tree, and both differ from all other queues.
"""

from __future__ import annotations

from phalanx.client.kind import Kind
from phalanx.model.node import parts_of

NAME = "kueue"
GROUP = "kueue.x-k8s.io"
VISIBILITY = f"visibility.{GROUP}"  # the API group that lists pending Workloads
PREFIX = f"{GROUP}/"


def _kind(plural: str, name: str, *, namespaced: bool = False) -> Kind:
    return Kind(group=GROUP, version="v1beta2", plural=plural, name=name, namespaced=namespaced)


CLUSTER_QUEUES = _kind("clusterqueues", "ClusterQueue")
LOCAL_QUEUES = _kind("localqueues", "LocalQueue", namespaced=True)
COHORTS = _kind("cohorts", "Cohort")
RESOURCE_FLAVORS = _kind("resourceflavors", "ResourceFlavor")
PRIORITY_CLASSES = _kind("workloadpriorityclasses", "WorkloadPriorityClass")
ADMISSION_CHECKS = _kind("admissionchecks", "AdmissionCheck")
PROVISIONING_CONFIGS = _kind("provisioningrequestconfigs", "ProvisioningRequestConfig")
MULTI_CLUSTERS = _kind("multikueueclusters", "MultiKueueCluster")
MULTI_CONFIGS = _kind("multikueueconfigs", "MultiKueueConfig")
TOPOLOGIES = _kind("topologies", "Topology")
WORKLOADS = _kind("workloads", "Workload", namespaced=True)
PROVISIONING_REQUESTS = Kind(
    group="autoscaling.x-k8s.io", version="v1", plural="provisioningrequests", name="ProvisioningRequest"
)
POD_TEMPLATES = Kind(plural="podtemplates", name="PodTemplate")
LEADER_WORKER_SETS = Kind(
    group="leaderworkerset.x-k8s.io", version="v1", plural="leaderworkersets", name="LeaderWorkerSet", namespaced=True
)

QUEUE_LABEL = f"{PREFIX}queue-name"
PRIORITY_LABEL = f"{PREFIX}priority-class"
DEFAULT_CLASS = "default"  # the WorkloadPriorityClass of jobs that name none, if a class of this name exists

_CLUSTER_QUEUE, _LOCAL_QUEUE, _COHORT, _FLAVOR = "clusterqueue/", "localqueue/", "cohort/", "resourceflavor/"


def tree_queue(cluster_queue: str) -> str:
    """Return the name that a ClusterQueue has in the queue tree."""
    return _CLUSTER_QUEUE + cluster_queue


def tree_cohort(cohort: str) -> str:
    """Return the name that a Cohort has in the queue tree."""
    return _COHORT + cohort


def tree_flavor(flavor: str) -> str:
    """Return the name that a ResourceFlavor has in Phalanx."""
    return _FLAVOR + flavor


def cluster_queue_of(queue: str) -> str:
    """Return the name of the ClusterQueue that became this queue of the tree; empty if the queue is not from a
    ClusterQueue."""
    return queue.removeprefix(_CLUSTER_QUEUE) if queue.startswith(_CLUSTER_QUEUE) else ""


def node_group(check: str, cluster_queue: str) -> str:
    """Return the name of a node group. It has the nodes that an autoscaler creates for jobs of this ClusterQueue,
    because this AdmissionCheck has requested nodes."""
    return f"AdmissionCheck {check} of ClusterQueue {cluster_queue}"


def flavors_of(flavor: str) -> tuple[str, ...]:
    """Return the ResourceFlavors of a role. A role has one flavor for each resource group from which it requests a
    resource."""
    return tuple(part.removeprefix(_FLAVOR) for part in parts_of(flavor))


def local_queue(namespace: str, name: str) -> str:
    """Return the queue option that names a LocalQueue. The dialect's function `claim` later replaces it by the queue of
    the LocalQueue's ClusterQueue."""
    return f"{_LOCAL_QUEUE}{namespace}/{name}"


def local_queue_of(queue: str) -> str:
    """Return `namespace/name` of the LocalQueue that a queue option names; empty if the option names no LocalQueue."""
    return queue.removeprefix(_LOCAL_QUEUE) if queue.startswith(_LOCAL_QUEUE) else ""
