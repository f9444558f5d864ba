"""AdmissionChecks: what others decide of one Workload, once its quota is reserved.

Their controllers write a state into the Workload's status: Pending, Ready, Retry or Rejected. All Ready: it is
admitted. Retry: its quota is given back, and it is tried again. Rejected: it is deactivated.

Source: pkg/workload/admissionchecks.go, pkg/controller/core/workload_controller.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.dialects.frame import Object
from phalanx.model.reason import Reason, ReasonCode

PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"
BY = "admission-check"


def states(status: Mapping[str, Any]) -> dict[str, Object]:
    """Return the checks that a Workload's status lists, by name."""
    return {str(one.get("name")): one for one in status.get("admissionChecks") or ()}


def in_state(status: Mapping[str, Any], state: str) -> list[Object]:
    """Return those of its checks that are in that state."""
    return [one for one in states(status).values() if one.get("state") == state]


def flavors_of(status: Mapping[str, Any]) -> frozenset[str]:
    """Return the flavors that a Workload has quota of."""
    sets = (status.get("admission") or {}).get("podSetAssignments") or ()
    return frozenset(str(flavor) for each in sets for flavor in (each.get("flavors") or {}).values())


def turned_down(status: Mapping[str, Any]) -> Reason | None:
    """Return why it may not keep what it has, or waits until it may be tried again; None: no check says so."""
    if retried := in_state(status, RETRY):
        named = ", ".join(f'"{one["name"]}" ({one.get("message") or ""})' for one in retried)
        text = f"Evicted due to AdmissionCheck(s) in Retry state: {named}"
        return Reason(code=ReasonCode.HELD, text=text, numbers={"by": BY})
    if at := (status.get("requeueState") or {}).get("requeueAt"):
        return Reason(code=ReasonCode.HELD, text=f"an AdmissionCheck is asked again at {at}", numbers={"by": BY})
    return None


def gate(checks_on: Callable[[frozenset[str]], list[str]], status: Mapping[str, Any]) -> Reason | None:
    """Return what it waits for once its quota is reserved; None: nothing. `checks_on`: those that decide about a job
    with these flavors."""
    if not status.get("admission"):
        return Reason(code=ReasonCode.HELD, text="its AdmissionChecks are asked when its quota is reserved")
    known = states(status)
    asked = checks_on(flavors_of(status))
    open_ = [name for name in asked if known.get(name, {}).get("state") != READY]
    if not open_:
        return None
    return Reason(code=ReasonCode.HELD, text=f"it waits for AdmissionCheck(s): {', '.join(open_)}")


def reset(one: Object, now: str) -> Object:
    """Return a check as it is after its Workload was evicted. `now`: as a metav1.Time."""
    state = one.get("state")
    if state == PENDING:
        return one
    again = int(one.get("retryCount") or 0) + (state == RETRY)
    message = f"Reset to Pending after eviction. Previously: {state}"
    found = {"name": one["name"], "state": PENDING, "message": message, "lastTransitionTime": now}
    return {**found, "retryCount": again} if again else found
