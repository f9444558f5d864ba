"""Ensure that preemption does not delay a reservation (`core.backfill.reservation`).

A preemptor must not delay the first reservation. So a search for victims only uses capacity that the first reservation
does not need during the run of the preemptor. Then the plan of the search is applied to the forecast (the expected free
capacity over time). With the victims removed and the preemptor placed, every reserved job must still be able to start
at its reserved time. There is one exception. Suppose that all reserved jobs were running: if the preemptor could
preempt each of them, it need not respect their reservations.

The first reservation may move to other nodes, as long as the start of its job stays the same (rule R13)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from phalanx.core.backfill import advance, reservation
from phalanx.core.backfill.ends import INFINITE_S
from phalanx.core.backfill.reservation import BackfillForecast, CapacityChange
from phalanx.core.backfill.shadow_time import Release, held_by_job, held_by_placements, held_by_slots, held_without
from phalanx.core.preemption import consolidation
from phalanx.core.preemption.candidates import Victim, growth_of
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.policy import GuaranteeOnlyPolicy, PreemptionPolicy, in_turn, queue_preemption
from phalanx.core.preemption.search import (
    PreemptionPlan,
    at_once_if_free,
    find_victims,
    find_without_victims,
)
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import Slot
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.pending.request_class import Request
from phalanx.state.queues.quota import Charge, Cost


class ReservationGuard:
    """Runs the search for victims of one preemptor, and ensures that the result delays no reservation.

    `cost`: the amounts that would be charged for the preemptor.
    `forecast`: the forecast with the reservations; None if the cycle has no forecast."""

    def __init__(
        self,
        forecast: BackfillForecast | None,
        context: PreemptionContext,
        request: Request,
        cost: Cost,
        rights: type[PreemptionPolicy],
    ) -> None:
        record = context.cluster.jobs[request.job]
        self.forecast, self.record, self.request = forecast, record, request
        self.placed = context.placed
        self.guarded = self.lifted = False  # `lifted`: True if the preemptor need not respect the reservations
        if forecast is not None and forecast.reservations:
            asks = [each(context, record.job, cost) for each in kinds_of(context.cluster, record, rights)]
            self.lifted = all(
                any(may_preempt_if_it_ran(context, each, hold) for each in asks) for hold in forecast.reservations
            )
            self.guarded = not self.lifted

    def beside(self, context: PreemptionContext) -> PreemptionContext:
        """Return a copy of `context` whose `place` function does not delay the reservations. If the preemptor need not
        respect reservations, return `context` unchanged."""
        forecast = self.forecast if self.guarded else None
        place = None if forecast is None else forecast.placer(self.record, self.request)
        return context if place is None else replace(context, place=place, is_guarded=True)

    def find(
        self, context: PreemptionContext, offers: Sequence[FlavorAssignment], rights: type[PreemptionPolicy]
    ) -> PreemptionPlan | None:
        """Search victims for each of the offers in order, and return the first plan that delays no reservation. Return
        None if there is no such plan."""
        cluster, job = context.cluster, self.record.job
        wants = queue_preemption(cluster, cluster.queue_of(job))
        kinds = kinds_of(cluster, self.record, rights)
        context = self.beside(context)
        with advance.without_closed_nodes(context.draft, cluster, job, context.now_s):
            for offer in offers:
                if rights is GuaranteeOnlyPolicy and not GuaranteeOnlyPolicy(context, job, offer.charge.cost).due():
                    continue
                if self.lifted and (free := find_without_victims(context, job, offer)) is not None:
                    return at_once_if_free(context, free)
                plans = (plan for each in kinds if (plan := find_victims(context, job, offer, each)))
                found = next(plans, None)
                if found is None and wants.consolidate and offer.short is None and rights is PreemptionPolicy:
                    found = consolidation.find_moves(context, job, offer)
                if found is not None and self.allows(found):
                    return found
        return None

    def finds_behind_growth(
        self,
        context: PreemptionContext,
        offers: Sequence[FlavorAssignment],
        rights: type[PreemptionPolicy],
        plan: PreemptionPlan | None,
    ) -> bool:
        """Return whether a search would find different victims without the pods that this cycle has placed above the
        minimums of running jobs. If so, this cycle preempts no job for the request. The next cycle can preempt those
        pods instead (rule R18). `plan`: the plan that the search has found with those pods; None if it found no
        plan."""
        jobs = context.cluster.jobs
        if plan is not None and not plan.victims:
            return False
        if not any(next(growth_of(jobs[job], placed), None) for job, placed in context.placed.items()):
            return False
        later = self.find(replace(context, without_growth=True), offers, rights)
        return later is not None and (plan is None or victims_of(later) != victims_of(plan))

    def find_instead_of(
        self, context: PreemptionContext, offers: Sequence[FlavorAssignment], other: JobRecord
    ) -> PreemptionPlan | None:
        """Return a plan without victims for the first of the offers that has one; None if no offer has one. The plan
        may use the capacity of terminating pods. It may also use the capacity that was nominated to the job `other`;
        the caller has already withdrawn this nomination."""
        cluster, job, released = context.cluster, self.record.job, list[Release]()
        if self.guarded and self.forecast is not None:
            granted = zip(self.forecast.ends.given, self.forecast.ends.granted, strict=True)
            ends = (
                (end_s, gang, places)
                for (request, _, _), (end_s, gang, places) in granted
                if request.job == other.job.id
            )
            released = [(end_s, held_by_placements(cluster.columns, gang, places)) for end_s, gang, places in ends]
        context = self.beside(context)
        with advance.without_closed_nodes(context.draft, cluster, job, context.now_s):
            plans = (find_without_victims(context, job, offer, released) for offer in offers)
            return next((plan for plan in plans if plan is not None and self.allows(plan, released)), None)

    def allows(self, found: PreemptionPlan, released: Sequence[Release] = ()) -> bool:
        """Return whether the plan delays no reservation. `released`: capacity that becomes free in addition to the
        capacity of the plan's victims."""
        if not self.guarded or self.forecast is None:
            return True
        besides = [CapacityChange(end_s, held, 1) for end_s, held in released]
        return self.forecast.holds_with([*besides, *self.changes(found)])

    def enter(self, found: PreemptionPlan) -> None:
        """Apply an accepted plan to the forecast: add the placements of the preemptor, and remove the victims. If the
        preemptor itself has a reservation, remove this as well, because the preemptor no longer waits for capacity."""
        forecast = self.forecast
        if forecast is None:
            return
        forecast.drop(self.request)
        forecast.displace(self.request, found.offer.gang, found.placements, self.changes(found))
        for victim in found.victims:
            forecast.ends.leave(victim.job, victim.slots)
            if victim.place:
                forecast.ends.given.append((Request(victim.job), forecast.cluster.jobs[victim.job].gang, victim.place))

    def changes(self, found: PreemptionPlan) -> list[CapacityChange]:
        """Return the changes of the forecast if the plan is carried out: the capacity that the victims release, and the
        capacity that the preemptor takes."""
        assert self.forecast is not None  # the callers have checked that there is a forecast
        forecast = self.forecast
        if not forecast.reservations and forecast.profile is None:
            return []
        gone, columns, back = forecast.ends.partly_leaving(), forecast.cluster.columns, list[CapacityChange]()
        for victim in found.victims:
            back += released_by(forecast, victim, gone.get(victim.job, frozenset()))
            if not victim.slots and (placed := self.placed.get(victim.job)):
                held = held_by_placements(columns, forecast.cluster.jobs[victim.job].gang, placed)
                back.append(CapacityChange(forecast.cluster.ends.of.get(victim.job, INFINITE_S), held, 1))
        taken = held_by_placements(columns, found.offer.gang, found.placements)
        return [*back, CapacityChange(forecast.ends.of(self.record, self.request), taken, -1)]


