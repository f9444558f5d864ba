"""Read and write the conditions in a status. A status has at most one condition of each type. A condition has the time
of the last change of its value."""

from __future__ import annotations

from typing import Any

from phalanx.client.connection import Object

Condition = dict[str, Any]


def with_condition(
    conditions: list[Condition], kind: str, value: bool, reason: str, message: str, now: str
) -> list[Condition]:
    """Return the conditions after the condition of the type `kind` was added or replaced. `now`: the present time as a
    metav1.Time."""
    status = "True" if value else "False"
    old = next((one for one in conditions if one["type"] == kind), None)
    if old is not None and (old["status"], old["reason"], old["message"]) == (status, reason, message):
        return conditions
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else now
    said = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
    return [*(one for one in conditions if one["type"] != kind), said]


def is_true(obj: Object, kind: str) -> bool:
    """Return True if the condition `kind` of the object has the status True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)
