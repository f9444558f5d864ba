"""Run PyTorchJobs (kubeflow.org/v1) like the Kubeflow training operator, for one machine.

The controller is level-triggered like the Job controller. In each step it reads the job and its pods, decides, performs
the decided actions, and writes the status if it changed. Pods are created and deleted by name, so a step can be
repeated without harm.

A function without side effects computes the status of a PyTorchJob and the next actions from its pods. The rules are
those of the training operator. The job succeeds when its Master has succeeded. A job without a Master succeeds when all
Workers have succeeded; an elastic job without a Master succeeds when one Worker has succeeded. A failed pod is created
again, except in two cases: the restart policy of its replica type is Never, or the policy is ExitCode and the exit code
is not retryable (it is below 128, so no signal ended the pod). In both cases the job fails. An evicted worker is
created again. Times and conditions follow the operator's common JobStatus.

Source: pkg/controller.v1/common and pytorch/pytorchjob_controller.go of kubeflow/training-operator v1.9.0."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.informer import key_of
from phalanx.client.kind import PODS, SERVICES, Kind
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.operators.training.definition import (
    OPERATOR,
    PYTORCH_JOBS,
    TYPE,
    TrainingReplica,
    count,
    make_pod,
    make_service,
    replica_specs,
    replicas,
    restart_policy,
    selector,
)
from phalanx.embedded.controllers.runtime.calls import create_owned
from phalanx.embedded.controllers.runtime.pod_state import (
    condition,
    failure_cause,
    is_active,
    is_deleting,
    phase,
    restarts,
    seconds,
)
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler
from phalanx.embedded.controllers.runtime.recorder import BROKEN, broken_message

FINISHED = ("Succeeded", "Failed")
_RETRYABLE = 128
_WHOLE = {"type", "status", "reason", "lastTransitionTime"}  # the fields of a condition that this controller writes
_NAME = "PyTorchJob"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingActions:
    """The next steps of a PyTorchJob. `status`: its new status. `create`: the missing pods. `delete`: the pods to
    delete. `look_s`: the time of the next reconciliation (seconds since the epoch); 0: none."""

    status: dict[str, Any]
    create: tuple[TrainingReplica, ...] = ()
    delete: tuple[Object, ...] = ()
    look_s: float = 0.0


@dataclass(slots=True)
class _Conditions:
    """The list status.conditions: one condition of each type, the newest last."""

    entries: list[dict[str, object]]
    now: str

    def set(self, kind: str, reason: str, message: str, *, value: bool = True) -> None:
        status = "True" if value else "False"
        old = next((one for one in self.entries if one["type"] == kind), None)
        if old is not None and (old["status"], old["reason"]) == (status, reason):
            return
        if old is not None:
            self.entries.remove(old)
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else self.now
        words = {"type": kind, "status": status, "reason": reason, "message": message}
        self.entries.append({**words, "lastTransitionTime": since, "lastUpdateTime": self.now})

    def deny(self, *kinds: str) -> None:
        """Set each of the given conditions to False if it was True."""
        for kind in kinds:
            old = next((one for one in self.entries if one["type"] == kind and one["status"] == "True"), None)
            if old is not None:
                old |= {"status": "False", "lastTransitionTime": self.now, "lastUpdateTime": self.now}


@dataclass(slots=True)
class _Tally:
    """The pods of one replica type. `fatal`: the number of failed pods that make the job fail; `failed` includes these
    pods. `retry`: the pods to delete and create again."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    fatal: int = 0
    retry: list[Object] = field(default_factory=list)


def judge(job: Object, pods: Sequence[Object], now_s: float) -> TrainingActions:
    old, now = job.get("status") or {}, write_moment(now_s)
    conditions = _Conditions([dict(one) for one in old.get("conditions") or ()], now)
    name, policy = job["metadata"]["name"], job["spec"].get("runPolicy") or {}
    conditions.deny(BROKEN)
    conditions.set("Created", f"{_NAME}Created", f"{_NAME} {name} is created.")
    status: dict[str, Any] = {**old, "conditions": conditions.entries}
    if finished(job):
        return _after_end(job, status, pods, now_s)
    if policy.get("suspend"):
        conditions.deny("Running", "Restarting")
        conditions.set("Suspended", f"{_NAME}Suspended", f"{_NAME} {name} is suspended.")
        status |= {"replicaStatuses": {kind: {} for kind in replica_specs(job)}, "startTime": None}
        return TrainingActions(status=status, delete=tuple(pod for pod in pods if not is_deleting(pod)))
    if condition(job, "Suspended") is not None:
        conditions.set("Suspended", f"{_NAME}Resumed", f"{_NAME} {name} is resumed.", value=False)
    status["startTime"] = old.get("startTime") or now
    return _live(job, status, conditions, pods, now_s)


