"""The checks and defaults of Volcano's webhooks as admission plug-ins, for a control plane that runs Volcano's
controllers.

`default` sets the defaults of Jobs and Queues. If a pod names Volcano's scheduler but no PodGroup, `default` also sets
the name of a PodGroup, which `controllers.operators.volcano.pod_groups` creates. `check` and `check_deletion` refuse
the same requests as Volcano's webhooks, with the same code 400. On a real cluster, the admission policies of the
Volcano dialect do a part of these checks, because a policy sees only the written object. These plug-ins also read other
objects, and so find missing queues, closed queues, and queues with children.

All writes pass these checks, including those of the control plane.

Source: pkg/webhooks/admission and pkg/controllers/podgroup of Volcano v1.15.1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import StatusError, invalid_value
from phalanx.embedded.apimachinery.schema import formats, quantity, schema
from phalanx.embedded.apiserver.registry.kinds.batch.job import cron_schedule, time_zone
from phalanx.embedded.apiserver.registry.kinds.checks import Found
from phalanx.embedded.apiserver.registry.kinds.pods import defaults
from phalanx.embedded.apiserver.registry.kinds.pods import spec as pod_spec

SCHEDULING, BATCH = "scheduling.volcano.sh", "batch.volcano.sh"
PODS, JOBS, POD_GROUPS, QUEUES = ("", "pods"), (BATCH, "jobs"), (SCHEDULING, "podgroups"), (SCHEDULING, "queues")
CRON_JOBS = (BATCH, "cronjobs")
KINDS = frozenset({PODS, JOBS, QUEUES})
SCHEDULER, ROOT, DEFAULT = "volcano", "root", "default"
GROUP_NAME, OF_PODS = "scheduling.k8s.io/group-name", "podgroup-"
_GROUPED = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet"})  # owners whose pods form one PodGroup
_OTHER_GANGS = frozenset({GROUP_NAME, "scheduling.volcano.sh/group-name", "phalanx.dev/job"})
_RETRIES, _DEPTH = 3, 5
_PLUGINS = frozenset({"env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray", "hcclrank"})
_TOPOLOGY_POLICIES = frozenset({"", "none", "best-effort", "restricted", "single-numa-node"})
_EVENTS = frozenset(
    {"*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"}
)
_ACTIONS = frozenset(
    {"AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition"}
    | {"TerminateJob", "CompleteJob", "ResumeJob"}
)
# users may not change `volumes`, but the controller writes the names of claims into it
_CHANGEABLE = ("minAvailable", "priorityClassName", "volumes")


class QueueReader(Protocol):
    """Read access to the stored objects."""

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None: ...

    def list(self, group: str, plural: str, namespace: str = "") -> Any: ...


# --- defaults ---------------------------------------------------------------------------------------------------------


def default(resource: Resource, obj: Object, old: Object | None, reader: QueueReader) -> None:
    """Set the defaults of an object, in place."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    if resource.key == JOBS:
        _default_job(spec)
    elif resource.key == QUEUES:
        spec["weight"] = spec.get("weight") or 1
        spec.setdefault("reclaimable", obj["metadata"].get("name") != ROOT)
    elif old is None and spec.get("schedulerName") == SCHEDULER:
        _join_group(obj["metadata"])


def _default_job(spec: Object) -> None:
    spec["maxRetry"] = spec.get("maxRetry") or _RETRIES
    spec.setdefault("schedulerName", SCHEDULER)
    spec["queue"] = spec.get("queue") or DEFAULT
    tasks = spec.get("tasks")
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        return
    for at, task in enumerate(tasks):
        task["name"] = task.get("name") or f"default{at}"
        task["maxRetry"] = task.get("maxRetry") or _RETRIES
        if task.get("minAvailable") is None:
            parts = task.get("partitionPolicy") or {}
            fewest = _number(parts, "minPartitions") * _number(parts, "partitionSize")
            task["minAvailable"] = fewest or _number(task, "replicas")
    if not spec.get("minAvailable") and (total := sum(_number(task, "minAvailable") for task in tasks)):
        spec["minAvailable"] = total


def _join_group(meta: Object) -> None:
    """Write the name of a PodGroup into the annotations of a pod that names none. All pods of one owner get the same
    PodGroup; a pod without an owner gets a PodGroup of its own."""
    said = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
    if not _OTHER_GANGS.isdisjoint(said) or (owner is not None and owner.get("kind") not in _GROUPED):
        return
    whose = meta.get("uid") if owner is None else owner.get("uid")
    meta["annotations"] = {**(meta.get("annotations") or {}), GROUP_NAME: f"{OF_PODS}{whose}"}


