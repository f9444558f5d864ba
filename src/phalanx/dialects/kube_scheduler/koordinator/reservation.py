"""Handle Koordinator's Reservations. A Reservation reserves capacity on a node for certain pods, its *owners*.

The first part parses a Reservation and its phase.

The second part decides which pods may use a Reservation. The owners may use it, except for pods that select other
Reservations. A pod is an owner if it matches all conditions of at least one entry of the field `owners`. In the
annotation `reservation-affinity`, a pod may name one Reservation or select Reservations by labels. The pod then uses no
other Reservation. The same annotation lists the taints of Reservations that the pod tolerates.

The third part creates the *stand-in*, which is a pod that exists only in the scheduler and waits for capacity in place
of the Reservation. It also creates the part of the node that is reserved after the stand-in was placed.

The fourth part writes the phase, the conditions and the current owners of a Reservation. A Reservation has no phase (or
Pending) until it has capacity; then it is Available. A Reservation for one owner is Succeeded when this owner has
arrived. A Reservation is Failed when it has expired or its node is gone. A waiting Reservation has a condition with the
reason why it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from phalanx.client.kind import NODES
from phalanx.client.moment import MomentError, read_moment
from phalanx.dialects.frame.dialect import Answer, GangView, NodePart, Object, Objects, PartUse, StandIn
from phalanx.dialects.frame.pod_requests import Asked, pod_requests, quantity
from phalanx.dialects.frame.pod_requests import amounts as quantities
from phalanx.dialects.frame.selectors import selects
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.quota_tree import read_json
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.model.pod import PODS, amounts
from phalanx.model.reason import Reason

_DAY_S = 86_400.0  # the lifetime of a Reservation that states none
_PODS = 16  # the number of pods for which a Reservation for several owners reserves capacity, if it states no number
AVAILABLE, SUCCEEDED, FAILED = "Available", "Succeeded", "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationSpec:
    """A Reservation. `node`: the node on which the capacity is reserved; empty while the Reservation waits for
    capacity. `holds`: the reserved amounts. `once`: True if only one owner may use the Reservation. `expires_s`: the
    time when it expires (seconds since the epoch)."""

    name: str
    uid: str
    phase: str = ""
    node: str = ""
    holds: Asked = field(default_factory=dict)
    once: bool = True
    closed: bool = False
    expires_s: float = inf
    labels: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Object, ...] = ()
    taints: tuple[Object, ...] = ()

    @property
    def part(self) -> str:
        """Return the name of the node part that is reserved. The name contains the uid, so that a later Reservation of
        the same name has a different part."""
        return f"{self.name}.{self.uid[:8]}"

    @property
    def waits(self) -> bool:
        return self.phase not in (AVAILABLE, SUCCEEDED, FAILED)

    @property
    def keeps(self) -> bool:
        """Return whether the Reservation has reserved capacity on a node."""
        return self.phase == AVAILABLE and bool(self.node)


def read_reservation(obj: Object) -> ReservationSpec:
    """Parse a Reservation. Invalid values are treated as absent."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    once = spec.get("allocateOnce") is not False
    given = quantities(status.get("allocatable")) if status.get("phase") == AVAILABLE else None
    # After the amounts are allocated, later changes of the spec have no effect.
    asks = given or pod_requests(template_of(spec).get("spec") or {})
    return ReservationSpec(
        name=str(meta["name"]),
        uid=str(meta["uid"]),
        phase=str(status.get("phase") or ""),
        node=str(status.get("nodeName") or ""),
        holds={**asks, PODS: 1 if once else asks.get(PODS, _PODS)},
        once=once,
        closed=spec.get("unschedulable") is True,
        expires_s=_expires_s(meta, spec),
        labels={str(key): str(text) for key, text in (meta.get("labels") or {}).items()},
        owners=_mappings(spec.get("owners")),
        taints=_mappings(spec.get("taints")),
    )


def template_of(spec: Mapping[str, object]) -> Object:
    """Return the pod template of a Reservation; empty if it is invalid."""
    found = spec.get("template")
    return found if isinstance(found, dict) else {}


def _expires_s(meta: Object, spec: Object) -> float:
    """Return the time of expiry. A Reservation with a lifetime (`ttl`) of 0 never expires, even if `expires` is set."""
    try:
        ttl_s = _DAY_S if spec.get("ttl") is None else duration_s(str(spec["ttl"]))
        if ttl_s <= 0:
            return inf
        if spec.get("expires") is not None:
            return read_moment(spec["expires"])
        return read_moment(meta["creationTimestamp"]) + ttl_s
    except (MomentError, Misread, LookupError):
        return inf


