"""Decide the next actions for a Job. `decide` computes the new status and the actions from the spec, the status and the
pods of a Job, without side effects. The phases and the order of their rules are those of pkg/controllers/job/state of
Volcano v1.15.1.

Two rules of Volcano are unexpected. First, every restart increments `retryCount`, even the restart of a single pod, and
a restart that would make `retryCount` equal to `maxRetry` never happens. Second, in a job without policies, a failed
pod only changes the counts in the status until all pods have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.operators.volcano import kinds
from phalanx.embedded.controllers.operators.volcano.job_spec import (
    Due,
    Happened,
    JobSpec,
    VolcanoTask,
    due_action,
    index_of,
    task_of,
    version_of,
)
from phalanx.embedded.controllers.operators.volcano.plugins import pod_name
from phalanx.embedded.controllers.runtime.pod_state import is_deleting, is_terminal, phase, seconds

FINISHED = frozenset({"Completed", "Failed", "Terminated"})
_PARTLY = frozenset({"RestartTask", "RestartPod", "RestartPartition"})
_TOWARDS = {"AbortJob": "Aborting", "CompleteJob": "Completing", "TerminateJob": "Terminating"}
_ENDS = {"Aborting": "Aborted", "Completing": "Completed", "Terminating": "Terminated"}
_COUNTS = ("pending", "running", "succeeded", "failed", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoActions:
    """The next steps of a Job. `status`: its new status, to be written first. `kill`: pods to delete. `clear`: True to
    delete the PodGroup and the plugins' objects; `run`: True to create them, and the pods in `create`. `look_s`: the
    time of the next reconciliation (seconds since the epoch); 0: none. `told`: (reason, message) of each Event to
    record."""

    status: dict[str, Any]
    kill: tuple[Object, ...] = ()
    clear: bool = False
    run: bool = False
    create: tuple[tuple[VolcanoTask, int], ...] = ()
    look_s: float = 0.0
    told: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The facts about a Job. `command`: the action that a user requested; "" if there is none."""

    owner: Object
    job: JobSpec
    pods: Sequence[Object]
    now_s: float
    happened: Sequence[Happened] = field(default_factory=tuple)
    command: str = ""

    @property
    def status(self) -> dict[str, Any]:
        return self.owner.get("status") or {}

    @property
    def phase(self) -> str:
        return str((self.status.get("state") or {}).get("phase") or "Pending")

    @property
    def version(self) -> int:
        return int(self.status.get("version") or 0)

    @property
    def retries(self) -> int:
        return int(self.status.get("retryCount") or 0)


def decide(scene: Scene) -> VolcanoActions:
    """Return the next steps of the Job."""
    match scene.phase:
        case "Pending" | "Running":
            return _live(scene)
        case "Restarting":
            return _restarting(scene)
        case "Aborting" | "Aborted" if scene.command == "ResumeJob":
            return _restart(scene, [pod for pod in scene.pods if not is_terminal(pod)], whole=True)
        case "Aborting" | "Completing" | "Terminating":
            alive = [pod for pod in scene.pods if not is_terminal(pod)]
            after = scene.phase if alive else _ENDS[scene.phase]
            return VolcanoActions(status=_status(scene, after), kill=_standing(alive), clear=True)
        case _:
            alive = [pod for pod in scene.pods if not is_terminal(pod)]
            return VolcanoActions(status=_status(scene, scene.phase), kill=_standing(alive), clear=True)


# --- actions ----------------------------------------------------------------------------------------------------------


def _live(scene: Scene) -> VolcanoActions:
    due = _command(scene) if scene.command else due_action(scene.job, scene.happened)
    if due is not None and due.action == "ResumeJob":
        due = None
    if due is not None and due.at_s <= scene.now_s:
        return _act(scene, due)
    return _sync(scene, due)


def _command(scene: Scene) -> Due:
    return Due(action=scene.command, at_s=scene.now_s, what=Happened(event="CommandIssued", since_s=scene.now_s))


def _act(scene: Scene, due: Due) -> VolcanoActions:
    told = (("ExecuteAction", f"Start to execute action {due.action} "),) if not scene.command else ()
    if due.action in _TOWARDS:
        alive = [pod for pod in scene.pods if not is_terminal(pod)]
        status = _status(scene, _TOWARDS[due.action], killed=True)
        return VolcanoActions(status=status, kill=_standing(alive), clear=True, told=told)
    last = scene.retries + 1 >= scene.job.most_retries
    chosen = [pod for pod in _targets(scene, due) if not (last and is_terminal(pod))]
    return _restart(scene, chosen, whole=due.action not in _PARTLY, told=told)


