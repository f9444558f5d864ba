"""Measure the time of each decision: from the events until the plan.

The stopwatch wraps the world, so the world's own time is not counted. These times depend on the machine. They are
neither part of the hash nor compared, and no decision depends on them. It reads elapsed time twice for each pass,
because reading processor time costs a system call."""

from __future__ import annotations

import time
from array import array
from typing import Protocol

from phalanx.model.plan import Plan


class TimedApplier(Protocol):
    def apply(self, plan: Plan) -> None: ...


class Stopwatch:
    """A world that measures decisions. `took_s`: the time of each decision, in order."""

    def __init__(self, world: TimedApplier) -> None:
        self.world = world
        self.took_s = array("d")
        self._since_s = 0.0

    def begin(self) -> None:
        self._since_s = time.perf_counter()

    def apply(self, plan: Plan) -> None:
        self.took_s.append(time.perf_counter() - self._since_s)
        self.world.apply(plan)