def _mappings(listed: object) -> tuple[Object, ...]:
    return tuple(one for one in listed if isinstance(one, dict)) if isinstance(listed, Iterable) else ()


# --- owners -----------------------------------------------------------------------------------------------------------

_ORDER = ("Gt", "Lt")
_NEEDS = frozenset({"name", "requiredDuringSchedulingIgnoredDuringExecution", "reservationSelector"})
_NOTHING: Mapping[str, Any] = {}


def part_use(pod: Object, kept: Iterable[ReservationSpec]) -> PartUse | None:
    """Return the Reservations that the pod may use; None if it may use no Reservation and requires none."""
    notes = pod["metadata"].get("annotations") or _NOTHING
    wants = read_json(notes.get(kinds.AFFINITY))
    wants = wants if isinstance(wants, Mapping) else _NOTHING
    names = tuple(one.part for one in kept if _owns(pod, one) and _wanted(wants, one) and _is_exact(pod, one))
    required = bool(_NEEDS.intersection(key for key, said in wants.items() if said))
    return PartUse(names=names, required=required) if names or required else None


def _owns(pod: Object, reservation: ReservationSpec) -> bool:
    return any(_is_owner(pod, one) for one in reservation.owners)


def _is_owner(pod: Object, entry: Object) -> bool:
    meta = pod["metadata"]
    named, controller, selector = entry.get("object"), entry.get("controller"), entry.get("labelSelector")
    if named and not _says(meta, named, ("uid", "name", "namespace")):
        return False
    if controller and not _is_controlled(meta, controller):
        return False
    return selector is None or selects(selector, meta.get("labels") or {})


def _is_controlled(meta: Object, controller: Object) -> bool:
    if controller.get("namespace") and controller["namespace"] != meta.get("namespace"):
        return False
    parts = ("controller", "uid", "name", "kind", "apiVersion")
    return any(_says(owner, controller, parts) for owner in meta.get("ownerReferences") or ())


def _says(has: Mapping[str, object], said: Mapping[str, object], parts: Iterable[str]) -> bool:
    return all(has.get(part) == said[part] for part in parts if said.get(part))


def _wanted(wants: Mapping[str, Any], reservation: ReservationSpec) -> bool:
    if wants.get("name"):
        return bool(wants["name"] == reservation.name)
    if not selects({"matchLabels": wants.get("reservationSelector") or {}}, reservation.labels):
        return False
    required = wants.get("requiredDuringSchedulingIgnoredDuringExecution") or _NOTHING
    terms = required.get("reservationSelectorTerms")
    if terms is not None and not any(_matches(term, reservation.labels) for term in terms):
        return False
    hard = (taint for taint in reservation.taints if taint.get("effect") != "PreferNoSchedule")
    return all(any(_tolerates(one, taint) for one in wants.get("tolerations") or ()) for taint in hard)


