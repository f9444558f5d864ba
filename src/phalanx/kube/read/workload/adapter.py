"""Read and write one role of any framework's job (such as the workers of a PyTorchJob) through the interface of a
batch/v1 Job.

An adapter presents an object as a Job, and translates writes to the Job into writes to the object. Each role of an
object is a separate member of the gang, and has its own adapter. A write to several roles of one object is a single
request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, Kind
from phalanx.dialects.job_kinds.form import difference, nested, patched, words_of_role
from phalanx.dialects.job_kinds.replica_types import TRAINING
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.kube.read.workload.object_types import check_object

Annotations: TypeAlias = Mapping[str, str | None]  # annotations; the value None removes an annotation
TRAINING_KINDS: tuple[Kind, ...] = tuple(each.kind for each in TRAINING)
FRAMEWORK_KINDS: tuple[Kind, ...] = tuple(FRAMEWORKS)


@dataclass(frozen=True, slots=True)
class JobAdapter:
    """The translation between a framework's object and a Job: the adapter reads the object as a Job, and turns changes
    of this Job into changes of the object. `role`: the role of a framework's job; "" for a Job. `made`: an object that
    the framework's operator created from the job, such as the JobSet of a TrainJob; None unless the roles are read from
    that object."""

    kind: Kind = JOBS
    role: str = ""
    made: Object | None = field(default=None, compare=False, repr=False)

    def read(self, obj: Object) -> Object:
        """Return the object as a Job."""
        return FRAMEWORKS[self.kind].view(obj, self.role, self.made) if self.role else obj

    def with_state_of(self, obj: Object, source: Object) -> Object:
        """Return `source`, an earlier state of the object `obj`, with the metadata of `obj`. It is suspended if `obj`
        is suspended."""
        path, found = FRAMEWORKS[self.kind].suspend if self.role else ("suspend",), obj.get("spec")
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        spec = patched(source["spec"], nested(path, found is True)) if path else source["spec"]
        return {**source, "metadata": obj["metadata"], "spec": spec}

    def member(self, obj: Object) -> str:
        """Return the uid of the gang member for this role of the object."""
        uid = str(obj["metadata"]["uid"])
        return member_uid(uid, self.role) if self.role else uid

    def suspension(self) -> Object:
        """Return the patch of the object's spec that suspends the object. The patch is empty for kinds that have no
        field for suspension: an object of such a kind counts as suspended as long as it has no record of a start."""
        path = FRAMEWORKS[self.kind].suspend if self.role else ("suspend",)
        return nested(path, True) if path else {}


class PodOwner(NamedTuple):
    """The name and uid of a gang member that owns pods. `ours`: True if Phalanx binds the pods of this member,
    including pods that name the default scheduler."""

    name: str
    uid: str
    ours: bool = False


def job_owner(meta: Object) -> PodOwner | None:
    """Return the Job that controls a pod; None if no Job controls it."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == JOBS.name:
            return PodOwner(owner["name"], owner["uid"])
    return None


@dataclass(frozen=True, slots=True)
class WorkloadChange:
    """A change of the Job that an adapter presents. `spec`: a merge patch of the Job's spec. `words`: the annotations
    to set or remove."""

    adapter: JobAdapter
    spec: Object
    words: Annotations


BATCH_JOB = JobAdapter()


def adapters(kind: Kind, obj: Object, made: Object | None = None) -> tuple[JobAdapter, ...]:
    """Return the adapters of an object of this kind, one for each of its roles. Raises FieldTypeError if a field has a
    wrong type."""
    if kind is JOBS:
        return (BATCH_JOB,)
    check_object(kind, obj)
    return tuple(JobAdapter(kind, role, made) for role in FRAMEWORKS[kind].roles(obj, made))


def member_uid(uid: str, role: str) -> str:
    """Return the uid of the gang member for this role of the object."""
    return f"{uid}/{role.lower()}"


def merge_changes(obj: Object, changes: Iterable[WorkloadChange]) -> tuple[Object, dict[str, str | None]]:
    """Combine the changes of several roles. Return one merge patch of the object's spec, and one map of annotations."""
    spec = dict(obj.get("spec") or {})
    words: dict[str, str | None] = {}
    for each in changes:
        if not each.adapter.role:
            return each.spec, dict(each.words)
        spec = FRAMEWORKS[each.adapter.kind].edit(spec, each.adapter.role, each.spec)
        words |= words_of_role(each.adapter.role, each.words)
    return difference(obj.get("spec") or {}, spec), words
