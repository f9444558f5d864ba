"""Find victims for a job. The search tests on the draft whether the job fits without the victims, before any job is
stopped.

A *candidate* is a pod or a gang that may be evicted. The search looks for a small set of candidates whose eviction
frees enough quota and enough capacity on nodes. The search has three steps:

1. *Collect.* For each role, place the pods that fit, and collect victims for the remaining
   pods. `core.preemption.victims` prefers victims of low priority, then few victims, then little lost work, then little
   waste. Each pod above a gang's minimum is a candidate of its own. These single pods are evicted before any whole
   gang. If a queue has too little quota, also collect candidates that are charged to this queue, in the same order.

2. *Try.* With the victims removed from the draft, call `gang.place`, which applies topology and all other rules. If it
   cannot place the gang, evict candidates for one further pod and try again, then for two further pods, four, and so
   on, until no candidate is left.

3. *Restore.* Restore every candidate for which there is still enough capacity and quota after the gang is placed. So no
   job is preempted without need. Candidates with the highest priority and the longest run time come first.

All steps treat the capacity of terminating pods as free. If the capacity of terminating pods is enough for a job, it is
nominated without victims.

`core.cycle.preempt.evict` translates the plan into `Shrink` and `Preempt` actions for the victims, and a `Nominate`
action for the job. The nominated job is charged to its nodes at once, so no other job can take the capacity that the
victims release."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from phalanx.core.backfill.shadow_time import HeldCapacity, Release
from phalanx.core.placement import gang
from phalanx.core.placement.filters.devices import asks_devices
from phalanx.core.placement.packing import PackedPods, fill
from phalanx.core.preemption import victim_sets
from phalanx.core.preemption.candidates import Victim, VictimCandidates
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.policy import PreemptionPolicy, PreemptionRule
from phalanx.core.preemption.victims import Ints, collect_victims, in_victim_order
from phalanx.core.quota import flavor_assignment, ledger
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import Job, Placement
from phalanx.model.node import parts_of
from phalanx.state.cluster import minimum_gang
from phalanx.state.queues.quota import Cost

# the maximum number of attempts to place the gang
TRIALS = 20
# at most this many evicted candidates are restored one by one, to test whether the gang still fits
TRIED_AGAIN = 64
# if at most this many candidates were evicted, the gang is placed again after each is restored, even if a comparison of
# amounts would be exact
FEW = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPlan:
    """The placements of a preemptor, and its victims. If the plan has no victims, the job only waits for pods that are
    already terminating.

    `at_once`: True if the capacity for the placements is free now, because victims were only needed for quota."""

    offer: FlavorAssignment
    placements: tuple[Placement, ...]
    victims: tuple[Victim, ...]
    at_once: bool = False


def find_victims(
    context: PreemptionContext, job: Job, offer: FlavorAssignment, rights: type[PreemptionPolicy] = PreemptionPolicy
) -> PreemptionPlan | None:
    """Return a plan with victims whose eviction lets the job start (or grow) with the flavors of `offer`; None if no
    plan exists. Draft and ledger are unchanged when the function returns."""
    if offer.short is not None and not ledger.may_end(context.ledger.tree, offer.short.bound):
        return None
    if offer.short is None and not may_help(context, job, offer.charge.cost, rights):
        return None
    drafted, entered = context.draft.mark(), context.ledger.mark()
    try:
        if offer.short is not None and (found := find_quota_victims(context, job, offer, rights)) is not None:
            return found
        context.draft.rewind(drafted)
        context.ledger.rewind(entered)
        found = VictimSearch(context, job, offer, rights=rights).run()
        if found is not None and not found.victims:
            context.draft.rewind(drafted)
            return at_once_if_free(context, found)
        return found
    finally:
        context.draft.rewind(drafted)
        context.ledger.rewind(entered)


def find_without_victims(
    context: PreemptionContext, job: Job, offer: FlavorAssignment, released: Sequence[Release] = ()
) -> PreemptionPlan | None:
    """Return a plan without victims: the job is placed on free capacity and on the capacity of terminating pods. Return
    None if this capacity is too small, or if quota does not allow the job. `released`: the capacity of a nomination
    that the caller has withdrawn; the forecast for reservations does not have it yet. Draft and ledger are unchanged
    when the function returns."""
    drafted = context.draft.mark()
    try:
        hunt = VictimSearch(context, job, offer)
        if hunt.quota_short() is not None:
            return None
        placements = context.place(context.draft, hunt.gang, None, released)
        if isinstance(placements, gang.PlacementShortfall):
            return None
        return PreemptionPlan(offer=hunt.offer, placements=tuple(placements), victims=())
    finally:
        context.draft.rewind(drafted)


def find_quota_victims(
    context: PreemptionContext, job: Job, offer: FlavorAssignment, rights: type[PreemptionPolicy]
) -> PreemptionPlan | None:
    """Return a plan with victims for a job that has free nodes, but not enough quota. Return None if no such plan
    exists, or if no nodes are free for the job. The nodes are checked before the quota, because usually no nodes are
    free."""
    placements = context.place(context.draft, minimum_gang(context.cluster, offer.gang), None, ())
    if isinstance(placements, gang.PlacementShortfall):
        return None
    hunt = VictimSearch(context, job, offer, at_once=True, rights=rights)
    if hunt.is_exact():
        return hunt.best(placements)
    return hunt.finish_plan(placements) if hunt.evict_for_quota() else None


def at_once_if_free(context: PreemptionContext, found: PreemptionPlan) -> PreemptionPlan:
    """If the job fits on nodes that are free now, return the plan with placements on these nodes. Otherwise return the
    plan unchanged. The draft is unchanged when the function returns."""
    drafted = context.draft.mark()
    placements = context.place(context.draft, minimum_gang(context.cluster, found.offer.gang), None, ())
    context.draft.rewind(drafted)
    if isinstance(placements, gang.PlacementShortfall):
        return found
    return replace(found, placements=tuple(placements), at_once=True)


def may_help(
    context: PreemptionContext, job: Job, cost: Cost, rights: type[PreemptionPolicy] = PreemptionPolicy
) -> bool:
    """Return whether a search for victims could succeed: a pod is terminating, or the policy allows the preemption of
    some job. Most searches end with this check, because as long as all queues stay within their guarantees, no queue
    may preempt jobs of another queue."""
    leaving = bool(context.leaving or context.cluster.leaving)
    return leaving or rights(context, job, cost).has_candidates()


class VictimSearch:
    """A search for victims. `at_once`: True if nodes are free for the job, and victims are needed only because quota is
    short."""

    def __init__(
        self,
        context: PreemptionContext,
        job: Job,
        offer: FlavorAssignment,
        *,
        at_once: bool = False,
        rights: type[PreemptionPolicy] = PreemptionPolicy,
        spared: Collection[str] = (),
    ) -> None:
        self.context = context
        self.draft, self.ledger, self.job, self.at_once = context.draft, context.ledger, job, at_once
        self.gang = minimum_gang(context.cluster, offer.gang)
        charge = flavor_assignment.charge_for_pods(offer, [role.count for role in self.gang.roles])
        self.offer = offer if charge is offer.charge else offer._replace(charge=charge)
        self.rights = rights(context, job, charge.cost)
        self.candidates = VictimCandidates(context, self.rights, spared)
        self.share_of = self.rights.share_of if self.rights.fairest else None
        self._scarce: NDArray[np.float64] | None = None
        ordinary = all(self.draft.ordinary(demand) for demand in self.gang.demands)
        self.named = any(asks_devices(context.cluster.columns, demand.asks) for demand in self.gang.demands)
        # True if a comparison of amounts is enough to show whether the gang still fits after candidates are restored.
        self.stays_by_amounts = ordinary and not self.named
        # True if a comparison of amounts is also enough to show whether the gang can be placed at all.
        self.by_amounts = self.stays_by_amounts and self.gang.tree is None and not context.is_guarded

    def is_exact(self) -> bool:
        """Return whether the number of candidates is small enough to try every set of candidates."""
        return self.rights.preempts and victim_sets.is_small(self.candidates)

    def best(self, placements: Sequence[Placement] = ()) -> PreemptionPlan | None:
        """Try all sets of candidates, and return a plan with the best set; None if no permitted set frees
        enough. `placements`: the placements of the job if it fits on free nodes, so that only quota is short; otherwise
        empty."""
        found = victim_sets.Choice(self, range(len(self.candidates.field.job))).find()
        if found is None:
            return None
        victims = tuple(self.candidates.victims())
        placed = tuple(placements) or tuple(found)
        return PreemptionPlan(offer=self.offer, placements=placed, victims=victims, at_once=self.at_once)

    def run(self) -> PreemptionPlan | None:
        if self.is_exact():
            return self.best()
        extra = 0
        for _ in range(TRIALS):
            known = len(self.candidates.going)
            if not self.make_room(extra) or not self.evict_for_quota():
                return None
            mark = self.draft.mark()
            placements = self.place()
            if not isinstance(placements, gang.PlacementShortfall):
                if not self.by_amounts or len(self.candidates.going) <= FEW:
                    self.draft.rewind(mark)
                    self.restore_unneeded(placements)
                    mark = self.draft.mark()
                    placed = self.place()
                    assert not isinstance(
                        placed, gang.PlacementShortfall
                    )  # this cannot fail, because the gang was just placed on the same capacity
                    placements = placed
                return self.finish_plan(placements, mark)
            if extra and len(self.candidates.going) == known and not self.evict_more(extra):
                return None
            extra = max(1, 2 * extra)
        return None

    def place(self) -> gang.GangPlacement:
        """Place the gang on the draft. The victims have already been removed from the draft."""
        return self.context.place(self.draft, self.gang, None, self.released() if self.context.is_guarded else ())

    def released(self) -> list[Release]:
        """Return for each victim its expected end and the capacity that it holds."""
        ends, found = self.context.cluster.ends.of, list[Release]()
        for candidate in self.candidates.going:
            end_s = ends.get(self.candidates.record(candidate).job.id, inf)
            for position, demand, pods, _ in self.candidates.field.holdings(candidate):
                rows = np.array([self.draft.rows[position]], np.intp)
                held = {name: np.array([amount * pods], np.int64) for name, amount in demand.asks}
                found.append((end_s, HeldCapacity(rows, held)))
        return found

    # Evicting candidates until the nodes have enough capacity

    def make_room(self, extra: int) -> bool:
        """For each role, evict candidates until the nodes can hold the role's minimum and `extra` further pods,
        according to a count of pods. Return whether they can hold the minimums of all roles."""
        draft, known = self.draft, len(self.candidates.going)
        mark, filled = draft.mark(), list[PackedPods]()
        order = sorted(range(len(self.gang.roles)), key=lambda role: -draft.part_of_node(self.gang.demands[role]))
        for role in order:
            if not self.make_room_for(role, self.gang.roles[role].minimum, extra, filled, last=role == order[-1]):
                return False
        if filled:
            draft.rewind(mark)
            for candidate in list(self.candidates.going)[known:]:
                self.candidates.field.leave(candidate)
        return True

    def make_room_for(self, role: int, minimum: int, extra: int, filled: list[PackedPods], *, last: bool) -> bool:
        """Evict candidates until the nodes can hold `minimum` and `extra` further pods of the role, according to a
        count of pods. Return whether they can hold the minimum. `filled`: a list to which this function adds the pods
        that it places on the draft. `last`: True for the last role, whose pods need not be placed on the draft, because
        no other role follows."""
        demand = self.gang.demands[role]
        missing = fill(self.draft, demand, role, minimum + extra, filled)
        if not missing:
            return True
        _, still = collect_victims(self.candidates.field, demand, missing, self.candidates, self.share_of)
        if not last:
            fill(self.draft, demand, role, missing - still, filled)
        return still <= extra or not self.by_amounts

    def evict_more(self, count: int) -> bool:
        """Evict up to `count` more candidates, in the order of tier, priority and run time. The caller needs this if
        the count finds enough capacity, but the gang still cannot be placed. Return whether a candidate was evicted."""
        field, known = self.candidates.field, len(self.candidates.going)
        left = (~field.gone).nonzero()[0]
        keys = (field.ran_s[left], field.priority[left], field.tier[left])
        for candidate in left[np.lexsort(keys)].tolist():
            if len(self.candidates.going) >= known + count:
                break
            if not self.candidates.evict(candidate):
                field.gone[candidate] = True
        return len(self.candidates.going) > known

    # Evicting candidates until the quota is sufficient

    def evict_for_quota(self) -> bool:
        """Evict candidates until all limits of the queue tree allow the job. Return False if this is not possible."""
        while (short := self.quota_short()) is not None:
            if not ledger.may_end(self.ledger.tree, short.bound) or not self.evict_for_shortfall(short):
                return False
        return True

    def quota_short(self) -> ledger.QuotaShortfall | None:
        """Return the first limit or quota that the job would exceed; None if it would exceed none."""
        branch, charge = self.rights.branch, self.offer.charge
        return ledger.shortfall(self.ledger, branch, charge)

    def evict_for_shortfall(self, short: ledger.QuotaShortfall) -> bool:
        """Evict candidates that are charged to the queue whose limit is reached, until a smaller amount is missing.
        Return False if no eviction achieves this."""
        candidates, field = self.candidates, self.candidates.field
        for candidate in in_victim_order(self.charged_there(short), field.tier, field.group, self.share_of):
            if field.gone[candidate] or not candidates.evict(candidate):
                field.gone[candidate] = True
                continue
            now = self.quota_short()
            if now is None or now.bound != short.bound or ledger.missing_amount(now) < ledger.missing_amount(short):
                return True
        return False

    def charged_there(self, short: ledger.QuotaShortfall) -> Ints:
        """Return the candidates that are charged for the missing resource, in the queue whose limit is reached or in a
        queue below it. They are sorted in the order of eviction."""
        field, held = self.candidates.field, self.held_there(short)
        at = ((held > 0) & ~field.gone).nonzero()[0]
        held = held[at]
        cost = field.weight[at] / np.minimum(1.0, held / ledger.missing_amount(short))
        work = field.work_s[at] * held
        waste = np.maximum(0.0, held - ledger.missing_amount(short))
        order: Ints = at[np.lexsort((field.ran_s[at], waste, work, cost, field.priority[at], field.tier[at]))]
        return order

    def held_there(self, short: ledger.QuotaShortfall) -> NDArray[np.float64]:
        """Return for each candidate its charge for the missing resource; 0 if its queue is neither the queue whose
        limit is reached nor below it."""
        field, (flavor, resource) = self.candidates.field, short.bound.key
        held = np.bincount(field.candidate, field.costs(resource), len(field.job)).astype(np.float64)
        queues = self.candidates.running_pods.queues
        under = np.array([self.rights.is_under(queue, short.bound.queue) for queue in queues], np.bool_)
        held[~under[field.group]] = 0.0
        if flavor:
            for candidate in held.nonzero()[0].tolist():
                given = self.candidates.record(candidate).flavors
                held[candidate] *= any(flavor in parts_of(each) for each in given)
        return held

    def comes_to_rest(self) -> bool:
        """Return whether no victim could preempt the job as soon as the victim is pending again (rule R20)."""
        return not self.candidates.could_return(self.offer.charge)

    def scarce(self) -> NDArray[np.float64]:
        """Return for each candidate how much it holds of the scarce resource. If nodes are free and only quota is
        short, that is the resource of the short quota. Otherwise it is the resource that is missing on most nodes."""
        if self._scarce is None:
            field, short = self.candidates.field, self.offer.short
            if self.at_once and short is not None:
                self._scarce = self.held_there(short)
            else:
                asks = max(self.gang.demands, key=self.draft.part_of_node).asks
                scales = self.draft.packing_order.scales
                resource = field.scarce or max(asks, key=lambda ask: ask[1] / scales.get(ask[0], 1))[0]
                self._scarce = np.bincount(field.candidate, field.amounts(resource), len(field.job)).astype(np.float64)
        return self._scarce

    # Restoring candidates, and the resulting plan

    def finish_plan(self, placements: list[Placement], mark: int | None = None) -> PreemptionPlan | None:
        """Make the plan from the evicted candidates and the placements. First, restore the candidates for which there
        is still enough capacity and quota. (If placement rules or devices matter, `restore_unneeded` has already done
        this.) Then replace the victims by another set if that set is better. Return None if a victim could preempt the
        job afterwards.

        `mark`: the draft's undo mark from before the job was placed; None if only quota was short, because then the job
        need not be placed again."""
        stayed = []
        if self.stays_by_amounts or self.at_once:
            for candidate in self.candidates.field.could_stay(self.candidates.most_precious_first()):
                alone = not self.candidates.goes_with_its_gang(candidate)
                if alone and self.candidates.field.can_stay(candidate) and self.stay_if_allowed(candidate) is not None:
                    stayed.append(candidate)
        if self.rights.preempts and self.candidates.going:
            if mark is not None:
                self.draft.rewind(mark)
                for candidate in stayed:
                    self.candidates.field.come_back(candidate)
            placements = victim_sets.improve(self, placements)
            if not self.comes_to_rest():
                return None
        victims = tuple(self.candidates.victims())
        return PreemptionPlan(offer=self.offer, placements=tuple(placements), victims=victims, at_once=self.at_once)

    def restore_unneeded(self, placements: list[Placement]) -> None:
        """Restore each victim whose eviction is not needed. An eviction is not needed if the gang can be placed again
        after the victim is restored."""
        candidates, rows = self.candidates, self.candidates.cluster.columns.row_of
        places = {int(candidates.field.position_of[rows[placement.node]]) for placement in placements}
        precious = candidates.most_precious_first()
        aside = [
            candidate
            for candidate in precious
            if all(each.position not in places for each in candidates.field.holdings(candidate))
        ]
        self.try_without(aside)
        for candidate in [candidate for candidate in precious if candidate in candidates.going][:TRIED_AGAIN]:
            if not candidates.goes_with_its_gang(candidate):
                self.try_without([candidate])

    def try_without(self, candidates: Sequence[int]) -> None:
        """Restore `candidates`. If the gang can then no longer be placed, evict all of them again."""
        stayed = [
            (candidate, rule) for candidate in candidates if (rule := self.stay_if_allowed(candidate)) is not None
        ]
        mark = self.draft.mark()
        placed = self.place()
        self.draft.rewind(mark)
        if isinstance(placed, gang.PlacementShortfall):
            for candidate, rule in reversed(stayed):
                self.candidates.go(candidate, rule)

    def stay_if_allowed(self, candidate: int) -> PreemptionRule | None:
        """Restore the candidate if two conditions are met: there is quota for both the candidate and the job, and no
        queue could later take the capacity back from the job by preemption. If the candidate is restored, return the
        rule by which it had been evicted; otherwise return None."""
        rule = self.candidates.going[candidate]
        self.candidates.restore(candidate)
        is_own = self.candidates.queue(candidate) == self.rights.queue
        if self.quota_short() is None and not (is_own and self.candidates.would_be_taken_back(self.candidates.going)):
            return rule
        self.candidates.go(candidate, rule)
        return None
