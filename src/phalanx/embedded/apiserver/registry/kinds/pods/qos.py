"""The quality-of-service class of pods. Source: k8s.io/kubernetes/pkg/apis/core/v1/helper/qos."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.apimachinery.schema import quantity

COUNTED = ("cpu", "memory")


def qos_class(spec: Mapping[str, Any]) -> str:
    """Return the class of a pod: `Guaranteed` if every container has limits of cpu and memory that equal its requests,
    `BestEffort` if no container has a request or a limit, and otherwise `Burstable`."""
    if spec.get("resources"):
        return _of([spec["resources"]])
    parts = [one.get("resources") for one in (*(spec.get("containers") or ()), *spec.get("initContainers", ()))]
    if not any(parts):
        return "BestEffort"
    return _of([part or {} for part in parts])


def _of(parts: list[Mapping[str, Any]]) -> str:
    requests = dict.fromkeys(COUNTED, 0)
    limits = dict.fromkeys(COUNTED, 0)
    guaranteed = True
    for part in parts:
        asked, allowed = part.get("requests") or {}, part.get("limits") or {}
        for name in COUNTED:
            if name in asked:
                requests[name] += max(quantity.of(asked[name]), 0)
            limit = max(quantity.of(allowed[name]), 0) if name in allowed else 0
            limits[name] += limit
            guaranteed = guaranteed and limit > 0
    if not any(requests.values()) and not any(limits.values()):
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"
