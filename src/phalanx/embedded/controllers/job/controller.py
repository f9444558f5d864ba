"""The Job controller. It watches Jobs and their pods, and reconciles each Job one step at a time.

One step consists of these actions: claim the Job's pods, read them (`view_of`), `decide`, create or delete pods,
`track`, write the status, remove the finalizers of counted pods, `settle`, and write the status again if it changed.
The controller may crash between two writes, because the next reconciliation starts from the objects in the API.

A change of a Job's spec is reconciled immediately. Changes of its pods are collected for a second, as in
kube-controller-manager, so that ten pods that start together cause only one write of the status. The creation of a
Job's first pods is collected in the same way, so the status of a Job that ends within that second is written once.

A new Job that is suspended is not reconciled for a quarter of a second. If there is capacity, the scheduler resumes the
Job within this time. The write of the scheduler then causes no conflict, because the Job still has the resourceVersion
that the scheduler read. The status of such a Job never states that the Job was suspended.

If the API server did not respond to the creation of a pod, the pod may exist or not. So before the next decision, the
controller lists the Job's pods at the API server instead of reading the cache.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import JOBS, PODS
from phalanx.embedded.controllers.job.decide import JobStep, Pace, Streak, decide
from phalanx.embedded.controllers.job.fields import JobCondition, JobStatus
from phalanx.embedded.controllers.job.gang import Gangs
from phalanx.embedded.controllers.job.pods import COMPONENT, IndexedPods, is_unknown
from phalanx.embedded.controllers.job.track import Done, Track, TrackNote, set_condition, settle, track
from phalanx.embedded.controllers.job.view import JobObservation, is_finished, view_of
from phalanx.embedded.controllers.runtime.calls import Calls, Clock
from phalanx.embedded.controllers.runtime.pod_state import (
    CONTROLLER_UID,
    OwnerPodIndex,
    as_query,
    controller_of,
    is_active,
    is_deleting,
    is_ready,
    is_tracked,
    phase,
    restarts,
    uid_of,
)
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue
from phalanx.embedded.controllers.runtime.recorder import BROKEN, EventRecorder, broken_message

_OURS = {None, "kubernetes.io/job-controller"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """The delays of the controller. `batch_s`: the time for which changes of pods are collected. `settle_s`: the time
    before a new, suspended Job is reconciled. `pace`: the delays before failed pods are replaced."""

    batch_s: float = 1.0
    settle_s: float = 0.25
    pace: Pace = field(default_factory=Pace)
    workers: int = 32
    retry: Retry = field(default_factory=Retry)


class JobController:
    """The controller of Jobs. Call `start`, then run both `queues`."""

    def __init__(
        self,
        calls: Calls,
        index: OwnerPodIndex,
        recorder: EventRecorder,
        settings: JobSettings | None = None,
        clock: Clock = time.time,
    ) -> None:
        self._settings = settings or JobSettings()
        self._calls, self._index, self._recorder, self._clock = calls, index, recorder, clock
        self._jobs, self._pods = calls.cache(JOBS), calls.cache(PODS)
        self._actions, self._gangs = IndexedPods(calls, index, recorder), Gangs(calls)
        self._streaks: dict[str, Streak] = {}
        self._begun: dict[str, str] = {}  # uid -> the startTime of a Job whose status is not written yet
        # uids of Jobs for which the API server did not respond to the creation of a pod
        self._doubtful: set[str] = set()
        self._own_selectors: dict[str, set[str]] = {}  # namespace -> keys of the Jobs whose users chose the selector
        retry, workers = self._settings.retry, self._settings.workers
        self._queue = WorkQueue("job", self.look, workers=workers, retry=retry)
        self._orphans = WorkQueue("orphaned pod", self._free_orphan, retry=retry)

    def start(self) -> None:
        self._jobs.subscribe(self._job_changed)
        self._pods.subscribe(self._pod_changed)

    @property
    def queues(self) -> tuple[WorkQueue, WorkQueue]:
        """Return the work queues of the controller. The caller must run both as long as the controller exists."""
        return self._queue, self._orphans

    # --- changes of Jobs and pods ---------------------------------------------------------------------------------

    def _job_changed(self, change: Change) -> None:
        job = change.new or change.old
        assert job is not None
        key, uid = key_of(job), uid_of(job)
        self._note_selector(job, key, gone=change.new is None)
        if change.new is None or is_finished(job):
            for pod in self._index.owned_by(uid):
                if is_tracked(pod) and is_deleting(pod):
                    self._orphans.add(key_of(pod))
            self._streaks.pop(uid, None)
            self._begun.pop(uid, None)
            self._doubtful.discard(uid)
            self._gangs.forget(uid)
        elif change.old is None and job["spec"].get("suspend") and not job.get("status"):
            self._queue.add_after(key, self._settings.settle_s)
        elif change.old is None or _asks_anew(change.old, job):
            self._queue.add(key)
        elif change.old.get("status") != job.get("status") and not self._queue.is_running(key):
            self._queue.add_after(key, self._settings.batch_s)

    def _note_selector(self, job: Object, key: str, *, gone: bool) -> None:
        if job["spec"].get("manualSelector"):
            keys = self._own_selectors.setdefault(job["metadata"]["namespace"], set())
            keys.discard(key) if gone else keys.add(key)

    def _pod_changed(self, change: Change) -> None:
        pod = change.new or change.old
        assert pod is not None
        job = self._job_of(pod)
        if change.new is not None and is_tracked(pod) and self._is_orphan(pod, job):
            self._orphans.add(key_of(pod))
        if change.old is not None and (before := self._job_of(change.old)) is not None and before is not job:
            self._queue.add_after(key_of(before), self._settings.batch_s)
        if job is not None:
            key = key_of(job)
            if _matters(change, during_our_look=self._queue.is_running(key)):
                self._queue.add_after(key, self._settings.batch_s)
        elif change.new is not None and controller_of(pod) is None:
            for key in self._suitors(pod):
                self._queue.add_after(key, self._settings.batch_s)

    def _job_of(self, pod: Object) -> Object | None:
        """Return the Job that controls the pod; None if no Job with the uid in the owner reference exists."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] != "Job" or not owner["apiVersion"].startswith("batch/"):
            return None
        job = self._jobs.objects.get(f"{pod['metadata']['namespace']}/{owner['name']}")
        return job if job is not None and uid_of(job) == owner["uid"] else None

    def _is_orphan(self, pod: Object, job: Object | None) -> bool:
        """Return True if no Job will remove this pod's finalizer. Either the pod has no controller, or it is being
        deleted and its Job is finished or does not exist any more."""
        owner = controller_of(pod)
        if owner is None:
            return True
        return owner["kind"] == "Job" and is_deleting(pod) and (job is None or is_finished(job))

    def _suitors(self, pod: Object) -> Iterable[str]:
        """Yield the keys of the Jobs that may adopt this pod, which has no controller."""
        labels, namespace = pod["metadata"].get("labels") or {}, pod["metadata"]["namespace"]
        job = self._jobs.objects.get(f"{namespace}/{labels.get('job-name', '')}")
        if job is not None and labels.get(CONTROLLER_UID) == uid_of(job):
            yield key_of(job)
        yield from self._own_selectors.get(namespace, ())

    # --- reconciliation of one Job -------------------------------------------------------------------------------

    async def look(self, key: str) -> None:
        """Perform the next step of a Job. Raises ApiError if the step must be retried. Any other exception is a defect;
        a condition of the Job shows it until a step succeeds."""
        job = self._jobs.objects.get(key)
        if job is None or job["spec"].get("managedBy") not in _OURS or is_finished(job):
            return
        try:
            await self._step(key, job)
        except ApiError:
            raise
        except Exception as error:  # any error is shown to the Job's owner as a condition
            await self._mark(job, "True", broken_message(error))
            raise
        if any(one["type"] == BROKEN and one["status"] == "True" for one in conditions_of(job)):
            await self._mark(self._jobs.objects.get(key, job), "False", "the controller can deal with it again")

    async def _mark(self, job: Object, value: str, message: str) -> None:
        status = JobStatus(conditions=list(conditions_of(job)))
        if not set_condition(status, BROKEN, value, BROKEN, message, self._clock()):
            return
        body = {"metadata": {"uid": uid_of(job)}, "status": {"conditions": status["conditions"]}}
        with suppress(ApiError):  # the defect is also logged and recorded as an Event
            await self._calls.patch(JOBS, job, body, subresource="status")

    async def _step(self, key: str, job: Object) -> None:
        if uid_of(job) in self._doubtful:
            await self._read_pods(job)
        view = view_of(job, await self._actions.claim(job))
        streak = self._streaks.get(uid_of(job), Streak()).after(view.new_succeeded, view.new_failed)
        now_s = self._clock()
        step = decide(view, streak, self._settings.pace, now_s)
        done, errors = await self._act(view, step)
        tracked = track(view, step, done, now_s, self._begun.get(uid_of(job)))
        if done.created and not errors and _only_begun(view, tracked):
            self._begun[uid_of(job)] = tracked.status["startTime"]
            self._queue.add_after(key, self._settings.batch_s)
            return
        errors += await self._count(key, view, tracked, streak)
        if errors:
            raise errors[0]
        again_s = 0.0 if tracked.truncated else step.again_after_s
        if again_s is not None:
            self._queue.add_after(key, again_s)

    async def _act(self, view: JobObservation, step: JobStep) -> tuple[Done, list[ApiError]]:
        if step.delete:
            deleted, ready, errors = await self._actions.delete(view.job, step.delete, uncounted=step.uncounted)
            return Done(deleted=deleted, deleted_ready=ready), errors
        if step.create:
            group = await self._gangs.group_of(view.job)
            created, errors = await self._actions.create(view, step.create, group)
            if is_unknown(errors):
                self._doubtful.add(uid_of(view.job))
            return Done(created=created), errors
        return Done(), []

    async def _count(self, key: str, view: JobObservation, tracked: Track, streak: Streak) -> list[ApiError]:
        """Perform the three writes that the module `track` describes. If the Job can end now, one write of its last
        status is enough, because pods of a finished Job are never counted again. These pods keep their finalizers until
        they are deleted. On deletion, the API server ignores the finalizers. For pods that are already being deleted,
        `_job_changed` removes the finalizers."""
        job = view.job
        status, notes = settle(tracked, (), view.spec, self._clock())
        if is_finished({"status": status}):
            if await self._write_status(key, job, status) is not None:
                self._tell(job, (*tracked.notes, *notes))
            return []
        if tracked.status != view.status:
            written = await self._write_status(key, job, tracked.status)
            if written is None:
                return []
            job = written
        self._streaks[uid_of(job)] = streak
        self._tell(job, tracked.notes)
        freed, errors = await self._actions.untrack_all(tracked.release)
        still = {uid_of(pod) for pod in view.pods if is_tracked(pod)} - freed
        status, notes = settle(tracked, still, view.spec, self._clock())
        if status != tracked.status and await self._write_status(key, job, status) is not None:
            self._tell(job, notes)
        return errors

    async def _write_status(self, key: str, job: Object, status: JobStatus) -> Object | None:
        """Write the status, and return the Job. After a conflict, or if the Job was deleted, return None and reconcile
        the Job again."""
        try:
            return await self._calls.replace(JOBS, {**job, "status": status}, "status")
        except ApiRefusal as refusal:
            if refusal.code == 409:
                await self._calls.get(JOBS, job["metadata"]["name"], job["metadata"]["namespace"])
            elif refusal.code != 404:
                raise
        self._queue.add_after(key, 0.05)
        return None

    async def _read_pods(self, job: Object) -> None:
        """List the Job's pods from the API server, and update the cache with the response."""
        query = as_query(job["spec"]["selector"])
        await self._calls.list(PODS, job["metadata"]["namespace"], labelSelector=query)
        self._doubtful.discard(uid_of(job))

    def _tell(self, job: Object, notes: Iterable[TrackNote]) -> None:
        for note in notes:
            self._recorder.tell(COMPONENT, job, note.type, note.reason, note.message)

    async def _free_orphan(self, key: str) -> None:
        """Remove the finalizer from a pod that no Job will count any more."""
        pod = self._pods.objects.get(key)
        if pod is None or not is_tracked(pod):
            return
        owner, job = controller_of(pod), self._job_of(pod)
        if owner is not None and owner["kind"] != "Job":
            return
        if job is not None and (not is_finished(job) or job["spec"].get("managedBy") not in _OURS):
            return
        await self._actions.untrack(pod)


