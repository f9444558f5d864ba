"""Lifecycle policies of a Job and its tasks: which action follows from what happened.

A task's policies are searched before its job's, and the first that fits decides. A pod that a former version of the job
made counts no more, and neither does one that the controller itself is taking away. Source:
pkg/controllers/job/job_controller_util.go (applyPolicies) of Volcano v1.15.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.volcano import kinds
from phalanx.embedded.controllers.operators.volcano.job_spec import JobSpec, VolcanoTask
from phalanx.embedded.controllers.runtime.pod_state import finished_at, is_deleting, phase, restarts
from phalanx.embedded.controllers.runtime.timestamp import seconds

ACTIONS: Final = (
    *("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition"),
    *("TerminateJob", "CompleteJob", "ResumeJob"),
)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """An event of a Job. `task`: the task of the event; "" for the whole job. `pod`: the name of its pod. `since_s`:
    the time of the event, in seconds since the epoch."""

    event: str
    since_s: float
    task: str = ""
    pod: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """An action that a policy asks for, at `at_s`. `delay`: as its policy says it; empty: none."""

    action: str
    at_s: float
    what: Happened
    delay: str = ""


def go_seconds(text: str) -> float | None:
    """Return the seconds of a Go duration such as `1m30s`; None: it is none."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.lstrip("+"):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def due_action(job: JobSpec, happened: Iterable[Happened]) -> Due | None:
    """Return the action that is due first; None: nothing that happened has a policy."""
    found = [due for what in happened if (due := _due(job, what)) is not None]
    return min(found, key=lambda due: due.at_s, default=None)


def _due(job: JobSpec, what: Happened) -> Due | None:
    task = job.task(what.task) if what.task else None
    for policy in (*(task.policies if task is not None else ()), *job.policies):
        if not _fits(policy, what) or policy.get("action") not in ACTIONS:
            continue
        timeout = str(policy.get("timeout") or "")
        delay_s = go_seconds(timeout)
        if what.event == "PodPending" and not delay_s:
            continue
        return Due(action=policy["action"], at_s=what.since_s + (delay_s or 0.0), what=what, delay=timeout)
    return None


def _fits(policy: Mapping[str, Any], what: Happened) -> bool:
    if policy.get("exitCode"):
        return what.event == "PodFailed" and what.exit_code == policy["exitCode"]
    named = {policy.get("event"), *(policy.get("events") or ())}
    return what.event in named or ("*" in named and what.event != "PodPending")


def happenings(
    job: JobSpec, version: int, pods: Sequence[Object], evicted: Mapping[str, float], group_unknown_s: float | None
) -> Iterator[Happened]:
    """Yield the events that follow from the job's pods. `evicted`: name of a pod that others deleted -> time of its
    deletion. `group_unknown_s`: the time since which the PodGroup is in the phase Unknown; None: it is not."""
    current = [pod for pod in pods if version_of(pod) >= version and not is_deleting(pod)]
    alive = {pod["metadata"]["name"] for pod in current if phase(pod) == "Running"}
    for pod in current:
        yield from _of_pod(pod)
    for name, at_s in evicted.items():
        if name not in alive:
            task = next((one.name for one in job.tasks if name.startswith(f"{job.name}-{one.name}-")), "")
            yield Happened(event="PodEvicted", since_s=at_s, task=task, pod=name)
    for each in job.tasks:
        yield from _of_task(each, [pod for pod in current if task_of(pod) == each.name])
    if group_unknown_s is not None:
        yield Happened(event="Unknown", since_s=group_unknown_s)


def _of_pod(pod: Object) -> Iterator[Happened]:
    name, task = pod["metadata"]["name"], task_of(pod)
    match phase(pod):
        case "Failed":
            yield Happened(event="PodFailed", since_s=finished_at(pod), task=task, pod=name, exit_code=_exit_code(pod))
        case "Pending":
            created_s = seconds(pod["metadata"]["creationTimestamp"])
            yield Happened(event="PodPending", since_s=created_s, task=task, pod=name)
        case _:
            pass


def _of_task(task: VolcanoTask, pods: Sequence[Object]) -> Iterator[Happened]:
    done = [pod for pod in pods if phase(pod) == "Succeeded"]
    if task.replicas and len(done) >= task.replicas:
        yield Happened(event="TaskCompleted", since_s=max(map(finished_at, done)), task=task.name)
    total = sum(restarts(pod) for pod in pods if phase(pod) in ("Running", "Pending"))
    if 0 <= task.most_restarts <= total and total:
        since_s = max(seconds(pod["metadata"]["creationTimestamp"]) for pod in pods)
        yield Happened(event="TaskFailed", since_s=since_s, task=task.name)


def _exit_code(pod: Object) -> int:
    """Return the exit code of the first container."""
    first: Object = next(iter((pod.get("status") or {}).get("containerStatuses") or ()), {})
    return int(((first.get("state") or {}).get("terminated") or {}).get("exitCode") or 0)


def version_of(pod: Object) -> int:
    """Return the version of the job for which the pod was created."""
    text = (pod["metadata"].get("annotations") or {}).get(kinds.JOB_VERSION, "0")
    return int(text) if text.isdigit() else 0


def task_of(pod: Object) -> str:
    """Return the task that a pod is of."""
    return str((pod["metadata"].get("annotations") or {}).get(kinds.TASK_SPEC, ""))


def index_of(pod: Object) -> int:
    """Return the index of a pod in its task; -1 if its annotation does not name one."""
    text = (pod["metadata"].get("annotations") or {}).get(kinds.TASK_INDEX, "")
    return int(text) if text.isdigit() else -1
