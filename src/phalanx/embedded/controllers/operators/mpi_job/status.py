"""Compute an MPIJob's status from its launcher and its workers. A pure function.

It succeeds or fails with its launcher Job. It is running once the launcher's pod and all workers run. Source:
kubeflow/mpi-operator caa3c47f, pkg/controller/mpi_job_controller_status.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.conditions import Condition, is_true, with_condition
from phalanx.embedded.controllers.operators.mpi_job.objects import worker_count
from phalanx.embedded.controllers.runtime.pod_state import phase

_NAME = "MPIJob"


def finished(job: Object) -> bool:
    return is_true(job, "Succeeded") or is_true(job, "Failed")


def judge(
    job: Object, launcher: Object | None, launchers: Sequence[Object], workers: Sequence[Object], now: str
) -> dict[str, Any]:
    """Return the status of an MPIJob. `launchers`: the pods of its launcher Job; `now`: the time as a metav1.Time."""
    old = job.get("status") or {}
    status: dict[str, Any] = {**old}
    where = f"{_NAME} {job['metadata']['namespace']}/{job['metadata']['name']}"
    said = with_condition(
        list(old.get("conditions") or ()), "Created", True, f"{_NAME}Created", f"{where} is created.", now
    )
    suspended = bool((job["spec"].get("runPolicy") or {}).get("suspend"))
    if suspended:
        said = _denied(with_condition(said, "Suspended", True, f"{_NAME}Suspended", f"{where} is suspended.", now), now)
        status |= {"conditions": said, "replicaStatuses": {"Launcher": {}, "Worker": {}}}
        status.pop("startTime", None)
        return status
    if any(one["type"] == "Suspended" for one in said):
        said = with_condition(said, "Suspended", False, f"{_NAME}Resumed", f"{where} is resumed.", now)
    status.setdefault("startTime", now)
    ended = _end(launcher)
    counted = _counted(launcher, launchers, ended)
    status["replicaStatuses"] = {"Launcher": counted, "Worker": _phases(workers)}
    if ended is not None:
        kind, reason, text = ended
        message = f"{where} successfully completed." if kind == "Succeeded" else text or f"{where} has failed"
        said = with_condition(_denied(said, now), kind, True, reason, message, now)
        status["completionTime"] = (launcher or {}).get("status", {}).get("completionTime") or now
    elif counted.get("active") and status["replicaStatuses"]["Worker"].get("active", 0) >= worker_count(job):
        said = with_condition(said, "Running", True, f"{_NAME}Running", f"{where} is running.", now)
    status["conditions"] = said
    return status


def _denied(said: list[Condition], now: str) -> list[Condition]:
    """Return the conditions, with Running set to False if it was True."""
    running = next((one for one in said if one["type"] == "Running" and one["status"] == "True"), None)
    return (
        said if running is None else with_condition(said, "Running", False, running["reason"], running["message"], now)
    )


def _end(launcher: Object | None) -> tuple[str, str, str] | None:
    """Return the end of the launcher Job: condition, reason, message; None if the Job has not ended."""
    for one in ((launcher or {}).get("status") or {}).get("conditions") or ():
        if one["status"] == "True" and one["type"] == "Complete":
            return "Succeeded", f"{_NAME}Succeeded", ""
        if one["status"] == "True" and one["type"] == "Failed":
            reason = f"{_NAME}Evicted" if one.get("reason") == "Evicted" else f"{_NAME}Failed"
            return "Failed", reason, f"{one.get('reason') or 'Failed'}: {one.get('message') or ''}"
    return None


def _counted(launcher: Object | None, pods: Iterable[Object], ended: tuple[str, str, str] | None) -> dict[str, int]:
    found = (launcher or {}).get("status") or {}
    active = 0 if ended else sum(phase(pod) == "Running" for pod in pods)
    numbers = {"active": active, "succeeded": found.get("succeeded") or 0, "failed": found.get("failed") or 0}
    return {name: number for name, number in numbers.items() if number}


def _phases(workers: Iterable[Object]) -> dict[str, int]:
    found: dict[str, int] = {}
    names = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    for pod in workers:
        if (name := names.get(phase(pod))) is not None:
            found[name] = found.get(name, 0) + 1
    return found
