"""A small cluster in this process, in which a test can kill the scheduler at every write. It has the API's rules for
the requests of `kube/` only.

It has the guarantees of the real server: growing resourceVersions, conflicts, uid preconditions, bindings that happen
once and copy annotations to the pod, and watches that report every change of a kind in order. There is no order between
kinds, or between watches and answers. `Controller` is a Job controller with slow start. Nothing happens by itself: a
test advances each step.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.client.informer import Informer, key_of
from phalanx.client.kind import (
    CONFIG_MAPS,
    CSI_NODES,
    DISRUPTION_BUDGETS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from phalanx.dialects.enabled import DIALECTS
from phalanx.kube.install.definitions import FLAVORS, QUEUES, RESERVATIONS
from phalanx.kube.read.labels import SCHEDULER_NAME
from phalanx.kube.read.wire import WIRE_TYPES
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS

Object = dict[str, Any]
OURS = (QUEUES, FLAVORS, RESERVATIONS)
STORAGE = (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES)
OTHERS = (RESOURCE_QUOTAS, EVENTS, DISRUPTION_BUDGETS, CONFIG_MAPS)
_THEIRS = {kind for each in DIALECTS.values() for kind in (*each.definition_kinds, *each.answer_kinds)}
KINDS = tuple(dict.fromkeys((JOBS, NODES, PODS, *OURS, *STORAGE, *FRAMEWORK_KINDS, *OTHERS, *_THEIRS)))


def sent(obj: Any) -> Any:
    """Return the object as its receiver decodes it."""
    return msgspec.json.decode(msgspec.json.encode(obj))


class Killed(BaseException):
    """The process that calls was killed: it gets no answer, and nothing it sends later arrives."""


@dataclass
class Api:
    """The server. `writes` lists what the scheduler wrote, as `verb kind/name`; `broken` what it broke on. `release`:
    `1.35`, `1.36.0` or `1.36`, by whose rules a Job's template may change."""

    objects: dict[Kind, dict[str, Object]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    version: int = 0
    writes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    release: str = "1.36"
    watchers: list[deque[tuple[Kind, str, Object]]] = field(default_factory=list)

    def put(self, kind: Kind, obj: Object) -> Object:
        """Store a new state, and tell it."""
        self.version += 1
        obj = sent(obj)
        meta = obj["metadata"]
        meta.setdefault("uid", f"uid-{self.version}")
        meta.setdefault("creationTimestamp", f"2026-01-01T00:{self.version // 60 % 60:02}:{self.version % 60:02}Z")
        meta["resourceVersion"] = str(self.version)
        self.objects[kind][key_of(obj)] = obj
        self._tell(kind, "put", obj)
        return obj

    def drop(self, kind: Kind, key: str) -> None:
        self.version += 1
        obj = sent(self.objects[kind].pop(key))
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._tell(kind, "drop", obj)

    def _tell(self, kind: Kind, verb: str, obj: Object) -> None:
        for watcher in self.watchers:
            watcher.append((kind, verb, sent(obj)))

    def pods(self, job: str = "") -> list[Object]:
        return [pod for pod in self.objects[PODS].values() if not job or pod["metadata"]["labels"].get("job") == job]

    def bound(self) -> dict[str, str]:
        """pod -> its node."""
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in self.pods() if pod["spec"].get("nodeName")}

    def job(self, name: str) -> Object:
        return self.objects[JOBS][f"default/{name}"]