def _matches(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a NodeSelectorTerm matches the Reservation's labels; an empty term matches nothing."""
    said = term.get("matchExpressions") or ()
    simple = [one for one in said if one.get("operator") not in _ORDER]
    if not said or not selects({"matchExpressions": simple}, labels):
        return False
    return all(_compares(one, labels) for one in said if one.get("operator") in _ORDER)


def _compares(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    try:
        has, said = int(labels[str(expression["key"])]), int(expression["values"][0])
    except (LookupError, TypeError, ValueError):
        return False
    return has > said if expression["operator"] == "Gt" else has < said


def _tolerates(toleration: Mapping[str, object], taint: Object) -> bool:
    """Return whether the toleration matches the taint, like `ToleratesTaint` of k8s.io/api/core/v1."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def _is_exact(pod: Object, reservation: ReservationSpec) -> bool:
    """Return whether the Reservation reserves exactly the amounts that the pod requests, for the resources that the
    annotation `exact-match-reservation` names. Return True if the pod has no such annotation."""
    said = read_json((pod["metadata"].get("annotations") or _NOTHING).get(kinds.EXACT))
    named = said.get("resourceNames") if isinstance(said, Mapping) else None
    if not named:
        return True
    asks: Asked = pod_requests(pod.get("spec") or {})
    return all(asks.get(str(name), 0) == reservation.holds.get(str(name), 0) for name in named)


# --- stand-in and part ------------------------------------------------------------------------------------------------

_HIGHEST = 2**31 - 1  # the priority of a Reservation that states none
_PARTS = ("affinity", "containers", "initContainers", "nodeSelector", "overhead", "tolerations")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def stand_in(obj: Object, reservation: ReservationSpec) -> StandIn:
    """Return the stand-in, which is a pod that exists only in the scheduler and waits for the capacity of the
    Reservation. It is charged to the system quota until it is placed. It never preempts other pods and is never
    preempted."""
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
    """Return the part of the node that is reserved for the Reservation."""
    holds = amounts(reservation.holds)
    return NodePart(name=reservation.part, node=reservation.node, allocatable=holds, closed=reservation.closed)


def available(reservation: ReservationSpec, node: str, now: str) -> Object:
    """Return the status of a Reservation that gets capacity on a node. `now`: the present time as a metav1.Time."""
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


def _priority(labels: Mapping[str, object], spec: Object) -> int:
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


# --- status -----------------------------------------------------------------------------------------------------------

_OVER = frozenset({"Succeeded", "Failed"})


def statuses(everyone: Iterable[GangView], objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of every Reservation. `now`: as a metav1.Time."""
    found = objects.get(kinds.RESERVATIONS, {})
    if not found:
        return
    users: dict[str, list[Object]] = {}
    reasons: dict[str, Reason] = {}
    for told in everyone:
        for pod in told.owners:
            if told.reason is not None:
                reasons[str(pod["metadata"]["uid"])] = told.reason
            if used := _used(pod):
                users.setdefault(used, []).append(pod)
    nodes = objects.get(NODES, {})
    for key, obj in found.items():
        reservation, status = read_reservation(obj), obj.get("status") or {}
        if reservation.waits or reservation.keeps:
            gone = reservation.keeps and reservation.node not in nodes
            over = gone or read_moment(now) >= reservation.expires_s
            new = _expired(status, now) if over else _living(obj, reservation, users, reasons, now)
            again_s = None if over or reservation.expires_s > _LATEST_S else reservation.expires_s
            yield Answer(kind=kinds.RESERVATIONS, key=key, status=new, again_s=again_s)


_LATEST_S = 4e9  # no timer is set if a Reservation expires after this time (seconds since the epoch)


def _used(pod: Object) -> str:
    """Return the uid of the Reservation whose capacity a pod uses; empty if the pod uses no Reservation or has
    ended."""
    if (pod.get("status") or {}).get("phase") in _OVER or not (pod.get("spec") or {}).get("nodeName"):
        return ""
    said = read_json((pod["metadata"].get("annotations") or {}).get(kinds.ALLOCATED))
    return str(said.get("uid") or "") if isinstance(said, Mapping) else ""


def _living(
    obj: Object,
    reservation: ReservationSpec,
    users: Mapping[str, list[Object]],
    reasons: Mapping[str, Reason],
    now: str,
) -> Object:
    """Return the status of a Reservation that has not ended."""
    status: Object = obj.get("status") or {}
    if reservation.waits:
        why = reasons.get(reservation.uid)
        text = f"{why.code}: {why.text}" if why is not None else ""
        said = {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": text}
        return {**status, "conditions": _with(status, said, now)} if text else status
    pods = sorted(users.get(reservation.uid, ()), key=lambda pod: str(pod["metadata"]["uid"]))
    owners = [{part: pod["metadata"][part] for part in ("namespace", "name", "uid")} for pod in pods]
    if owners == (status.get("currentOwners") or []):
        return status
    after = {**status, "currentOwners": owners, "allocated": _allocated(reservation, pods)}
    if not reservation.once:
        return after
    ended = {"type": "Ready", "status": "False", "reason": "Succeeded"}
    return {**after, "phase": SUCCEEDED, "conditions": _with(status, ended, now)}


def _expired(status: Object, now: str) -> Object:
    ended = {"type": "Ready", "status": "False", "reason": "Expired"}
    return {**status, "phase": FAILED, "conditions": _with(status, ended, now)}


def _allocated(reservation: ReservationSpec, pods: Iterable[Object]) -> dict[str, str]:
    total: Asked = {}
    for pod in pods:
        for name, amount in pod_requests(pod.get("spec") or {}).items():
            total[name] = total.get(name, 0) + amount
    kept = sorted(name for name in reservation.holds if name != PODS)
    return {name: quantity(name, total.get(name, 0)) for name in kept}


def _with(status: Object, said: Mapping[str, object], now: str) -> list[Object]:
    """Return the conditions after one condition was added or replaced. If the new condition equals the old one, its
    times stay the same."""
    old: list[Object] = list(status.get("conditions") or ())
    before = next((one for one in old if one.get("type") == said["type"]), {})
    if all(before.get(field) == text for field, text in said.items()):
        return old
    since = before.get("lastTransitionTime", now) if before.get("status") == said["status"] else now
    new = {**said, "lastProbeTime": now, "lastTransitionTime": since}
    return [*(one for one in old if one.get("type") != said["type"]), new]