def victims_of(plan: PreemptionPlan) -> set[tuple[str, tuple[Slot, ...]]]:
    """Return (job, slots that it releases) for each victim of the plan."""
    return {(victim.job, victim.slots) for victim in plan.victims}


def kinds_of(cluster: Cluster, record: JobRecord, rights: type[PreemptionPolicy]) -> Sequence[type[PreemptionPolicy]]:
    """Return the preemption policies to try, in order. A request for a whole job uses the policies of the queue's
    strategy, other requests only `rights`."""
    wants = queue_preemption(cluster, record.queue)
    return in_turn(wants.strategy) if rights is PreemptionPolicy else (rights,)


def may_preempt_if_it_ran(
    context: PreemptionContext, rights: PreemptionPolicy, hold: reservation.BackfillReservation
) -> bool:
    """Return whether the preemptor could preempt the job of the reservation `hold` if the reserved job were running."""
    record, mark = context.cluster.jobs[hold.request.job], context.ledger.mark()
    job, queue = record.job, record.queue
    charge = record.charge or Charge(queue, job.user, job.group, hold.gang.due, 1, job.id, job.preemptible)
    if record.charge is None:
        context.ledger.charge(charge)
    found = rights.outranks(record, charge)
    context.ledger.rewind(mark)
    return found


def released_by(forecast: BackfillForecast, victim: Victim, gone: Collection[Slot]) -> Iterator[CapacityChange]:
    """Yield the changes of the forecast that follow from the eviction of a victim. Its capacity is released. If the
    victim is moved, it takes capacity on other nodes. `gone`: slots of the victim that are already terminating."""
    cluster, record = forecast.cluster, forecast.cluster.jobs[victim.job]
    ends_s = cluster.ends.of.get(victim.job, INFINITE_S)
    if victim.slots:
        yield CapacityChange(ends_s, held_by_slots(cluster, victim.job, victim.slots), 1)
    else:
        held = held_without(cluster, victim.job, gone) if gone else held_by_job(cluster, victim.job)
        yield CapacityChange(ends_s, held, 1)
    if victim.place:
        # a moved job starts from the beginning, so it has a new expected end
        anew_s = forecast.ends.of(record, Request(victim.job))
        yield CapacityChange(anew_s, held_by_placements(cluster.columns, record.gang, victim.place), -1)
