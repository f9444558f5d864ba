"""Serve the Slurm jobs of all users, and the pods on nodes, with the fields that Slurm shows to every user if
PrivateData is not set.

    GET /slurm/v1/jobs?labelSelector=…&fieldSelector=…&live=true&users=ada,bob
    GET /slurm/v1/pods?labelSelector=…&fieldSelector=…
    GET /slurm/v1/ledger               answered by the scheduler, which gets the user's name

With `live`, jobs that have ended are left out. With `users`, jobs of other users are left out.

Roles grant these paths by `nonResourceURLs`. A user who may list the Jobs of a namespace gets all fields of its Jobs.
All other users get only the fields below: names, users, amounts, states and nodes of the job and of its steps. Scripts,
arguments, directories, file names and environments are hidden. Every user sees these fields of a pod: its node, its
phase, some labels, its requests of cpu, memory and GPUs, and how and when its containers ended (`_pod`).

The user of a job is stored in an annotation that the user wrote. If a namespace belongs to a user, the server replaces
the name and the ids in the annotation by those of the owner. So no user can pretend to be another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from phalanx.embedded.apimachinery.meta import selectors
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.auth.rbac import AccessRequest
from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.storage.store import Store, Stored, encode
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response

ROOT = "/slurm/v1/"
JOBS, PODS = ("batch", "jobs"), ("", "pods")
_PREFIX = "slurm.phalanx.dev/"
NUMBER, _ARRAY, _ASK, _COMPONENT = (f"{_PREFIX}{word}" for word in ("number", "array", "job", "component-"))
_INDEX = "batch.kubernetes.io/job-completion-index"
_ADMITTED = "phalanx.dev/admitted"
# the annotations that name the user to whom a namespace belongs
_UID, _GID, _USER = "phalanx.dev/uid", "phalanx.dev/gid", "phalanx.dev/user"
_LABELS = frozenset({NUMBER, _ARRAY, "phalanx.dev/queue"})
_NOTES = frozenset({
    NUMBER, "phalanx.dev/reason", "phalanx.dev/reason-numbers", "phalanx.dev/hold", f"{_PREFIX}suspended",
    f"{_PREFIX}cancelled-by",
})  # fmt: skip
# The fields of `phalanx.slurm.jobs.ask.Ask` that every user may see (tests/slurm/test_api_sight.py names the others).
SHOWN = frozenset({
    "name", "user", "uid", "gid", "group", "account", "partition", "qos", "submit_s", "task", "array",
    "tasks_of", "het", "het_offset", "het_size", "throttle", "nodes", "max_nodes", "said_nodes",
    "tasks", "cpus_per_task", "tasks_per_node", "min_cpus", "least_cpus", "memory_mib", "per_cpu", "gpus_per_node",
    "tres_per_node", "limit_min", "features", "wanted", "excluded", "exclusive", "dependency",
    "begin_s", "deadline_s", "nice", "hold", "requeue", "restarts", "tmp_mib", "contiguous",
    "overcommit", "oversubscribe", "preferred", "least_min", "licenses", "cap", "cap_group",
    "cap_reason", "node_cpus", "reservation", "wckey", "kind", "partitions", "usable", "gpus",
    "gpu_type", "gpu_products", "shown", "rank", "rank_per_s", "waiting_nodes", "waiting_tasks",
})  # fmt: skip
_STEP = f"{_PREFIX}step."
# The fields of `phalanx.slurm.jobs.steps.records.StepRecord` that every user may see: all fields except the command
# line and the resources that the step has used.
_OF_STEP = frozenset({
    "name", "tasks", "cpus", "nodes", "layout", "start_s", "end_s", "code", "signal", "cancelled", "components",
})  # fmt: skip
_META, _CONDITION = ("name", "namespace", "creationTimestamp", "deletionTimestamp"), ("type", "status", "reason")
_ENDED = ("exitCode", "finishedAt", "reason")

May = Callable[[User, AccessRequest, str], bool]
T = TypeVar("T")


class _Who(msgspec.Struct):
    user: str = ""
    uid: int = -1


class SlurmView:
    """Handles these paths. `jobs` and `pods`: the kinds Job and Pod. `may`: returns True if a user has a right in a
    namespace."""

    def __init__(self, store: Store, jobs: Resource, pods: Resource, may: May) -> None:
        self._store, self._may = store, may
        self._kinds = {JOBS: jobs, PODS: pods}
        self._whole = answers.partial_object(jobs)

    async def answer(self, request: HttpRequest) -> Response:
        """Return the response to a request for one of these paths. Raises `StatusError` 404, 405."""
        if request.method != "GET":
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        match request.path.removeprefix(ROOT):
            case "jobs":
                items = self._jobs(request)
            case "pods":
                items = self._pods(request)
            case _:
                raise StatusError(404, "NotFound", "the server could not find the requested resource", details={})
        found: list[bytes] = []
        for item in items:
            found.append(item)
            if len(found) % answers.TURN == 0:
                await asyncio.sleep(0)  # handle other requests in between
        return Response(body=b'{"items":[' + b",".join(found) + b"]}")

    def asking(self, request: HttpRequest) -> HttpRequest:
        """Return the request that is forwarded to the scheduler, which serves the ledger. Its query has the user's
        name, and whether the user may see all fields of all jobs."""
        sees_all = self._may(request.user, AccessRequest("list", *JOBS), "")
        query = {**request.query, "asker": [request.user.name], "all": ["true" if sees_all else "false"]}
        return replace(request, query=query)

    def _jobs(self, request: HttpRequest) -> Iterator[bytes]:
        owners: dict[str, Mapping[str, object]] = {}
        listed: dict[str, bool] = {}
        users = frozenset(request.text("users").split(",")) if request.text("users") else frozenset()
        live = request.text("live") == "true"
        for namespace, stored in self._selected(JOBS, request):
            if NUMBER not in (stored.obj["metadata"].get("labels") or {}) or (live and _has_ended(stored.obj)):
                continue
            if namespace not in owners:
                owners[namespace] = self._owner(namespace)
                listed[namespace] = self._may(request.user, AccessRequest("list", *JOBS), namespace)
            if users and users.isdisjoint(_users(stored.obj, owners[namespace])):
                continue
            whole, owner = listed[namespace], owners[namespace]
            if whole and (not owner or _is_true(stored.obj, owner)):
                yield self._whole(stored)
            else:
                yield encode(_job(stored.obj, owner, whole=whole))

    def _pods(self, request: HttpRequest) -> Iterator[bytes]:
        for _, stored in self._selected(PODS, request):
            if stored.obj["spec"].get("nodeName"):
                yield encode(_pod(stored.obj))

    def _selected(self, key: tuple[str, str], request: HttpRequest) -> Iterator[tuple[str, Stored]]:
        asked = request.text("labelSelector"), request.text("fieldSelector")
        chosen = selectors.predicate(self._kinds[key], *asked)
        for namespace, _, stored in list(self._store.walk(key)):
            if chosen is None or chosen(stored.obj):
                yield namespace, stored

    def _owner(self, namespace: str) -> Mapping[str, object]:
        """Return the fields of a job that name its user (`user`, `uid`, `gid`), with the values of the namespace's
        owner; empty if the namespace has no owner."""
        found = self._store.get(("", "namespaces"), "", namespace)
        notes = (found.obj["metadata"].get("annotations") or {}) if found is not None else {}
        if _USER not in notes:
            return {}
        numbers = {"uid": notes.get(_UID, ""), "gid": notes.get(_GID, "")}
        return {"user": notes[_USER]} | {key: int(text) for key, text in numbers.items() if text.isdecimal()}


def _has_ended(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("status") == "True" and one.get("type") in ("Complete", "Failed") for one in conditions)


def _users(obj: Object, owner: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of the job's user: the owner of the namespace or, if the namespace has no owner, the user in the
    job's annotations. Yield nothing if the job names no user."""
    if owner:
        yield owner["user"]
        return
    for _, text in _asks(obj):
        if (who := _decoded(text, _Who)) is not None:
            yield who.user


