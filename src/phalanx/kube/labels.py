"""What Phalanx reads from and writes to objects of others: every label and annotation it knows, in one place.

What a user says may stand as a label or as an annotation (an operator that copies only one of the two to its pods must
not change what is meant); the label wins. What Phalanx writes is annotations only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEDULER_NAME = "phalanx"  # spec.schedulerName of the pods that we bind
FIELD_MANAGER = "phalanx"  # our name in managedFields

# Said by users.
QUEUE = "phalanx.dev/queue"  # label: the queue
JOB = "phalanx.dev/job"  # label: the gang's name within its namespace
ROLE = "phalanx.dev/role"  # label: the role of a bare pod in its gang
JOB_ROLES = "phalanx.dev/job-roles"  # how many objects form the gang
MIN_AVAILABLE = "phalanx.dev/min-available"  # how many pods must start together
MIN_RESOURCES = "phalanx.dev/min-resources"  # what the whole gang needs, where a driver creates its pods later
HOLD = "phalanx.dev/hold"  # keep it queued

# Written by Phalanx.
ADMITTED = "phalanx.dev/admitted"  # the record of a start: JSON, see record.py
REASON = "phalanx.dev/reason"  # on Jobs: why it waits, `Code: text`
GATE = "phalanx.dev/pinned"  # scheduling gate of pods that another scheduler binds, see pin.py
PINNED = "phalanx.dev/pinned"  # on such pods, ungated: the node that they were let go to
PREEMPTED = "phalanx.dev/preempted"  # the mark of a preemption: JSON, see record.py
PARALLELISM = "phalanx.dev/parallelism"  # on elastic Jobs: `5 of 8`, what it has now of what its user asked for
TEMPLATE = "phalanx.dev/template"  # on Jobs that were given a flavor: what their template said before
DEVICES = "phalanx.dev/devices"  # on pods: the devices they were given; on nodes: those they have

JOB_NAME = "batch.kubernetes.io/job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def said(meta: Mapping[str, Any], key: str) -> str | None:
    """What the object's label, else its annotation, says under `key`."""
    labels = meta.get("labels")
    if labels and key in labels:
        return str(labels[key])
    annotations = meta.get("annotations")
    return str(annotations[key]) if annotations and key in annotations else None


def held(meta: Mapping[str, Any]) -> bool:
    """The user asks to keep it queued: any value but `false` does."""
    value = said(meta, HOLD)
    return value is not None and value.strip().lower() not in {"false", "0", "no"}
