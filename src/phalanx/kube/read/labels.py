"""All labels and annotations that Phalanx reads or writes.

Users may set an option as a label or as an annotation, because some operators copy only one of the two to their pods.
If an object has both, the label takes precedence. Phalanx itself writes annotations only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

_GO_DURATION = re.compile(r"(\d+(\.\d+)?(ms|s|m|h))+")
SCHEDULER_NAME = "phalanx"  # spec.schedulerName of the pods that Phalanx binds
OURS = frozenset({SCHEDULER_NAME})
DEFAULT_SCHEDULER = "default-scheduler"  # the scheduler of pods that name none
FIELD_MANAGER = "phalanx"  # Phalanx's name in managedFields
UNSCHEDULABLE = "Unschedulable"  # the reason of the condition PodScheduled to which autoscalers react

# Set by users.
QUEUE = "phalanx.dev/queue"  # label: the queue
JOB = "phalanx.dev/job"  # label: the gang's name within its namespace
ROLE = "phalanx.dev/role"  # label: the role of a bare pod in its gang
JOB_ROLES = "phalanx.dev/job-roles"  # how many objects form the gang
MIN_AVAILABLE = "phalanx.dev/min-available"  # how many pods must start together
MIN_RESOURCES = "phalanx.dev/min-resources"  # requests of the whole gang, if a driver creates its pods later
REPLACES_FAILED = "phalanx.dev/replaces-failed"  # the node of a failed bare pod stays reserved for its replacement
STALENESS = "phalanx.dev/staleness-grace-period"  # how long a gang may run below its minimum; 0: no limit
HOLD = "phalanx.dev/hold"  # keep the job queued
GROUP = "phalanx.dev/group"  # label: the user's group, for limits per group
TIME_LIMIT = "phalanx.dev/time-limit"  # the longest run time, after which the job is stopped
ESTIMATE = "phalanx.dev/estimate"  # the expected run time of the job
BEGIN = "phalanx.dev/begin"  # the earliest start (RFC 3339)
DEADLINE = "phalanx.dev/deadline"  # the job is not started if it cannot end by this time (RFC 3339)
AFTER = "phalanx.dev/after"  # the jobs that the job depends on: `a:ok,b:any`
AFTER_ANY = "phalanx.dev/after-any"  # `true`: one met dependency is enough
SINGLETON = "phalanx.dev/singleton"  # only one of the user's jobs of this name may run at a time
ARRAY = "phalanx.dev/array"  # the name of the job's array
ARRAY_CAP = "phalanx.dev/array-cap"  # how many jobs of the array run at a time
RESERVATION = "phalanx.dev/reservation"  # the advance reservation that the job uses
NICE = "phalanx.dev/nice"  # lowers the job's multifactor priority
QOS = "phalanx.dev/qos"  # the QOS of the job, for multifactor priority
CHECKPOINT = "phalanx.dev/checkpoint"  # the job's checkpoint interval: preemption loses at most this much work
PREEMPTIBLE = "phalanx.dev/preemptible"  # `false`: no job may preempt the job
MOVABLE = "phalanx.dev/movable"  # `false`: consolidation does not move the job
# Annotations of a pod for autoscalers: when an autoscaler may add nodes for the pod, and whether it may evict the pod.
SCALE_UP_DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
NODES_AFTER = "phalanx.dev/nodes-after"  # how long the job must wait before nodes are requested for it
DO_NOT_DISRUPT, SAFE_TO_EVICT = "karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict"
LAST_VICTIM = "phalanx.dev/last-victim"  # `true`: preempted only after all other candidates
SIZE = "phalanx.dev/size"  # elastic, or fixed-at-start
RESIZING = "phalanx.dev/resizing"  # `requeue`: a change of the running Job's parallelism queues the Job again
REQUEUE = "requeue"
COMPLETIONS = "phalanx.dev/completions"  # `equal-parallelism`: the completions always equal the parallelism
EQUAL_PARALLELISM = "equal-parallelism"
CLOSENESS = "phalanx.dev/closeness"  # the topology level: all pods run in one domain of this level
PREFERRED_CLOSENESS = "phalanx.dev/preferred-closeness"  # like CLOSENESS, but only preferred
BALANCED = "phalanx.dev/balanced"  # `true`: pods are spread evenly over the lower domains
SLICE = "phalanx.dev/slice"  # `4@LEVEL`: every four pods of a role share a domain of that level; layers: `8@L,4@M`
ROLE_CLOSENESS = "phalanx.dev/role-closeness"  # like CLOSENESS, for the pods of this member of a gang
ROLE_PREFERRED_CLOSENESS = "phalanx.dev/role-preferred-closeness"
ROLE_SLICE = "phalanx.dev/role-slice"
SUBGROUP = "phalanx.dev/subgroup"  # the group of roles that this member belongs to
DATA = "phalanx.dev/data"  # the data that a job's cluster must have: `a,b`
PREFERRED_DATA = "phalanx.dev/preferred-data"  # the data that the job's cluster should have
SUBGROUPS = "phalanx.dev/subgroups"  # the tree of the job's subgroups, as JSON (job_options.py)
ORIGIN = "kueue.x-k8s.io/multikueue-origin"  # marks objects that a manager sent to this cluster
NODE_GROUP = "phalanx.dev/node-group"  # on nodes: the node group that the node belongs to
ZONES = "phalanx.dev/zones"  # on nodes: the NUMA zones and their allocatable amounts, JSON (node.py)
NUMA_ALIGNMENT = "phalanx.dev/numa-alignment"  # on pods (templates): `required` or `preferred`: use one NUMA zone
GPU_FRACTION = "phalanx.dev/gpu-fraction"  # on pods (templates): the requested part of a GPU, such as `0.5`
GPU_COUNT = "phalanx.dev/gpu-count"  # on pods (templates): the number of GPUs that the pod gets a part of
GPU_MEMORY = "phalanx.dev/gpu-memory"  # on pods (templates): the requested amount of a GPU's memory, such as `8Gi`

# Written by the admission policy that Phalanx installs (admission_policy.py); no user can write it.
USER = "phalanx.dev/user"  # on Jobs: the user who created the Job

# Written by `phalanx move` (records.py, cli/submission/moving).
MOVING = "phalanx.dev/moving"  # the job is held, because it is being copied to, or from, another cluster
MOVED_FROM = "phalanx.dev/moved-from"  # on the copy: CLUSTER/UID of the original object
SUBMITTED = "phalanx.dev/submitted"  # on the copy: the original time of submission; signed, JSON

# Written by the API server of `phalanx up`.
DELETED_BY = "phalanx.dev/deleted-by"  # on pods and jobs: the user who deleted them

# Written by Phalanx.
ADMITTED = "phalanx.dev/admitted"  # the record of a start: JSON, see records.py
REASON = "phalanx.dev/reason"  # on Jobs: why the Job waits, `Code: text`
REASON_NUMBERS = "phalanx.dev/reason-numbers"  # on Jobs: the numbers in the reason, for programs; JSON
AFTER_OUTCOMES = "phalanx.dev/after-outcomes"  # the outcomes of the job's dependencies, JSON (dependency_outcomes.py)
GATE = "phalanx.dev/pinned"  # the scheduling gate of pods that another scheduler binds (write/binding.py)
PINNED = "phalanx.dev/pinned"  # on pods whose gate GATE was removed: the node on which Phalanx placed the pod
PREEMPTED = "phalanx.dev/preempted"  # the mark of a preemption: JSON, see records.py
PREEMPTIONS = "phalanx.dev/preemptions"  # on Jobs: how often the Job was preempted
SENT_TO = "phalanx.dev/sent-to"  # on Jobs for other clusters: all clusters that may have a copy of the Job
CLUSTER_CHOICE = "phalanx.dev/cluster-choice"  # on Jobs for other clusters: why the last cluster was chosen
PARALLELISM = "phalanx.dev/parallelism"  # on elastic Jobs: `5 of 8`, the present and the requested parallelism
LIMITED = "phalanx.dev/limited"  # on Jobs: `600 of 3600`: activeDeadlineSeconds as set by Phalanx and by the user
TEMPLATE = "phalanx.dev/template"  # on Jobs with a flavor: the template's fields before Phalanx changed them
POLICY = "phalanx.dev/policy"  # on the Lease: the settings of the scheduler that leads, JSON
DEVICES = "phalanx.dev/devices"  # on pods: the granted devices; on nodes: the existing devices
PART = "phalanx.dev/part"  # on pods: the reserved part of the node that the pod uses (node_parts.py)

# The scheduler's annotations on Jobs and pods. The policies of deploy/ refuse other writers.
WRITTEN = (
    *(ADMITTED, PREEMPTED, PREEMPTIONS, REASON, REASON_NUMBERS, AFTER_OUTCOMES, PARALLELISM, LIMITED, TEMPLATE),
    *(SENT_TO, PINNED, DEVICES, PART),
)
REMOVABLE = (ADMITTED, REASON, REASON_NUMBERS)  # users may remove these; if ADMITTED is removed, the start ends

JOB_NAME = "batch.kubernetes.io/job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def option(meta: Mapping[str, Any], key: str) -> str | None:
    """Return the value of the object's label `key`, or else of its annotation `key`; None if it has neither."""
    labels = meta.get("labels")
    if labels and key in labels:
        return str(labels[key])
    annotations = meta.get("annotations")
    return str(annotations[key]) if annotations and key in annotations else None