def _is_true(obj: Object, owner: Mapping[str, object]) -> bool:
    """Return True if the user and the uid in the job's annotations are those of the namespace's owner."""
    said = [_decoded(text, _Who) for _, text in _asks(obj)]
    return all(one is not None and one.user == owner["user"] and one.uid == owner.get("uid", one.uid) for one in said)


def _asks(obj: Object) -> Iterator[tuple[str, str]]:
    for key, text in (obj["metadata"].get("annotations") or {}).items():
        if key == _ASK or key.startswith(_COMPONENT):
            yield key, text


def _job(obj: Object, owner: Mapping[str, object], *, whole: bool) -> Object:
    """Return the fields of the Job that the reader may see. If the namespace has an owner, the owner is shown as the
    Job's user. `whole`: True for all fields; False for the fields that every user may see."""
    meta, status = obj["metadata"], obj.get("status") or {}
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    shown = {key: text for key, text in notes.items() if whole or key in _NOTES}
    if admitted := _decoded(notes.get(_ADMITTED, ""), dict):
        shown[_ADMITTED] = encode({"at_s": admitted.get("at_s")}).decode()
    for key, text in _asks(obj):
        if (ask := _decoded(text, dict)) is not None:
            kept = {name: value for name, value in ask.items() if whole or name in SHOWN}
            shown[key] = encode({**kept, **owner}).decode()
    for key, text in notes.items():
        if not whole and key.startswith(_STEP) and (step := _decoded(text, dict)) is not None:
            shown[key] = encode({name: value for name, value in step.items() if name in _OF_STEP}).decode()
    conditions = [
        {key: one[key] for key in (*_CONDITION, "lastTransitionTime") if key in one}
        for one in status.get("conditions") or ()
    ]
    return {
        "metadata": {key: meta[key] for key in _META if key in meta}
        | {"labels": {key: text for key, text in labels.items() if key in _LABELS}, "annotations": shown},
        "spec": {"suspend": bool(obj["spec"].get("suspend"))},
        "status": {key: status[key] for key in ("startTime", "completionTime") if key in status}
        | {"conditions": conditions},
    }


_AMOUNTS = ("cpu", "memory", "nvidia.com/gpu")  # the resource requests of a pod that every user may see


def _pod(obj: Object) -> Object:
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    ends = [(one.get("state") or {}).get("terminated") for one in status.get("containerStatuses") or ()]
    requests = [(one.get("resources") or {}).get("requests") or {} for one in spec["containers"]]
    return {
        "metadata": {key: meta[key] for key in _META if key in meta}
        | {
            "labels": {key: text for key, text in labels.items() if key in _LABELS},
            "annotations": {_INDEX: notes[_INDEX]} if _INDEX in notes else {},
        },
        "spec": {
            "nodeName": spec["nodeName"],
            "containers": [
                {"resources": {"requests": {name: one[name] for name in _AMOUNTS if name in one}}} for one in requests
            ],
        },
        "status": {
            "phase": status.get("phase", ""),
            "containerStatuses": [
                {"state": {"terminated": {key: end[key] for key in _ENDED if key in end}}} for end in ends if end
            ],
        },
    }


def _decoded(text: str, form: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.MsgspecError, RecursionError):  # the user wrote the annotation, so it may be invalid
        return None