def broken_status(job: Object, message: str, now_s: float) -> dict[str, object]:
    """Return the status of a job that cannot be reconciled: its earlier status, and a condition with the reason."""
    old = job.get("status")
    held = old.get("conditions") if isinstance(old, dict) else None
    listed = held if isinstance(held, list) else []
    usable = [dict(one) for one in listed if isinstance(one, dict) and one.keys() >= _WHOLE]
    conditions = _Conditions(usable, write_moment(now_s))
    conditions.set(BROKEN, BROKEN, message)
    return {"conditions": conditions.entries}


def finished(job: Object) -> bool:
    return any((entry := condition(job, kind)) is not None and entry["status"] == "True" for kind in FINISHED)


def _live(
    job: Object, status: dict[str, object], conditions: _Conditions, pods: Sequence[Object], now_s: float
) -> TrainingActions:
    specs, name = replica_specs(job), job["metadata"]["name"]
    tallies = {kind: _tally(pods, kind, restart_policy(spec)) for kind, spec in specs.items()}
    status["replicaStatuses"] = {kind: _counts(job, kind, tally) for kind, tally in tallies.items()}
    policy = job["spec"].get("runPolicy") or {}
    deadline_s = _deadline_s(status, policy)
    failure = _failure(specs, tallies, pods, policy, now_s, deadline_s)
    if failure is not None:
        return _end(job, status, conditions, pods, "Failed", *failure)
    first = next(iter(specs), "")
    leading = tallies.get(first, _Tally())
    enough = 1 if first == "Worker" and job["spec"].get("elasticPolicy") else count(specs[first]) if first else 0
    if leading.succeeded >= enough > 0:
        text = f"{_NAME} {name} is successfully completed."
        return _end(job, status, conditions, pods, "Succeeded", f"{_NAME}Succeeded", text)
    retry = [pod for tally in tallies.values() for pod in tally.retry]
    if failed := sum(tally.failed for tally in tallies.values()):
        text = f"{_NAME} {name} is restarting because {failed} replica(s) failed."
        conditions.deny("Running")
        conditions.set("Restarting", f"{_NAME}Restarting", text)
    elif leading.active and any(phase(pod) == "Running" for pod in pods):
        conditions.deny("Restarting")
        conditions.set("Running", f"{_NAME}Running", f"{_NAME} {name} is running.")
    wanted = {replica.name: replica for replica in replicas(job)}
    there = {pod["metadata"]["name"] for pod in pods}
    missing = tuple(replica for name, replica in wanted.items() if name not in there)
    surplus = [pod for pod in pods if pod["metadata"]["name"] not in wanted and not is_deleting(pod)]
    return TrainingActions(status=status, create=missing, delete=(*retry, *surplus), look_s=deadline_s)


def _tally(pods: Sequence[Object], kind: str, policy: str) -> _Tally:
    found = _Tally()
    for pod in pods:
        if pod["metadata"]["labels"].get(TYPE) != kind.lower():
            continue
        match phase(pod):
            case "Succeeded":
                found.succeeded += 1
            case "Failed":
                found.failed += 1
                if policy == "Never" or (policy == "ExitCode" and _exit_code(pod) < _RETRYABLE):
                    found.fatal += 1
                elif not is_deleting(pod):
                    found.retry.append(pod)
            case _:
                found.active += is_active(pod)
    return found


def _counts(job: Object, kind: str, tally: _Tally) -> dict[str, object]:
    """Return the counts of a replica type as a merge patch: None removes a count that has become 0."""
    old = ((job.get("status") or {}).get("replicaStatuses") or {}).get(kind) or {}
    numbers = {"active": tally.active, "succeeded": tally.succeeded, "failed": tally.failed}
    counts = {name: number or None for name, number in numbers.items() if number or name in old}
    return {**counts, "selector": selector(job, kind)}


def _exit_code(pod: Object) -> int:
    """Return the highest exit code of the pod's containers. A pod without an exit code was evicted; for it, return a
    retryable code, so that the pod is created again."""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    ended = ((one.get("state") or {}).get("terminated") or {} for one in containers)
    return max((int(one["exitCode"]) for one in ended if "exitCode" in one), default=_RETRYABLE)


def _deadline_s(status: dict[str, object], policy: Object) -> float:
    limit_s = policy.get("activeDeadlineSeconds")
    return seconds(status["startTime"]) + float(limit_s) if limit_s is not None else 0.0


def _failure(
    specs: Any, tallies: dict[str, _Tally], pods: Sequence[Object], policy: Object, now_s: float, deadline_s: float
) -> tuple[str, str] | None:
    """Return the reason and the message of the job's failure; None if the job has not failed."""
    if deadline_s and now_s >= deadline_s:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    limit = policy.get("backoffLimit")
    if limit is not None:
        again = sum(restarts(pod) for pod in pods if not is_deleting(pod))
        if again > limit or (again == limit and limit > 0):
            return "BackoffLimitExceeded", _with_cause("Job has reached the specified backoff limit", pods)
    for kind in specs:
        if tallies[kind].fatal or (limit == 0 and tallies[kind].failed):
            text = f"{_NAME} is failed because {tallies[kind].failed} {kind} replica(s) failed."
            return f"{_NAME}Failed", _with_cause(text, pods)
    return None


