"""One Job and its pods at one moment, read once: what the rules of `decide` and `track` ask about.

A pod is *new* here while it is finished but not yet in the Job's counters: it still has the tracking finalizer and is
in no list of `status.uncountedTerminatedPods` (KEP-2307).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import Object
from phalanx.embedded.controllers.job.indexes import NO_INDEXES, Indexes
from phalanx.embedded.controllers.job.policy import has_failed, judge
from phalanx.embedded.controllers.runtime.pod_state import (
    completion_index,
    condition,
    finished_at,
    index_failures,
    index_failures_all,
    is_active,
    is_deleting,
    is_ready,
    is_terminating,
    is_tracked,
    phase,
    uid_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """A Job and its pods. `succeeded` and `failed` include pods that are not yet in the status. `waiting`: index -> its
    failed pod, whose finalizer stays until the index has its next pod, because that inherits the count of failures."""

    job: Object
    pods: tuple[Object, ...]
    active: tuple[Object, ...]
    ready: int
    terminating: int
    new_succeeded: tuple[Object, ...]
    new_failed: tuple[Object, ...]
    succeeded: int
    failed: int
    counted_indexes: Indexes = NO_INDEXES
    done_indexes: Indexes = NO_INDEXES
    failed_indexes: Indexes | None = None
    waiting: dict[int, Object] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.job["spec"]
        return spec

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.job.get("status") or {}
        return status

    @property
    def completions(self) -> int | None:
        return self.spec.get("completions")

    @property
    def indexed(self) -> bool:
        return is_indexed(self.spec)

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def deleting(self) -> bool:
        return is_deleting(self.job)

    def condition(self, kind: str) -> dict[str, Any] | None:
        """Return the condition of the type `kind` if its status is True, otherwise None."""
        found = condition(self.job, kind)
        return found if found is not None and found.get("status") == "True" else None


def is_indexed(spec: dict[str, Any]) -> bool:
    return spec.get("completionMode") == "Indexed"


def is_finished(job: Object) -> bool:
    """Return True if the Job has the condition Complete or Failed, after which nothing more is done for it."""
    return any(
        entry["type"] in {"Complete", "Failed"} and entry.get("status") == "True"
        for entry in job.get("status", {}).get("conditions") or ()
    )


def valid_index(pod: Object, spec: dict[str, Any]) -> int | None:
    """Return the pod's completion index if the Job still has that index."""
    index = completion_index(pod)
    return index if index is not None and index < spec["completions"] else None


def view_of(job: Object, pods: Sequence[Object]) -> JobObservation:
    """Return the observation of `job` and of all pods that it owns."""
    spec, status = job["spec"], job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    listed_succeeded, listed_failed = uncounted.get("succeeded") or (), uncounted.get("failed") or ()
    open_pods = [pod for pod in pods if is_tracked(pod) and (not is_indexed(spec) or _has_place(pod, spec))]
    new_succeeded = [pod for pod in open_pods if phase(pod) == "Succeeded" and uid_of(pod) not in listed_succeeded]
    new_failed = [pod for pod in open_pods if has_failed(pod, spec) and uid_of(pod) not in listed_failed]
    active = tuple(pod for pod in pods if is_active(pod))
    done = failed_indexes = Indexes()
    counted, waiting = Indexes(), {}
    succeeded = status.get("succeeded", 0) + len(new_succeeded) + len(listed_succeeded)
    if is_indexed(spec):
        counted = Indexes.parse(status.get("completedIndexes"), spec["completions"])
        done = counted | Indexes.of({completion_index(pod) or 0 for pod in open_pods if phase(pod) == "Succeeded"})
        succeeded = len(done)
        if _per_index(spec):
            failed_indexes = _failed_indexes(job, open_pods)
            waiting = _waiting(spec, open_pods, active, done, failed_indexes)
    return JobObservation(
        job=job,
        pods=tuple(pods),
        active=active,
        ready=sum(map(is_ready, active)),
        terminating=sum(map(is_terminating, pods)),
        new_succeeded=tuple(new_succeeded),
        new_failed=tuple(new_failed),
        succeeded=succeeded,
        failed=status.get("failed", 0) + sum(judge(pod, spec).counts for pod in new_failed) + len(listed_failed),
        counted_indexes=counted,
        done_indexes=done,
        failed_indexes=failed_indexes if _per_index(spec) else None,
        waiting=waiting,
    )


def _has_place(pod: Object, spec: dict[str, Any]) -> bool:
    return valid_index(pod, spec) is not None


def _per_index(spec: dict[str, Any]) -> bool:
    return "backoffLimitPerIndex" in spec


def _failed_indexes(job: Object, open_pods: Sequence[Object]) -> Indexes:
    spec = job["spec"]
    known = Indexes.parse(job.get("status", {}).get("failedIndexes"), spec["completions"])
    return known | Indexes.of({completion_index(pod) or 0 for pod in open_pods if _fails_its_index(pod, spec)})


def _fails_its_index(pod: Object, spec: dict[str, Any]) -> bool:
    if not has_failed(pod, spec):
        return False
    verdict = judge(pod, spec)
    return verdict.fails_index or (verdict.counts and index_failures(pod) >= spec["backoffLimitPerIndex"])


def _waiting(
    spec: dict[str, Any], open_pods: Sequence[Object], active: Sequence[Object], done: Indexes, failed: Indexes
) -> dict[int, Object]:
    running = {completion_index(pod) for pod in active}
    last: dict[int, Object] = {}
    for pod in open_pods:
        index = completion_index(pod)
        if index is None or not has_failed(pod, spec) or index in running or index in done or index in failed:
            continue
        if index not in last or _age(pod) >= _age(last[index]):
            last[index] = pod
    return last


def _age(pod: Object) -> tuple[int, float]:
    return index_failures_all(pod), finished_at(pod)
