"""Decides which pods may use a Reservation: its owners, unless the pod chooses other Reservations.

A pod is an owner if it matches all conditions of at least one entry of `owners`. A pod that names a Reservation in its
annotation `reservation-affinity` uses only that one; a pod that selects Reservations by labels uses only the selected
ones. The same annotation lists the taints of Reservations that the pod tolerates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.dialects.frame.dialect import Object, PartUse
from phalanx.dialects.frame.pod_requests import Asked, pod_requests
from phalanx.dialects.frame.selectors import selects
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.quota.tree import read_json
from phalanx.dialects.kube_scheduler.koordinator.reservation.spec import ReservationSpec

_ORDER = ("Gt", "Lt")
_NEEDS = frozenset({"name", "requiredDuringSchedulingIgnoredDuringExecution", "reservationSelector"})
_NOTHING: Mapping[str, Any] = {}


def part_use(pod: Object, kept: Iterable[ReservationSpec]) -> PartUse | None:
    """Return the Reservations that the pod may use; None: it may use none, and requires none."""
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


def _says(has: Mapping[str, Any], said: Mapping[str, Any], parts: Iterable[str]) -> bool:
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


def _tolerates(toleration: Mapping[str, Any], taint: Object) -> bool:
    """Return whether the toleration matches the taint, like `ToleratesTaint` of k8s.io/api/core/v1."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def _is_exact(pod: Object, reservation: ReservationSpec) -> bool:
    """Return whether the Reservation holds exactly the pod's requests of the resources that the annotation
    `exact-match-reservation` names; without the annotation, True."""
    said = read_json((pod["metadata"].get("annotations") or _NOTHING).get(kinds.EXACT))
    named = said.get("resourceNames") if isinstance(said, Mapping) else None
    if not named:
        return True
    asks: Asked = pod_requests(pod.get("spec") or {})
    return all(asks.get(str(name), 0) == reservation.holds.get(str(name), 0) for name in named)