class Client:
    """A connection of one process. `fault(write)` is asked before every write and may say `kill` (before it happens),
    `kill after`, `lost` (it happens, the answer does not come), `broken: TEXT` (5xx: it does not happen), `busy: TEXT`
    (429: nor does it), or the text of a refusal."""

    def __init__(self, api: Api, fault: Callable[[str], str | None] = lambda write: None) -> None:
        self.api, self.fault, self.dead = api, fault, False

    async def request(self, method: str, path: str, **_: Any) -> Any:
        if any(path == kind.path() for kind in self.api.objects):
            return {"items": []}
        raise ApiRefusal(404, "NotFound", path)

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        self._alive()
        return sent(self._find(kind, namespace, name))

    async def list(self, kind: Kind, namespace: str = "", **selectors: str) -> Object:
        self._alive()
        selector = selectors.get("fieldSelector", "")
        _, selects_node, on = selector.partition("spec.nodeName=")
        _, selects_about, uid = selector.partition("involvedObject.uid=")
        found = (
            each
            for each in self.api.objects[kind].values()
            if (not selects_node or each["spec"].get("nodeName") == on)
            and (not selects_about or each["involvedObject"]["uid"] == uid.partition(",")[0])
        )
        return {"items": sent(list(found))}

    async def pages(self, kind: Kind, namespace: str = "", **_: str) -> AsyncIterator[Object]:
        self._alive()
        items = [lean(kind, obj) for obj in self.api.objects[kind].values()]
        yield {"metadata": {"resourceVersion": str(self.api.version)}, "items": items}

    async def create(self, kind: Kind, body: Object, namespace: str = "", subresource: str = "", name: str = "") -> Any:
        if subresource == "binding":
            return self._write(f"bind {name}", lambda: self._bind(body, namespace, name))
        if subresource == "eviction":
            return self._write(f"evict {name}", lambda: self._evict(body, namespace, name))
        return self._write(f"create {kind.name}", lambda: self._create(kind, body))

    async def delete(self, kind: Kind, name: str, namespace: str = "", body: Object | None = None) -> Object:
        def happen() -> Object:
            found = self._find(kind, namespace, name)
            if body is not None and body["preconditions"]["uid"] != found["metadata"]["uid"]:
                raise ApiRefusal(409, "Conflict", f"the uid of {name!r} is another")
            self.api.drop(kind, key_of(found))
            return found

        return self._write(f"delete {kind.plural}/{name}", happen)

    async def patch(self, kind: Kind, name: str, body: Any, namespace: str = "", *args: str, **_: str) -> Object:
        return self._write(f"patch {kind.plural}/{name}", lambda: self._patch(kind, namespace, name, body))

    def _alive(self) -> None:
        if self.dead:
            raise Killed

    def _write(self, what: str, happen: Callable[[], Object]) -> Object:
        self._alive()
        if what.startswith("create Event"):
            return happen()
        fault = self.fault(what)
        if fault == "kill":
            self.dead = True
            raise Killed
        if fault and fault.startswith("broken: "):
            self.api.broken.append(what)
            raise ApiUnknown(f"the API server answered 500: {fault.removeprefix('broken: ')}")
        if fault and fault.startswith("busy: "):
            raise ApiRefusal(429, "TooManyRequests", fault.removeprefix("busy: "))
        if fault and fault not in {"kill after", "lost"}:
            raise ApiRefusal(403, "Forbidden", fault)
        answer = happen()
        self.api.writes.append(what)
        if fault == "kill after":
            self.dead = True
            raise Killed
        if fault == "lost":
            raise ApiUnknown("the answer was lost")
        return sent(answer)

    def _create(self, kind: Kind, body: Object) -> Object:
        if key_of(body) in self.api.objects[kind]:
            raise ApiRefusal(409, "AlreadyExists", f"{kind.plural} {key_of(body)!r} already exists")
        return self.api.put(kind, body)

    def _find(self, kind: Kind, namespace: str, name: str) -> Object:
        obj = self.api.objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)
        if obj is None:
            raise ApiRefusal(404, "NotFound", f"{kind.plural} {name!r} not found")
        return obj

    def _patch(self, kind: Kind, namespace: str, name: str, body: Object) -> Object:
        obj = sent(self._find(kind, namespace, name))
        meta = body.get("metadata", {})
        for key in ("uid", "resourceVersion"):
            if key in meta and meta[key] != obj["metadata"][key]:
                raise ApiRefusal(409, "Conflict", f"{kind.plural} {name!r} has been modified")
        before = sent(obj)
        merge(obj, body)
        if kind in {JOBS, PODS}:
            _check_job(before, obj, self.api.release) if kind is JOBS else _check_pod(before, obj)
        return self.api.put(kind, obj)

    def _bind(self, body: Object, namespace: str, name: str) -> Object:
        pod = sent(self._find(PODS, namespace, name))
        if body["metadata"].get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            raise ApiRefusal(409, "Conflict", f"the uid of pod {name!r} is another")
        if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates") or "deletionTimestamp" in pod["metadata"]:
            raise ApiRefusal(409, "Conflict", f"pod {name!r} is already assigned, gated or being deleted")
        pod["spec"]["nodeName"] = body["target"]["name"]
        merge(pod, {"metadata": {"annotations": body["metadata"].get("annotations", {})}})
        self.api.put(PODS, pod)
        return {"kind": "Status", "status": "Success"}

    def _evict(self, body: Object, namespace: str, name: str) -> Object:
        """The pod terminates; its kubelet needs a turn of the crank to end it (`Controller.bury`)."""
        pod = sent(self._find(PODS, namespace, name))
        options = body["deleteOptions"]
        if options["preconditions"]["uid"] != pod["metadata"]["uid"]:
            raise ApiRefusal(409, "Conflict", f"the uid of pod {name!r} is another")
        budgets = list(self.api.objects[DISRUPTION_BUDGETS].values())
        if any(not budget["status"]["disruptionsAllowed"] for budget in budgets):
            raise ApiRefusal(429, "TooManyRequests", "it would violate the pod's disruption budget")
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
        pod["metadata"]["deletionGracePeriodSeconds"] = options.get("gracePeriodSeconds", 30)
        self.api.put(PODS, pod)
        return {"kind": "Status", "status": "Success"}


