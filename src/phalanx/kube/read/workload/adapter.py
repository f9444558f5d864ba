"""What may stand where a Job stands: a batch/v1 Job, or one replica type of a training job.

A form shows an object as a Job and writes what was meant for the Job into the object. Roles of one object are several
members of a gang, each with a form of its own; what is to be written to all of them at once is one write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, Kind
from phalanx.dialects import kubeflow

Annotations: TypeAlias = Mapping[str, str | None]  # annotations; None takes one away
_GROUP, _, _VERSION = kubeflow.GROUP_VERSION.partition("/")
TRAINING_KINDS: tuple[Kind, ...] = tuple(
    Kind(group=_GROUP, version=_VERSION, plural=f"{name.lower()}s", name=name) for name in kubeflow.SPECS
)
OWNER_KINDS: frozenset[str] = frozenset({JOBS.name, *(kind.name for kind in TRAINING_KINDS)})


@dataclass(frozen=True, slots=True)
class JobAdapter:
    """`role`: the replica type; empty for a Job."""

    kind: Kind = JOBS
    role: str = ""

    def read(self, obj: Object) -> Object:
        """Return the object as a Job."""
        return kubeflow.view(self.kind.name, obj, self.role) if self.role else obj

    def member(self, obj: Object) -> str:
        """Return the uid of the member of a gang that this is."""
        uid = str(obj["metadata"]["uid"])
        return f"{uid}/{self.role.lower()}" if self.role else uid

    def change(self, spec: Object, words: Annotations) -> tuple[Object, Annotations]:
        """Return what to patch into the object's spec and annotations."""
        return kubeflow.change(self.kind.name, self.role, spec, words) if self.role else (spec, words)


BATCH_JOB = JobAdapter()


def adapters(kind: Kind, obj: Object) -> tuple[JobAdapter, ...]:
    """Return the adapters of an object of that kind: one for each of its roles."""
    return (BATCH_JOB,) if kind is JOBS else tuple(JobAdapter(kind, role) for role in kubeflow.roles(kind.name, obj))


def member_uid(owner: Mapping[str, Any], labels: Mapping[str, str] | None) -> str:
    """Return the uid of the member of a gang that a pod with this controlling owner belongs to."""
    uid = str(owner["uid"])
    return uid if owner["kind"] == JOBS.name else f"{uid}/{kubeflow.pod_role(labels)}"


def merge_patches(changes: Sequence[tuple[Object, Annotations]]) -> tuple[Object, dict[str, str | None]]:
    """Return one merge patch that does what all of them do."""
    spec: Object = {}
    words: dict[str, str | None] = {}
    for part, said in changes:
        _merge(spec, part)
        words |= said
    return spec, words


def _merge(into: Object, more: Object) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
