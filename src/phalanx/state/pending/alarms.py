"""Whom to look at when a time comes, whatever else happens until then: jobs whose deadline passes while they wait."""

from __future__ import annotations

from bisect import bisect_left, insort

NEVER_S = float("inf")


class Alarms:
    """`order`: (seconds since the epoch, job), sorted; a job has at most one."""

    __slots__ = ("_of", "order")

    def __init__(self) -> None:
        self.order: list[tuple[float, str]] = []
        self._of: dict[str, float] = {}

    def set(self, job: str, at_s: float) -> None:
        """At that time instead of any before; `NEVER_S`: at none."""
        if (known := self._of.pop(job, None)) is not None:
            del self.order[bisect_left(self.order, (known, job))]
        if at_s != NEVER_S:
            self._of[job] = at_s
            insort(self.order, (at_s, job))

    def ring(self, now_s: float) -> list[str]:
        """Those whose time has come; each once."""
        due = []
        while self.order and self.order[0][0] <= now_s:
            due.append(self.order[0][1])
            self.set(due[-1], NEVER_S)
        return due

    def copy(self) -> Alarms:
        other = Alarms()
        other.order, other._of = list(self.order), dict(self._of)
        return other
