"""Kueue's kinds, and the names of its queues and flavors in the queue tree.

The names of ClusterQueues, Cohorts and ResourceFlavors begin with their kind, so they differ from each other and from
other queues.
"""

from __future__ import annotations

from phalanx.client.kind import Kind
from phalanx.model.node import parts_of

NAME = "kueue"
GROUP = "kueue.x-k8s.io"
VISIBILITY = f"visibility.{GROUP}"  # the API group of pending Workloads
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
DEFAULT_CLASS = "default"  # the WorkloadPriorityClass of jobs that name none, if it exists

_CLUSTER_QUEUE, _LOCAL_QUEUE, _COHORT, _FLAVOR = "clusterqueue/", "localqueue/", "cohort/", "resourceflavor/"


def tree_queue(cluster_queue: str) -> str:
    """Return the name of a ClusterQueue's queue in the tree."""
    return _CLUSTER_QUEUE + cluster_queue


def tree_cohort(cohort: str) -> str:
    """Return the name of a Cohort's queue in the tree."""
    return _COHORT + cohort


def tree_flavor(flavor: str) -> str:
    """Return the name of a ResourceFlavor's flavor in Phalanx."""
    return _FLAVOR + flavor


def cluster_queue_of(queue: str) -> str:
    """Return the ClusterQueue of a queue in the tree; empty if it has none."""
    return queue.removeprefix(_CLUSTER_QUEUE) if queue.startswith(_CLUSTER_QUEUE) else ""


def node_group(check: str, cluster_queue: str) -> str:
    """Return the name of the group on demand of an AdmissionCheck and a ClusterQueue."""
    return f"AdmissionCheck {check} of ClusterQueue {cluster_queue}"


def flavors_of(flavor: str) -> tuple[str, ...]:
    """Return the ResourceFlavors of a role: of each resource group of which it asks a resource, one."""
    return tuple(part.removeprefix(_FLAVOR) for part in parts_of(flavor))


def local_queue(namespace: str, name: str) -> str:
    """Return the queue option for a LocalQueue. `claim` later replaces it by the ClusterQueue's queue."""
    return f"{_LOCAL_QUEUE}{namespace}/{name}"


def local_queue_of(queue: str) -> str:
    """Return `namespace/name` of the LocalQueue in a queue option; empty if it names none."""
    return queue.removeprefix(_LOCAL_QUEUE) if queue.startswith(_LOCAL_QUEUE) else ""
