"""Compute the statuses of PodGroups, Queues and HyperNodes, which Volcano's users read.

The first part computes which waiting PodGroups Volcano would admit to its queue (phase Inqueue). In Volcano, only pods
of an admitted PodGroup are scheduled. Phalanx starts a gang only when there are nodes for its minimum number of pods,
so the phase has no influence on its decisions. Phalanx computes the phase because users and tools read it: a PodGroup
that stays Pending requests more than its queue or the cluster can have.

A PodGroup without `minResources` is always admitted. For any other PodGroup, its `minResources` are added to the
amounts of the PodGroups that are running or were admitted before: once for its queue, and once for the cluster. The
PodGroup is admitted if both sums are small enough. The sum for its queue must be within the queue's capability (plugins
proportion and capacity). The sum for the cluster must be within 1.2 times the amounts of all nodes (plugin overcommit).

The second part writes the phases of PodGroups and the allocated amounts of Queues. A PodGroup's phase is Pending,
Inqueue (it was admitted, or the scheduler decided to start it), Running (its minimum number of pods is bound or has
ended), Completed (all its pods have ended) or Unknown (some of its pods run, but fewer than its minimum). As in Volcano
since 1.10, the status of a Queue does not contain numbers of PodGroups.

Sources: pkg/scheduler/{actions/enqueue,plugins/overcommit,plugins/proportion}, pkg/scheduler/framework/session.go and
pkg/scheduler/cache of v1.15.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import Answer, GangStage, GangView, Object, Objects
from phalanx.dialects.frame.peer_reasons import PEERS
from phalanx.dialects.frame.pod_requests import Asked, amounts, pod_requests, quantity
from phalanx.dialects.job_kinds.sent_volcano_job import is_sent
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.volcano import kinds
from phalanx.dialects.volcano.definitions.hyper_nodes import HyperNodes
from phalanx.dialects.volcano.pod_groups import OBJECT, read_pod_group
from phalanx.model.pod import PODS, Amount
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason

OVERCOMMIT: Final = 1.2  # the default of Volcano's argument overcommit-factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """The data of a PodGroup that decide about its admission. `queue`: its queue in the tree. `asks`: its minResources.
    `holds`: the amounts that its pods hold. `waits`: True if its phase is Pending, so that it waits for admission.
    `rank`: its sort key in the order of jobs; the PodGroup with the lowest key is admitted first."""

    key: str
    queue: str
    asks: Asked
    holds: Asked
    waits: bool
    rank: tuple[float, str, str]


def taken_up(
    claimants: Sequence[Claimant], total: Asked, limits: Mapping[str, Asked], paths: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the keys of the waiting PodGroups that are admitted. `total`: the amounts of all nodes. `limits`: the
    capability of each queue. `paths`: for each queue, the queue itself and all queues above it. If a queue has no entry
    in `paths`, only its own capability is checked."""
    used: dict[str, Asked] = {"": {}}
    for each in claimants:
        if not each.waits:  # if pods use more than minResources, only the cluster is charged the rest
            _charge(used, ("",), _larger(each.asks, each.holds))
            _charge(used, paths.get(each.queue, (each.queue,)), each.asks or each.holds)
    for each in sorted((one for one in claimants if one.waits), key=lambda one: one.rank):
        path = paths.get(each.queue, (each.queue,))
        if _fits(each.asks, used, total, limits, path):
            _charge(used, ("", *path), each.asks)
            yield each.key


def _fits(
    asks: Asked, used: Mapping[str, Asked], total: Asked, limits: Mapping[str, Asked], path: Sequence[str]
) -> bool:
    """Return whether `asks` plus the amounts in use are within the amounts of the cluster and within the capability of
    each queue of the path."""
    for resource, amount in asks.items():
        if amount and used[""].get(resource, 0) + amount > OVERCOMMIT * total.get(resource, 0):
            return False
        for queue in path:
            most = limits.get(queue, {}).get(resource, total.get(resource, 0))
            if amount and used.get(queue, {}).get(resource, 0) + amount > most:
                return False
    return True


