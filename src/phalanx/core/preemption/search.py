"""Find victims for a job, tried on the draft before anyone is stopped.

The search looks for a *sufficient* set of candidates, with quota and with nodes, that is small:

1. *Collect.* Role by role, what fits is filled in and victims are collected for what does not
(`core.preemption.victims`: lowest priority, fewest, least waste, newest). Pods above a gang's minimum are candidates of
their own and come first; then whole gangs. If quota is short (also: only quota, and no node), candidates that are
charged where it binds are collected, in the same order.

2. *Try.* The gang is placed on the draft as it would be then, by `gang.place`, so topology and all else counts. If that
fails, more candidates are evicted, for twice as much each time, and it is tried again, until nobody is left.

3. *Put back.* With the gang in its place every candidate for which there is still capacity, and quota too, is restored:
the most precious first (highest priority, longest run). So nobody is preempted for nothing, and no freed corner that
cannot be used is paid for.

Leaving pods count as gone in all of this, and a job that only needs what they leave is nominated without harming
anyone.

The plan then says `Shrink` and `Preempt`, and `Nominate` for the job, which is charged at once and which nobody else
can take.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement import gang
from phalanx.core.placement.filters.devices import asks_devices
from phalanx.core.placement.packing import PackedPods, fill
from phalanx.core.preemption import nomination, victim_sets
from phalanx.core.preemption.candidates import Victim, VictimCandidates
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.policy import PreemptionPolicy, PreemptionRule
from phalanx.core.preemption.victims import Ints, collect_victims, in_victim_order
from phalanx.core.quota import flavor_assignment, ledger
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import Job, Placement, Role
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from phalanx.state.queue_tree import Cost

TRIALS = 20  # each makes twice as much more room as the last
TRIED_AGAIN = 64  # units that are put back by placing the gang anew, where its place depends on more than amounts
FEW = 16  # with so few units that is worth it in any case


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPlan:
    """The placements of a preemptor, and its victims. Without victims, those who are leaving already leave enough.

    `at_once`: the placements are free now; only quota was short."""

    offer: FlavorAssignment
    placements: tuple[Placement, ...]
    victims: tuple[Victim, ...]
    at_once: bool = False


def find_victims(
    scene: PreemptionContext, job: Job, offer: FlavorAssignment, rights: type[PreemptionPolicy] = PreemptionPolicy
) -> PreemptionPlan | None:
    """Whose going lets the job start, or grow, as the offer says. Draft and ledger are as before afterwards."""
    if offer.short is not None and offer.short.bar.rule not in ledger.RECLAIM_RULES:
        return None
    if offer.short is None and not may_help(scene, job, offer.charge.cost, rights):
        return None
    drafted, entered = scene.draft.mark(), scene.ledger.mark()
    try:
        if offer.short is not None and (found := find_quota_victims(scene, job, offer, rights)) is not None:
            return found
        scene.draft.rewind(drafted)
        scene.ledger.rewind(entered)
        found = VictimSearch(scene, job, offer, rights=rights).run()
        if found is not None and not found.victims:
            scene.draft.rewind(drafted)
            return at_once_if_there_is_room(scene, found)
        return found
    finally:
        scene.draft.rewind(drafted)
        scene.ledger.rewind(entered)


def find_quota_victims(
    scene: PreemptionContext, job: Job, offer: FlavorAssignment, rights: type[PreemptionPolicy]
) -> PreemptionPlan | None:
    """Whose going lets the job have the place that is there for it as it is. (Mostly none is: that is asked first.)"""
    placements = gang.place(scene.draft, at_minimum(scene.cluster, offer.gang))
    if isinstance(placements, gang.PlacementShortfall):
        return None
    hunt = VictimSearch(scene, job, offer, at_once=True, rights=rights)
    return hunt.settled(placements) if hunt.ease_quota() else None


def at_once_if_there_is_room(scene: PreemptionContext, found: PreemptionPlan) -> PreemptionPlan:
    """Nobody has to go. Nor need anybody leave whose room is kept for somebody that the job may push: it starts."""
    placements = gang.place(scene.draft, at_minimum(scene.cluster, found.offer.gang))
    if isinstance(placements, gang.PlacementShortfall):
        return found
    return replace(found, placements=tuple(placements), at_once=True)


def may_help(scene: PreemptionContext, job: Job, cost: Cost, rights: type[PreemptionPolicy] = PreemptionPolicy) -> bool:
    """Somebody is leaving, or could be asked to: else the job, which found no room, finds none now. Most searches end
    here: among queues that have what is theirs nobody may ask anybody."""
    leaving = bool(scene.leaving) or next(nomination.leaving_slots(scene.cluster, scene.now_s), None) is not None
    return leaving or rights(scene, job, cost).anybody()


def at_minimum(cluster: Cluster, crew: Gang) -> Gang:
    """Return the gang at its minimum, in whole slices: nobody is preempted for pods above a minimum."""
    if all(role.count == role.minimum for role in crew.roles):
        return crew
    roles = tuple(
        role if role.count == role.minimum else replace(role, count=whole_slices(crew, at, role))
        for at, role in enumerate(crew.roles)
    )
    return cluster.interned.gang(roles, crew.groups, crew.closeness, crew.size)


def whole_slices(crew: Gang, at: int, role: Role) -> int:
    """Return the role's minimum in whole slices."""
    slice_pods = 1 if crew.tree is None else max(1, crew.tree.slice_pods(at))
    return min(role.count, -(-role.minimum // slice_pods) * slice_pods)


class VictimSearch:
    """One search for victims. `at_once`: the job has its nodes as they are, and victims are needed for quota alone."""

    def __init__(
        self,
        scene: PreemptionContext,
        job: Job,
        offer: FlavorAssignment,
        *,
        at_once: bool = False,
        rights: type[PreemptionPolicy] = PreemptionPolicy,
        spared: Collection[str] = (),
    ) -> None:
        self.draft, self.ledger, self.job, self.at_once = scene.draft, scene.ledger, job, at_once
        self.gang = at_minimum(scene.cluster, offer.gang)
        charge = flavor_assignment.charge_for_pods(offer, [role.count for role in self.gang.roles])
        self.offer = offer if charge is offer.charge else offer._replace(charge=charge)
        self.rights = rights(scene, job, charge.cost)
        self.units = VictimCandidates(scene, self.rights, spared)
        self.share_of = self.rights.share_of if self.rights.fairest else None
        self._scarce: NDArray[np.float64] | None = None
        ordinary = all(self.draft.ordinary(demand) for demand in self.gang.demands)
        named = any(asks_devices(scene.cluster.columns, demand.asks) for demand in self.gang.demands)
        self.stays_by_amounts = ordinary and not named  # they say whether a place that was found stays one
        self.by_amounts = self.stays_by_amounts and self.gang.tree is None  # and whether there is one

    def run(self) -> PreemptionPlan | None:
        extra = 0
        for _ in range(TRIALS):
            known = len(self.units.going)
            if not self.make_room(extra) or not self.ease_quota():
                return None
            mark = self.draft.mark()
            placements = gang.place(self.draft, self.gang)
            if not isinstance(placements, gang.PlacementShortfall):
                if not self.by_amounts or len(self.units.going) <= FEW:
                    self.draft.rewind(mark)
                    self.stay_who_can(placements)
                    mark = self.draft.mark()
                    placed = gang.place(self.draft, self.gang)
                    assert not isinstance(placed, gang.PlacementShortfall)  # it was placed with as much room
                    placements = placed
                return self.settled(placements, mark)
            if extra and len(self.units.going) == known and not self.more_go(extra):
                return None
            extra = max(1, 2 * extra)
        return None

    # Room

    def make_room(self, extra: int) -> bool:
        """Evict candidates until each role's minimum and `extra` pods more would fit by counting; return whether the
        minimum does."""
        draft, known = self.draft, len(self.units.going)
        mark, filled = draft.mark(), list[PackedPods]()
        order = sorted(range(len(self.gang.roles)), key=lambda role: -draft.part_of_node(self.gang.demands[role]))
        for role in order:
            if not self.make_room_for(role, self.gang.roles[role].minimum, extra, filled, last=role == order[-1]):
                return False
        if filled:
            draft.rewind(mark)
            for unit in list(self.units.going)[known:]:
                self.units.field.leave(unit)
        return True

    def make_room_for(self, role: int, minimum: int, extra: int, filled: list[PackedPods], *, last: bool) -> bool:
        """`last`: there is no other role that its pods could be in the way of."""
        demand = self.gang.demands[role]
        missing = fill(self.draft, demand, role, minimum + extra, filled)
        if not missing:
            return True
        _, still = collect_victims(self.units.field, demand, missing, self.units, self.share_of)
        if not last:
            fill(self.draft, demand, role, missing - still, filled)
        return still <= extra or not self.by_amounts

    def more_go(self, count: int) -> bool:
        """What is lacking cannot be counted: so many of those that may be asked go, in victim order; if any did."""
        field, known = self.units.field, len(self.units.going)
        left = (~field.gone).nonzero()[0]
        keys = (field.ran_s[left], field.priority[left], field.tier[left])
        for unit in left[np.lexsort(keys)].tolist():
            if len(self.units.going) >= known + count:
                break
            if not self.units.evict(unit):
                field.gone[unit] = True
        return len(self.units.going) > known

    # Quota

    def ease_quota(self) -> bool:
        """Units go until the queue tree allows the job; whether it does."""
        while (short := self.quota_short()) is not None:
            if short.bar.rule not in ledger.RECLAIM_RULES or not self.ease(short):
                return False
        return True

    def quota_short(self) -> ledger.QuotaShortfall | None:
        """Return which limit or quota does not allow the job; None if all do."""
        branch, charge = self.rights.branch, self.offer.charge
        return ledger.shortfall(self.ledger, branch, charge, preemptible=self.job.preemptible)

    def ease(self, short: ledger.QuotaShortfall) -> bool:
        """Units that are charged where it binds go, until less is missing; whether any did."""
        units, field = self.units, self.units.field
        for unit in in_victim_order(self.charged_there(short), field.tier, field.group, self.share_of):
            if field.gone[unit] or not units.evict(unit):
                field.gone[unit] = True
                continue
            now = self.quota_short()
            if now is None or now.bar != short.bar or ledger.missing_amount(now) < ledger.missing_amount(short):
                return True
        return False

    def charged_there(self, short: ledger.QuotaShortfall) -> Ints:
        """The units, in victim order, that are charged to that branch for what is short there."""
        field, held = self.units.field, self.held_there(short)
        at = ((held > 0) & ~field.gone).nonzero()[0]
        held = held[at]
        cost = field.weight[at] / np.minimum(1.0, held / ledger.missing_amount(short))
        work = field.work_s[at] * held
        waste = np.maximum(0.0, held - ledger.missing_amount(short))
        order: Ints = at[np.lexsort((field.ran_s[at], waste, work, cost, field.priority[at], field.tier[at]))]
        return order

    def held_there(self, short: ledger.QuotaShortfall) -> NDArray[np.float64]:
        """By unit, what that branch is charged with for it of what is short there."""
        field, (flavor, resource) = self.units.field, short.bar.key
        held = np.bincount(field.unit, field.costs(resource), len(field.job)).astype(np.float64)
        queues = self.units.running_pods.queues
        under = np.array([self.rights.is_under(queue, short.bar.queue) for queue in queues], np.bool_)
        held[~under[field.group]] = 0.0
        if flavor:
            for unit in held.nonzero()[0].tolist():
                held[unit] *= flavor in self.units.record(unit).flavors
        return held

    def scarce(self) -> NDArray[np.float64]:
        """By unit, what it holds of what the job is short of: of a queue's quota, else of nodes."""
        if self._scarce is None:
            field, short = self.units.field, self.offer.short
            if self.at_once and short is not None:
                self._scarce = self.held_there(short)
            else:
                asks = max(self.gang.demands, key=self.draft.part_of_node).asks
                scales = self.draft.node_order.scales
                resource = field.scarce or max(asks, key=lambda ask: ask[1] / scales.get(ask[0], 1))[0]
                self._scarce = np.bincount(field.unit, field.amounts(resource), len(field.job)).astype(np.float64)
        return self._scarce

    # The answer

    def settled(self, placements: list[Placement], mark: int | None = None) -> PreemptionPlan:
        """With the job in its place: whoever can stay, stays. (Where rules or devices decide, that was found out by
        placing it anew.) Then others go instead, if that is better. `mark`: the draft without the job in its place;
        None: it has its place in any case."""
        stayed = []
        if self.stays_by_amounts or self.at_once:
            for unit in self.units.field.could_stay(self.units.most_precious_first()):
                alone = not self.units.goes_with_its_gang(unit)
                if alone and self.units.field.can_stay(unit) and self.stay_if_allowed(unit) is not None:
                    stayed.append(unit)
        if self.rights.preempts and self.units.going:
            if mark is not None:
                self.draft.rewind(mark)
                for unit in stayed:
                    self.units.field.come_back(unit)
            placements = victim_sets.improve(self, placements)
        victims = tuple(self.units.victims())
        return PreemptionPlan(offer=self.offer, placements=tuple(placements), victims=victims, at_once=self.at_once)

    def stay_who_can(self, placements: list[Placement]) -> None:
        """Whose staying lets the gang still be placed, stays, found by placing it anew each time."""
        units, rows = self.units, self.units.cluster.columns.row_of
        places = {int(units.field.position_of[rows[placement.node]]) for placement in placements}
        precious = units.most_precious_first()
        aside = [unit for unit in precious if all(each.position not in places for each in units.field.holdings(unit))]
        self.try_without(aside)
        for unit in [unit for unit in precious if unit in units.going][:TRIED_AGAIN]:
            if not units.goes_with_its_gang(unit):
                self.try_without([unit])

    def try_without(self, units: Sequence[int]) -> None:
        """Restore these candidates if the gang can still be placed."""
        stayed = [(unit, rule) for unit in units if (rule := self.stay_if_allowed(unit)) is not None]
        mark = self.draft.mark()
        placed = gang.place(self.draft, self.gang)
        self.draft.rewind(mark)
        if isinstance(placed, gang.PlacementShortfall):
            for unit, rule in reversed(stayed):
                self.units.go(unit, rule)

    def stay_if_allowed(self, unit: int) -> PreemptionRule | None:
        """Restore the candidate if quota allows it beside the job; return the rule by which it was evicted, or None if
        it stays evicted."""
        rule = self.units.going[unit]
        self.units.restore(unit)
        if self.quota_short() is None:
            return rule
        self.units.go(unit, rule)
        return None