def _number(holder: object, key: str) -> int:
    found = holder.get(key) if isinstance(holder, Mapping) else None
    return found if isinstance(found, int) else 0


# --- refusals ---------------------------------------------------------------------------------------------------------


def check(resource: Resource, obj: Object, old: Object | None, reader: QueueReader) -> None:
    """Refuse an object that has passed validation but that Volcano's webhooks would refuse. Raises `StatusError`
    400."""
    if obj["metadata"].get("deletionTimestamp"):
        return
    if resource.key == JOBS:
        faults = _new_job(obj, reader) if old is None else _changed_job(obj.get("spec") or {}, old.get("spec") or {})
        _deny("validatejob.volcano.sh", faults)
    elif resource.key == POD_GROUPS and old is None:
        _deny(
            "validatepodgroup.volcano.sh", _open_queue((obj.get("spec") or {}).get("queue") or "", "PodGroup", reader)
        )
    elif resource.key == QUEUES:
        _deny("validatequeue.volcano.sh", _queue(obj, old, reader))
    elif resource.key == CRON_JOBS:
        _deny("validatecronjob.volcano.sh", _schedule(obj.get("spec") or {}))


def check_deletion(resource: Resource, old: Object, reader: QueueReader) -> None:
    """Refuse the deletion of a Queue that other objects need. Raises `StatusError` 400."""
    if resource.key != QUEUES:
        return
    name = old["metadata"]["name"]
    if name in (ROOT, DEFAULT):
        _deny("validatequeue.volcano.sh", iter((f"`{name}` queue can not be deleted",)))
    children = sorted(one["metadata"]["name"] for one in reader.list(*QUEUES) if _parent(one) == name)
    if children:
        text = f"queue {name} can not be deleted because it has {len(children)} child queues: {', '.join(children)}"
        _deny("validatequeue.volcano.sh", iter((text,)))


def _deny(webhook: str, faults: Iterator[str]) -> None:
    if said := "; ".join(faults):
        raise StatusError(400, "", f'admission webhook "{webhook}" denied the request: {said}')


def _new_job(job: Object, reader: QueueReader) -> Iterator[str]:
    spec = job.get("spec") or {}
    tasks: Sequence[Object] = spec.get("tasks") or ()
    for name, least in (("minAvailable", 0), ("maxRetry", 0), ("ttlSecondsAfterFinished", 0)):
        if _number(spec, name) < least:
            yield f"'{name}' must be >= {least}"
    if not tasks:
        yield "No task specified in job spec"
        return
    if "mpi" in (spec.get("plugins") or {}) and (missing := _missing_master(spec["plugins"]["mpi"], tasks)):
        yield f"The specified mpi master task was not found: the job has no task {missing}"
    names = [task["name"] for task in tasks]
    for at, task in enumerate(tasks):
        yield from _task(at, task, job)
        if task["name"] in names[:at]:
            yield f"duplicated task name {task['name']}"
    yield from _names(job["metadata"].get("name", ""), names)
    yield from _tiers(spec.get("networkTopology"))
    if _number(spec, "minAvailable") > sum(_number(task, "replicas") for task in tasks):
        yield "job 'minAvailable' should not be greater than total replicas in tasks"
    yield from _policies(spec.get("policies") or (), "spec")
    for name in spec.get("plugins") or ():
        if name not in _PLUGINS:
            yield f"unable to find job plugin: {name}"
    yield from _volumes(spec.get("volumes") or ())
    yield from _order(tasks)
    yield from _open_queue(spec["queue"], "job", reader, leaf=True)


def _names(job: str, tasks: Sequence[str]) -> Iterator[str]:
    """Yield an error for the name of the Job, and for each name of a pod, that cannot be the value of a label. As in
    Volcano, the checked name of a pod ends with the index of its task in the Job."""
    pods = [f"{job}-{task}-{at}" for at, task in enumerate(tasks)]
    for what, name in (*(("pod", pod) for pod in pods), ("job", job)):
        if job and (problems := formats.qualified_name(name)):
            yield f"create {what} with name {name} validate failed [{' '.join(problems)}]"


def _tiers(topology: Object | None) -> Iterator[str]:
    """Yield an error for a network topology that states its highest tier twice, by name and by number."""
    if topology and topology.get("highestTierAllowed") is not None and topology.get("highestTierName"):
        yield "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


def _schedule(spec: Object) -> Iterator[str]:
    """Yield the errors in the schedule and the time zone of a CronJob."""
    found: Found = []
    cron_schedule(found, spec.get("schedule") or "")
    time_zone(found, spec.get("timeZone"))
    yield from (cause.line() for cause in found)