def _larger(one: Asked, other: Asked) -> Asked:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


def _charge(used: dict[str, Asked], queues: Sequence[str], amounts: Asked) -> None:
    for queue in queues:
        total = used.setdefault(queue, {})
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, 0) + amount


# --- statuses ---------------------------------------------------------------------------------------------------------

_COUNTS: Final = frozenset({"pending", "running", "inqueue", "completed", "unknown"})
_OVER: Final = ("Succeeded", "Failed")
# The two Queues that Volcano's scheduler creates when it starts.
_STANDING: Final[Mapping[str, Object]] = {kinds.ROOT: {"weight": 1, "reclaimable": False}, kinds.DEFAULT: {"weight": 1}}
_NOTHING_ALLOCATED: Final = {"cpu": "0", "memory": "0"}  # the status contains these two resources in any case


class GroupPhase(StrEnum):
    """The phases of a PodGroup."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    COMPLETED = "Completed"
    UNKNOWN = "Unknown"


def answer(told: GangView, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of a gang's PodGroup."""
    key = f"{told.namespace}/{told.options.get(OBJECT, '')}"
    if (group := objects.get(kinds.POD_GROUPS, {}).get(key)) is not None:
        yield Answer(kind=kinds.POD_GROUPS, key=key, status=pod_group_status(group, told, now))


