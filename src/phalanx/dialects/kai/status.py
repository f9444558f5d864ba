"""Write the objects that KAI's users read: the PodGroup of each gang, and the status of PodGroups and Queues.

As in KAI, amounts are written as quantities of the Kubernetes API (cpu in cores, memory in bytes).


Source: pkg/apis/scheduling/{v2,v2alpha2}, pkg/podgroupcontroller and pkg/queuecontroller of v0.17.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

from phalanx.dialects.frame.dialect import BROUGHT_BY, Answer, GangStage, GangView, Object, Objects, PodSet, Said
from phalanx.dialects.frame.peer_reasons import Peer, word
from phalanx.dialects.frame.pod_requests import amounts as read_amounts
from phalanx.dialects.frame.pod_requests import quantity
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.grouper import (
    DEFAULT_QUEUE,
    DEPLOYMENT,
    DEVICES,
    FRACTION,
    GROUP_NAME,
    MEMORY,
    QUEUE,
    owner_of,
)
from phalanx.dialects.kai.pod_groups import PodGroupTerms, terms
from phalanx.dialects.kai.queues import GPU, RESOURCES, UNLIMITED, KaiDefinitions, KaiQueue
from phalanx.model.pod import CPU, PODS, Amount
from phalanx.model.reason import ReasonCode

UNSCHEDULABLE: Final = "UnschedulableOnNodePool"
_NO_NODE: Final = "PodSchedulingErrors"  # the reason if no nodes fit the gang
_OF_NODES: Final = frozenset(
    {ReasonCode.NO_ROOM, ReasonCode.NEVER_FITS, ReasonCode.ROOM_KEPT, ReasonCode.NO_NODE_MATCHES}
    | {ReasonCode.NO_DOMAIN, ReasonCode.PLACEMENT_RULES, ReasonCode.RESERVED, ReasonCode.PREEMPTING}
)
_PLACED = frozenset({GangStage.STARTING, GangStage.RUNNING, GangStage.LEAVING})
_PART = re.compile(r"1|0?\.[0-9]{1,9}")
Sums = dict[str, Amount]


def pod_group(defined: KaiDefinitions, told: GangView, objects: Objects, now: str) -> Answer | None:
    """Return the desired PodGroup of a gang; None if the gang has no PodGroup."""
    name = kinds.pod_group_of(told.id)
    if not name:
        return None
    key = f"{told.namespace}/{name}"
    existing = objects.get(kinds.POD_GROUPS, {}).get(key)
    found = terms(defined, _said(told), objects)
    body = None if GROUP_NAME in told.options or found.awaits is not None else _body(name, told, found)
    status = _status(defined, told, found, (existing or {}).get("status") or {}, objects, now)
    return Answer(kind=kinds.POD_GROUPS, key=key, body=body, status=status)


def queues(defined: KaiDefinitions, everyone: Iterable[GangView], objects: Objects) -> Iterator[Answer]:
    """Yield the status of each Queue, which has the allocated and the requested amounts of all gangs in the Queue and
    in the Queues below. KAI's installation creates two default Queues. Phalanx creates them when the first Queue or
    gang exists."""
    gangs = list(everyone)
    sums: dict[str, tuple[Sums, Sums, Sums]] = {name: ({}, {}, {}) for name in defined.known}
    for told in gangs:
        queue = defined.known.get(kinds.queue_of(told.queue))
        if queue is None or told.stage is GangStage.FINISHED:
            continue
        allocated, requested = amounts(told)
        preemptible = terms(defined, _said(told), objects).preemptible
        for name in (queue.name, *queue.above):
            for total, more in zip(sums[name], (allocated, {} if preemptible else allocated, requested), strict=True):
                _add(total, more)
    for name, queue in defined.known.items():
        yield Answer(kind=kinds.QUEUES, key=name, status=_queue_status(queue, sums[name]))
    if gangs or defined.known:
        for name, body in BROUGHT.items():
            if name not in defined.known:
                yield Answer(kind=kinds.QUEUES, key=name, body=body)


def amounts(told: GangView) -> tuple[Sums, Sums]:
    """Return the amounts of a gang's placed pods, and the amounts of all its pods."""
    allocated: Sums = {}
    requested: Sums = {}
    for pods in told.pod_sets:
        placed = pods.placed if told.stage in _PLACED else 0
        for resource, amount in (*pods.request, *_part_of_gpus(told, pods)):
            if resource != PODS:
                _add(requested, {resource: amount * pods.count})
                _add(allocated, {resource: amount * placed})
    return {name: amount for name, amount in allocated.items() if amount}, requested


