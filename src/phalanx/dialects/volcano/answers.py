"""The status that Volcano's users read: of PodGroups, and the allocated amounts of Queues.

A PodGroup's phase is Pending, Inqueue (its start was decided), Running (its minimum is bound or has ended), Completed
(all its pods have ended) or Unknown (some of its pods run, and the others cannot be scheduled). The numbers of
PodGroups on Queues are not written, as in Volcano since 1.10.


Source: pkg/scheduler/framework/session.go and pkg/scheduler/cache of v1.15.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import Answer, Object, Objects, Stage, Told
from phalanx.dialects.frame.peer_reasons import PEERS
from phalanx.dialects.frame.pod_requests import Asked
from phalanx.dialects.frame.quantities import quantity
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.volcano import kinds
from phalanx.dialects.volcano.definitions.hyper_nodes import HyperNodes
from phalanx.dialects.volcano.gangs import OBJECT, read_pod_group
from phalanx.model.pod import PODS
from phalanx.model.reason import Reason

_COUNTS: Final = frozenset({"pending", "running", "inqueue", "completed", "unknown"})
_OVER: Final = ("Succeeded", "Failed")


class Phase(StrEnum):
    """The phases of a PodGroup."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    COMPLETED = "Completed"
    UNKNOWN = "Unknown"


def answer(told: Told, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of a gang's PodGroup."""
    key = f"{told.namespace}/{told.options.get(OBJECT, '')}"
    if (group := objects.get(kinds.POD_GROUPS, {}).get(key)) is not None:
        yield Answer(kind=kinds.POD_GROUPS, key=key, status=pod_group_status(group, told, now))


def statuses(parents: Mapping[str, str], everyone: Iterable[Told], objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of PodGroups without pods, and of Queues. `parents`: queue -> its parent."""
    told = list(everyone)
    with_pods = {f"{one.namespace}/{one.options.get(OBJECT, '')}" for one in told}
    for key, group in objects.get(kinds.POD_GROUPS, {}).items():
        if key not in with_pods:
            yield Answer(kind=kinds.POD_GROUPS, key=key, status=pod_group_status(group, None, now))
    used = _allocated(parents, told)
    for name, queue in objects.get(kinds.QUEUES, {}).items():
        yield Answer(kind=kinds.QUEUES, key=name, status=queue_status(queue, used.get(name, {})))


def hyper_nodes(defined: HyperNodes, objects: Objects) -> Iterator[Answer]:
    """Yield the status of HyperNodes: the number of nodes in each, including the HyperNodes below it."""
    if not defined.all:
        return
    counts: Counter[str] = Counter()
    for name, node in objects.get(NODES, {}).items():
        counts.update(defined.around(name, (node.get("metadata") or {}).get("labels") or {}).values())
    there = objects.get(kinds.HYPER_NODES, {})
    for each in defined.all:
        old = (there.get(each.name) or {}).get("status") or {}
        yield Answer(kind=kinds.HYPER_NODES, key=each.name, status={**old, "nodeCount": counts[each.name]})


def pod_group_status(group: Object, told: Told | None, now: str) -> Object:
    """Return the status of a PodGroup. `told`: the gang of its pods; None if it has no pods. `now`: as a
    metav1.Time."""
    pods = [] if told is None else [pod for pod in told.owners if pod.get("kind") == "Pod"]
    phases = [_phase_of(pod) for pod in pods]
    counts = {name.lower(): phases.count(name) for name in ("Running", *_OVER)}
    placed = sum(phase in _OVER or _has_node(pod) for pod, phase in zip(pods, phases, strict=True))
    minimum = _minimum(group)
    phase, reason = Phase.PENDING, None if told is None else told.reason
    if told is not None and told.stage in (Stage.STARTING, Stage.RESERVED):
        phase = Phase.INQUEUE
    if pods and len(pods) >= minimum and all(each in _OVER for each in phases):
        phase, reason = Phase.COMPLETED, None
    elif placed >= minimum:
        phase, reason = Phase.RUNNING, None
    elif counts["running"] and reason is not None:
        phase = Phase.UNKNOWN
    said = _said(phase, reason, f"{max(0, minimum - placed)}/{len(pods)} tasks in gang unschedulable: ")
    status: Object = {"phase": str(phase)} | {name: count for name, count in counts.items() if count}
    if conditions := list(_conditions(said, (group.get("status") or {}).get("conditions") or (), now)):
        status["conditions"] = conditions
    return status


def queue_status(queue: Object, used: Asked) -> Object:
    """Return the status of a Queue with the allocated amounts `used`. Users and controllers set its state; only the
    first state, Open, is set here."""
    old = queue.get("status") or {}
    said = {resource: quantity(resource, amount) for resource, amount in used.items()}
    kept = {key: value for key, value in old.items() if key not in _COUNTS}
    allocated = {**dict.fromkeys(old.get("allocated") or (), "0"), **said}
    return {**kept, "state": old.get("state") or "Open", "allocated": allocated}


# --- inside -----------------------------------------------------------------------------------------------------------


def _minimum(group: Object) -> int:
    try:
        return read_pod_group(group.get("spec") or {}).minimum
    except Misread:
        return 1


def _phase_of(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _has_node(pod: Object) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def _allocated(parents: Mapping[str, str], everyone: Iterable[Told]) -> dict[str, Asked]:
    """Return the allocated amounts of each queue, including the queues below it."""
    found: dict[str, Asked] = {}
    for told in everyone:
        held = _held(told)
        queue, seen = told.queue, set[str]()
        while held and queue and queue not in seen:
            seen.add(queue)
            total = found.setdefault(queue, {})
            for resource, amount in held.items():
                total[resource] = total.get(resource, 0) + amount
            queue = parents.get(queue, kinds.ROOT if queue != kinds.ROOT else "") or ""
    return found


def _held(told: Told) -> Asked:
    """Return the amounts that a gang's start granted."""
    total: Asked = {}
    for each in told.pod_sets if told.stage not in (Stage.WAITING, Stage.FINISHED) else ():
        for resource, value in {**dict(each.request), PODS: 1}.items():
            total[resource] = total.get(resource, 0) + int(value) * each.placed
    return {resource: amount for resource, amount in total.items() if amount}


def _said(phase: Phase, reason: Reason | None, lacking: str) -> dict[str, tuple[str, str]]:
    """Return the present conditions: type -> (reason, message)."""
    if phase in (Phase.PENDING, Phase.UNKNOWN) and reason is not None:
        word = PEERS[reason.code].volcano
        return {
            "Unschedulable": (
                word if isinstance(word, str) else str(reason.code),
                f"{lacking}{reason.code}: {reason.text}",
            )
        }
    if phase in (Phase.RUNNING, Phase.COMPLETED):
        return {"Scheduled": ("tasks in gang are ready to be scheduled", "")}
    return {}


def _conditions(
    said: Mapping[str, tuple[str, str]], old: Sequence[Mapping[str, Any]], now: str
) -> Iterator[dict[str, Any]]:
    """Yield the conditions, at most one of each type. Old conditions of other types stay, as in Volcano, where the
    newest counts."""
    yield from (dict(one) for one in old if one.get("type") not in said)
    for kind, (reason, message) in said.items():
        before = next((one for one in old if one.get("type") == kind and one.get("reason") == reason), None)
        since = (before or {}).get("lastTransitionTime") or now  # unchanged while the reason is
        yield {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since}