def statuses(queues: Mapping[str, Queue], everyone: Iterable[GangView], objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of PodGroups without pods, of PodGroups that are admitted now, and of Queues. `queues`: the
    queues of the definitions by name."""
    listed = list(everyone)
    told = {f"{one.namespace}/{one.options.get(OBJECT, '')}": one for one in listed}
    groups, existing_queues = objects.get(kinds.POD_GROUPS, {}), objects.get(kinds.QUEUES, {})
    waiting: dict[str, Object] = {}
    for key, group in groups.items():
        status = group.get("status") or {} if key in told else pod_group_status(group, None, now)
        if status.get("phase") == GroupPhase.PENDING and not _is_of_sent_job(group, objects.get(kinds.JOBS, {})):
            waiting[key] = status
        if key not in told:
            yield Answer(kind=kinds.POD_GROUPS, key=key, status=status)
    for key in _taken_up(waiting, groups, told, queues, objects.get(NODES, {})):
        yield Answer(kind=kinds.POD_GROUPS, key=key, status={**waiting[key], "phase": str(GroupPhase.INQUEUE)})
    used = _allocated({name: queue.parent for name, queue in queues.items()}, listed)
    for name, queue in existing_queues.items():
        yield Answer(kind=kinds.QUEUES, key=name, status=queue_status(queue, used.get(kinds.tree_name(name), {})))
    if groups or existing_queues:
        yield from _standing_queues(existing_queues, used)


def _standing_queues(existing_queues: Mapping[str, Object], used: Mapping[str, Asked]) -> Iterator[Answer]:
    """Yield the two Queues that Volcano's scheduler creates when it starts. Phalanx creates them when the first object
    of Volcano exists, so a cluster without such objects does not get these Queues."""
    for name, spec in _STANDING.items():
        if name not in existing_queues:
            kind = {"apiVersion": kinds.QUEUES.api_version, "kind": kinds.QUEUES.name}
            body: Object = {**kind, "metadata": {"name": name}, "spec": spec}
            yield Answer(
                kind=kinds.QUEUES, key=name, body=body, status=queue_status(body, used.get(kinds.tree_name(name), {}))
            )


def hyper_nodes(defined: HyperNodes, objects: Objects) -> Iterator[Answer]:
    """Yield the status of each HyperNode, which is the number of nodes in it and in the HyperNodes below it."""
    if not defined.all:
        return
    counts: Counter[str] = Counter()
    for name, node in objects.get(NODES, {}).items():
        counts.update(defined.around(name, (node.get("metadata") or {}).get("labels") or {}).values())
    hyper_nodes = objects.get(kinds.HYPER_NODES, {})
    for each in defined.all:
        old = (hyper_nodes.get(each.name) or {}).get("status") or {}
        yield Answer(kind=kinds.HYPER_NODES, key=each.name, status={**old, "nodeCount": counts[each.name]})


def pod_group_status(group: Object, told: GangView | None, now: str) -> Object:
    """Return the status of a PodGroup. `told`: the gang of its pods; None if the PodGroup has no pods. `now`: the
    present time as a metav1.Time."""
    pods = [] if told is None else [pod for pod in told.owners if pod.get("kind") == "Pod"]
    phases = [_phase_of(pod) for pod in pods]
    counts = {name.lower(): phases.count(name) for name in ("Running", *_OVER)}
    placed = sum(phase in _OVER or _has_node(pod) for pod, phase in zip(pods, phases, strict=True))
    minimum, old = _minimum(group), group.get("status") or {}
    ready = placed - counts["failed"] >= minimum
    phase = GroupPhase.INQUEUE if old.get("phase") == GroupPhase.INQUEUE else GroupPhase.PENDING
    if told is not None and told.stage in (GangStage.STARTING, GangStage.RESERVED):
        phase = GroupPhase.INQUEUE
    if counts["running"] and not ready:
        phase = GroupPhase.UNKNOWN
    elif pods and placed >= minimum:
        phase = GroupPhase.COMPLETED if placed == counts["succeeded"] + counts["failed"] else GroupPhase.RUNNING
    said = _said(ready, pods, None if told is None else told.reason, f"{max(0, minimum - placed)}/{len(pods)}")
    status: Object = {"phase": str(phase)} | {name: count for name, count in counts.items() if count}
    if conditions := list(_conditions(said, old.get("conditions") or (), now)):
        status["conditions"] = conditions
    return status


def queue_status(queue: Object, used: Asked) -> Object:
    """Return the status of a Queue with the allocated amounts `used`. Users and controllers change the state of a
    Queue; this function only sets the first state, Open."""
    old = queue.get("status") or {}
    said = {resource: quantity(resource, amount) for resource, amount in used.items()}
    kept = {key: value for key, value in old.items() if key not in _COUNTS}
    return {**kept, "state": old.get("state") or "Open", "allocated": {**_NOTHING_ALLOCATED, **said}}


# --- internal ---------------------------------------------------------------------------------------------------------


def _is_of_sent_job(group: Object, jobs: Mapping[str, Object]) -> bool:
    """Return whether the PodGroup belongs to a Job that another cluster runs. The PodGroup of such a Job must be
    admitted although it has no pods, because Volcano creates the pods only after the admission."""
    meta = group.get("metadata") or {}
    owners = {str(one.get("uid")) for one in meta.get("ownerReferences") or () if one.get("kind") == kinds.JOBS.name}
    found = (jobs.get(f"{meta.get('namespace')}/{one.get('name')}") for one in meta.get("ownerReferences") or ())
    return any(job is not None and job["metadata"]["uid"] in owners and is_sent(job) for job in found)


def _taken_up(
    waiting: Mapping[str, Object],
    groups: Mapping[str, Object],
    told: Mapping[str, GangView],
    queues: Mapping[str, Queue],
    nodes: Mapping[str, Object],
) -> Iterator[str]:
    """Yield the keys of the waiting PodGroups that Volcano would admit now."""
    if not waiting:
        return
    total: Asked = {}
    for node in nodes.values():
        for resource, amount in amounts((node.get("status") or {}).get("allocatable")).items():
            total[resource] = total.get(resource, 0) + amount
    limits = {name: dict(queue.quotas[0].limit) for name, queue in queues.items() if queue.quotas}
    paths = {name: tuple(_path(name, queues)) for name in queues}
    claimants = [_claimant(key, group, told.get(key), waits=key in waiting) for key, group in groups.items()]
    yield from taken_up(claimants, total, limits, paths)


def _path(name: str, queues: Mapping[str, Queue]) -> Iterator[str]:
    """Yield the queue and all queues above it. If the queues form a cycle, each queue is yielded once."""
    seen = set[str]()
    while name in queues and name not in seen:
        seen.add(name)
        yield name
        name = queues[name].parent


def _claimant(key: str, group: Object, told: GangView | None, *, waits: bool) -> Claimant:
    spec, meta = group.get("spec") or {}, group.get("metadata") or {}
    queue = told.queue if told is not None else kinds.tree_name(str(spec.get("queue") or kinds.DEFAULT))
    asks = {name: each for name, each in amounts(spec.get("minResources")).items() if name != PODS}
    rank = (-float(told.priority if told is not None else 0), str(meta.get("creationTimestamp")), key)
    holds = {} if told is None else {name: each for name, each in _held(told).items() if name != PODS}
    return Claimant(key=key, queue=queue, asks=asks, holds=holds, waits=waits, rank=rank)


def _minimum(group: Object) -> int:
    try:
        return read_pod_group(group.get("spec") or {}).minimum
    except Misread:
        return 1


def _phase_of(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _has_node(pod: Object) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def _allocated(parents: Mapping[str, str], everyone: Iterable[GangView]) -> dict[str, Asked]:
    """Return the allocated amounts of each queue. They include the amounts of the queues below it."""
    found: dict[str, Asked] = {}
    for told in everyone:
        held = _held(told)
        queue, seen = told.queue, set[str]()
        while held and queue and queue not in seen:
            seen.add(queue)
            total = found.setdefault(queue, {})
            for resource, amount in held.items():
                total[resource] = total.get(resource, 0) + amount
            queue = parents.get(queue) or (kinds.ROOT if queue != kinds.ROOT else "")
    return found


def _held(told: GangView) -> Asked:
    """Return the amounts of the pods that got capacity when the gang started. If the bound pods are not the same,
    because some were replaced or added later, return the amounts of the bound pods instead."""
    if told.stage in (GangStage.WAITING, GangStage.FINISHED):
        return {}
    total: Asked = {}
    bound = [pod for pod in told.owners if _has_node(pod) and _phase_of(pod) not in _OVER]
    if bound and len(bound) != sum(each.placed for each in told.pod_sets) and told.stage is GangStage.RUNNING:
        for pod in bound:
            _add(total, {**pod_requests(pod["spec"]), PODS: 1}, 1)
        return total
    for each in told.pod_sets:
        _add(total, {**dict(each.request), PODS: 1}, each.placed)
    return {resource: amount for resource, amount in total.items() if amount}


def _add(total: Asked, amounts: Mapping[str, Amount], times: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + int(amount) * times


def _said(ready: bool, pods: Sequence[Object], reason: Reason | None, lacking: str) -> dict[str, tuple[str, str]]:
    """Return the reason and the message of each present condition, by the type of the condition. `ready`: True if the
    minimum number of pods is bound or has succeeded. `lacking`: the number of missing pods and the number of all pods,
    as a text."""
    if not pods:
        return {}
    if ready:
        return {"Scheduled": ("tasks in gang are ready to be scheduled", "")}
    lacking = f"{lacking} tasks in gang unschedulable: "
    if reason is None:
        return {"Unschedulable": ("NotEnoughResources", f"{lacking}pod group is not ready")}
    word = PEERS[reason.code].volcano
    named = word if isinstance(word, str) else str(reason.code)
    return {"Unschedulable": (named, f"{lacking}{reason.code}: {reason.text}")}


def _conditions(
    said: Mapping[str, tuple[str, str]], old: Sequence[Mapping[str, object]], now: str
) -> Iterator[dict[str, object]]:
    """Yield the conditions, at most one of each type. As in Volcano, old conditions of other types stay in the list;
    users read the newest condition."""
    yield from (dict(one) for one in old if one.get("type") not in said)
    for kind, (reason, message) in said.items():
        before = next((one for one in old if one.get("type") == kind and one.get("reason") == reason), None)
        since = (before or {}).get("lastTransitionTime") or now  # the time changes only with the reason
        yield {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since}
