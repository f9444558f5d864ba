"""The conditions of a status. The transition time of a condition changes only when its status changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Condition = dict[str, Any]


class Conditions:
    """The conditions of a status, in their order. `now`: as a metav1.Time."""

    def __init__(self, old: Iterable[Condition], now: str, generation: int = 0) -> None:
        self._by_type = {str(one.get("type")): dict(one) for one in old}
        self._now, self._generation = now, generation

    def set(self, kind: str, truth: bool, reason: str, message: str) -> None:
        """Set a condition. Its transition time is kept if its status is unchanged."""
        status, old = "True" if truth else "False", self._by_type.get(kind, {})
        since = old["lastTransitionTime"] if old.get("status") == status and old.get("lastTransitionTime") else None
        said = {"type": kind, "status": status, "reason": reason, "message": message[:32768]}
        generation = {"observedGeneration": self._generation} if self._generation else {}
        self._by_type[kind] = {**said, "lastTransitionTime": since or self._now, **generation}

    def is_true(self, kind: str) -> bool:
        return self._by_type.get(kind, {}).get("status") == "True"

    def reason(self, kind: str) -> str:
        """Return the reason of a condition; empty if there is none."""
        return str(self._by_type.get(kind, {}).get("reason") or "")

    def message(self, kind: str) -> str:
        """Return the message of a condition; empty if there is none."""
        return str(self._by_type.get(kind, {}).get("message") or "")

    def since(self, kind: str) -> str:
        """Return the last transition time of a condition, as a metav1.Time; empty if there is none."""
        return str(self._by_type.get(kind, {}).get("lastTransitionTime") or "")

    def __contains__(self, kind: str) -> bool:
        return kind in self._by_type

    def all(self) -> list[Condition]:
        return list(self._by_type.values())
