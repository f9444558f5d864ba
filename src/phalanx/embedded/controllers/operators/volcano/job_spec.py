"""Read a Job's spec with Volcano's defaults: its tasks, their minimum numbers of pods, and the arguments of plugins.

Volcano's webhook writes the defaults into the object. This module applies the same defaults when it reads an object. So
an object without the defaults has the same meaning. Source: pkg/webhooks/admission/jobs/mutate of Volcano v1.15.1.

The second part applies the lifecycle policies of a Job and its tasks: it chooses the action for an event. The policies
of a task are searched before the policies of its job, and the first policy that matches applies. Pods of an earlier
version of the job, and pods that the controller itself deletes, cause no events. Source:
pkg/controllers/job/job_controller_util.go (applyPolicies) of Volcano v1.15.1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.volcano import kinds
from phalanx.embedded.controllers.runtime.pod_state import finished_at, is_deleting, phase, restarts, seconds

MOST_PODS = 10_000  # the maximum number of pods of one Job
_RETRIES = 3
# The fields of a template that controllers read and plugins write, with their types. A tuple with one type stands for a
# list with elements of this type. An empty mapping allows any content.
Shape: TypeAlias = "Mapping[str, Shape] | tuple[Shape] | type[str]"
_ANY: Shape = {}
_CONTAINER: Shape = {
    "name": str,
    "env": (_ANY,),
    "volumeMounts": (_ANY,),
    "ports": (_ANY,),
    "resources": {"limits": _ANY, "requests": _ANY},
}
_TEMPLATE: Shape = {
    "metadata": {"labels": _ANY, "annotations": _ANY},
    "spec": {
        "containers": (_CONTAINER,),
        "initContainers": (_CONTAINER,),
        "volumes": (_ANY,),
        "overhead": _ANY,
        "priorityClassName": str,
        "schedulerName": str,
        "hostname": str,
        "subdomain": str,
    },
}
_WITH_SERVICE = frozenset({"tensorflow", "pytorch", "mpi", "ray"})


class JobFault(Exception):
    """Raised if a Job can never run. The message names the error in the Job's spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoTask:
    """A task of a Job. `minimum`: the number of its pods that must start together. `most_restarts`: the number of
    container restarts in the task before the event TaskFailed; negative for no limit. `partition`: the number of pods
    in a partition; 0: no partitions."""

    name: str
    replicas: int
    minimum: int
    template: Mapping[str, Any]
    policies: Sequence[Mapping[str, Any]] = ()
    depends_on: tuple[str, ...] = ()
    depends_on_any: bool = False
    most_restarts: int = _RETRIES
    topology_policy: str = ""
    partition: int = 0
    partition_policy: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The spec of a Job, with defaults. `minimum`: the number of pods, over all tasks, that must start together.
    `plugins`: name -> arguments."""

    name: str
    namespace: str
    uid: str
    minimum: int
    tasks: tuple[VolcanoTask, ...]
    plugins: Mapping[str, Sequence[str]]
    policies: Sequence[Mapping[str, Any]] = ()
    queue: str = "default"
    scheduler: str = "volcano"
    priority_class: str = ""
    most_retries: int = _RETRIES
    min_success: int | None = None
    ttl_s: float | None = None
    volumes: Sequence[Mapping[str, Any]] = ()
    topology: Mapping[str, Any] | None = None

    @property
    def replicas(self) -> int:
        return sum(task.replicas for task in self.tasks)

    def task(self, name: str) -> VolcanoTask | None:
        """Return the task with this name; None if there is none."""
        return next((task for task in self.tasks if task.name == name), None)


def read_job(job: Object) -> JobSpec:
    """Return the spec of a Job with its defaults. Raises JobFault."""
    meta, spec = job["metadata"], job.get("spec") or {}
    tasks = tuple(_task(at, one) for at, one in enumerate(spec.get("tasks") or ()))
    if not tasks:
        raise JobFault("No task specified in job spec")
    if (pods := sum(task.replicas for task in tasks)) > MOST_PODS:
        raise JobFault(f"its tasks have {pods} pods in all, but at most {MOST_PODS} are allowed: create several jobs")
    ttl = spec.get("ttlSecondsAfterFinished")
    return JobSpec(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        minimum=int(spec.get("minAvailable") or sum(task.minimum for task in tasks)),
        tasks=tasks,
        plugins=_plugins(spec.get("plugins") or {}),
        policies=spec.get("policies") or (),
        queue=spec.get("queue") or "default",
        scheduler=spec.get("schedulerName") or "volcano",
        priority_class=spec.get("priorityClassName") or "",
        most_retries=int(spec.get("maxRetry") or _RETRIES),
        min_success=spec.get("minSuccess"),
        ttl_s=None if ttl is None else float(ttl),
        volumes=spec.get("volumes") or (),
        topology=spec.get("networkTopology"),
    )


def never_starts(job: JobSpec) -> str:
    """Return a message for the user that explains why no pod of the job can ever start and how to correct that; "" if
    some pods can start. No pod can start if the gang needs pods of a task that waits until another task of the same
    gang runs (`dependsOn`). Volcano lets such a job wait for ever, and reports nothing."""
    late = [task for task in job.tasks if task.depends_on]
    first = sum(task.replicas for task in job.tasks if not task.depends_on)
    of_tasks = sum(task.minimum for task in job.tasks)
    needs_late = job.minimum > first or (job.minimum >= of_tasks and any(task.minimum for task in late))
    if not late or not needs_late:
        return ""
    most = min(first, of_tasks - 1)
    names = ", ".join(task.name for task in late)
    return (
        f"no pod can start: {job.minimum} must start together (minAvailable), but those of {names} are not created "
        f"before the tasks in their dependsOn run; set spec.minAvailable to at most {most} in a new Job"
    )


def _task(at: int, said: Mapping[str, Any]) -> VolcanoTask:
    name, replicas = said.get("name") or f"default{at}", int(said.get("replicas") or 0)
    partitions = said.get("partitionPolicy") or {}
    depends = said.get("dependsOn") or {}
    minimum = said.get("minAvailable")
    if minimum is None:
        fewest = int(partitions.get("minPartitions") or 0) * int(partitions.get("partitionSize") or 0)
        minimum = fewest or replicas
    retries = said.get("maxRetry")
    return VolcanoTask(
        name=name,
        replicas=replicas,
        minimum=int(minimum),
        template=_shaped(said.get("template") or {}, _TEMPLATE, f"spec.tasks[{at}].template"),
        policies=said.get("policies") or (),
        depends_on=tuple(depends.get("name") or ()),
        depends_on_any=depends.get("iteration") == "any",
        most_restarts=_RETRIES if retries is None or retries == 0 else int(retries),
        topology_policy=said.get("topologyPolicy") or "",
        partition=int(partitions.get("partitionSize") or 0),
        partition_policy=partitions or None,
    )


def _shaped(value: Any, shape: Shape, path: str) -> Any:
    """Return the value unchanged. Raises JobFault if a part of the value does not have the type that `shape` requires.
    Parts may be missing."""
    if isinstance(shape, Mapping):
        _demand(isinstance(value, Mapping), path, "a mapping")
        for name, inner in shape.items():
            if value.get(name) is not None:
                _shaped(value[name], inner, f"{path}.{name}")
    elif isinstance(shape, tuple):
        _demand(isinstance(value, list), path, "a list")
        for at, each in enumerate(value):
            _shaped(each, shape[0], f"{path}[{at}]")
    else:
        _demand(isinstance(value, str), path, "a text")
    return value


def _demand(holds: bool, path: str, what: str) -> None:
    if not holds:
        raise JobFault(f"{path} is not {what}: no pod can be made of the template")


def _plugins(said: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return the plugins, including those that the webhook adds because another plugin needs them."""
    found = {name: tuple(map(str, arguments or ())) for name, arguments in said.items()}
    if _WITH_SERVICE & found.keys():
        found.setdefault("svc", ())
    if "mpi" in found:
        found.setdefault("ssh", ())
    return found