def _queue(name: str, parent: str = "") -> Object:
    unlimited = {name: {"quota": 0, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "gpu", "memory")}
    spec = {"resources": unlimited, **({"parentQueue": parent} if parent else {})}
    meta = {"name": name, "labels": {BROUGHT_BY: kinds.NAME}}
    return {"apiVersion": kinds.QUEUES.api_version, "kind": kinds.QUEUES.name, "metadata": meta, "spec": spec}


_PARENT_QUEUE: Final = "default-parent-queue"
BROUGHT: Final = {_PARENT_QUEUE: _queue(_PARENT_QUEUE), DEFAULT_QUEUE: _queue(DEFAULT_QUEUE, _PARENT_QUEUE)}


# --- internal ---------------------------------------------------------------------------------------------------------


def _part_of_gpus(told: GangView, pods: PodSet) -> Iterator[tuple[str, Amount]]:
    """Yield the amount of GPUs that is charged for a pod of the pod set, if the pod gets parts of GPUs. A part that is
    requested as an amount of memory is charged as whole GPUs. Other parts are rounded down to thousandths, which are
    the smallest unit of quantities."""
    source = told.owners[0] if told.owners and told.owners[0].get("kind") == "Pod" else pods.template
    notes = (source.get("metadata") or {}).get("annotations") or {}
    count, part = str(notes.get(DEVICES, "1")), str(notes.get(FRACTION, "1" if MEMORY in notes else ""))
    if _PART.fullmatch(part) and count.isdecimal():
        yield GPU, Fraction(int(Fraction(part) * 1000), 1000) * int(count[:9])


def _said(told: GangView) -> Said:
    return Said(
        gang=told.id,
        namespace=told.namespace,
        queue=told.options.get(QUEUE, told.queue),
        options=told.options,
        priority=told.priority,
    )


