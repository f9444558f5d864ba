"""How long the scheduler thinks: the time from when it is told what happened until its plan is there.

It stands between the scheduler and its world, so that what the world does with the plan is not counted. Such times are
of this machine: they are neither hashed nor compared, and nothing that is decided depends on them. It is the clock on
the wall that is read, twice for each pass: processor time costs a system call."""

from __future__ import annotations

import time
from array import array
from typing import Protocol

from phalanx.model.plan import Plan


class Applier(Protocol):
    def apply(self, plan: Plan) -> None: ...


class Stopwatch:
    """`took_s`: how long it thought in each cycle that came to a plan, in order."""

    def __init__(self, world: Applier) -> None:
        self.world = world
        self.took_s = array("d")
        self._since_s = 0.0

    def begin(self) -> None:
        self._since_s = time.perf_counter()

    def apply(self, plan: Plan) -> None:
        self.took_s.append(time.perf_counter() - self._since_s)
        self.world.apply(plan)