ACTIONS: Final = (
    *("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition"),
    *("TerminateJob", "CompleteJob", "ResumeJob"),
)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """An event of a Job. `task`: the task of the event; "" for the whole job. `pod`: the name of the pod that caused
    the event. `since_s`: the time of the event, in seconds since the epoch."""

    event: str
    since_s: float
    task: str = ""
    pod: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """An action that a policy requests. `at_s`: the time of the action. `delay`: the delay as the policy states it; ""
    if there is none."""

    action: str
    at_s: float
    what: Happened
    delay: str = ""


def go_seconds(text: str) -> float | None:
    """Return the seconds of a Go duration such as `1m30s`; None if the string is not a duration."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.lstrip("+"):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def due_action(job: JobSpec, happened: Iterable[Happened]) -> Due | None:
    """Return the action with the earliest time; None if no policy matches any of these events."""
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
    """Yield the events of the job, which are derived from its pods. `evicted`: name of a pod that another client
    deleted -> time of its deletion. `group_unknown_s`: the time at which the PodGroup entered the phase Unknown; None
    if it is in another phase."""
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
    """Return the name of the pod's task."""
    return str((pod["metadata"].get("annotations") or {}).get(kinds.TASK_SPEC, ""))


def index_of(pod: Object) -> int:
    """Return the index of a pod in its task; -1 if its annotation does not name one."""
    text = (pod["metadata"].get("annotations") or {}).get(kinds.TASK_INDEX, "")
    return int(text) if text.isdigit() else -1