def _with_cause(message: str, pods: Sequence[Object]) -> str:
    cause = failure_cause(pods)
    return f"{message}; {cause}" if cause else message


def _end(
    job: Object,
    status: dict[str, object],
    conditions: _Conditions,
    pods: Sequence[Object],
    kind: str,
    reason: str,
    message: str,
) -> TrainingActions:
    conditions.deny("Running", "Restarting")
    conditions.set(kind, reason, message)
    status["completionTime"] = conditions.now
    return TrainingActions(status=status, delete=_leftovers(job, pods))


def _leftovers(job: Object, pods: Sequence[Object]) -> tuple[Object, ...]:
    """Return the pods to delete after the end of the job. Depending on the job's cleanPodPolicy, these are no pods, the
    running pods, or all pods."""
    policy = (job["spec"].get("runPolicy") or {}).get("cleanPodPolicy") or "None"
    if policy == "None":
        return ()
    return tuple(pod for pod in pods if not is_deleting(pod) and (policy == "All" or is_active(pod)))


def _after_end(job: Object, status: dict[str, object], pods: Sequence[Object], now_s: float) -> TrainingActions:
    ttl_s = (job["spec"].get("runPolicy") or {}).get("ttlSecondsAfterFinished")
    end = status.get("completionTime")
    expires_s = seconds(end) + float(ttl_s) if ttl_s is not None and end else 0.0
    return TrainingActions(status=status, delete=_leftovers(job, pods), look_s=expires_s)


log = logging.getLogger(__name__)

_MANAGER = "kubeflow.org/training-operator"


class TrainingController(Reconciler):
    kind, component = PYTORCH_JOBS, OPERATOR

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.queue.on_defect = self._mark
        # The running tasks. Without these references a task could be removed before it ends, because the event loop has
        # only weak references to tasks.
        self._marks: set[asyncio.Task[None]] = set()

    async def reconcile(self, job: Object) -> None:
        policy = job["spec"].get("runPolicy") or {}
        if (policy.get("managedBy") or _MANAGER) != _MANAGER:
            return
        now_s = self._clock()
        found = judge(job, self._index.owned_by(job["metadata"]["uid"]), now_s)
        if finished(job) and policy.get("ttlSecondsAfterFinished") is not None and found.look_s <= now_s:
            await self._calls.remove(PYTORCH_JOBS, job)
            return
        await self._do(job, found)
        if found.look_s:
            self.look_after(job, found.look_s - now_s)

    def _mark(self, key: str, error: Exception) -> None:
        """Report that the job cannot be reconciled, in an Event and in its status."""
        job = self.objects.get(key)
        if job is None:
            return
        message = broken_message(error)
        self.tell(job, "Warning", BROKEN, message)
        task = asyncio.ensure_future(self._write_mark(job, message))
        self._marks.add(task)
        task.add_done_callback(self._marks.discard)

    async def _write_mark(self, job: Object, message: str) -> None:
        try:
            body = {"status": broken_status(job, message, self._clock())}
            await self._calls.patch(PYTORCH_JOBS, job, body, subresource="status")
        except ApiError as refusal:
            log.info("pytorchjob %s: %s", key_of(job), refusal)

    async def _do(self, job: Object, found: TrainingActions) -> None:
        for pod in found.delete:
            await self._calls.remove(PODS, pod)
        for replica in found.create:
            await self._create(job, SERVICES, make_service(job, replica))
            await self._create(job, PODS, make_pod(job, replica))
        if not found.create and found.delete and not replicas_wanted(job):
            await self._delete_services(job)
        if found.status != (job.get("status") or {}):
            await self._calls.patch(PYTORCH_JOBS, job, {"status": found.status}, subresource="status")

    async def _create(self, job: Object, kind: Kind, body: Object) -> None:
        """Create the object, unless the job already has an object of this name. Raises ApiError, after which the step
        is retried."""
        try:
            _, created = await create_owned(self._calls, kind, body, job)
        except ApiRefusal as refusal:
            text = f"Error creating: {refusal}"
            self.tell(job, "Warning", f"FailedCreate{kind.name}", text)
            raise
        if created:
            told = f"Created {kind.name.lower()}: {body['metadata']['name']}"
            self.tell(job, "Normal", f"SuccessfulCreate{kind.name}", told)

    async def _delete_services(self, job: Object) -> None:
        for replica in replicas(job):
            known: dict[str, Any] | None = self._calls.cache(SERVICES).objects.get(
                f"{job['metadata']['namespace']}/{replica.name}"
            )
            if known is not None:
                await self._calls.remove(SERVICES, known)


def replicas_wanted(job: Object) -> bool:
    """Return True if the job should have pods now: it is not suspended and not finished."""
    return not (job["spec"].get("runPolicy") or {}).get("suspend") and not finished(job)
