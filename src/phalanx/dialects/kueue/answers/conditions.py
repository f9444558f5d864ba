"""Conditions of a status: each is kept as it is while it says the same, and its time is that of its last change."""

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
        """Set a condition: the status says this from now on."""
        status, old = "True" if truth else "False", self._by_type.get(kind, {})
        since = old["lastTransitionTime"] if old.get("status") == status and old.get("lastTransitionTime") else None
        said = {"type": kind, "status": status, "reason": reason, "message": message[:32768]}
        generation = {"observedGeneration": self._generation} if self._generation else {}
        self._by_type[kind] = {**said, "lastTransitionTime": since or self._now, **generation}

    def is_true(self, kind: str) -> bool:
        return self._by_type.get(kind, {}).get("status") == "True"

    def reason(self, kind: str) -> str:
        """Return the reason of that condition; empty: there is no such condition."""
        return str(self._by_type.get(kind, {}).get("reason") or "")

    def message(self, kind: str) -> str:
        """Return the message of that condition; empty: there is no such condition."""
        return str(self._by_type.get(kind, {}).get("message") or "")

    def since(self, kind: str) -> str:
        """Return when that condition got its status, as a metav1.Time; empty: there is no such condition."""
        return str(self._by_type.get(kind, {}).get("lastTransitionTime") or "")

    def __contains__(self, kind: str) -> bool:
        return kind in self._by_type

    def all(self) -> list[Condition]:
        return list(self._by_type.values())