def conditions_of(job: Object) -> list[JobCondition]:
    """Return the conditions in the Job's status."""
    return (job.get("status") or {}).get("conditions") or []


def _only_begun(view: JobObservation, tracked: Track) -> bool:
    """Return True if the status of the Job changes only by the creation of its first pods, so that the write of the
    status can wait. The status of a Job with a deadline is written at once, because the deadline counts from its
    startTime."""
    status = view.status
    return (
        not view.pods
        and not view.suspended
        and tracked.ending is None
        and "startTime" not in status
        and "activeDeadlineSeconds" not in view.spec
        and tracked.status.get("conditions") == status.get("conditions")
    )


def _asks_anew(old: Object, new: Object) -> bool:
    """Return True if the Job must be reconciled at once, because its spec has changed or it is being deleted."""
    return old["metadata"].get("generation") != new["metadata"].get("generation") or is_deleting(old) != is_deleting(
        new
    )


def _matters(change: Change, *, during_our_look: bool) -> bool:
    """Return True if a change of a pod can affect its Job. Changes that the controller itself makes while it reconciles
    the Job (`during_our_look`) need no further reconciliation."""
    if change.new is None:
        return True
    if change.old is None:
        return not (during_our_look and is_active(change.new))
    old, new = _aspects(change.old), _aspects(change.new)
    return old[1:] != new[1:] or (old[0] != new[0] and not during_our_look)


def _aspects(pod: Object) -> tuple[Any, ...]:
    meta = pod["metadata"]
    return (
        is_tracked(pod),
        phase(pod),
        is_ready(pod),
        is_deleting(pod),
        restarts(pod),
        meta.get("labels"),
        meta.get("ownerReferences"),
    )