def _restart(
    scene: Scene, pods: Sequence[Object], *, whole: bool, told: tuple[tuple[str, str], ...] = ()
) -> VolcanoActions:
    status = _status(scene, "Restarting", killed=whole)
    status["retryCount"] = scene.retries + 1
    return VolcanoActions(status=status, kill=_standing(pods), clear=whole, told=told)


def _targets(scene: Scene, due: Due) -> list[Object]:
    """Return the pods to which an action applies: one pod, or the pods of a task or of a partition."""
    about = next((pod for pod in scene.pods if pod["metadata"]["name"] == due.what.pod), None)
    match due.action:
        case "RestartPod":
            return [about] if about is not None else []
        case "RestartTask":
            return [pod for pod in scene.pods if task_of(pod) == due.what.task]
        case "RestartPartition":
            part = _partition(about) if about is not None else ""
            return [pod for pod in scene.pods if task_of(pod) == due.what.task and _partition(pod) == part]
        case _:
            return list(scene.pods)


def _partition(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(kinds.PARTITION_ID, ""))


def _restarting(scene: Scene) -> VolcanoActions:
    """Return the next steps of a restarting Job. Pods of earlier versions of the Job are deleted first. If the Job was
    aborted and is resumed, pods that have succeeded are kept. (Volcano also keeps failed pods, so a Job that was
    aborted because of a failed pod never runs again.)"""
    before = [one["status"] for one in scene.status.get("conditions") or ()][-2:-1]
    resumed = before in (["Aborted"], ["Aborting"])
    if scene.retries >= scene.job.most_retries:
        alive = [pod for pod in scene.pods if not is_terminal(pod)]
        return VolcanoActions(status=_status(scene, "Failed", ended=True), kill=_standing(alive), clear=True)
    old = [pod for pod in scene.pods if version_of(pod) < scene.version and not (resumed and phase(pod) == "Succeeded")]
    leaving = {pod["metadata"]["uid"] for pod in old} | {
        pod["metadata"]["uid"] for pod in scene.pods if is_deleting(pod)
    }
    after = "Pending" if scene.job.replicas - len(leaving) >= scene.job.minimum else "Restarting"
    return VolcanoActions(status=_status(scene, after), kill=_standing(old))


# --- a running job ----------------------------------------------------------------------------------------------------


def _sync(scene: Scene, due: Due | None) -> VolcanoActions:
    after = _next_phase(scene)
    told: tuple[tuple[str, str], ...] = ()
    if due is not None and due.delay:
        told = (("ExecuteAction", f"Execute action {due.action} after {due.delay}"),)
    look_s = due.at_s if due is not None else 0.0
    if after in FINISHED:
        alive = [pod for pod in scene.pods if not is_terminal(pod)]
        return VolcanoActions(status=_status(scene, after, ended=True), kill=_standing(alive), clear=True)
    create = tuple(_missing(scene))
    surplus = _standing(list(_surplus(scene)))
    status = _status(scene, after, creating=create)
    return VolcanoActions(status=status, kill=surplus, run=True, create=create, look_s=look_s, told=told)


def _next_phase(scene: Scene) -> str:
    job, counts = scene.job, _counts(scene)
    ended = counts["succeeded"] + counts["failed"]
    if scene.phase == "Pending":
        return "Running" if counts["running"] + ended >= job.minimum and scene.pods else "Pending"
    if not job.replicas:
        return "Running"
    if job.min_success is not None and counts["succeeded"] >= job.min_success:
        return "Completed"
    if ended == job.replicas:
        return _outcome(scene, counts["succeeded"])
    return "Pending" if counts["pending"] > job.replicas - job.minimum else "Running"


def _outcome(scene: Scene, succeeded: int) -> str:
    job = scene.job
    if job.minimum >= sum(task.minimum for task in job.tasks):
        for task in job.tasks:
            done = sum(phase(pod) == "Succeeded" for pod in scene.pods if task_of(pod) == task.name)
            if done < task.minimum:
                return "Failed"
    if job.min_success is not None and succeeded < job.min_success:
        return "Failed"
    return "Completed" if succeeded >= job.minimum else "Failed"