def _missing_master(arguments: Sequence[str] | None, tasks: Sequence[Object]) -> str:
    """Return the name of the master task that the plugin's arguments require, if the Job has no task of that name;
    otherwise ""."""
    said = [str(one).lstrip("-") for one in arguments or ()]
    name = next((one.partition("=")[2] for one in said if one.startswith("master=")), "master")
    return "" if any(task["name"] == name for task in tasks) else name


def _task(at: int, task: Object, job: Object) -> Iterator[str]:
    name, replicas, fewest = task["name"], _number(task, "replicas"), _number(task, "minAvailable")
    where = f"in task: {name}, job: {job['metadata'].get('name')}"
    if replicas < 0:
        yield f"'replicas' < 0 {where}"
    if fewest < 0:
        yield f"'minAvailable' < 0 {where}"
    if fewest > replicas:
        yield f"'minAvailable' is greater than 'replicas' {where}"
    parts = task.get("partitionPolicy")
    if parts and _number(parts, "totalPartitions") * _number(parts, "partitionSize") != replicas:
        yield f"'totalPartitions' times 'partitionSize' is not 'replicas' {where}"
    yield from _tiers((parts or {}).get("networkTopology"))
    for problem in formats.dns_label(name) or ():
        yield f"{problem} {where}"
    if task.get("topologyPolicy", "") not in _TOPOLOGY_POLICIES:
        listed = ", ".join(sorted(_TOPOLOGY_POLICIES - {""}))
        yield f"the topologyPolicy {task['topologyPolicy']} is not one of {listed} {where}"
    yield from _policies(task.get("policies") or (), f"spec.tasks[{at}]")
    yield from _template(task.get("template"), f"spec.task[{at}].template")


def _template(written: object, path: str) -> Iterator[str]:
    """Yield the errors in a pod template, which is decoded and checked like that of a PodTemplate."""
    holder = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {}, "template": copy.deepcopy(written or {})}
    try:
        schema.decode(schema.type_of("io.k8s.api.core.v1.PodTemplate"), holder)
    except schema.DecodeError as error:
        where = path + error.place.removeprefix(".template")
        yield f"{path}: {error}" if error.typed else invalid_value(where, error.value, str(error)).line()
        return
    template: Object = holder["template"]  # type: ignore[assignment]  # a mapping, because it was decoded
    template.setdefault("spec", {}).setdefault("containers", [])
    defaults.pod_spec(template["spec"])
    found: Found = []
    pod_spec.template(found, template, path)
    yield from (cause.line() for cause in found)


def _policies(policies: Sequence[Object], where: str) -> Iterator[str]:
    seen: set[str] = set()
    for policy in policies:
        events = [*([policy["event"]] if policy.get("event") else ()), *(policy.get("events") or ())]
        code = policy.get("exitCode")
        if bool(events) == (code is not None):
            yield f"{where}: must specify one of event and exitCode, and not both"
        if code == 0:
            yield f"{where}: 0 is not a valid error code"
        yield from (f"{where}: invalid policy event: {event}" for event in events if event not in _EVENTS)
        if policy.get("action") not in _ACTIONS:
            yield f"{where}: invalid policy action: {policy.get('action', '')}"
        yield from (f"{where}: duplicate event {event} in different policy" for event in events if event in seen)
        seen.update(events)
    if "*" in seen and len(seen) > 1:
        yield f"{where}: if there's * here, no other policy should be here"


def _volumes(volumes: Sequence[Object]) -> Iterator[str]:
    paths = [volume.get("mountPath") for volume in volumes]
    for at, volume in enumerate(volumes):
        if not paths[at]:
            yield f"spec.volumes[{at}]: mountPath is required"
        elif paths[at] in paths[:at]:
            yield f"duplicated mountPath: {paths[at]}"
        if bool(volume.get("volumeClaim")) == bool(volume.get("volumeClaimName")):
            yield f"spec.volumes[{at}]: either volumeClaim or volumeClaimName must be specified"


def _order(tasks: Sequence[Object]) -> Iterator[str]:
    """Yield an error for dependencies on tasks that do not exist, and for circular dependencies."""
    waiting = {task["name"]: set((task.get("dependsOn") or {}).get("name") or ()) for task in tasks}
    while ready := [name for name, others in waiting.items() if not others]:
        for name in ready:
            del waiting[name]
        for others in waiting.values():
            others.difference_update(ready)
    if waiting:
        yield "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"


def _changed_job(spec: Object, old: Object) -> Iterator[str]:
    """Yield an error if an update changes more than the size, the priority class and the volumes of the Job."""
    text = (
        "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
        "`PriorityClassName`"
    )
    tasks: Sequence[Object] = spec.get("tasks") or ()
    for task in tasks:
        if _number(task, "minAvailable") > _number(task, "replicas"):
            yield f"'minAvailable' is greater than 'replicas' in task: {task['name']}"
    if _number(spec, "minAvailable") > sum(_number(task, "replicas") for task in tasks):
        yield "job 'minAvailable' must not be greater than total replicas"
    if _fixed(spec) != _fixed(old):
        yield text