def _check_job(before: Object, after: Object, release: str) -> None:
    """Only the template of a suspended Job may change (validateJob, KEP-2926): before 1.36 if it has no startTime,
    since then if no pods are active and it is seen to be suspended, or has none (at first: only if it is seen)."""
    spec, status = before["spec"], before.get("status") or {}
    seen = any(one["type"] == "Suspended" and one["status"] == "True" for one in status.get("conditions", ()))
    fresh, empty = "startTime" not in status, not status.get("active")
    free = {"1.35": fresh, "1.36.0": seen and empty, "1.36": (seen or fresh) and empty}[release]
    if not (spec.get("suspend") and free) and spec["template"] != after["spec"]["template"]:
        raise ApiRefusal(422, "Invalid", "spec.template: field is immutable")
    if "startTime" in status and "startTime" not in (after.get("status") or {}) and not spec.get("suspend"):
        raise ApiRefusal(422, "Invalid", "status.startTime: startTime cannot be removed for unsuspended job")


def _check_pod(before: Object, after: Object) -> None:
    """Gates only go; required node affinity may become narrower while there is a gate (ValidatePodUpdate, KEP-3838)."""
    old, new = before["spec"], after["spec"]
    if any(gate not in old.get("schedulingGates", ()) for gate in new.get("schedulingGates", ())):
        raise ApiRefusal(422, "Invalid", "spec.schedulingGates: only deletion is allowed")
    if old.get("affinity") != new.get("affinity") and not old.get("schedulingGates"):
        raise ApiRefusal(422, "Invalid", "spec: pod updates may not change fields other than …")


def merge(obj: Object, patch: Object) -> None:
    """RFC 7386, in place."""
    for key, value in patch.items():
        if value is None:
            obj.pop(key, None)
        elif isinstance(value, dict):
            merge(obj.setdefault(key, {}), value)
        else:
            obj[key] = value


def lean(kind: Kind, obj: Object) -> Object:
    """Return the object as the scheduler's watch decodes it, with its declared fields only."""
    try:
        return msgspec.json.decode(msgspec.json.encode(obj), type=WIRE_TYPES.get(kind, dict))
    except msgspec.ValidationError:  # as the informer: what is not as the type has it is decoded whole
        return sent(obj)


