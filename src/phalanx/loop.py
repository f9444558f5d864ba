"""Events in, plan out, answers as events: the loop that drives any world.

The loop owns the book. A world is whatever turns plans into effects and effects into events: a cluster, or a
simulation of one. A decision counts from the moment it is made: the plan is folded before the world hears of it, so
that the next cycle cannot decide the same again while the world catches up."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Protocol

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Event, PolicySeen, Ticked
from phalanx.model.plan import Action, Nominate, Plan
from phalanx.model.policy import Policy
from phalanx.scaling.cycle import before, with_nodes
from phalanx.state.cluster import Cluster

FOLDED = 500  # events that are folded in one turn
SWEPT = 2000  # events and actions between sweeps
OLD = 4  # sweeps until what survived the others is looked at once more
WHOLE = 400  # sweeps until everything is


class World(Protocol):
    """The methods that the loop needs of a world; worlds need not import it."""

    def events(self) -> Sequence[Event]:
        """Return what happened since the last call, in order."""

    def apply(self, plan: Plan) -> None:
        """Take the plan up. Never raises for expected refusals: answers come as events."""

    async def wait(self, timeout_s: float | None) -> None:
        """Until there are events, or the time is over (None: however long it takes)."""


class Applier(Protocol):
    """The part of a world that `step` uses."""

    def apply(self, plan: Plan) -> None: ...


def step(cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: Applier) -> Plan:
    """Play one cycle and return its plan. `now_s`: seconds since the epoch."""
    news: tuple[Event, ...] = (Ticked(now_s), *events)
    fold(cluster, news if cluster.policy is policy else (PolicySeen(policy), *news))
    first = before(cluster, policy, now_s)
    withdrawn, plan = decide_whole(cluster, policy, now_s)
    fold_plan(cluster, plan)
    plan = with_nodes(cluster, policy, now_s, plan)
    plan = plan._replace(actions=(*first, *withdrawn, *plan.actions)) if first or withdrawn else plan
    world.apply(plan)
    return plan


def decide_whole(cluster: Cluster, policy: Policy, now_s: float) -> tuple[tuple[Action, ...], Plan]:
    """Fold the withdrawals that are due, and return them with the plan that follows, which is not folded. So the jobs
    that lose a nomination are decided anew in the same cycle (rule R23)."""
    withdrawn: tuple[Action, ...] = ()
    while is_withdrawal(plan := decide(cluster, policy, now_s)):
        fold_plan(cluster, plan)
        withdrawn += plan.actions
    return withdrawn, plan


def is_withdrawal(plan: Plan) -> bool:
    """Return whether the plan only withdraws nominations."""
    return bool(plan.actions) and all(isinstance(each, Nominate) and not each.placements for each in plan.actions)


async def run(world: World, cluster: Cluster, policy: Policy, clock: Callable[[], float]) -> None:
    """Step whenever something happened or the plan's time to wake has come, until cancelled.

    `clock`: seconds since the epoch."""
    sweeps = Sweeps()
    while True:
        events, now_s = world.events(), clock()
        rest = await _fold_ahead(cluster, events, policy, now_s)
        plan = step(cluster, rest, policy, now_s, world)
        sweeps.after(len(events) + len(plan.actions))
        await world.wait(None if plan.wake_s is None else max(0.0, plan.wake_s - clock()))


async def _fold_ahead(cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float) -> Sequence[Event]:
    """Fold what is very much (the first events of a large cluster take a second) part by part, so that others get their
    turn between; return what is left for the step."""
    if len(events) <= FOLDED:
        return events
    fold(cluster, (Ticked(now_s),) if cluster.policy is policy else (PolicySeen(policy), Ticked(now_s)))
    last = (len(events) - 1) // FOLDED * FOLDED
    for begin in range(0, last, FOLDED):
        fold(cluster, events[begin : begin + FOLDED])
        await asyncio.sleep(0)
    return events[last:]


def spare_the_book() -> None:
    """Keep the garbage collector from walking the book again and again: it is a million long-lived objects without
    cycles, and each full walk would stop a cycle for hundreds of milliseconds. A cycle that starts 10,000 pods makes
    20,000 more objects than it leaves behind, none of them garbage in a circle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


class Sweeps:
    """Garbage is collected between cycles, in small pieces.

    Python starts a collection when 200,000 more objects were made than freed. Of a long queue as many end as are
    submitted, so that comes late, and what was made since is then walked at once, in the middle of a cycle: hundreds of
    thousands of objects, in 190 ms. What survives two sweeps belongs to the book, and is not walked again; but once in
    800,000 events and actions everything is, as some of it was garbage in a circle that came to nothing later."""

    def __init__(self) -> None:
        self.items = self.sweeps = 0
        self.begun = False

    def after(self, items: int) -> None:
        """A cycle is over that took in so many events and decided so many actions."""
        if not self.begun:
            self.begun = True
            spare_the_book()
            return
        self.items += items
        if self.items >= SWEPT:
            self.items, self.sweeps = 0, self.sweeps + 1
            old = self.sweeps % OLD == 0
            if self.sweeps % WHOLE == 0:
                gc.unfreeze()
                gc.collect()
            else:
                gc.collect(1 if old else 0)
            if old:
                gc.freeze()
