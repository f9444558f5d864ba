"""Serve Kueue's visibility API. It lists the pending Workloads of a ClusterQueue or a LocalQueue in the order in which
the scheduler tries them. As in Kueue, a job is listed from the moment at which its Workload exists.


    /apis/visibility.kueue.x-k8s.io/VERSION/clusterqueues/NAME/pendingworkloads
    /apis/visibility.kueue.x-k8s.io/VERSION/namespaces/NAMESPACE/localqueues/NAME/pendingworkloads


Positions in the queue start at 0. Workloads for which the scheduler has found no capacity are listed; deactivated
Workloads (`active: false`) are not. If a ClusterQueue orders jobs by past usage, the Workloads of the LocalQueue with
the lowest usage in its status come first.

The scheduler computes the response from its jobs (`visible`). A program that does not have the scheduler's state
computes the response from the Workload objects (`of_workloads`). Both lists have the same order if the Workloads were
created in the order of their jobs and the ClusterQueue does not order jobs by usage.


Source: apis/visibility/v1beta2, pkg/visibility/storage of v0.19.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from phalanx.dialects.frame.dialect import GangStage, GangView, Object, Objects
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers import consumed
from phalanx.dialects.kueue.answers.names import key_of
from phalanx.dialects.kueue.answers.workloads import deactivated, incomplete
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions

DEFAULT_LIMIT, MOST = 1000, 100_000
_META = ("name", "namespace", "creationTimestamp", "ownerReferences")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWorkload:
    """A pending Workload. `local`: `namespace/name` of its LocalQueue. `used`: the past usage of the LocalQueue, if the
    ClusterQueue orders jobs by usage. `arrived`: the key by which Workloads with the same usage and priority are
    sorted. `metadata`: the Workload's metadata."""

    local: str
    priority: int
    arrived: tuple[str | float, ...]
    metadata: Object
    used: float = 0.0


class LeanMeta(TypedDict, total=False):
    """The fields of an object's metadata that this module reads. `annotations`: in a watch, an annotation marks the end
    of the initial events."""

    annotations: dict[str, str]
    name: str
    namespace: str
    creationTimestamp: str | None
    ownerReferences: list[Object]
    resourceVersion: str
    uid: str


class LeanSpec(TypedDict, total=False):
    queueName: str
    clusterQueue: str
    priority: int | None
    active: bool | None


class LeanStatus(TypedDict, total=False):
    conditions: list[Object]


class Lean(TypedDict, total=False):
    """The fields of Workloads, LocalQueues and ClusterQueues that `of_workloads` reads. The last three fields belong to
    a Status object, with which the server ends a watch."""

    apiVersion: str
    kind: str
    metadata: LeanMeta
    spec: LeanSpec
    status: LeanStatus
    code: int
    reason: str
    message: str


def visible(
    defined: KueueDefinitions,
    everyone: Iterable[GangView],
    objects: Objects,
    path: tuple[str, ...],
    query: Mapping[str, str],
) -> Object:
    """Return the response to a request for a path below the API group. It is a PendingWorkloadsSummary, or a Status
    with the error."""
    queues = {key: found.cluster_queue for key, found in defined.local_queues.items()}

    def waiting(queue: str) -> Iterable[PendingWorkload]:
        return _of_jobs(defined, queue, everyone, objects)

    return _summary(queues, defined.cluster_queues, waiting, path, query)


def of_workloads(objects: Objects, path: tuple[str, ...], query: Mapping[str, str]) -> Object:
    """Return the same response as `visible`, but computed from the existing Workloads, LocalQueues and
    ClusterQueues."""
    spec = {key: found.get("spec") or {} for key, found in objects[kinds.LOCAL_QUEUES].items()}
    queues = {key: str(found.get("clusterQueue") or "") for key, found in spec.items()}

    def waiting(queue: str) -> Iterable[PendingWorkload]:
        for found in objects[kinds.WORKLOADS].values():
            one = _of_workload(found)
            if one is not None and queues.get(one.local) == queue:
                yield one

    return _summary(queues, objects[kinds.CLUSTER_QUEUES], waiting, path, query)


def status(code: int, reason: str, message: str) -> Object:
    """Return a Status object that reports a failure."""
    words = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **words}


