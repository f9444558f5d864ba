"""The loop that drives any world: events in, plan out, answers as events.

The loop owns the cluster state. A world turns plans into effects, and effects into events: a Kubernetes cluster, or a
simulation of one. A decision counts from the moment at which it is made. The plan is folded before the world gets it,
so that the next cycle cannot decide the same again while the world catches up."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Protocol

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.core.fold.memory import Decision
from phalanx.model.event import Event, PolicySeen, Ticked
from phalanx.model.plan import Action, Nominate, Plan
from phalanx.model.policy import Policy
from phalanx.scaling.cycle import before, with_nodes
from phalanx.state.cluster import Cluster

FOLDED = 500  # events that are folded in one turn
SWEPT = 2000  # events and actions between sweeps
OLD = 4  # sweeps until the objects that survived are visited once more
WHOLE = 400  # sweeps until all objects are visited


class World(Protocol):
    """The methods that the loop needs of a world; worlds need not import it."""

    def events(self) -> Sequence[Event]:
        """Return the events since the last call, in order."""

    def apply(self, plan: Plan) -> None:
        """Carry out the plan. This never raises for expected refusals, because answers come as events."""

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until there are events, or until `timeout_s` has passed (None: without a limit)."""


class Applier(Protocol):
    """The part of a world that `step` uses."""

    def apply(self, plan: Plan) -> None: ...


def step(cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: Applier) -> Plan:
    """Play one cycle and return its plan. `now_s`: seconds since the epoch."""
    news: tuple[Event, ...] = (Ticked(now_s), *events)
    fold(cluster, news if cluster.policy is policy else (PolicySeen(policy), *news))
    first = before(cluster, policy, now_s) if cluster.columns.groups.known or cluster.columns.groups.coming else ()
    withdrawn, decision = decide_whole(cluster, policy, now_s)
    fold_plan(cluster, decision)
    plan = with_nodes(cluster, policy, now_s, decision.plan) if cluster.columns.groups.known else decision.plan
    plan = plan._replace(actions=(*first, *withdrawn, *plan.actions)) if first or withdrawn else plan
    world.apply(plan)
    return plan


def decide_whole(cluster: Cluster, policy: Policy, now_s: float) -> tuple[tuple[Action, ...], Decision]:
    """Fold the withdrawals of nominations that are due. Return them with the decision that follows, which is not
    folded. So the jobs that lose a nomination are decided again in the same cycle (rule R23)."""
    withdrawn: tuple[Action, ...] = ()
    while is_withdrawal((decision := decide(cluster, policy, now_s)).plan):
        fold_plan(cluster, decision)
        withdrawn += decision.actions
    return withdrawn, decision


def is_withdrawal(plan: Plan) -> bool:
    """Return whether the plan only withdraws nominations."""
    return bool(plan.actions) and all(isinstance(each, Nominate) and not each.placements for each in plan.actions)


async def run(world: World, cluster: Cluster, policy: Policy, clock: Callable[[], float]) -> None:
    """Run a step whenever an event has come or the wake time of the plan has passed, until cancelled.

    `clock`: seconds since the epoch."""
    sweeps = Sweeps()
    while True:
        events, now_s = world.events(), clock()
        rest = await _fold_ahead(cluster, events, policy, now_s)
        plan = step(cluster, rest, policy, now_s, world)
        sweeps.after(len(events) + len(plan.actions))
        await world.wait(None if plan.wake_s is None else max(0.0, plan.wake_s - clock()))


async def _fold_ahead(cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float) -> Sequence[Event]:
    """Fold a long list of events in parts, and let other tasks run between them (the first events of a large cluster
    take a second). Return the events that are left for the step."""
    if len(events) <= FOLDED:
        return events
    fold(cluster, (Ticked(now_s),) if cluster.policy is policy else (PolicySeen(policy), Ticked(now_s)))
    last = (len(events) - 1) // FOLDED * FOLDED
    for begin in range(0, last, FOLDED):
        fold(cluster, events[begin : begin + FOLDED])
        await asyncio.sleep(0)
    return events[last:]


def spare_the_book() -> None:
    """Keep the garbage collector from visiting the whole state again and again. The state has a million long-lived
    objects without reference cycles, and each full collection would stop a cycle for hundreds of milliseconds. A cycle
    that starts 10,000 pods creates 20,000 more objects than it frees, none of them in a reference cycle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


class Sweeps:
    """Collect garbage between cycles, in small pieces.

    With the thresholds that `spare_the_book` sets, Python starts a collection when 200,000 more objects were created
    than freed. In a long queue as many jobs end as are submitted, so this happens late, and in the middle of a cycle.
    It then visits hundreds of thousands of objects, in 190 ms. Objects that survive two collections belong to the
    state, and are not visited again. Once in 800,000 events and actions all objects are visited, because some of them
    became garbage in reference cycles later."""

    def __init__(self) -> None:
        self.items = self.sweeps = 0
        self.begun = False

    def after(self, items: int) -> None:
        """Note the end of a cycle that folded and decided `items` events and actions."""
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
