"""Define KAI's kinds, the kinds of owners that KAI's pod grouper knows, and the names that KAI's Queues have in the
queue tree."""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import CRON_JOBS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS, Kind

NAME: Final = "kai"
SCHEDULER_NAME: Final = "kai-scheduler"
PREFIX: Final = "kai.scheduler/"
GROUP: Final = "scheduling.run.ai"

QUEUES = Kind(group=GROUP, version="v2", plural="queues", name="Queue", namespaced=False)
POD_GROUPS = Kind(group=GROUP, version="v2alpha2", plural="podgroups", name="PodGroup")
TOPOLOGIES = Kind(group="kai.scheduler", version="v1alpha1", plural="topologies", name="Topology", namespaced=False)
SHARDS = Kind(group="kai.scheduler", plural="schedulingshards", name="SchedulingShard", namespaced=False)
CONFIGS = Kind(group="kai.scheduler", plural="configs", name="Config", namespaced=False)

_KUBEFLOW = ("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob")
TRAINING = tuple(Kind(group="kubeflow.org", plural=f"{name.lower()}s", name=name) for name in _KUBEFLOW)
MPI_JOBS = Kind(group="kubeflow.org", version="v2beta1", plural="mpijobs", name="MPIJob")
JOB_SETS = Kind(group="jobset.x-k8s.io", version="v1alpha2", plural="jobsets", name="JobSet")
RAY_CLUSTERS = Kind(group="ray.io", plural="rayclusters", name="RayCluster")
# Kinds of owners that state their number of pods. Phalanx watches each of these kinds if the API server serves it.
OWNERS: Final[tuple[Kind, ...]] = (JOBS, *TRAINING, MPI_JOBS, JOB_SETS, RAY_CLUSTERS)
RAY_JOBS = Kind(group="ray.io", plural="rayjobs", name="RayJob")
RAY_SERVICES = Kind(group="ray.io", plural="rayservices", name="RayService")
LEADER_WORKER_SETS = Kind(group="leaderworkerset.x-k8s.io", plural="leaderworkersets", name="LeaderWorkerSet")
# Further kinds of owners, from which Phalanx reads queue, priority and topology. Phalanx watches each of these kinds if
# the API server serves it.
ABOVE: Final[tuple[Kind, ...]] = (
    REPLICA_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    CRON_JOBS,
    RAY_JOBS,
    RAY_SERVICES,
    LEADER_WORKER_SETS,
)

_QUEUE, _GANG = "kai/", "kai:"


def tree_queue(queue: str) -> str:
    """Return the name that a KAI Queue has in the queue tree."""
    return _QUEUE + queue


def queue_of(queue: str) -> str:
    """Return the name of the KAI Queue that became this queue of the tree; empty if the queue is not from a KAI
    Queue."""
    return queue.removeprefix(_QUEUE) if queue.startswith(_QUEUE) else ""


def gang_name(pod_group: str) -> str:
    """Return the name that the gang of a PodGroup has within its namespace."""
    return _GANG + pod_group


def pod_group_of(gang: str) -> str:
    """Return the PodGroup of the gang with this id; empty if the gang has no PodGroup."""
    name = gang.partition("/")[2]
    return name.removeprefix(_GANG) if name.startswith(_GANG) else ""
