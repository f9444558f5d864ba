"""The fields of Jobs that the Job controller reads and writes, with their types (k8s.io/api/batch/v1).

The objects are plain dictionaries, as received from the API. If new code in this package reads a field, the field must
be added to this module."""

from __future__ import annotations

from typing import Literal, TypedDict

Counter = Literal["active", "succeeded", "failed"]
Ended = Literal["succeeded", "failed"]
ENDED: tuple[Ended, ...] = ("succeeded", "failed")


class ExitCodes(TypedDict, total=False):
    containerName: str
    operator: str
    values: list[int]


class ConditionPattern(TypedDict, total=False):
    type: str
    status: str


class FailureRule(TypedDict, total=False):
    action: str
    onExitCodes: ExitCodes
    onPodConditions: list[ConditionPattern]


class FailurePolicy(TypedDict, total=False):
    rules: list[FailureRule]


class SuccessRule(TypedDict, total=False):
    succeededCount: int
    succeededIndexes: str


class SuccessPolicy(TypedDict, total=False):
    rules: list[SuccessRule]


class JobPodSpec(TypedDict, total=False):
    restartPolicy: str


class JobPodTemplate(TypedDict, total=False):
    spec: JobPodSpec


class BatchJobSpec(TypedDict, total=False):
    activeDeadlineSeconds: int
    backoffLimit: int
    backoffLimitPerIndex: int
    completionMode: str
    completions: int
    maxFailedIndexes: int
    parallelism: int
    podFailurePolicy: FailurePolicy
    podReplacementPolicy: str
    successPolicy: SuccessPolicy
    suspend: bool
    template: JobPodTemplate


class JobCondition(TypedDict, total=False):
    lastProbeTime: str
    lastTransitionTime: str
    message: str
    reason: str
    status: str
    type: str


class UncountedPods(TypedDict, total=False):
    """The uids of pods that have ended, but are not yet in the counters of the status."""

    failed: list[str]
    succeeded: list[str]


class JobStatus(TypedDict, total=False):
    active: int
    completedIndexes: str
    completionTime: str
    conditions: list[JobCondition]
    failed: int
    failedIndexes: str
    ready: int
    startTime: str
    succeeded: int
    terminating: int
    uncountedTerminatedPods: UncountedPods
