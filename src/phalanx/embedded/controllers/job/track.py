"""Compute the status of a Job, and count each of its finished pods exactly once. The functions have no side effects.

A finalizer keeps the pod in the API until the pod is counted. Counting a pod takes three writes, and the controller may
crash between any two of them (KEP-2307):

1. `track`: the uid of the pod is added to status.uncountedTerminatedPods (or its index to completedIndexes). The same
   write contains all other changes of the status, and the first of the two end conditions;
2. the finalizer is removed from the pod;
3. `settle`: one write removes the uid from the list and increments the counter. If the controller crashed between 2 and
   3, the next `track` begins with step 3.

The last condition (Complete, Failed) is written only when all pods are counted and no pod is terminating.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from phalanx.client.connection import Object
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.job.decide import COMPLETIONS_REACHED, Ending, JobStep, is_complete
from phalanx.embedded.controllers.job.fields import (
    ENDED,
    BatchJobSpec,
    Counter,
    Ended,
    JobCondition,
    JobStatus,
    UncountedPods,
)
from phalanx.embedded.controllers.job.view import JobObservation, has_failed, judge, valid_index
from phalanx.embedded.controllers.runtime.pod_state import completion_index, is_tracked, phase, uid_of

MOST_UNCOUNTED = 500  # with this maximum, the lists in the status have less than about 20 KB


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a step: the number of deleted pods, the number of ready pods among these, and the number of created
    pods."""

    deleted: int = 0
    deleted_ready: int = 0
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackNote:
    """An Event to record."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The result of tracking. `status`: the new status, to be written before the finalizers of the pods in `release`
    are removed. `truncated`: True if more pods must be counted in a later step."""

    status: JobStatus
    release: tuple[Object, ...]
    ending: Ending | None
    truncated: bool
    terminating: int
    notes: tuple[TrackNote, ...]


def track(view: JobObservation, step: JobStep, done: Done, now_s: float, begun: str | None = None) -> Track:
    """Return the status after `step` was performed, and the pods whose finalizers may be removed after this status is
    written. `begun`: the startTime, if the Job began in an earlier step."""
    status = _copied(view.status)
    active = len(view.active) - done.deleted + done.created
    terminating = view.terminating + done.deleted
    if "startTime" not in status and not view.suspended:
        status["startTime"] = begun or write_moment(now_s)
    ending = _ending(view, step, done, active)
    notes: tuple[TrackNote, ...] = ()
    if step.managed and ending is None:
        notes = _suspend_or_resume(status, view.suspended, now_s)
    _count(status, "active", active)
    status["ready"], status["terminating"] = view.ready - done.deleted_ready, terminating
    count_released(status, {uid_of(pod) for pod in view.pods if is_tracked(pod)})
    release, truncated = _list_finished(view, status, ending)
    _write_indexes(view, status)
    if ending is not None and view.condition(ending.kind) is None:
        set_condition(status, ending.kind, "True", ending.reason, ending.message, now_s)
    return Track(
        status=status, release=release, ending=ending, truncated=truncated, terminating=terminating, notes=notes
    )


def settle(
    tracked: Track, still_tracked: Collection[str], spec: BatchJobSpec, now_s: float
) -> tuple[JobStatus, list[TrackNote]]:
    """Return the status after the removal of finalizers, and the Events to emit. `still_tracked`: the uids of pods that
    keep their finalizer."""
    status = _copied(tracked.status)
    count_released(status, still_tracked)
    uncounted = status["uncountedTerminatedPods"]
    if tracked.ending is None or tracked.truncated or tracked.terminating or any(uncounted.values()):
        return status, []
    ending = tracked.ending
    kind = "Complete" if ending.kind == "SuccessCriteriaMet" else "Failed"
    set_condition(status, kind, "True", ending.reason, ending.message, now_s)
    if kind == "Failed":
        return status, [TrackNote(type="Warning", reason=ending.reason, message=ending.message)]
    status["completionTime"] = write_moment(now_s)
    return status, _completion_notes(status, spec)


def count_released(status: JobStatus, still_tracked: Collection[str]) -> None:
    """Remove the uids of pods without a finalizer from the lists in the status, and increment the counters instead."""
    uncounted = status["uncountedTerminatedPods"]
    for kind in ENDED:
        listed = uncounted.pop(kind, None) or []
        left = [uid for uid in listed if uid in still_tracked]
        _count(status, kind, status.get(kind, 0) + len(listed) - len(left))
        if left:
            uncounted[kind] = left


def set_condition(status: JobStatus, kind: str, value: str, reason: str, message: str, now_s: float) -> bool:
    """Set a condition. Return True if this changes the status. A missing condition counts as False, so it is not added
    with the value False."""
    conditions = status.setdefault("conditions", [])
    new: JobCondition = {
        "type": kind,
        "status": value,
        "lastProbeTime": write_moment(now_s),
        "lastTransitionTime": write_moment(now_s),
        "reason": reason,
        "message": message,
    }
    for place, entry in enumerate(conditions):
        if entry["type"] == kind:
            same = (entry.get("status"), entry.get("reason", ""), entry.get("message", "")) == (value, reason, message)
            conditions[place] = entry if same else new
            return not same
    if value == "False":
        if not conditions:
            del status["conditions"]
        return False
    conditions.append(new)
    return True


