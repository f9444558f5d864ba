"""Compute the disruptions that a PodDisruptionBudget allows now. Pure.

`disruptionsAllowed` is what the eviction API counts down; evicted pods stay in `disruptedPods` until they are seen to
go, at most two minutes (k8s.io/kubernetes/pkg/controller/disruption).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from phalanx.client.connection import Object
from phalanx.embedded.controllers.runtime.pod_state import is_deleting, is_ready
from phalanx.embedded.controllers.runtime.timestamp import seconds

DISRUPTED_FOR_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected number of pods, and the required number of healthy ones."""

    pods: int
    healthy: int


def needs_scale(spec: Mapping[str, Any]) -> bool:
    """Return whether the bound is relative to what the pods' controllers want, not to what exists."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def expected(spec: Mapping[str, Any], pods: int, scale: int) -> Expected:
    """Return the expected and the required numbers of pods of a budget. `pods`: the number of matching pods; `scale`:
    the sum of the replicas that their controllers want."""
    if (most := spec.get("maxUnavailable")) is not None:
        return Expected(pods=scale, healthy=max(0, scale - _number(most, scale)))
    least = spec.get("minAvailable", 1)
    if isinstance(least, str):
        return Expected(pods=scale, healthy=_number(least, scale))
    return Expected(pods=pods, healthy=least)


def disrupted(budget: Object, pods: Sequence[Object], now_s: float) -> dict[str, str]:
    """Return the evicted pods that must be counted as gone although they still exist and their deletion has not begun:
    name -> time of the eviction. After `DISRUPTED_FOR_S` an eviction is ignored."""
    listed: dict[str, str] = budget.get("status", {}).get("disruptedPods") or {}
    staying = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
    return {name: at for name, at in listed.items() if name in staying and seconds(at) + DISRUPTED_FOR_S > now_s}


def status_of(budget: Object, pods: Sequence[Object], want: Expected, now_s: float, now: str) -> dict[str, Any]:
    """Return the status of `budget`."""
    going = disrupted(budget, pods, now_s)
    healthy = sum(is_ready(pod) for pod in pods if not is_deleting(pod) and pod["metadata"]["name"] not in going)
    allowed = max(0, healthy - want.healthy) if want.pods > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status: dict[str, Any] = {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": want.healthy,
        "expectedPods": want.pods,
        "conditions": _conditions(budget, "True" if allowed else "False", reason, "", now),
    }
    return status | ({"disruptedPods": going} if going else {})


def failed_status(budget: Object, message: str, now: str) -> dict[str, Any]:
    """Return the status of a budget that cannot be evaluated: no disruption is allowed."""
    return {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
        **budget.get("status", {}),
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": 0,
        "conditions": _conditions(budget, "False", "SyncFailed", message, now),
    }


def _conditions(budget: Object, value: str, reason: str, message: str, now: str) -> list[dict[str, Any]]:
    before = budget.get("status", {}).get("conditions") or []
    rest = [entry for entry in before if entry["type"] != "DisruptionAllowed"]
    old = next((entry for entry in before if entry["type"] == "DisruptionAllowed"), None)
    since = old["lastTransitionTime"] if old is not None and old["status"] == value else now
    new = {
        "type": "DisruptionAllowed",
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    return [*rest, new]


def _number(bound: int | str, of: int) -> int:
    """Return a number, or a percentage rounded up."""
    return bound if isinstance(bound, int) else ceil(int(bound.rstrip("%")) * of / 100)
