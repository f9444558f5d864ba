"""Validate the status of a Job. The server refuses contradictory statuses, because other controllers than the built-in
one may write them.

Most rules check only the fields that an update changes, so that an old contradiction does not block every later update.
Source: ValidateJobStatusUpdate of pkg/apis/batch/validation and getStatusValidationOptions of pkg/registry/batch/job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.status import duplicate, invalid_value, required
from phalanx.embedded.apiserver.registry.kinds.batch import indexes
from phalanx.embedded.apiserver.registry.kinds.batch.spec import bare_invalid
from phalanx.embedded.apiserver.registry.kinds.checks import Found, not_negative

Job = Mapping[str, Any]


def true_conditions(job: Job) -> frozenset[str]:
    """Return the types of the conditions whose status is True."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return frozenset(one.get("type", "") for one in conditions if one.get("status") == "True")


def is_finished(conditions: frozenset[str]) -> bool:
    return "Complete" in conditions or "Failed" in conditions


def status_update(found: Found, job: Job, old: Job) -> None:
    """Add the errors of an update of a Job's status."""
    status, before = job.get("status") or {}, old.get("status") or {}
    now, then = true_conditions(job), true_conditions(old)
    changed = {key for key in {*status, *before} if status.get(key) != before.get(key)}
    _counters(found, status)
    if now:
        _conditions(found, status, now, then, changed)
    elif "completionTime" in changed and status.get("completionTime"):
        _completion_without_condition(found, status, now)
    if is_finished(now):
        _finished(found, job, changed, newly=not is_finished(then))
    if changed & {"completedIndexes", "failedIndexes"}:
        _indexes(found, job, status, changed)
    newly = is_finished(now) and not is_finished(then)
    if is_finished(now) and status.get("terminating") and (newly or "terminating" in changed):
        text = "terminating>0 is invalid for finished job"
        found.append(invalid_value("status.terminating", status["terminating"], text))
    ready = status.get("ready")
    if changed & {"ready", "active"} and ready is not None and ready > status.get("active", 0):
        found.append(invalid_value("status.ready", ready, "cannot set more ready pods than active"))
    if now:
        _success_and_failure(found, job, now)
    _transition(found, job, status, before, now, then)


def _counters(found: Found, status: Job) -> None:
    not_negative(found, status, ("active", "succeeded", "failed", "ready", "terminating"), "status")
    uncounted = status.get("uncountedTerminatedPods") or {}
    seen: set[str] = set()
    for which in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(which) or ()):
            path = f"status.uncountedTerminatedPods.{which}[{index}]"
            if not uid:
                found.append(invalid_value(path, uid, "must not be empty"))
            elif uid in seen:
                found.append(duplicate(path, uid))
            seen.add(uid)


def _conditions(found: Found, status: Job, now: frozenset[str], then: frozenset[str], changed: set[str]) -> None:
    flipped = now ^ then
    complete, completion = "Complete" in now, status.get("completionTime")
    if complete and "Failed" in now and flipped & {"Complete", "Failed"}:
        found.append(bare_invalid("status.conditions", "cannot set Complete=True and Failed=true conditions"))
    if complete and "FailureTarget" in now and flipped & {"Complete", "FailureTarget"}:
        found.append(bare_invalid("status.conditions", "cannot set Complete=True and FailureTarget=true conditions"))
    if "Complete" in flipped or "completionTime" in changed:
        _completion_without_condition(found, status, now)
        if complete and not completion:
            found.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if changed & {"startTime", "completionTime"}:
        _completion_before_start(found, status)
    if "Failed" in now and "FailureTarget" not in now and flipped & {"Failed", "FailureTarget"}:
        text = "cannot set Failed=True condition without the FailureTarget=true condition"
        found.append(bare_invalid("status.conditions", text))
    if complete and "SuccessCriteriaMet" not in now and flipped & {"Complete", "SuccessCriteriaMet"}:
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        found.append(bare_invalid("status.conditions", text))


