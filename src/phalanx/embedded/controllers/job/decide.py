"""Decide the next actions for a Job: pods to create, pods to delete, or the end of the Job. The functions have no side
effects.

The checks have the same order as in kube-controller-manager's syncJob, because the first check that applies determines
the reported reason. The order is: an end that has already begun, the pod failure policy, the backoff limit, the
deadline, failed indexes, the success policy. Pods are created or deleted only if no check applies. A step either
deletes or creates pods, but never both.

The second part computes the back-off of a Job before it replaces failed pods: 10 s, 20 s, 40 s … from the end of the
last failed pod.

Each success resets the back-off to its first value (KEP-3850 for one index; k8s.io/kubernetes/pkg/controller/job for
the Job). As in kube-controller-manager, the back-off is only in memory. So the present delay is lost when the
controller restarts, but the failures that are counted in the Job's status are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from phalanx.client.connection import Object
from phalanx.embedded.controllers.job.view import (
    Indexes,
    JobObservation,
    has_failed,
    judge,
    replaces_only_failed,
    success_message,
)
from phalanx.embedded.controllers.runtime.pod_state import (
    completion_index,
    failure_cause,
    finished_at,
    index_failures_all,
    is_terminating,
    phase,
    removal_rank,
    restarts,
    seconds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The first and the longest back-off delay, in seconds. The defaults are DefaultJobPodFailureBackOff and
    MaxJobPodFailureBackOff of kube-controller-manager."""

    first_s: float = 10.0
    most_s: float = 600.0

    def remaining_s(self, failures: int, last_s: float, now_s: float) -> float:
        """Return the seconds from now until a failed pod may be replaced, after `failures` failures in a row. `last_s`:
        the time of the last failure."""
        if failures == 0:
            return 0.0
        delay_s = min(self.first_s * 2.0 ** min(failures - 1, 30), self.most_s)
        return max(0.0, last_s + delay_s - now_s)

    def remaining_of_index_s(self, last_failed: Object | None, now_s: float) -> float:
        if last_failed is None:
            return 0.0
        return self.remaining_s(index_failures_all(last_failed) + 1, finished_at(last_failed), now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """The failures of a Job's pods since its last success."""

    failures: int = 0
    last_s: float = 0.0

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> Streak:
        """Return the streak after more pods have finished. If a pod has succeeded, only later failures count."""
        if not succeeded:
            if not failed:
                return self
            return replace(self, failures=self.failures + len(failed), last_s=max(map(finished_at, failed)))
        last_success_s = max(map(finished_at, succeeded))
        later = [end_s for end_s in map(finished_at, failed) if end_s > last_success_s]
        return Streak(failures=len(later), last_s=max(later, default=0.0))


PODS_PER_LOOK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The reason why a Job ends. `kind`: SuccessCriteriaMet or FailureTarget, the condition before the final one."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep:
    """The next step of a Job. `create`: for each pod to create, its completion index; None if the Job is not Indexed.
    `uncounted`: True to remove the finalizers of the deleted pods first, so that the pods count neither as successes
    nor as failures. `again_after_s`: the seconds after which the Job is reconciled again even without a change; None if
    only a change causes the next reconciliation."""

    ending: Ending | None = None
    delete: tuple[Object, ...] = ()
    uncounted: bool = False
    create: tuple[int | None, ...] = ()
    managed: bool = False
    again_after_s: float | None = None


COMPLETIONS_REACHED = Ending(
    kind="SuccessCriteriaMet", reason="CompletionsReached", message="Reached expected number of succeeded pods"
)


def decide(view: JobObservation, streak: Streak, pace: Pace, now_s: float) -> JobStep:
    """Return the next step of an unfinished Job. `streak` already counts the pods in `view.new_succeeded`
    and `view.new_failed`."""
    if (ending := _ending(view, now_s)) is not None:
        return JobStep(ending=ending, delete=view.active)
    deadline_s = _until_deadline(view, now_s)
    if view.deleting:
        return JobStep(again_after_s=deadline_s)
    step = _manage(view, streak, pace, now_s)
    waits = [wait_s for wait_s in (step.again_after_s, deadline_s) if wait_s is not None]
    return JobStep(
        delete=step.delete,
        uncounted=True,
        create=step.create,
        managed=True,
        again_after_s=min(waits, default=None),
    )


def is_complete(view: JobObservation, active: int) -> bool:
    """Return True if the Job has the required number of successes and no active pod. Without `completions`, one success
    is enough."""
    if view.completions is None:
        return view.succeeded > 0 and active == 0
    return view.succeeded >= view.completions and active == 0


# --- the end ------------------------------------------------------------------------------------------------------


def _ending(view: JobObservation, now_s: float) -> Ending | None:
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        if (begun := view.condition(kind)) is not None:
            return Ending(kind=kind, reason=begun.get("reason", ""), message=begun.get("message", ""))
    for pod in view.pods:
        if has_failed(pod, view.spec) and (message := judge(pod, view.spec).message) is not None:
            return _failure("PodFailurePolicy", message)
    if view.failed > view.spec["backoffLimit"] or _restarted_too_often(view):
        return _failure("BackoffLimitExceeded", _with_cause("Job has reached the specified backoff limit", view))
    if (left_s := _until_deadline(view, now_s)) is not None and left_s <= 0:
        return _failure("DeadlineExceeded", "Job was active longer than specified deadline")
    return _ending_of_indexes(view) if view.indexed else None


def _ending_of_indexes(view: JobObservation) -> Ending | None:
    if view.failed_indexes is not None:
        failed, most = len(view.failed_indexes), view.spec.get("maxFailedIndexes")
        if most is not None and failed > most:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return _failure("MaxFailedIndexesExceeded", _with_cause(message, view))
        if failed and failed + len(view.done_indexes) >= int(view.spec["completions"]):
            return _failure("FailedIndexes", _with_cause("Job has failed indexes", view))
    if (matched := success_message(view.spec, view.done_indexes)) is not None:
        return Ending(kind="SuccessCriteriaMet", reason="SuccessPolicy", message=matched)
    return None


def _failure(reason: str, message: str) -> Ending:
    return Ending(kind="FailureTarget", reason=reason, message=message)


def _with_cause(message: str, view: JobObservation) -> str:
    """Return the message of kube-controller-manager, followed by the cause of the first failure. The cause is searched
    first in the pods that are not counted yet, and then in all pods."""
    cause = failure_cause(view.new_failed) or failure_cause(view.pods)
    return f"{message}; {cause}" if cause else message


def _restarted_too_often(view: JobObservation) -> bool:
    """Return True if the Job has the restartPolicy OnFailure and the backoff limit is reached. With this policy, the
    restarts of containers count, because the kubelet restarts them in the same pod."""
    if view.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    total = sum(restarts(pod) for pod in view.pods if phase(pod) in {"Pending", "Running"})
    return total >= max(1, int(view.spec["backoffLimit"]))


def _until_deadline(view: JobObservation, now_s: float) -> float | None:
    """Return the time left until the deadline, which counts from startTime. Each resumption of the Job sets startTime
    again."""
    limit_s, start = view.spec.get("activeDeadlineSeconds"), view.status.get("startTime")
    if limit_s is None or view.suspended:
        return None
    return float(limit_s) if start is None else seconds(start) + float(limit_s) - now_s


# --- the pods -----------------------------------------------------------------------------------------------------


def _manage(view: JobObservation, streak: Streak, pace: Pace, now_s: float) -> JobStep:
    if view.suspended:
        return JobStep(delete=_surplus(view, len(view.active)))
    wanted, active = _wanted(view), len(view.active)
    if surplus := _surplus(view, max(0, active - wanted)):
        return JobStep(delete=surplus[:PODS_PER_LOOK], again_after_s=0.0 if len(surplus) > PODS_PER_LOOK else None)
    missing = wanted - active - (view.terminating if replaces_only_failed(view.spec) else 0)
    if missing <= 0:
        return JobStep()
    wait_s = 0.0 if "backoffLimitPerIndex" in view.spec else pace.remaining_s(streak.failures, streak.last_s, now_s)
    if wait_s > 0:
        return JobStep(again_after_s=wait_s)
    create, wait = _to_create(view, min(missing, PODS_PER_LOOK), pace, now_s)
    return JobStep(create=create, again_after_s=0.0 if missing > PODS_PER_LOOK else wait)


def _wanted(view: JobObservation) -> int:
    parallelism: int = view.spec.get("parallelism", 1)
    # a work queue: after the first success, its running pods continue, and no pod is created
    if view.completions is None:
        return len(view.active) if view.succeeded else parallelism
    return max(0, min(parallelism, view.completions - view.succeeded))


def _to_create(
    view: JobObservation, count: int, pace: Pace, now_s: float
) -> tuple[tuple[int | None, ...], float | None]:
    if not view.indexed:
        return (None,) * count, None
    indexes = _free_indexes(view, count)
    waits = [pace.remaining_of_index_s(view.waiting.get(index), now_s) for index in indexes]
    now = tuple(index for index, wait_s in zip(indexes, waits, strict=True) if wait_s <= 0)
    later = [wait_s for wait_s in waits if wait_s > 0]
    return now, min(later, default=None)


def _free_indexes(view: JobObservation, count: int) -> list[int]:
    """Return the `count` lowest indexes that are not completed, failed or active. With podReplacementPolicy Failed, the
    indexes of terminating pods are left out as well."""
    taken = list(view.active)
    if replaces_only_failed(view.spec):
        taken += [pod for pod in view.pods if is_terminating(pod)]
    held = Indexes.of({index for pod in taken if (index := completion_index(pod)) is not None})
    busy = view.done_indexes | held | (view.failed_indexes or Indexes())
    return busy.missing(count, view.spec["completions"])


def _surplus(view: JobObservation, at_least: int) -> tuple[Object, ...]:
    """Return the pods to delete: all misplaced pods (`_misplaced`), and then more pods, in the order of `removal_rank`,
    until there are `at_least` pods."""
    misplaced = _misplaced(view) if view.indexed else []
    if at_least <= len(misplaced):
        return tuple(misplaced)
    wrong = {id(pod) for pod in misplaced}
    rest = sorted((pod for pod in view.active if id(pod) not in wrong), key=removal_rank)
    return (*misplaced, *rest[: at_least - len(misplaced)])


def _misplaced(view: JobObservation) -> list[Object]:
    """Return the misplaced pods of an Indexed Job: active pods without a valid index, and active pods whose index
    another pod keeps. Among several pods with the same index, the most advanced pod keeps it."""
    keepers: dict[int, Object] = {}
    wrong: list[Object] = []
    for pod in view.active:
        index = completion_index(pod)
        if index is None or index >= view.spec["completions"]:
            wrong.append(pod)
        elif (other := keepers.get(index)) is None:
            keepers[index] = pod
        else:
            loser, keepers[index] = sorted((other, pod), key=removal_rank)
            wrong.append(loser)
    return wrong