class Caches:
    """The informers of one process. `deliver` passes the changes of their watches on: each kind in order, the kinds in
    random order, and some changes later."""

    def __init__(self, api: Api, seed: int = 0, client: Client | None = None) -> None:
        """`client`: the client that lists again; None: no list is repeated."""
        self._random = random.Random(seed)
        self._news: deque[tuple[Kind, str, Object]] = deque()
        self._late: dict[Kind, deque[tuple[str, Object]]] = {}
        self._caches: dict[Kind, Informer] = {}
        for kind, objects in api.objects.items():
            cache = self._caches[kind] = Informer(client, kind)  # type: ignore[arg-type]  # a double
            for obj in objects.values():
                cache.observe(lean(kind, obj))
            cache.synced.set()
        api.watchers.append(self._news)

    def __call__(self, kind: Kind) -> Informer:
        return self._caches[kind]

    def deliver(self, *, all: bool = False) -> None:
        while self._news:
            kind, verb, obj = self._news.popleft()
            self._late.setdefault(kind, deque()).append((verb, obj))
        kinds = [kind for kind, waiting in self._late.items() if waiting]
        self._random.shuffle(kinds)
        for kind in kinds:
            waiting = self._late[kind]
            for _ in range(len(waiting) if all else self._random.randint(0, len(waiting))):
                verb, obj = waiting.popleft()
                obj = lean(kind, obj)
                self._caches[kind].observe(obj) if verb == "put" else self._caches[kind].forget(obj)


class Controller:
    """The Job controller: pods in growing batches while a Job runs, none while it is suspended. `refuse(job, k)`: the
    creation of pod k is refused (a quota, a webhook) and said in an Event."""

    def __init__(self, api: Api, refuse: Callable[[str, int], str] = lambda job, k: "") -> None:
        self.api, self.refuse, self.made = api, refuse, 0
        self.slow = False  # no pod ends, however long it terminates
        self.collects = True  # pods whose Job is no more are deleted
        self.skips: set[str] = set()  # names of Jobs that it does not look at
        self.says = False  # the status of Jobs says whether they are suspended, and since when they run

    def turn(self) -> None:
        self.bury()
        if self.collects:
            jobs = {
                job["metadata"]["uid"] for kind in (JOBS, *FRAMEWORK_KINDS) for job in self.api.objects[kind].values()
            }
            owned = [(pod, pod["metadata"].get("ownerReferences", ())) for pod in self.api.pods()]
            self._delete([pod for pod, owners in owned if owners and owners[0]["uid"] not in jobs])
        for job in [job for job in self.api.objects[JOBS].values() if job["metadata"]["name"] not in self.skips]:
            job = self._note(job) if self.says else job
            name, spec = job["metadata"]["name"], job["spec"]
            pods = [pod for pod in self.api.pods(name) if "deletionTimestamp" not in pod["metadata"]]
            done = sum(pod["status"]["phase"] == "Succeeded" for pod in pods)
            alive = [pod for pod in pods if pod["status"]["phase"] in {"Pending", "Running"}]
            if any(one["type"] == "Failed" for one in job["status"].get("conditions", ())):
                self._delete(alive if self.collects else ())
            elif spec.get("suspend"):
                self._delete(alive)
            elif len(alive) > spec["parallelism"]:
                self._delete(alive[spec["parallelism"] :])
            elif done >= spec["completions"]:
                self._complete(job, done)
            else:
                missing = min(spec["parallelism"], spec["completions"] - done) - len(alive)
                self._create(job, min(missing, max(1, len(alive))))

    def _note(self, job: Object) -> Object:
        """Its status says whether it is suspended, and since when it runs."""
        wanted, status = "True" if job["spec"].get("suspend") else "False", job["status"]
        ended = any(one["type"] in {"Complete", "Failed"} for one in status.get("conditions", ()))
        if ended or (
            wanted == ("True" if _suspended(job) else "False") and ("startTime" in status or wanted == "True")
        ):
            return job
        conditions = [{"type": "Suspended", "status": wanted}]
        since = {"startTime": "2026-01-01T00:00:00Z"} if wanted == "False" else {}
        return self.api.put(JOBS, {**job, "status": {**status, "conditions": conditions, **since}})

    def bury(self) -> None:
        """Delete the objects that terminate since the last step."""
        for pod in list(self.api.pods()):
            if "deletionTimestamp" in pod["metadata"] and not self.slow:
                self.api.drop(PODS, key_of(pod))

    def _create(self, job: Object, count: int) -> None:
        name = job["metadata"]["name"]
        for _ in range(count):
            number = len(self.api.pods(name))
            if message := self.refuse(name, number):
                about = {"name": name, "uid": job["metadata"]["uid"]}
                event = {"metadata": {"name": f"e{self.api.version}", "namespace": "default"}, "involvedObject": about}
                self.api.put(EVENTS, {**event, "reason": "FailedCreate", "message": message})
                return
            self.made += 1
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
            template = job["spec"]["template"]
            meta = {
                "name": f"{name}-{self.made}",
                "namespace": "default",
                "labels": {"job": name, **template.get("metadata", {}).get("labels", {})},
                "ownerReferences": [{**owner, "controller": True}],
            }
            self.api.put(PODS, {"metadata": meta, "spec": dict(template["spec"]), "status": {"phase": "Pending"}})

    def _delete(self, pods: Iterable[Object]) -> None:
        """One turn terminating if a kubelet has it, gone at once if not."""
        for pod in pods:
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
                self.api.put(PODS, pod)
            else:
                self.api.drop(PODS, key_of(pod))

    def _complete(self, job: Object, done: int) -> None:
        conditions = [{"type": "Complete", "status": "True"}]
        if job.get("status", {}).get("conditions") != conditions:
            self.api.put(JOBS, {**job, "status": {"succeeded": done, "conditions": conditions}})