def _completion_without_condition(found: Found, status: Job, now: frozenset[str]) -> None:
    if status.get("completionTime") and "Complete" not in now:
        text = "cannot set completionTime when there is no Complete=True condition"
        found.append(invalid_value("status.completionTime", status["completionTime"], text))


def _completion_before_start(found: Found, status: Job) -> None:
    start, completion = status.get("startTime"), status.get("completionTime")
    if start and completion and completion < start:
        text = "completionTime cannot be set before startTime"
        found.append(invalid_value("status.completionTime", completion, text))


def _finished(found: Found, job: Job, changed: set[str], *, newly: bool) -> None:
    status = job["status"]
    if status.get("active", 0) > 0 and (newly or "active" in changed):
        found.append(invalid_value("status.active", status["active"], "active>0 is invalid for finished job"))
    suspended_empty = job["spec"].get("suspend") and job["spec"].get("completions") == 0
    if not status.get("startTime") and (newly or "startTime" in changed) and not suspended_empty:
        found.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if (newly or "uncountedTerminatedPods" in changed) and (uncounted.get("succeeded") or uncounted.get("failed")):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        text = "uncountedTerminatedPods needs to be empty for finished job"
        found.append(invalid_value("status.uncountedTerminatedPods", shown, text))


def _indexes(found: Found, job: Job, status: Job, changed: set[str]) -> None:
    spec = job["spec"]
    completions, per_index = spec.get("completions"), spec.get("backoffLimitPerIndex")
    done, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    for key, text in (("completedIndexes", done), ("failedIndexes", failed)):
        if key not in changed or completions is None or text is None:
            continue
        if key == "completedIndexes" or per_index is not None:
            _, wrong = indexes.counted(text, completions)
            if wrong:
                found.append(invalid_value(f"status.{key}", text, f"error parsing {key}: {wrong}"))
    if "completedIndexes" in changed and done and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        found.append(invalid_value("status.completedIndexes", done, text))
    if "failedIndexes" in changed and failed is not None and per_index is None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.append(invalid_value("status.failedIndexes", failed, text))
    if completions is not None and failed and done:
        common = indexes.overlap(done, failed, completions)
        if common is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {common}"
            found.append(invalid_value("status.failedIndexes", failed, text))


def _success_and_failure(found: Found, job: Job, now: frozenset[str]) -> None:
    if "SuccessCriteriaMet" in now:
        for other, shown in (("Failed", "Failed=true"), ("FailureTarget", "FailureTarget=true")):
            if other in now:
                text = f"cannot set SuccessCriteriaMet=True and {shown} conditions"
                found.append(bare_invalid("status.conditions", text))
    elif "Complete" in now and job["spec"].get("successPolicy") is not None:
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        found.append(bare_invalid("status.conditions", text))


def _transition(found: Found, job: Job, status: Job, before: Job, now: frozenset[str], then: frozenset[str]) -> None:
    spec = job["spec"]
    for sort in ("Failed", "Complete", "FailureTarget"):
        if sort in then and sort not in now:
            found.append(bare_invalid("status.conditions", f"cannot disable the terminal {sort}=True condition"))
    if status.get("failed", 0) < before.get("failed", 0):
        found.append(invalid_value("status.failed", status.get("failed", 0), "cannot decrease the failed counter"))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if status.get("succeeded", 0) < before.get("succeeded", 0) and not elastic:
        text = "cannot decrease the succeeded counter"
        found.append(invalid_value("status.succeeded", status.get("succeeded", 0), text))
    completion, earlier = status.get("completionTime"), before.get("completionTime")
    if completion and earlier and completion != earlier:
        found.append(invalid_value("status.completionTime", completion, "completionTime cannot be mutated"))
    start, started = status.get("startTime"), before.get("startTime")
    if started and start != started and not spec.get("suspend"):
        found.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    if "SuccessCriteriaMet" in then and "SuccessCriteriaMet" not in now:
        text = "cannot disable the SuccessCriteriaMet=True condition"
        found.append(bare_invalid("status.conditions", text))
    if "Complete" in then and "SuccessCriteriaMet" not in then and "SuccessCriteriaMet" in now:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        found.append(bare_invalid("status.conditions", text))
