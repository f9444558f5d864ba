"""Define Volcano's kinds, and how the name of a Volcano Queue is written in Phalanx's queue option.


Source: staging/src/volcano.sh/apis of Volcano v1.15.1.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import Kind
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB

NAME: Final = "volcano"
SCHEDULER_NAME: Final = "volcano"
_SCHEDULING = "scheduling.volcano.sh"
JOBS: Final = VOLCANO_JOB.kind
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
ROOT: Final = "root"  # the topmost Queue
DEFAULT: Final = "default"  # the Queue of PodGroups that name no Queue
_SAID: Final = "volcano/"


def said_queue(name: str) -> str:
    """Return the queue option for the Queue that a pod names. If the name is empty, the Queue of the pod's PodGroup is
    meant."""
    return _SAID + name


def queue_said(queue: str) -> str | None:
    """Return the Volcano Queue that a queue option names; None if the option names another kind of queue."""
    return queue.removeprefix(_SAID) if queue.startswith(_SAID) else None


def tree_name(queue: str) -> str:
    """Return the name of a Volcano Queue in the queue tree. It is the same as the Queue's own name, except for the
    Queue `default`. That Queue gets another name, because Phalanx has a Queue `default` with other rules."""
    return f"{_SAID}{DEFAULT}" if queue == DEFAULT else queue
