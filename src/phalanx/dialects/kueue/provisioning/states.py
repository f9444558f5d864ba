"""The state of an AdmissionCheck, from the conditions of its ProvisioningRequest.

    Provisioned                     Ready: the pods consume the request
    Failed, BookingExpired          Retry after a pause, and Rejected after the last attempt
    CapacityRevoked                 Rejected, also while the job runs
    otherwise                       Pending, with the autoscaler's message

A job that fits on present nodes needs no request; its check is Ready without one.


Source: pkg/controller/admissionchecks/provisioning/controller.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from phalanx.client.moment import read_moment
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kueue.provisioning.configs import Config

PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"
NOT_NEEDED = "no ProvisioningRequest is needed: its pods have room on nodes that exist"
NOT_MANAGED = "no ProvisioningRequest is needed: its pods request none of the managed resources"
UNHANDLED_S = 120.0  # an autoscaler that handles a request's class accepts the request within this time


class ProvisioningState(NamedTuple):
    """The state of a check. `pause_s`: the pause before the next attempt, if there is one. `again_s`: when the state
    may change without an event (seconds since the epoch)."""

    state: str
    message: str
    pause_s: int | None = None
    again_s: float | None = None


def is_true(request: Object, kind: str) -> bool:
    """Return whether a condition of the request is True."""
    return _condition(request, kind).get("status") == "True"


def state_of(config: Config, request: Object, attempt: int, now_s: float, *, admitted: bool) -> ProvisioningState:
    """Return the state of the check. `attempt`: the number of the request, from 1. `admitted`: True if the Workload is
    admitted, so that it does not need the booking any more."""
    name = request["metadata"]["name"]
    if is_true(request, "CapacityRevoked"):
        return ProvisioningState(REJECTED, f"ProvisioningRequest {name}: {_message(request, 'CapacityRevoked')}")
    for kind in () if admitted else ("Failed", "BookingExpired"):
        if is_true(request, kind):
            return _failed(config, attempt, f"ProvisioningRequest {name}: {_message(request, kind)}")
    if is_true(request, "Provisioned"):
        return ProvisioningState(READY, f"ProvisioningRequest {name}: {_message(request, 'Provisioned')}")
    for kind in ("Provisioned", "Accepted"):
        if _condition(request, kind):
            return ProvisioningState(PENDING, f"ProvisioningRequest {name}: {_message(request, kind)}")
    until_s = read_moment(request["metadata"]["creationTimestamp"]) + UNHANDLED_S
    if now_s < until_s:
        return ProvisioningState(PENDING, f"ProvisioningRequest {name} was created", again_s=until_s)
    text = (
        f"no autoscaler has accepted ProvisioningRequest {name}: none that runs handles the class {config.class_name}"
    )
    return ProvisioningState(
        PENDING, f"{text}. Correct the ProvisioningRequestConfig, or enable requests in the autoscaler"
    )


def _failed(config: Config, attempt: int, text: str) -> ProvisioningState:
    if attempt > config.attempts:
        return ProvisioningState(REJECTED, text)
    return ProvisioningState(RETRY, f"Retrying after failure: {text}", config.pause_s(attempt))


def _condition(request: Object, kind: str) -> Mapping[str, Any]:
    listed = (request.get("status") or {}).get("conditions") or ()
    return next((one for one in listed if one.get("type") == kind), {})


def _message(request: Object, kind: str) -> str:
    found = _condition(request, kind)
    return f"{kind}={found.get('status')}: {found.get('message') or found.get('reason') or ''}"
