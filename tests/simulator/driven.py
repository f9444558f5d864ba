"""A simulated cluster with one job, driven by plans that a test writes."""

from __future__ import annotations

from phalanx.model.event import Finished, Refused, Released
from phalanx.model.job import Placement, Role
from phalanx.model.plan import Plan
from phalanx.model.pod import Shape, amounts
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.arrivals import estimator
from phalanx.simulator.cluster.world import SimulatedWorld
from phalanx.simulator.schedule import Fate
from phalanx.simulator.workload import Task, machine

REASON = Reason(code=ReasonCode.PREEMPTED, text="a test says so")


def pods(count: int, minimum: int) -> tuple[Role, ...]:
    return (Role(name="", count=count, minimum=minimum, shape=Shape(requests=amounts({"cpu": 1000}))),)


def placed(count: int) -> tuple[Placement, ...]:
    return tuple(Placement(0, ordinal, "machine") for ordinal in range(count))


class Driven:
    """A world of one job, driven by hand: plans at given times, and the reported events with their times."""

    def __init__(self, one: Task, plans: dict[float, Plan], *, checkpoint_s: float | None = None) -> None:
        fates = [Fate(0, one)]
        self.world = SimulatedWorld(fates, [machine(10)], [], estimator=estimator("user"), checkpoint_s=checkpoint_s)
        for at_s in plans:
            self.world.agenda.put(at_s, 9, tuple)  # a pass of its own
        self.fate, self.told = fates[0], []
        for events in self.watched(plans):
            self.told += [(self.world.now_s, type(event)) for event in events]

    def watched(self, plans):
        happenings = self.world.happenings()
        next(happenings)
        plans = dict(sorted(plans.items()))
        for events in happenings:
            yield events
            for at_s in [at_s for at_s in plans if at_s <= self.world.now_s]:
                self.world.apply(plans.pop(at_s))

    @property
    def events(self):
        return [(at_s, kind.__name__) for at_s, kind in self.told if kind in {Finished, Refused, Released}]
