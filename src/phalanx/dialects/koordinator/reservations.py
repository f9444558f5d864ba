"""Koordinator's Reservations: each is told that it gets no place, in the condition in which its own scheduler would.

Room is not kept for pods to come. A gang starts whole without it; who must have nodes at a time reserves whole nodes.

Source: pkg/scheduler/plugins/reservation and pkg/util/reservation of v1.8.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from phalanx.dialects.frame.dialect import Answer, Object, Objects
from phalanx.dialects.koordinator import kinds

WHY: Final = (
    "room is not kept for pods to come here: a gang starts whole without it, and a Reservation of phalanx.dev/v1 keeps "
    "whole nodes"
)


def statuses(objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of every Reservation. `now`: as a metav1.Time."""
    for key, obj in objects.get(kinds.RESERVATIONS, {}).items():
        yield Answer(kind=kinds.RESERVATIONS, key=key, status=_status(obj, now))


def _status(obj: Object, now: str) -> Object:
    """Return the status: without a phase, as of one that has not been placed."""
    old: Object = next(iter((obj.get("status") or {}).get("conditions") or ()), {})
    said = {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": WHY}
    since = now if any(old.get(field) != text for field, text in said.items()) else old.get("lastTransitionTime", now)
    return {"conditions": [{**said, "lastProbeTime": since, "lastTransitionTime": since}]}
