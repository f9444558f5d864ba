"""Volcano's kinds, and the names that they have in our tree.

Source: staging/src/volcano.sh/apis of Volcano v1.15.1.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import Kind

NAME: Final = "volcano"
SCHEDULER_NAME: Final = "volcano"
_SCHEDULING = "scheduling.volcano.sh"
JOBS: Final = Kind(group="batch.volcano.sh", version="v1alpha1", plural="jobs", name="Job")
POD_GROUPS: Final = Kind(group=_SCHEDULING, version="v1beta1", plural="podgroups", name="PodGroup")
QUEUES: Final = Kind(group=_SCHEDULING, version="v1beta1", plural="queues", name="Queue", namespaced=False)
JOB_FLOWS: Final = Kind(group="flow.volcano.sh", version="v1alpha1", plural="jobflows", name="JobFlow")
COLOCATIONS: Final = Kind(
    group="config.volcano.sh", version="v1alpha1", plural="colocationconfigurations", name="ColocationConfiguration"
)
HYPER_NODES: Final = Kind(
    group="topology.volcano.sh", version="v1alpha1", plural="hypernodes", name="HyperNode", namespaced=False
)
NUMA_TOPOLOGIES: Final = Kind(
    group="nodeinfo.volcano.sh", version="v1alpha1", plural="numatopologies", name="Numatopology", namespaced=False
)
ROOT: Final = "root"  # the Queue above all
_SAID: Final = "volcano/"


def said_queue(name: str) -> str:
    """Return how a pod's queue is said in our words; without a name, that of its PodGroup is meant."""
    return _SAID + name


def queue_said(queue: str) -> str | None:
    """Return the Queue that a pod says in our words; None: it says another's."""
    return queue.removeprefix(_SAID) if queue.startswith(_SAID) else None
