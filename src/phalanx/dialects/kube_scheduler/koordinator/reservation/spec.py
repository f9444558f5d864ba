"""Parses a Reservation and its phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from phalanx.client.moment import MomentError, read_moment
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.pod_requests import Asked, amounts, pod_requests
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.model.pod import PODS

_DAY_S = 86_400.0  # the lifetime of a Reservation that states none
_PODS = 16  # the pods that a Reservation for several owners keeps room for, if it states no number
AVAILABLE, SUCCEEDED, FAILED = "Available", "Succeeded", "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationSpec:
    """A Reservation. `node`: the node with its room; empty: it waits for room. `holds`: the amounts that it keeps.
    `once`: whether it is for one owner only. `expires_s`: the time when it expires (seconds since the epoch)."""

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
        """Return the name of its part of the node. The name contains the uid, so that a later Reservation of the same
        name has a different part."""
        return f"{self.name}.{self.uid[:8]}"

    @property
    def waits(self) -> bool:
        return self.phase not in (AVAILABLE, SUCCEEDED, FAILED)

    @property
    def keeps(self) -> bool:
        """Return whether the Reservation keeps room on a node."""
        return self.phase == AVAILABLE and bool(self.node)


def read_reservation(obj: Object) -> ReservationSpec:
    """Parse a Reservation; invalid values count as absent."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    once = spec.get("allocateOnce") is not False
    given = amounts(status.get("allocatable")) if status.get("phase") == AVAILABLE else None
    # Once the amounts are allocated, later changes of the spec do not count.
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


def template_of(spec: Mapping[str, Any]) -> Object:
    """Return the pod template of a Reservation; empty if it is invalid."""
    found = spec.get("template")
    return found if isinstance(found, dict) else {}


def _expires_s(meta: Object, spec: Object) -> float:
    """Return the time of expiry. A lifetime of 0 means never, even if `expires` is set."""
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