def _fixed(spec: Object) -> Object:
    """Return the immutable part of the spec of a Job."""
    kept = {key: value for key, value in spec.items() if key not in _CHANGEABLE}
    sized = ("replicas", "minAvailable")
    tasks = [{key: value for key, value in task.items() if key not in sized} for task in spec.get("tasks") or ()]
    return {**kept, "tasks": tasks}


# --- queues -----------------------------------------------------------------------------------------------------------


def _open_queue(name: str, what: str, reader: QueueReader, *, leaf: bool = False) -> Iterator[str]:
    """Yield an error for a queue that does not exist, is closed or, with `leaf`, has children. The name of a Phalanx
    Queue is accepted as well."""
    if reader.get("phalanx.dev", "queues", "", name) is not None:
        return
    if leaf and name == ROOT:
        yield "can not submit job to root queue"
        return
    queue = reader.get(*QUEUES, "", name)
    if queue is None:
        if name not in ("", DEFAULT):
            yield f'unable to find {what} queue: queues.scheduling.volcano.sh "{name}" not found'
        return
    if (state := _state(queue)) != "Open":
        yield f"can only submit {what} to queue with state `Open`, queue `{name}` status is `{state}`"
    children = [one["metadata"]["name"] for one in reader.list(*QUEUES) if leaf and _parent(one) == name]
    if children:
        yield f"can only submit job to leaf queue, queue `{name}` has {len(children)} child queues"


def _state(queue: Object) -> str:
    return str((queue.get("status") or {}).get("state") or "Open")


def _parent(queue: Object) -> str:
    return str((queue.get("spec") or {}).get("parent") or "")


def _queue(queue: Object, old: Object | None, reader: QueueReader) -> Iterator[str]:
    name, spec = queue["metadata"]["name"], queue.get("spec") or {}
    if _state(queue) not in ("Open", "Closed") and (old is None or _state(queue) != _state(old)):
        yield f"queue state must be in [Open Closed], not {_state(queue)}"
    capability, deserved = spec.get("capability") or {}, spec.get("deserved") or {}
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    if _exceeds(deserved, capability, absent=None):
        yield "deserved should be less equal than capability"
    if _exceeds(guarantee, capability, absent=None):
        yield "guarantee should be less equal than capability"
    if _exceeds(guarantee, deserved, absent="0"):
        yield "guarantee should be less equal than deserved"
    yield from _hierarchy(queue["metadata"].get("annotations") or {})
    parent = _parent(queue)
    if name != ROOT and parent not in ("", ROOT) and (old is None or parent != _parent(old)):
        yield from _below(name, parent, reader)


def _exceeds(less: Object, more: Object, absent: str | None) -> bool:
    """Return True if an amount in `less` exceeds the amount of the same resource in `more`. `absent`: the amount of a
    resource that `more` does not name; None if it is unlimited."""
    bounds: Iterator[tuple[Any, Any]] = ((amount, more.get(resource, absent)) for resource, amount in less.items())
    return any(most is not None and quantity.of(amount) > quantity.of(most) for amount, most in bounds)


def _hierarchy(annotations: Mapping[str, str]) -> Iterator[str]:
    path = annotations.get("volcano.sh/hierarchy", "")
    weights = annotations.get("volcano.sh/hierarchy-weights", "")
    if len(path.split("/")) != len(weights.split("/")):
        yield "volcano.sh/hierarchy and volcano.sh/hierarchy-weights must have the same length"


def _below(name: str, parent: str, reader: QueueReader) -> Iterator[str]:
    """Yield an error if the queue cannot be a child of `parent`. The parent must exist, must not be the queue itself or
    one of its descendants, and must not run pods. The queue must not be too many levels deep."""
    if parent == name:
        yield f"the parent of queue {name} can not be itself"
        return
    depth, above = 1, parent
    while above not in ("", ROOT):
        queue = reader.get(*QUEUES, "", above)
        if queue is None:
            yield f'failed to get parent queue of queue {name}: queues.scheduling.volcano.sh "{above}" not found'
            return
        depth, above = depth + 1, _parent(queue)
        if depth > _DEPTH or above == name:
            yield f"queue {name} would be more than {_DEPTH} levels deep, or below itself"
            return
    found = reader.get(*QUEUES, "", parent) or {}
    pods = str(((found.get("status") or {}).get("allocated") or {}).get("pods") or "0")
    if pods != "0":
        yield f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: {pods}"
