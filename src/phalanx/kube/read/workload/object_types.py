"""The types of the fields that the scheduler reads of a framework's job, for kinds whose definition may have no schema:
the kinds of Ray, Spark and Kubeflow's training operator.

Without a schema, the API server stores any value in these fields. `check_object` finds the first value of a wrong type.
Its error names the field and the value: `spec.tfReplicaSpecs.Worker.replicas: 'many' is not a whole number from …`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Annotated, Required, TypeAlias, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from phalanx.client.connection import Object
from phalanx.client.kind import Kind
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB, TRAINING
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.dialects.schema.fields import Misread, Path
from phalanx.kube.read.workload.role_types import Affinity, Count, Int32, Int64, RoleToleration, Template


class FieldTypeError(Misread, ValueError):
    """A field of a framework's job has a value of a wrong type or out of range."""


_Size: TypeAlias = str | int | float | None
_Words: TypeAlias = dict[str, str] | None


class _Replicas(TypedDict, total=False):
    replicas: Count | None
    template: Template | None


class _SchedulingPolicy(TypedDict, total=False):
    minAvailable: Int32 | None
    queue: str | None
    priorityClass: str | None


class _RunPolicy(TypedDict, total=False):
    suspend: bool | None
    activeDeadlineSeconds: Int64 | None
    managedBy: str | None
    schedulingPolicy: _SchedulingPolicy | None


class _TrainingSpec(TypedDict, total=False):
    runPolicy: _RunPolicy | None
    launcherCreationPolicy: str | None
    pytorchReplicaSpecs: dict[str, _Replicas] | None
    mpiReplicaSpecs: dict[str, _Replicas] | None
    tfReplicaSpecs: dict[str, _Replicas] | None
    xgbReplicaSpecs: dict[str, _Replicas] | None
    paddleReplicaSpecs: dict[str, _Replicas] | None
    jaxReplicaSpecs: dict[str, _Replicas] | None


class _ReplicaStatus(TypedDict, total=False):
    succeeded: Int32 | None


class _TrainingStatus(TypedDict, total=False):
    replicaStatuses: dict[str, _ReplicaStatus | None] | None


class _Training(TypedDict, total=False):
    spec: _TrainingSpec
    status: _TrainingStatus | None


class _Head(TypedDict, total=False):
    template: Template | None


class _WorkerGroup(TypedDict, total=False):
    groupName: Required[str]
    replicas: Count | None
    numOfHosts: Count | None
    template: Template | None


class _ClusterSpec(TypedDict, total=False):
    suspend: bool | None
    managedBy: str | None
    enableInTreeAutoscaling: bool | None
    headGroupSpec: _Head | None
    workerGroupSpecs: list[_WorkerGroup] | None


class _RayJobSpec(TypedDict, total=False):
    suspend: bool | None
    managedBy: str | None
    activeDeadlineSeconds: Int64 | None
    submissionMode: str | None
    clusterSelector: dict[str, object] | None
    submitterPodTemplate: Template | None
    rayClusterSpec: _ClusterSpec | None


class _RayServiceSpec(TypedDict, total=False):
    rayClusterConfig: _ClusterSpec | None


class _RayCluster(TypedDict, total=False):
    spec: _ClusterSpec
    status: dict[str, object] | None


class _RayJob(TypedDict, total=False):
    spec: _RayJobSpec
    status: dict[str, object] | None


class _RayService(TypedDict, total=False):
    spec: _RayServiceSpec
    status: dict[str, object] | None


class _Gpu(TypedDict, total=False):
    name: Required[str]
    quantity: Required[str | int | float]


class _SparkPod(TypedDict, total=False):
    instances: Count | None
    cores: _Size
    coreRequest: _Size
    memory: _Size
    memoryOverhead: _Size
    gpu: _Gpu | None
    nodeSelector: _Words
    tolerations: list[RoleToleration] | None
    affinity: Affinity | None
    schedulerName: str | None
    priorityClassName: str | None
    labels: _Words
    annotations: _Words
    template: Template | None


class _RestartPolicy(TypedDict, total=False):
    type: str | None


class _SparkSpec(TypedDict, total=False):
    suspend: bool | None
    type: str | None
    memoryOverheadFactor: _Size
    nodeSelector: _Words
    restartPolicy: _RestartPolicy | None
    driver: _SparkPod | None
    executor: _SparkPod | None


class _SparkState(TypedDict, total=False):
    applicationState: dict[str, object] | None


class _Spark(TypedDict, total=False):
    spec: _SparkSpec
    status: _SparkState | None


_TYPES: Mapping[Kind, type] = {
    **dict.fromkeys((each.kind for each in (*TRAINING, MPI_JOB)), _Training),
    RAY_CLUSTER.kind: _RayCluster,
    RAY_JOB.kind: _RayJob,
    RAY_SERVICE.kind: _RayService,
    SPARK.kind: _Spark,
}


def check_object(kind: Kind, obj: Object) -> None:
    """Raise FieldTypeError if a field that the scheduler reads of a framework's job has a value of a wrong type, or a
    value out of range. Objects of kinds that are not in `_TYPES` are not checked."""
    expected = _TYPES.get(kind)
    if expected is None:
        return
    try:
        msgspec.convert(obj, expected)
    except msgspec.ValidationError:
        raise _fault(obj, expected, ()) from None


# --- internal ---------------------------------------------------------------------------------------------------------


def _fault(value: object, expected: object, path: Path) -> FieldTypeError:
    """Return the error of the innermost invalid value. `value`: a value that does not have the type `expected`."""
    for part, type_of_part, name in _parts(value, expected):
        try:
            msgspec.convert(part, type_of_part)
        except msgspec.ValidationError:
            return _fault(part, type_of_part, (*path, name))
    return FieldTypeError(path, _text(value, _without_none(expected)))


def _parts(value: object, expected: object) -> Iterator[tuple[object, object, str | int]]:
    """Yield the fields or entries of the value, each with its type and its name or index."""
    form = _without_none(expected)
    if is_typeddict(form) and isinstance(value, dict):
        yield from ((value[name], hint, name) for name, hint in _hints(form).items() if name in value)
    elif get_origin(form) is dict and isinstance(value, dict):
        yield from ((part, get_args(form)[1], str(name)) for name, part in value.items())
    elif get_origin(form) is list and isinstance(value, list):
        yield from ((part, get_args(form)[0], index) for index, part in enumerate(value))


def _hints(form: object) -> dict[str, object]:
    """Return the types of the fields of a TypedDict."""
    hints = get_type_hints(form, include_extras=True)
    return {name: get_args(hint)[0] if get_origin(hint) is Required else hint for name, hint in hints.items()}


def _without_none(expected: object) -> object:
    """Return the type of a field without `None`."""
    choices = [one for one in get_args(expected) if one is not NoneType]
    return choices[0] if len(choices) == 1 and NoneType in get_args(expected) else expected


def _text(value: object, form: object) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
    if is_typeddict(form) and isinstance(value, dict):
        hints = get_type_hints(form, include_extras=True)
        missing = [name for name, hint in hints.items() if get_origin(hint) is Required and name not in value]
        return f"it has no {' and no '.join(missing)}"
    if is_typeddict(form) or get_origin(form) is dict:
        return f"{shown} is not a mapping of names to values"
    if get_origin(form) is list:
        return f"{shown} is not a list"
    if get_origin(form) is Annotated:
        limits = get_args(form)[1]
        return f"{shown} is not a whole number from {limits.ge} to {limits.le}"
    if form is bool:
        return f"{shown} is neither true nor false"
    return f"{shown} is not text" if form is str else f"{shown} is not a quantity"