# --- internal -----------------------------------------------------------------------------------------------------


def _copied(status: JobStatus) -> JobStatus:
    """Return a copy of the status. Only the parts that this module changes are copied, because copy.deepcopy would take
    half of the time of a reconciliation."""
    uncounted, lists = status.get("uncountedTerminatedPods") or {}, UncountedPods()
    for kind in ENDED:
        if kind in uncounted:
            lists[kind] = list(uncounted[kind])
    copied: JobStatus = {**status, "uncountedTerminatedPods": lists}
    if "conditions" in status:
        copied["conditions"] = list(status["conditions"])
    return copied


def _count(status: JobStatus, field: Counter, value: int) -> None:
    """Set a counter in the status. A counter with the value 0 is removed, like a field with omitempty in Go."""
    if value:
        status[field] = value
    else:
        status.pop(field, None)


def _ending(view: JobObservation, step: JobStep, done: Done, active: int) -> Ending | None:
    if step.ending is not None:  # the end follows only after every active pod was deleted
        return step.ending if done.deleted == len(view.active) else None
    return COMPLETIONS_REACHED if is_complete(view, active) else None


def _suspend_or_resume(status: JobStatus, suspended: bool, now_s: float) -> tuple[TrackNote, ...]:
    """Remove startTime when the Job is suspended, and set it again when the Job is resumed, because only active time
    counts towards the deadline. (Before Kubernetes 1.36, startTime was not removed, and a client had to remove it
    before a change of a suspended Job's template.)"""
    if suspended:
        if set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now_s):
            status.pop("startTime", None)
            return (TrackNote(type="Normal", reason="Suspended", message="Job suspended"),)
    elif set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now_s):
        status["startTime"] = write_moment(now_s)
        return (TrackNote(type="Normal", reason="Resumed", message="Job resumed"),)
    return ()


def _list_finished(view: JobObservation, status: JobStatus, ending: Ending | None) -> tuple[tuple[Object, ...], bool]:
    """Add finished pods to the lists in the status. Return the pods whose finalizers may be removed afterwards, and
    True if the lists are full."""
    uncounted, fresh, release = status["uncountedTerminatedPods"], 0, []
    in_order = sorted(view.pods, key=lambda pod: completion_index(pod) or 0) if view.indexed else view.pods
    for pod in in_order:
        if not is_tracked(pod) or not _may_release(view, pod, ending):
            continue
        release.append(pod)
        if (place := _list_for(view, pod, ending)) == "index":
            fresh += 1
        elif place is not None:
            uncounted.setdefault(place, []).append(uid_of(pod))
        if fresh + sum(len(uncounted.get(kind, ())) for kind in ENDED) >= MOST_UNCOUNTED:
            return tuple(release), True
    return tuple(release), False


def _may_release(view: JobObservation, pod: Object, ending: Ending | None) -> bool:
    if view.deleting or ending is not None or phase(pod) == "Succeeded":
        return True
    if not has_failed(pod, view.spec):
        return False
    index = completion_index(pod)
    return index is None or view.waiting.get(index) is not pod


def _list_for(view: JobObservation, pod: Object, ending: Ending | None) -> Ended | Literal["index"] | None:
    """Return the list to which the pod must be added: `succeeded` or `failed` (lists of uids), or `index` (the pod's
    index is added to completedIndexes); None if the pod must not be counted."""
    uid, lists = uid_of(pod), view.status.get("uncountedTerminatedPods") or {}
    on_failed = uid in (lists.get("failed") or ())
    index = valid_index(pod, view.spec) if view.indexed else None
    if view.indexed and index is None:
        return None
    if phase(pod) == "Succeeded" and not on_failed:
        if index is not None:
            return None if index in view.counted_indexes else "index"
        return None if uid in (lists.get("succeeded") or ()) else "succeeded"
    # After the failure of a Job, all its remaining pods count as failures. After its success, no remaining pod counts
    # as a failure.
    lost = ending is not None and ending.kind == "FailureTarget"
    if on_failed or not (has_failed(pod, view.spec) or lost) or not judge(pod, view.spec).counts:
        return None
    return "failed"


def _write_indexes(view: JobObservation, status: JobStatus) -> None:
    if not view.indexed:
        return
    _count(status, "succeeded", len(view.done_indexes))
    if len(view.done_indexes):
        status["completedIndexes"] = str(view.done_indexes)
    else:
        status.pop("completedIndexes", None)
    if view.failed_indexes is not None:
        status["failedIndexes"] = str(view.failed_indexes)


def _completion_notes(status: JobStatus, spec: BatchJobSpec) -> list[TrackNote]:
    """Return the Events of a Job that is complete. A Job without failed pods gets no such Event, because its conditions
    show the same."""
    notes = []
    if spec.get("completions") is not None and status.get("succeeded", 0) > spec["completions"]:
        message = "Too many succeeded pods running after completion count reached"
        notes.append(TrackNote(type="Warning", reason="TooManySucceededPods", message=message))
    if notes or status.get("failed"):
        notes.append(TrackNote(type="Normal", reason="Completed", message="Job completed"))
    return notes
