"""Declare the types of those fields of a Workload that Phalanx reads. A field may be missing, and a list or an object
may be null.

Source: apis/kueue/v1beta1/workload_types.go of v0.19.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast


class WorkloadOwner(TypedDict, total=False):
    uid: str
    controller: bool | None


class WorkloadMeta(TypedDict, total=False):
    ownerReferences: list[WorkloadOwner] | None


class WorkloadPodSet(TypedDict, total=False):
    name: str
    count: int
    minCount: int | None
    template: Mapping[str, Any] | None


class WorkloadPriority(TypedDict, total=False):
    name: str


class WorkloadSpec(TypedDict, total=False):
    active: bool | None
    maximumExecutionTimeSeconds: int | None
    podSets: list[WorkloadPodSet] | None
    priority: int | None
    priorityClassRef: WorkloadPriority | None


class WorkloadCondition(TypedDict, total=False):
    type: str
    status: str
    reason: str
    message: str


class WorkloadToleration(TypedDict, total=False):
    key: str | None
    operator: str | None
    value: str | None
    effect: str | None


class WorkloadPodSetUpdate(TypedDict, total=False):
    name: str
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    nodeSelector: dict[str, str] | None
    tolerations: list[WorkloadToleration] | None


class WorkloadCheck(TypedDict, total=False):
    name: str
    state: str
    message: str
    lastTransitionTime: str
    retryCount: int | None
    requeueAfterSeconds: float | None
    podSetUpdates: list[WorkloadPodSetUpdate] | None


class WorkloadAssignment(TypedDict, total=False):
    flavors: dict[str, str] | None


class WorkloadAdmission(TypedDict, total=False):
    podSetAssignments: list[WorkloadAssignment] | None


class WorkloadRequeue(TypedDict, total=False):
    requeueAt: str | None


class WorkloadStatus(TypedDict, total=False):
    admission: WorkloadAdmission | None
    admissionChecks: list[WorkloadCheck] | None
    clusterName: str | None
    conditions: list[WorkloadCondition] | None
    nominatedClusterNames: list[str] | None
    requeueState: WorkloadRequeue | None


class WorkloadView(TypedDict, total=False):
    metadata: WorkloadMeta
    spec: WorkloadSpec | None
    status: WorkloadStatus | None


def workload_of(obj: Mapping[str, object]) -> WorkloadView:
    """Return the same object, typed as a Workload."""
    return cast("WorkloadView", obj)


def status_of(status: Mapping[str, object]) -> WorkloadStatus:
    """Return the same status, typed as the status of a Workload."""
    return cast("WorkloadStatus", status)


def object_of(state: WorkloadCheck) -> dict[str, object]:
    """Return the state of a check as a plain dict, so that it can become a part of an object that Phalanx writes."""
    return cast("dict[str, Any]", state)