def _summary(
    queues: Mapping[str, str],
    cluster_queues: Container[str],
    waiting: Callable[[str], Iterable[PendingWorkload]],
    path: tuple[str, ...],
    query: Mapping[str, str],
) -> Object:
    """Return the response to a request for a path. `queues`: the ClusterQueue of each LocalQueue. `waiting`: a function
    that returns the pending Workloads of a ClusterQueue in any order."""
    match path:
        case (version, "clusterqueues", name, "pendingworkloads"):
            queue, local, existing = name, "", name in cluster_queues
        case (version, "namespaces", namespace, "localqueues", name, "pendingworkloads"):
            local = f"{namespace}/{name}"
            queue, existing = queues.get(local, ""), local in queues
        case _:
            return status(404, "NotFound", "the server could not find the requested resource")
    if not existing:
        return status(404, "NotFound", f'{path[-3]}.{kinds.VISIBILITY} "{name}" not found')
    try:
        limit, offset = _number(query, "limit", DEFAULT_LIMIT), _number(query, "offset", 0)
    except ValueError as error:
        return status(400, "BadRequest", str(error))
    placed = [one for one in _placed(waiting(queue)) if not local or one[0].local == local]
    items = [_item(*one) for one in placed[offset : offset + min(limit, MOST)]]
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": f"{kinds.VISIBILITY}/{version}",
        "metadata": {},
        "items": items,
    }


def _placed(waiting: Iterable[PendingWorkload]) -> Iterable[tuple[PendingWorkload, int, int]]:
    """Yield the pending Workloads of a ClusterQueue in order. Each is yielded with its position in the ClusterQueue and
    its position in its LocalQueue."""
    before: Counter[str] = Counter()
    for position, one in enumerate(sorted(waiting, key=lambda one: (one.used, -one.priority, one.arrived))):
        yield one, position, before[one.local]
        before[one.local] += 1


def _item(one: PendingWorkload, position: int, local_position: int) -> Object:
    return {
        "metadata": {key: one.metadata[key] for key in _META if key in one.metadata},
        "priority": one.priority,
        "localQueueName": one.local.partition("/")[2],
        "positionInClusterQueue": position,
        "positionInLocalQueue": local_position,
    }


def _of_jobs(
    defined: KueueDefinitions, queue: str, everyone: Iterable[GangView], objects: Objects
) -> Iterable[PendingWorkload]:
    workloads = objects.get(kinds.WORKLOADS, {})
    used = _used(defined, queue, objects.get(kinds.LOCAL_QUEUES, {}))
    for told in everyone:
        if told.stage is not GangStage.WAITING or kinds.cluster_queue_of(told.queue) != queue:
            continue
        if incomplete(told) or deactivated(told):
            continue
        workload = workloads.get(key_of(defined, told))
        if workload is None:  # it is created a moment after the job
            continue
        name = str((told.owners[0]["metadata"].get("labels") or {}).get(kinds.QUEUE_LABEL, ""))
        local = f"{told.namespace}/{name}"
        yield PendingWorkload(
            local=local,
            used=used.get(local, 0.0),
            priority=told.priority,
            arrived=(told.created_s, told.id),
            metadata=workload["metadata"],
        )


def _used(defined: KueueDefinitions, queue: str, existing: Mapping[str, Object]) -> dict[str, float]:
    """Return the past usage of each LocalQueue of a ClusterQueue that orders its jobs by usage."""
    of = {key: local for key, local in defined.local_queues.items() if local.cluster_queue == queue}
    told = {
        key: consumed.usage(defined, local, (existing.get(key) or {}).get("status") or {}) for key, local in of.items()
    }
    return {key: used for key, used in told.items() if used is not None}


def _of_workload(found: Object) -> PendingWorkload | None:
    """Return the Workload as a `PendingWorkload`; None if the Workload is not pending or has no owner."""
    meta, spec = found["metadata"], found.get("spec") or {}
    said = {one.get("type"): one.get("status") for one in (found.get("status") or {}).get("conditions") or ()}
    owners = meta.get("ownerReferences") or ()
    if not owners or spec.get("active") is False or "True" in (said.get("QuotaReserved"), said.get("Finished")):
        return None
    return PendingWorkload(
        local=f"{meta.get('namespace', '')}/{spec.get('queueName') or ''}",
        priority=int(spec.get("priority") or 0),
        arrived=(str(meta.get("creationTimestamp") or ""), str(meta.get("namespace")), str(owners[0].get("name"))),
        metadata=meta,
    )


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a number in the query of the request. Raises ValueError if the text is not a number."""
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{name} {text[:40]!r} is not a number of Workloads: write for instance {name}=100")
    return int(text)
