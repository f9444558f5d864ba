"""Run JobSets (jobset.x-k8s.io/v1alpha2) like their operator, for one machine.

The controller is level-triggered. In each step it reads the JobSet and its Jobs, calls `judge`, performs the decided
actions, and writes the status if it changed. Jobs are created and deleted by name, so a step can be repeated without
harm.

`judge` computes the status of a JobSet and the next actions from its Jobs, without side effects.

If a Job fails, the first matching rule of the failure policy applies. The whole JobSet restarts (its Jobs are deleted
and created again, with a higher restart attempt), one Job restarts, or the JobSet fails. If no rule matches, the JobSet
restarts up to `maxRestarts` times. The JobSet completes when the Jobs of its success policy have completed.

Source: JobSet v0.12, pkg/controllers/{failure_policy,success_policy,startup_policy,jobset_controller}.go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import JOB_SETS, JOBS, SERVICES, Kind
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.operators.conditions import is_true, with_condition
from phalanx.embedded.controllers.operators.job_set.jobs import (
    ATTEMPT,
    COMPONENT,
    OPERATOR,
    REPLICATED_JOB,
    Replica,
    count,
    make_job,
    make_service,
    replicas,
    replicated_jobs,
    restarts,
    template_patch,
)
from phalanx.embedded.controllers.runtime.calls import create_owned
from phalanx.embedded.controllers.runtime.pod_state import seconds
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

FINISHED = ("Completed", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetActions:
    """The next writes for a JobSet. `status`: its new status. `create`, `delete`, `suspend`, `resume`: the Jobs to
    create, delete, suspend and resume.
    `look_s`: the time of the next reconciliation (seconds since the epoch); 0: none. `over`: True to delete the
    JobSet."""

    status: dict[str, Any]
    create: tuple[Replica, ...] = ()
    delete: tuple[Object, ...] = ()
    suspend: tuple[Object, ...] = ()
    resume: tuple[tuple[Replica, Object], ...] = ()
    look_s: float = 0.0
    over: bool = False


@dataclass(slots=True)
class _Part:
    """The Jobs of one replicated job. `ready`: the number of Jobs whose pods are all ready."""

    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0
    jobs: list[Object] = field(default_factory=list)


def judge(job_set: Object, jobs: Sequence[Object], now_s: float) -> JobSetActions:
    """Return the status and the next steps of a JobSet with these Jobs."""
    status = dict(job_set.get("status") or {})
    status.setdefault("restarts", 0)
    current = [job for job in jobs if _attempt(job) >= restarts(job_set)]
    old = tuple(job for job in jobs if _attempt(job) < restarts(job_set) and not _is_going(job))
    parts = _parts(job_set, current)
    status["replicatedJobsStatus"] = [_counts(name, part) for name, part in parts.items()]
    if any(is_true(job_set, kind) for kind in FINISHED):
        return _after_end(job_set, status, current, now_s)
    said = _Said(list(status.get("conditions") or ()), write_moment(now_s))
    failed = sorted((job for job in current if is_true(job, "Failed")), key=lambda job: _ended(job, "Failed"))
    if failed:
        return _failure(job_set, status, said, failed[0])
    if _has_succeeded(job_set, parts):
        said.set("Completed", True, "AllJobsCompleted", "jobset completed successfully")
        status |= {"conditions": said.conditions, "terminalState": "Completed"}
        return JobSetActions(status=status, delete=_active(current))
    return _live(job_set, status, said, parts, current, old)


@dataclass(slots=True)
class _Said:
    conditions: list[dict[str, object]]
    now: str

    def set(self, kind: str, value: bool, reason: str, message: str) -> None:
        self.conditions = with_condition(self.conditions, kind, value, reason, message, self.now)

    def __contains__(self, kind: str) -> bool:
        return any(one["type"] == kind for one in self.conditions)


def _live(
    job_set: Object,
    status: dict[str, object],
    said: _Said,
    parts: Mapping[str, _Part],
    current: Sequence[Object],
    old: tuple[Object, ...],
) -> JobSetActions:
    suspended = bool(job_set["spec"].get("suspend"))
    there = {job["metadata"]["name"]: job for job in current}
    wanted = [one for one in replicas(job_set) if suspended or _may_start(job_set, one.part, parts)]
    if suspended:
        said.set("Suspended", True, "SuspendedJobs", "jobset is suspended")
        wanted = [one for one in wanted if not one.part.get("dependsOn")]
    elif "Suspended" in said:
        said.set("Suspended", False, "ResumeJobs", "jobset is resumed")
    if not suspended and _in_order(job_set):
        _startup(said, done=all(_may_start(job_set, one, parts) for one in replicated_jobs(job_set)))
    status["conditions"] = said.conditions
    waiting = {job["metadata"]["name"] for job in old}  # names that are still used by Jobs of the previous attempt
    create = tuple(one for one in wanted if one.name not in there and one.name not in waiting)
    open_jobs = [job for job in current if not _is_over(job) and not _is_going(job)]
    by_name = {one.name: one for one in wanted}
    if suspended:
        stop = tuple(job for job in open_jobs if not job["spec"].get("suspend"))
        return JobSetActions(status=status, create=create, delete=old, suspend=stop)
    resume = [(by_name.get(job["metadata"]["name"]), job) for job in open_jobs if job["spec"].get("suspend")]
    go_on = tuple((replica, job) for replica, job in resume if replica is not None)
    return JobSetActions(status=status, create=create, delete=old, resume=go_on)


def _startup(said: _Said, *, done: bool) -> None:
    """Until all replicated jobs have started in their order, report that they are starting."""
    said.set("StartupPolicyInProgress", not done, "StartupPolicyInProgress", "startup policy in progress")
    if done:
        said.set("StartupPolicyCompleted", True, "StartupPolicyCompleted", "startup policy completed")


def _in_order(job_set: Object) -> bool:
    return (job_set["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"


def _may_start(job_set: Object, part: Object, parts: Mapping[str, _Part]) -> bool:
    """Return True if the dependencies of a replicated job are satisfied, so that its Jobs may start."""
    needs = {one["name"]: one["status"] for one in part.get("dependsOn") or ()}
    if _in_order(job_set):
        names = [one["name"] for one in replicated_jobs(job_set)]
        needs |= dict.fromkeys(names[: names.index(part["name"])], "Ready")
    sizes = {one["name"]: count(one) for one in replicated_jobs(job_set)}
    return all(_reached(parts.get(name, _Part()), status, sizes.get(name, 0)) for name, status in needs.items())


def _reached(part: _Part, status: str, size: int) -> bool:
    done = part.succeeded if status == "Complete" else part.ready + part.succeeded + part.failed
    return done >= size


def _has_succeeded(job_set: Object, parts: Mapping[str, _Part]) -> bool:
    policy = job_set["spec"].get("successPolicy") or {}
    named = policy.get("targetReplicatedJobs") or [one["name"] for one in replicated_jobs(job_set)]
    sizes = {one["name"]: count(one) for one in replicated_jobs(job_set)}
    of = [(parts.get(name, _Part()).succeeded, sizes.get(name, 0)) for name in named]
    if policy.get("operator") == "Any":
        return any(succeeded for succeeded, _ in of)
    return bool(sum(size for _, size in of)) and all(succeeded >= size for succeeded, size in of)


# --- failure ------------------------------------------------------------------------------------------------------


def _failure(job_set: Object, status: dict[str, Any], said: _Said, failed: Object) -> JobSetActions:
    policy = job_set["spec"].get("failurePolicy") or {}
    name = failed["metadata"]["name"]
    action = next((rule["action"] for rule in policy.get("rules") or () if _matches(rule, failed)), "RestartJobSet")
    limit, counted = int(policy.get("maxRestarts") or 0), int(status.get("restartsCountTowardsMax") or 0)
    if action == "FailJobSet" or "failurePolicy" not in job_set["spec"]:
        reason = "FailJobSetFailurePolicyAction" if action == "FailJobSet" else "FailedJobs"
        return _fail(status, said, reason, f"jobset failed due to one or more job failures (first failed job: {name})")
    if not action.endswith("IgnoreMaxRestarts"):
        if counted >= limit:
            text = f"jobset failed due to reaching max number of restarts (first failed job: {name})"
            return _fail(status, said, "ReachedMaxRestarts", text)
        status["restartsCountTowardsMax"] = counted + 1
    status["conditions"] = said.conditions
    if action.startswith("RestartJobSet"):
        status["restarts"] = restarts(job_set) + 1
        # after the increase of the restart count, all existing Jobs belong to an earlier attempt
        return JobSetActions(status=status)
    return JobSetActions(status=status, delete=(failed,) if not _is_going(failed) else ())


def _fail(status: dict[str, object], said: _Said, reason: str, message: str) -> JobSetActions:
    said.set("Failed", True, reason, message)
    return JobSetActions(status={**status, "conditions": said.conditions, "terminalState": "Failed"})


def _matches(rule: Mapping[str, Any], failed: Object) -> bool:
    part = (failed["metadata"].get("labels") or {}).get(REPLICATED_JOB)
    reasons = [one.get("reason") for one in failed["status"]["conditions"] if one["type"] == "Failed"]
    named = rule.get("targetReplicatedJobs") or [part]
    return part in named and (not rule.get("onJobFailureReasons") or reasons[0] in rule["onJobFailureReasons"])


# --- the Jobs of the JobSet ---------------------------------------------------------------------------------------


def _parts(job_set: Object, jobs: Sequence[Object]) -> dict[str, _Part]:
    found = {str(one["name"]): _Part() for one in replicated_jobs(job_set)}
    for job in jobs:
        part = found.get(str((job["metadata"].get("labels") or {}).get(REPLICATED_JOB)))
        if part is not None:
            _enter(part, job)
    return found


def _enter(part: _Part, job: Object) -> None:
    status, spec = job.get("status") or {}, job["spec"]
    part.jobs.append(job)
    part.succeeded += is_true(job, "Complete")
    part.failed += is_true(job, "Failed")
    part.active += bool(status.get("active"))
    part.suspended += bool(spec.get("suspend"))
    pods = min(int(spec.get("parallelism", 1)), int(spec.get("completions") or spec.get("parallelism", 1)))
    there = int(status.get("ready") or 0) + int(status.get("succeeded") or 0)
    part.ready += not _is_over(job) and not spec.get("suspend") and there >= pods


def _counts(name: str, part: _Part) -> Object:
    numbers = {"ready": part.ready, "succeeded": part.succeeded, "failed": part.failed}
    return {"name": name, **numbers, "active": part.active, "suspended": part.suspended}


def _attempt(job: Object) -> int:
    text = str((job["metadata"].get("labels") or {}).get(ATTEMPT, "0"))
    return int(text) if text.isdigit() else 0


def _ended(job: Object, kind: str) -> float:
    found = (one for one in job["status"]["conditions"] if one["type"] == kind)
    return next((seconds(one["lastTransitionTime"]) for one in found if one.get("lastTransitionTime")), 0.0)


def _is_over(job: Object) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _is_going(job: Object) -> bool:
    return "deletionTimestamp" in job["metadata"]


def _active(jobs: Sequence[Object]) -> tuple[Object, ...]:
    return tuple(job for job in jobs if not _is_over(job) and not _is_going(job))


def _after_end(job_set: Object, status: dict[str, Any], jobs: Sequence[Object], now_s: float) -> JobSetActions:
    """Return the steps for a JobSet that has ended: delete its running Jobs and, after its TTL, the JobSet itself."""
    ttl_s = job_set["spec"].get("ttlSecondsAfterFinished")
    ends = [one["lastTransitionTime"] for one in status.get("conditions") or () if one["type"] in FINISHED]
    expires_s = seconds(ends[0]) + float(ttl_s) if ttl_s is not None and ends else 0.0
    over = bool(expires_s) and now_s >= expires_s
    return JobSetActions(status=status, delete=_active(jobs), look_s=expires_s, over=over)


class JobSetController(Reconciler):
    kind, component, owns = JOB_SETS, COMPONENT, (JOBS,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._index = context.jobs

    async def reconcile(self, job_set: Object) -> None:
        if (job_set["spec"].get("managedBy") or OPERATOR) != OPERATOR:
            return
        job_set = {**job_set, "apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.name}
        now_s = self._clock()
        found = judge(job_set, self._index.owned_by(job_set["metadata"]["uid"]), now_s)
        if found.over:
            await self._calls.remove(JOB_SETS, job_set)
            return
        await self._do(job_set, found)
        await self.write_status(job_set, found.status)
        if found.look_s:
            self.look_after(job_set, found.look_s - now_s)

    async def _do(self, job_set: Object, found: JobSetActions) -> None:
        for job in found.delete:
            await self._calls.remove(JOBS, job)
        if found.create and (service := make_service(job_set)) is not None:
            await self._create(job_set, SERVICES, service)
        suspended = bool(job_set["spec"].get("suspend"))
        for replica in found.create:
            await self._create(job_set, JOBS, make_job(job_set, replica, suspended=suspended))
        for job in found.suspend:
            await self._calls.patch(JOBS, job, {"spec": {"suspend": True}})
        for replica, job in found.resume:
            await self._resume(job_set, replica, job)

    async def _resume(self, job_set: Object, replica: Replica, job: Object) -> None:
        """Resume the Job with the JobSet's present template. If the Job has run before, its start time is removed
        first."""
        change = template_patch(job_set, replica, job)
        if change and (job.get("status") or {}).get("startTime"):
            job = await self._calls.patch(JOBS, job, {"status": {"startTime": None}}, subresource="status")
        spec: Object = {"suspend": False, **({"template": change} if change else {})}
        await self._calls.patch(JOBS, job, {"spec": spec})

    async def _create(self, job_set: Object, kind: Kind, body: Object) -> None:
        """Create an object of the JobSet. Raises ApiError, after which the step is retried."""
        try:
            await create_owned(self._calls, kind, body, job_set)
        except ApiRefusal as refusal:
            if refusal.reason == "AlreadyExists" and kind == SERVICES:
                return  # several JobSets may share a subdomain and its Service
            text = f"{kind.name} {body['metadata']['name']} could not be created: {refusal}"
            self.tell(job_set, "Warning", f"{kind.name}CreationFailed", text)
            raise
