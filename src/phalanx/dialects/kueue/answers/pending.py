"""Kueue's visibility API: who waits in a ClusterQueue or a LocalQueue, in the order in which they are tried.

    /apis/visibility.kueue.x-k8s.io/VERSION/clusterqueues/NAME/pendingworkloads
    /apis/visibility.kueue.x-k8s.io/VERSION/namespaces/NAMESPACE/localqueues/NAME/pendingworkloads

Positions count from 0. Those that are known not to fit stand in it, too; those that nobody wants to run (`active:
false`) do not.

Source: apis/visibility/v1beta2, pkg/visibility/storage of v0.19.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from phalanx.dialects.frame.dialect import Object, Objects, Stage, Told
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.names import key_of
from phalanx.dialects.kueue.answers.workloads import deactivated, incomplete
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions

GROUP: Final = "visibility.kueue.x-k8s.io"
DEFAULT_LIMIT, MOST = 1000, 100_000
_META = ("name", "namespace", "creationTimestamp", "ownerReferences")


def visible(
    defined: KueueDefinitions,
    everyone: Iterable[Told],
    objects: Objects,
    path: tuple[str, ...],
    query: Mapping[str, str],
) -> Object:
    """Return what is answered to a path below the group: a PendingWorkloadsSummary, or a Status that says why not."""
    match path:
        case (version, "clusterqueues", name, "pendingworkloads"):
            queue, local, there = name, "", name in defined.cluster_queues
        case (version, "namespaces", namespace, "localqueues", name, "pendingworkloads"):
            local = f"{namespace}/{name}"
            found = defined.local_queues.get(local)
            queue, there = (found.cluster_queue if found is not None else ""), found is not None
        case _:
            return status(404, "NotFound", "the server could not find the requested resource")
    if not there:
        return status(404, "NotFound", f'{path[-3]}.{GROUP} "{name}" not found')
    try:
        limit, offset = _number(query, "limit", DEFAULT_LIMIT), _number(query, "offset", 0)
    except ValueError as error:
        return status(400, "BadRequest", str(error))
    waiting = _waiting(defined, queue, everyone, objects)
    items = [item for item, own in waiting if not local or own == local][offset : offset + min(limit, MOST)]
    return {"kind": "PendingWorkloadsSummary", "apiVersion": f"{GROUP}/{version}", "metadata": {}, "items": items}


def status(code: int, reason: str, message: str) -> Object:
    """Return a Failure with that code."""
    words = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **words}


def _waiting(
    defined: KueueDefinitions, queue: str, everyone: Iterable[Told], objects: Objects
) -> list[tuple[Object, str]]:
    """All that wait in a ClusterQueue, in order; each with `namespace/name` of its LocalQueue."""
    waiting = [
        told
        for told in everyone
        if told.stage is Stage.WAITING
        and kinds.cluster_queue_of(told.queue) == queue
        and not incomplete(told)
        and not deactivated(told)
    ]
    waiting.sort(key=lambda told: (-told.priority, told.created_s, told.id))
    workloads = objects.get(kinds.WORKLOADS, {})
    before: Counter[str] = Counter()
    found = []
    for position, told in enumerate(waiting):
        meta = (workloads.get(key_of(defined, told)) or {}).get("metadata") or {}
        name = str((told.owners[0]["metadata"].get("labels") or {}).get(kinds.QUEUE_LABEL, ""))
        local = f"{told.namespace}/{name}"
        item = {
            "metadata": {key: meta[key] for key in _META if key in meta},
            "priority": told.priority,
            "localQueueName": name,
            "positionInClusterQueue": position,
            "positionInLocalQueue": before[local],
        }
        before[local] += 1
        found.append((item, local))
    return found


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    """Raises ValueError."""
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{name} {text[:40]!r} is no number of Workloads: write for instance {name}=100")
    return int(text)
