"""The stand-in with which a Reservation waits for room, and the part of the node that it keeps afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.dialects.frame.dialect import NodePart, Object, StandIn
from phalanx.dialects.frame.pod_requests import quantity
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.reservation.spec import AVAILABLE, ReservationSpec, template_of
from phalanx.model.pod import PODS, amounts

_HIGHEST = 2**31 - 1  # the priority of a Reservation that states none
_PARTS = ("affinity", "containers", "initContainers", "nodeSelector", "overhead", "tolerations")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def stand_in(obj: Object, reservation: ReservationSpec) -> StandIn:
    """Return the stand-in, a pod that does not exist and waits for the Reservation's room. It is charged to the system
    quota until it is placed. It never preempts and is never preempted."""
    meta, template = obj["metadata"], template_of(obj.get("spec") or {})
    spec = template.get("spec") or {}
    pod: Object = {
        "metadata": {
            "name": f"reservation/{reservation.name}",
            "namespace": str((template.get("metadata") or {}).get("namespace") or "default"),
            "uid": reservation.uid,
            "resourceVersion": "0",
            "creationTimestamp": meta.get("creationTimestamp"),
            "labels": {kinds.QUOTA_NAME: kinds.SYSTEM},
            "annotations": {"phalanx.dev/preemptible": "false"},
        },
        "spec": {
            **{part: spec[part] for part in _PARTS if spec.get(part)},
            "schedulerName": kinds.SCHEDULER_NAME,
            "priority": _priority(meta.get("labels") or {}, spec),
            "preemptionPolicy": "Never",
        },
        "status": {"phase": "Pending"},
    }
    if spec.get("nodeName"):
        pod["spec"]["affinity"] = _on_node(spec.get("affinity") or {}, str(spec["nodeName"]))
    return StandIn(kind=kinds.RESERVATIONS, key=reservation.name, pod=pod, asks=amounts(reservation.holds))


def part(reservation: ReservationSpec) -> NodePart:
    """Return the part of the node that the Reservation keeps."""
    holds = amounts(reservation.holds)
    return NodePart(name=reservation.part, node=reservation.node, allocatable=holds, closed=reservation.closed)


def available(reservation: ReservationSpec, node: str, now: str) -> Object:
    """Return the status of a Reservation that gets room on a node. `now`: as a metav1.Time."""
    since = {"lastProbeTime": now, "lastTransitionTime": now}
    return {
        "phase": AVAILABLE,
        "nodeName": node,
        "allocatable": {
            name: quantity(name, amount) for name, amount in sorted(reservation.holds.items()) if name != PODS
        },
        "conditions": [
            {"type": "Scheduled", "status": "True", "reason": "Scheduled", **since},
            {"type": "Ready", "status": "True", "reason": "Available", **since},
        ],
    }


def _priority(labels: Mapping[str, Any], spec: Object) -> int:
    if isinstance(said := spec.get("priority"), int):
        return said
    text = str(labels.get(kinds.PRIORITY, ""))
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else _HIGHEST


def _on_node(affinity: Object, node: str) -> Object:
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    nodes = affinity.get("nodeAffinity") or {}
    terms = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [*(term.get("matchFields") or ()), here]} for term in terms]
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": pinned}}}