def held(meta: Mapping[str, Any]) -> bool:
    """Return whether the object is held. It is held by the option `hold` (with any value except `false`, `0` and `no`),
    or because it is being moved to another cluster."""
    value = option(meta, HOLD)
    return MOVING in (meta.get("annotations") or {}) or (
        value is not None and value.strip().lower() not in {"false", "0", "no"}
    )


# --- values of labels and annotations ---------------------------------------------------------------------------------

MOST = 2**31 - 1  # the largest int32, because the API's integers are int32
Found = TypeVar("Found")


def whole_number(text: str | None, least: int = 0) -> int | None:
    """Parse a text of decimal digits. Return None if the text is something else, or if the number is less than `least`
    or greater than 2,147,483,647."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > len(str(MOST)):
        return None
    return number if least <= (number := int(text)) <= MOST else None


def read_json(text: str, type: type[Found]) -> Found:
    """Return the value that the JSON text contains. Raises ValueError if the text is not JSON of that type."""
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.MsgspecError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None


def from_autoscalers(template: Mapping[str, Any] | None) -> dict[str, str]:
    """Translate a pod's annotations for autoscalers into options of Phalanx. `template`: the metadata of the pod or of
    its template."""
    said = (template or {}).get("annotations") or {}
    stays = said.get(DO_NOT_DISRUPT, "false") != "false" or said.get(SAFE_TO_EVICT) == "false"
    delay = {NODES_AFTER: str(said[SCALE_UP_DELAY])} if _GO_DURATION.fullmatch(str(said.get(SCALE_UP_DELAY))) else {}
    return {MOVABLE: "false", **delay} if stays else delay
