"""How many pods of each template a Deployment wants now: a pure step from what is to what is next.

Source: pkg/controller/deployment (rolling, recreate), and the documentation of maxSurge and maxUnavailable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The pods of one ReplicaSet: how many it should have, has, and has available."""

    wanted: int
    pods: int
    available: int


def bounds(spec: Mapping[str, Any]) -> tuple[int, int]:
    """Return (maxSurge, maxUnavailable) in pods. Not both are zero: nothing would ever move."""
    rolling, count = (spec.get("strategy") or {}).get("rollingUpdate") or {}, int(spec.get("replicas", 1))
    surge = _pods(rolling.get("maxSurge", "25%"), count, up=True)
    unavailable = _pods(rolling.get("maxUnavailable", "25%"), count, up=False)
    return surge, unavailable if surge or unavailable else 1


def _pods(amount: int | str, count: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    share = int(amount.rstrip("%")) * count / 100
    return math.ceil(share) if up else math.floor(share)


def step(spec: Mapping[str, Any], new: Size, old: Sequence[Size]) -> tuple[int, list[int]]:
    """Return how many pods the newest ReplicaSet, and each of the older ones, oldest first, is to have next."""
    count = int(spec.get("replicas", 1))
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        return (new.wanted if any(one.pods for one in old) else count), [0] * len(old)
    surge, unavailable = bounds(spec)
    room = max(0, count + surge - new.wanted - sum(one.wanted for one in old))
    grown = min(count, new.wanted + room)
    spare = sum(one.wanted for one in (new, *old)) - (count - unavailable) - max(0, new.wanted - new.available)
    left = []
    for one in old:
        fewer = min(one.wanted, max(0, spare))
        left.append(one.wanted - fewer)
        spare -= fewer
    return grown, left
