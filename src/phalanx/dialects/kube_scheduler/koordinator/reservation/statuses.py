"""Writes the phase, the conditions and the current owners of a Reservation.

A Reservation has no phase (or Pending) until it has room; then it is Available. It is Succeeded when its owner has
arrived, if it is for one owner only, and Failed when it has expired or its node is gone. A condition of a waiting
Reservation has the reason why it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from phalanx.client.kind import NODES
from phalanx.client.moment import read_moment
from phalanx.dialects.frame.dialect import Answer, Object, Objects, Told
from phalanx.dialects.frame.pod_requests import Asked, pod_requests, quantity
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.quota.tree import read_json
from phalanx.dialects.kube_scheduler.koordinator.reservation.spec import (
    FAILED,
    SUCCEEDED,
    ReservationSpec,
    read_reservation,
)
from phalanx.model.pod import PODS
from phalanx.model.reason import Reason

_OVER = frozenset({"Succeeded", "Failed"})


def statuses(everyone: Iterable[Told], objects: Objects, now: str) -> Iterator[Answer]:
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


_LATEST_S = 4e9  # an expiry after this time (seconds since the epoch) gets no timer


def _used(pod: Object) -> str:
    """Return the uid of the Reservation whose room a pod uses; empty: it uses none, or has ended."""
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


def _with(status: Object, said: Mapping[str, Any], now: str) -> list[Object]:
    """Return the conditions with one added or replaced. If the new one equals the old one, its times stay."""
    old: list[Object] = list(status.get("conditions") or ())
    before = next((one for one in old if one.get("type") == said["type"]), {})
    if all(before.get(field) == text for field, text in said.items()):
        return old
    since = before.get("lastTransitionTime", now) if before.get("status") == said["status"] else now
    new = {**said, "lastProbeTime": now, "lastTransitionTime": since}
    return [*(one for one in old if one.get("type") != said["type"]), new]