def _add(total: Sums, more: Mapping[str, Amount]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _quantities(sums: Sums) -> Object:
    return {name: quantity(name, amount) for name, amount in sorted(sums.items())}


def _body(name: str, told: GangView, found: PodGroupTerms) -> Object:
    owner = owner_of(told.options)
    first = told.owners[0]["metadata"]
    ref = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    if owner.kind == DEPLOYMENT or not owner.uid:
        ref = {"apiVersion": "v1", "kind": "Pod", "name": first["name"], "uid": first["uid"]}
    spec: Object = {"queue": found.queue}
    if not found.shape.roles:
        spec["minMember"] = found.shape.minimum
    elif found.shape.groups:
        root, *others = found.shape.groups
        leaves = {role: each.minimum for role, each in found.shape.roles.items()}
        spec["minSubGroup"] = root["minimum"]
        spec["subGroups"] = [_sub_group(each, str(root["name"]), leaves) for each in others]
    else:
        spec["minSubGroup"] = len(found.shape.roles)
        spec["subGroups"] = [{"name": role, "minMember": one.minimum} for role, one in found.shape.roles.items()]
    if found.priority_class:
        spec["priorityClassName"] = found.priority_class
    return {
        "apiVersion": kinds.POD_GROUPS.api_version,
        "kind": kinds.POD_GROUPS.name,
        "metadata": {
            "name": name,
            "namespace": told.namespace,
            "labels": first.get("labels") or {},
            "ownerReferences": [ref],
        },
        "spec": spec,
    }


def _sub_group(group: Object, root: str, leaves: Mapping[str, int]) -> Object:
    parent = {"parent": group["parent"]} if group["parent"] != root else {}
    least = {"minMember": leaves[group["name"]]} if group["name"] in leaves else {}
    return {"name": group["name"], **parent, **least}


def _status(
    defined: KaiDefinitions, told: GangView, found: PodGroupTerms, old: Object, objects: Objects, now: str
) -> Object:
    """Return the desired status of a PodGroup. `old`: its present status."""
    allocated, requested = amounts(told)
    finished = told.stage is GangStage.FINISHED
    resources = {
        "allocated": _quantities(allocated),
        "allocatedNonPreemptible": {} if found.preemptible else _quantities(allocated),
        "requested": {} if finished else _quantities(requested),
    }
    kept = {"resourcesStatus": resources}
    waits = told.stage is GangStage.WAITING and told.reason is not None
    return {**kept, "schedulingConditions": [_condition(defined, told, found, old, objects, now)]} if waits else kept


def _condition(
    defined: KaiDefinitions, told: GangView, found: PodGroupTerms, old: Object, objects: Objects, now: str
) -> Object:
    """Return the scheduling condition of a gang that cannot be scheduled. If its content did not change, return the old
    condition; otherwise the new condition gets the next `transitionID`."""
    assert told.reason is not None
    text = f"{told.reason.code}: {told.reason.text}"
    kai = word(told.reason.code, Peer.KAI, told.reason.numbers)
    reasons: list[Object] = []
    if isinstance(kai, str):
        details = {"queueDetails": _details(defined, told, found, objects)}
        reasons = [{"reason": kai, "message": text, "details": details}]
    elif told.reason.code in _OF_NODES:
        reasons = [{"reason": _NO_NODE, "message": text}]
    said = {
        "type": UNSCHEDULABLE,
        "status": "True",
        "nodePool": "default",
        "reason": "Unschedulable",
        "message": text,
        "reasons": reasons,
    }
    before: Object = next(iter(old.get("schedulingConditions") or ()), {})
    if {key: before.get(key) for key in said} == said:
        return dict(before)
    number = str(before.get("transitionID") or "0")
    return {**said, "lastTransitionTime": now, "transitionID": str(int(number) + 1 if number.isdigit() else 1)}


def _details(defined: KaiDefinitions, told: GangView, found: PodGroupTerms, objects: Objects) -> Object:
    """Return the allowed and the used amounts of the quota that is too small for the gang, in the form in which KAI
    shows them. The quota belongs to the gang's Queue or to a Queue above it."""
    short = kinds.queue_of(str(told.reason.numbers.get("queue", ""))) if told.reason is not None else ""
    name = short if short in defined.known else found.queue
    queue, asked = defined.known.get(name), amounts(told)[1]
    status = (objects.get(kinds.QUEUES, {}).get(name) or {}).get("status") or {}
    details: Object = {
        "name": name,
        "podGroupRequestedResources": _all_plain(asked),
        "podGroupRequestedNonPreemptibleResources": _all_plain({} if found.preemptible else asked),
        "queueAllocatedResources": _all_plain(read_amounts(status.get("allocated"))),
        "queueAllocatedNonPreemptibleResources": _all_plain(read_amounts(status.get("allocatedNonPreemptible"))),
        "queueRequestedResources": _all_plain(read_amounts(status.get("requested"))),
    }
    if queue is not None:
        details["queueDeservedResources"] = _all_plain(queue.deserved, UNLIMITED)
        details["queueResourceLimits"] = _all_plain(queue.limits, UNLIMITED)
    return details


def _all_plain(sums: Mapping[str, Amount], absent: int = 0) -> Object:
    """Return the amounts of cpu, memory and gpu as `_plain` writes them. `absent`: the amount to write for a resource
    that `sums` does not name."""
    return _plain({name: sums.get(name, absent) for name, _ in RESOURCES.values()})


def _plain(sums: Mapping[str, Amount]) -> Object:
    """Return amounts without suffixes for bytes. As in KAI, a number of GPUs above one is written without its fraction,
    and an unlimited number of GPUs is written as 0."""
    shown = {name: _gpus(amount) if name == GPU else amount for name, amount in sums.items()}
    return {
        name: quantity(name, amount) if name == CPU or not isinstance(amount, int) else str(amount)
        for name, amount in sorted(shown.items())
    }


def _gpus(amount: Amount) -> Amount:
    return amount if 0 < amount < 1 else max(0, int(amount))


def _queue_status(queue: KaiQueue, sums: tuple[Sums, Sums, Sums]) -> Object:
    names = ("allocated", "allocatedNonPreemptible", "requested")
    status: Object = {name: _quantities(each) for name, each in zip(names, sums, strict=True)}
    return {**status, "childQueues": list(queue.children)} if queue.children else status
