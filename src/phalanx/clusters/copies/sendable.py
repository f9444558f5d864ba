"""The kinds of jobs that can be sent to other clusters. Each kind is described by a value of `Sendable`; the same code
sends jobs of all kinds.

The adapter of the kind (`kube.read.workload.adapter`) reads and changes the suspension, the pod templates and the end
of an object, as for a start in this cluster. This module adds further facts about each kind: the field that names the
manager, the fields that are valid in one cluster only, the function that decides from the status whether the job runs,
and the fields of the status that are copied.

A Volcano Job has no field `managedBy`, but its `schedulerName` names the manager. TrainJobs and SparkApplications are
not sent: a TrainJob has no roles before its operator creates a JobSet, and a SparkApplication has no field that names a
manager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from phalanx.client.kind import JOB_SETS, JOBS, PODS, Kind
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER
from phalanx.dialects.job_kinds.form import at
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB, TRAINING
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB, ended, is_sent, phase
from phalanx.kube.read import labels
from phalanx.kube.read.workload.adapter import adapters
from phalanx.kube.read.workload.object_types import FieldTypeError

Object: TypeAlias = Mapping[str, Any]
Path: TypeAlias = tuple[str, ...]


class Key(NamedTuple):
    """The key of a job of the manager and of its copies. `name`: `namespace/name`."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sendable:
    """A kind of jobs. `managed`: the path of `managedBy` in the spec. `own`: the fields of the spec that are not
    copied, in addition to `managedBy`. `runs`: a function that returns True if a job with the given status runs.
    `copied`: the fields of the status that are copied; empty if all fields are copied."""

    kind: Kind
    runs: Callable[[Object], bool]
    managed: Path = ("managedBy",)
    own: tuple[Path, ...] = (("ttlSecondsAfterFinished",),)
    copied: tuple[str, ...] = ()

    def is_over(self, obj: Object) -> bool:
        """Return whether the job has ended."""
        conditions = (self._shown(obj).get("status") or {}).get("conditions") or ()
        return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)

    def is_suspended(self, obj: Object) -> bool:
        """Return whether the object waits to be started."""
        return bool((self._shown(obj).get("spec") or {}).get("suspend"))

    def has_started(self, obj: Object) -> bool:
        """Return True if the object is not suspended, and its status shows that it runs."""
        return not self.is_suspended(obj) and self.runs(obj.get("status") or {})

    def status_of(self, obj: Object) -> dict[str, object]:
        """Return those fields of the object's status that are copied."""
        status = obj.get("status") or {}
        return {name: status[name] for name in self.copied or status if name in status}

    def _shown(self, obj: Object) -> Object:
        found = adapters(self.kind, dict(obj))
        return found[0].read(dict(obj)) if found else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendablePods(Sendable):
    """Bare pods, with or without a group. A pod has no field for its manager. A pod is sent if its queue sends jobs to
    other clusters. The pod on the manager gets the record of its start, but is never bound to a node."""

    def is_over(self, obj: Object) -> bool:
        return (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    def is_suspended(self, obj: Object) -> bool:
        return not (obj["spec"].get("nodeName") or labels.ADMITTED in (obj["metadata"].get("annotations") or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class SendableVolcanoJobs(Sendable):
    """Volcano Jobs, which have no field to suspend them. On the manager a Job is pending if it does not have the record
    of its start. A copy is pending while its phase is Pending, unless a policy of the Job has restarted the copy in its
    cluster."""

    def is_over(self, obj: Object) -> bool:
        return bool(ended(obj))

    def is_suspended(self, obj: Object) -> bool:
        if is_sent(obj):
            return labels.ADMITTED not in (obj["metadata"].get("annotations") or {})
        return phase(obj) in ("", "Pending") and not (obj.get("status") or {}).get("retryCount")


def _has(*path: str) -> Callable[[Object], bool]:
    return lambda status: bool(at(dict(status), path))


def _is(path: Path, *values: str) -> Callable[[Object], bool]:
    return lambda status: at(dict(status), path) in values


def _true(*types: str) -> Callable[[Object], bool]:
    """Return a function that returns True if one of these conditions has the value True in the status that the function
    gets."""
    return lambda status: any(
        one.get("type") in types and one.get("status") == "True" for one in status.get("conditions") or ()
    )


def _has_active_jobs(status: Object) -> bool:
    return any(one.get("active") or one.get("ready") for one in status.get("replicatedJobsStatus") or ())


_POLICY: Final = "runPolicy"
_JOB_STATUS: Final = (
    *("startTime", "completionTime", "active", "ready", "terminating", "succeeded", "failed", "conditions"),
    *("completedIndexes", "failedIndexes"),
)
_POD_STATUS: Final = (
    *("phase", "conditions", "containerStatuses", "initContainerStatuses", "startTime", "reason", "message"),
)
_ALL: Final = (
    Sendable(
        kind=JOBS,
        runs=_has("startTime"),
        own=(("selector",), ("manualSelector",), ("ttlSecondsAfterFinished",)),
        copied=_JOB_STATUS,
    ),
    Sendable(kind=JOB_SETS, runs=_has_active_jobs),
    *(
        Sendable(
            kind=each.kind,
            runs=_true("Running"),
            managed=(_POLICY, "managedBy"),
            own=((_POLICY, "ttlSecondsAfterFinished"),),
        )
        for each in (*TRAINING, MPI_JOB)
    ),
    Sendable(kind=RAY_JOB.kind, runs=_is(("jobDeploymentStatus",), "Running"), own=()),
    Sendable(kind=RAY_CLUSTER.kind, runs=_is(("state",), "ready"), own=()),
    Sendable(kind=RAY_SERVICE.kind, runs=_true("Ready"), own=()),
    Sendable(kind=APP_WRAPPER.kind, runs=_is(("phase",), "Running"), own=()),
    SendableVolcanoJobs(kind=VOLCANO_JOB.kind, runs=_is(("state", "phase"), "Running"), managed=("schedulerName",)),
    SendablePods(kind=PODS, runs=_is(("phase",), "Running"), own=(), copied=_POD_STATUS),
)
SENDABLE: Final[Mapping[Kind, Sendable]] = {each.kind: each for each in _ALL}


def is_over(key: Key, obj: Object) -> bool:
    """Return whether a job has ended. An invalid object counts as not ended, because its status cannot be read."""
    try:
        return SENDABLE[key.kind].is_over(obj)
    except FieldTypeError:
        return False