def _missing(scene: Scene) -> Iterator[tuple[VolcanoTask, int]]:
    """Yield (task, index) of each pod that should exist but does not exist."""
    taken = {pod["metadata"]["name"] for pod in scene.pods}
    for task in scene.job.tasks:
        if not _may_begin(scene, task):
            continue
        for index in range(task.replicas):
            if pod_name(scene.job.name, task.name, index) not in taken:
                yield task, index


def _may_begin(scene: Scene, task: VolcanoTask) -> bool:
    """Return True if the tasks on which this task depends have progressed far enough."""
    if not task.depends_on:
        return True
    ready = (_far_enough(scene, name) for name in task.depends_on)
    return any(ready) if task.depends_on_any and len(task.depends_on) > 1 else all(ready)


def _far_enough(scene: Scene, name: str) -> bool:
    task = scene.job.task(name)
    return task is not None and sum(_is_up(pod) for pod in scene.pods if task_of(pod) == name) >= task.minimum


def _is_up(pod: Object) -> bool:
    if is_deleting(pod):
        return False
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    running = phase(pod) == "Running" and bool(containers) and all(one.get("ready") for one in containers)
    return running or phase(pod) == "Succeeded"


def _surplus(scene: Scene) -> Iterator[Object]:
    for pod in scene.pods:
        task = scene.job.task(task_of(pod))
        if task is None or index_of(pod) >= task.replicas or index_of(pod) < 0:
            yield pod


def _standing(pods: Sequence[Object]) -> tuple[Object, ...]:
    return tuple(pod for pod in pods if not is_deleting(pod))


# --- the status -------------------------------------------------------------------------------------------------------


def _counts(scene: Scene) -> dict[str, int]:
    found = dict.fromkeys((*_COUNTS, "terminating"), 0)
    for pod in scene.pods:
        name = phase(pod).lower()
        found["terminating" if is_deleting(pod) else name if name in found else "unknown"] += 1
    return found


def _status(
    scene: Scene,
    after: str,
    *,
    killed: bool = False,
    ended: bool = False,
    creating: Iterable[tuple[VolcanoTask, int]] = (),
) -> dict[str, Any]:
    """Return the new status of the Job, with the phase `after`. `killed`: True if all pods of the job are deleted.
    `ended`: True if the job has just finished. In both cases the version is incremented. `creating`: the pods that will
    be created next."""
    old, now = scene.status, write_moment(scene.now_s)
    state, conditions = dict(old.get("state") or {}), list(old.get("conditions") or ())
    if state.get("phase") != after:
        state = {"phase": after, "lastTransitionTime": now}
        conditions = [one for one in conditions if one["status"] != after]
        conditions.append({"status": after, "lastTransitionTime": now})
    making = list(creating)
    counts = _counts(scene)
    counts["pending"] += len(making)
    status: dict[str, Any] = {"state": state, "conditions": conditions}
    numbers = {"minAvailable": scene.job.minimum, **counts}
    numbers |= {"version": scene.version + (killed or ended), "retryCount": scene.retries}
    status |= {name: number for name, number in numbers.items() if number}
    if tasks := _task_counts(scene, making):
        status["taskStatusCount"] = tasks
    if killed or ended:
        status["runningDuration"] = _duration(scene.now_s - seconds(scene.owner["metadata"]["creationTimestamp"]))
    elif "runningDuration" in old:
        status["runningDuration"] = old["runningDuration"]
    if old.get("controlledResources"):
        status["controlledResources"] = dict(old["controlledResources"])
    return status


def _task_counts(scene: Scene, making: Iterable[tuple[VolcanoTask, int]]) -> dict[str, object]:
    found: dict[str, dict[str, int]] = {}
    for task, _ in making:
        phases = found.setdefault(task.name, {})
        phases["Pending"] = phases.get("Pending", 0) + 1
    for pod in scene.pods:
        if not is_deleting(pod) and task_of(pod):
            phases = found.setdefault(task_of(pod), {})
            phases[phase(pod)] = phases.get(phase(pod), 0) + 1
    return {name: {"phase": phases} for name, phases in found.items()}


def _duration(span_s: float) -> str:
    """Return the duration in Go's notation: 1h2m3.5s."""
    whole, milli = divmod(int(max(0.0, span_s) * 1000), 1000)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    part = f".{milli:03d}".rstrip("0").rstrip(".")
    text = f"{hours}h" if hours else ""
    return text + (f"{minutes}m" if hours or minutes else "") + f"{rest}{part}s"