def _suspended(job: Object) -> bool:
    conditions = job["status"].get("conditions", ())
    return any(one["type"] == "Suspended" and one["status"] == "True" for one in conditions)


class OtherScheduler:
    """Binds pods of `default-scheduler` that have no gates, where their required node affinity names a node, else to
    `favourite`. `idle`: it does nothing."""

    def __init__(self, api: Api, favourite: str = "") -> None:
        self.api, self.favourite, self.idle = api, favourite, False

    def turn(self) -> None:
        for pod in list(self.api.pods()):
            spec = pod["spec"]
            waits = not spec.get("nodeName") and not spec.get("schedulingGates")
            node = named_node(spec) or self.favourite
            if not self.idle and waits and node and spec["schedulerName"] == "default-scheduler":
                self.api.put(PODS, {**pod, "spec": {**spec, "nodeName": node}})


def named_node(spec: Object) -> str:
    """The one node that the required node affinity leaves, if it names one."""
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    for term in required.get("nodeSelectorTerms", ()):
        for rule in term.get("matchFields", ()):
            if (rule["key"], rule["operator"]) == ("metadata.name", "In"):
                return str(rule["values"][0])
    return ""


def node(name: str, cpu: int = 4) -> Object:
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable, "conditions": ready}}


def pod_spec(cpu: str = "1", scheduler: str = SCHEDULER_NAME) -> Object:
    return {"schedulerName": scheduler, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}


def pod(name: str, cpu: str = "1", *, scheduler: str = SCHEDULER_NAME, node: str = "", **said: str) -> Object:
    """A bare pod; `said` are annotations and labels of phalanx.dev, `_` for `-`."""
    words = {f"phalanx.dev/{key.replace('_', '-')}": value for key, value in said.items()}
    meta = {"name": name, "namespace": "default", "labels": words, "annotations": {}}
    spec = pod_spec(cpu, scheduler) | ({"nodeName": node} if node else {})
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def job(name: str, pods: int, cpu: str = "1", *, scheduler: str = SCHEDULER_NAME, **said: str) -> Object:
    words = {f"phalanx.dev/{key.replace('_', '-')}": value for key, value in {"queue": "default", **said}.items()}
    spec = {"suspend": True, "parallelism": pods, "completions": pods, "template": {"spec": pod_spec(cpu, scheduler)}}
    return {"metadata": {"name": name, "namespace": "default", "labels": words}, "spec": spec, "status": {}}
