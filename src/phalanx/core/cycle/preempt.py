"""Preemption's part of a cycle: promises that stand are looked at first, and whoever finds no room may push.

A search costs milliseconds, so it must be worth it: not for a job whose queue preempts nobody, not before its queue's
delay is over, not again in this cycle for another that may push nobody either, and at most `SEARCHES` times in a cycle.
A line that came too late for that has its turn in the next cycle, which follows at once; those whose turn it is have a
budget of their own, else those that come first would search again in every cycle, and the others never. One whose
search found nobody *hunts*: it is woken when something that runs has changed, a few lines a cycle, those that waited
longest for it first (`state.pending.waiting`), and when time makes somebody available (a minimum run time, or a
budget's hour, passes)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import numpy as np

from phalanx.core.backfill import advance
from phalanx.core.backfill.reservation import BackfillForecast
from phalanx.core.placement import replacement
from phalanx.core.placement.draft import Draft
from phalanx.core.preemption import consolidation, guard, nomination
from phalanx.core.preemption import search as preempt
from phalanx.core.preemption.candidates import Victim
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.nomination import NominationState, with_overcommitted
from phalanx.core.preemption.policy import ByRight, PreemptionPolicy, in_turn, next_chance_s, queue_preemption
from phalanx.core.preemption.search import PreemptionPlan
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.core.reasons import preempted
from phalanx.model.job import Job, Phase, Placement
from phalanx.model.plan import Action, Nominate, Place, Preempt, Shrink, Start
from phalanx.model.queue import QueuePreemption, ReclaimWithinCohort, WithinQueue
from phalanx.state.classes import Demand, Gang
from phalanx.state.cluster import Cluster, JobRecord, nominated_placements, residents, time_limit_s
from phalanx.state.pending.line import Bid, Kind, LineKey

SEARCHES = 8


class CyclePreemption:
    """`actions`: what was decided so far. `told`: who gives way by them, whole or in part. `hunting`: lines that may
    push, and whether they are yet to search; `again_s`: of lines, when time makes another search worth it."""

    def __init__(self, cluster: Cluster, ledger: QuotaLedger, now_s: float) -> None:
        self.cluster, self.ledger, self.now_s = cluster, ledger, now_s
        self.actions: list[Action] = []
        self.told: dict[str, None] = {}
        self.spent: dict[str, int] = {}
        self.leaving: list[tuple[str, Demand, tuple[str, ...]]] = []
        self.others = nomination.LeavingPods(cluster, now_s)
        self.searches = [0, 0]  # of those that came up anyhow, and of those whose turn it is
        self.in_vain = 0
        self.kept: list[str] = []  # whose promises stand
        self.withdrawn: dict[str, None] = {}  # whose promises do not
        self.hunting: dict[LineKey, bool] = {}
        self.again_s: dict[LineKey, float | None] = {}
        self._scene: PreemptionContext | None = None
        self._chance: tuple[int, float | None] | None = None  # after so many actions

    # Promises that stand

    def nominations(self) -> Iterator[tuple[JobRecord, NominationState]]:
        """Of the jobs that wait, or would grow: what is to become of their promises, oldest first."""
        for job in list(self.cluster.nominated):
            record = self.cluster.jobs[job]
            found = NominationState.KEPT
            if record.phase is not Phase.STOPPING:
                found = nomination.nomination_state(self.cluster, record, self.now_s, self.others)
                yield record, found
            if found is NominationState.KEPT:
                self.kept.append(job)

    def withdraw(self, record: JobRecord) -> None:
        """It stands in line again, in the next cycle."""
        self.actions.append(Nominate(record.job.id, ()))
        self.withdrawn[record.job.id] = None

    def gone(self) -> Container[str]:
        """Jobs that do not wait any more as they did when they were looked at: their promise is withdrawn, or they are
        stopped."""
        if not self.actions:
            return ()
        return {*self.withdrawn, *(action.job for action in self.actions if isinstance(action, Preempt))}

    def wake_s(self) -> Iterator[float]:
        """When promises and hunters want the next cycle (seconds since the epoch)."""
        if not (self.actions or self.kept or self.hunting or self.cluster.waiting.hunters.due):
            return
        withdrawn = any(isinstance(action, Nominate) and not action.placements for action in self.actions)
        if withdrawn or self.cluster.waiting.hunters.due or any(self.hunting.values()):
            yield self.now_s
        yield from (self.cluster.jobs[job].nominated_until_s for job in self.kept)
        yield from (action.until_s for action in self.actions if isinstance(action, Nominate) and action.placements)

    # Bids that found no room

    def preempts(self, key: LineKey) -> bool:
        """Whether jobs of the line may make others give way at all: to start, or to grow up to what is theirs."""
        wants = queue_preemption(self.cluster, key.queue)
        if key.kind == Kind.GROWTH:
            return key.terms.preempts and wants.reclaim is not ReclaimWithinCohort.NEVER
        return key.kind == Kind.JOB and key.terms.preempts and may_preempt(wants)

    def make_room(
        self, draft: Draft, key: LineKey, bid: Bid, offers: Sequence[FlavorAssignment], horizon: BackfillForecast | None
    ) -> bool:
        """Others give way, so that the line's first starts as one of the offers says. It is promised its place then;
        else it hunts, or is asked about again in the next cycle, or when its delay is over. `horizon`: of those who
        have a reservation, if anybody may have one: they are not delayed."""
        wants, record = queue_preemption(self.cluster, key.queue), self.cluster.jobs[bid.job]
        since_s = self.now_s if record.short_since_s is None else record.short_since_s
        if (ready_s := since_s + max(0.0, wants.delay_s)) > self.now_s:
            self.again_s[key] = ready_s
            return False
        its_turn = key in self.cluster.waiting.hunters.woken
        if self.searches[its_turn] >= SEARCHES:
            self.put_off(key)
            return False
        self.searches[its_turn] += 1
        scene = self.scene(draft)
        aside = guard.ReservationGuard(horizon, scene, record, offers[0].charge.cost)
        rights = rights_of(key)
        found = self.search(scene, record.job, offers, aside, rights)
        if found is None and not self.actions and (wider := with_overcommitted(self.cluster, draft, self.others)):
            found = self.search(replace(scene, draft=wider), record.job, offers, aside, rights)
        if found is not None:
            self.settle(scene, bid, found, rights)
            self.give_up(key)
            return True
        self.hunting[key] = key.kind == Kind.JOB and self.takes_over(key, record.job, wants)
        self.again_s[key] = self.next_chance_s(scene)
        return False

    def put_off(self, key: LineKey) -> None:
        """As many have searched in this cycle as may: it is its turn in the next, unless it has searched since anything
        changed."""
        rests = key in self.cluster.waiting.hunters.resting
        self.hunting[key] = not rests
        if rests:
            self.again_s[key] = self.cluster.waiting.dawn_of.get(key)

    def finds_nobody(self, draft: Draft, key: LineKey, record: JobRecord) -> bool:
        """Of a hunting line that lacks room and nothing else: that a search would end before it begins. So it hunts
        on."""
        wants = queue_preemption(self.cluster, key.queue)
        if wants.delay_s > 0 or wants.consolidate or self.kept or self.searches[True] >= SEARCHES:
            return False
        scene = self.scene(draft)
        if preempt.may_help(scene, record.job, key.gang.due(), rights_of(key)):
            return False
        self.searches[True] += 1
        self.in_vain += 1
        self.hunting[key] = False
        self.again_s[key] = self.next_chance_s(scene)
        return True

    def next_chance_s(self, scene: PreemptionContext) -> float | None:
        """When time alone makes somebody available, whoever asks (seconds since the epoch)."""
        if self._chance is None or self._chance[0] != len(self.actions):
            self._chance = len(self.actions), next_chance_s(scene)
        return self._chance[1]

    def search(
        self,
        scene: PreemptionContext,
        job: Job,
        offers: Sequence[FlavorAssignment],
        aside: guard.ReservationGuard,
        rights: type[PreemptionPolicy],
    ) -> PreemptionPlan | None:
        """For the first of the offers for which there is a way."""
        wants = queue_preemption(self.cluster, self.cluster.queue_of(job))
        with advance.without_closed_nodes(scene.draft, self.cluster, job, self.now_s), aside.cut(scene.draft):
            for offer in offers:
                if rights is ByRight and not ByRight(scene, job, offer.charge.cost).due():
                    continue
                kinds = in_turn(wants.strategy) if rights is PreemptionPolicy else (rights,)
                found = next(
                    (found for each in kinds if (found := preempt.find_victims(scene, job, offer, each))), None
                )
                if found is None and wants.consolidate and offer.short is None and rights is PreemptionPolicy:
                    found = consolidation.find_moves(scene, job, offer)
                if found is not None and aside.allows(found):
                    return found
        return None

    def give_up(self, key: LineKey) -> None:
        """Nobody's going helps the line: it does not hunt."""
        self.hunting.pop(key, None)
        self.again_s.pop(key, None)

    def takes_over(self, key: LineKey, job: Job, wants: QueuePreemption) -> bool:
        """Another job of its queue, of lower priority, is promised room that holds it: that promise is taken back, and
        in the next cycle, which follows at once, what is leaving there counts for whoever is first."""
        if wants.within is WithinQueue.NEVER or len(key.gang.roles) != 1:
            return False
        for name in self.kept:
            other = self.cluster.jobs[name]
            same = self.cluster.queue_of(other.job) == key.queue and other.phase is Phase.QUEUED
            if same and name not in self.withdrawn and other.job.priority < job.priority:
                held = nomination.nominated_capacity(self.cluster, other, key.gang.demands[0], self.now_s)
                if held >= key.gang.roles[0].minimum:
                    self.withdraw(other)
                    return True
        return False

    def hunters(self, *, stirred: bool) -> Iterator[tuple[LineKey, bool]]:
        """Lines that hunt from now on, and whether they are due. `stirred`: others run, or leave, when this cycle is
        over. So whoever searched before that was decided searches again in the next, whenever that is: a queue that
        starts jobs may have too much then, what it starts may be pushed or moved, and what leaves may be enough."""
        return ((key, due or stirred) for key, due in self.hunting.items())

    def scene(self, draft: Draft) -> PreemptionContext:
        if self._scene is None:
            self._scene = PreemptionContext(
                cluster=self.cluster,
                draft=draft,
                ledger=self.ledger,
                running_pods=residents(self.cluster),
                now_s=self.now_s,
                leaving=self.leaving,
                told=self.told,
                spent=self.spent,
            )
        return self._scene

    # Decided

    def settle(self, scene: PreemptionContext, bid: Bid, found: PreemptionPlan, how: type[PreemptionPolicy]) -> None:
        """Who goes is given back in the ledger; the job's place is its own from now on."""
        record = self.cluster.jobs[bid.job]
        rights = how(scene, record.job, found.offer.charge.cost)
        for victim in found.victims:
            self.tell(victim, rights)
        for victim in found.victims:
            if victim.place:
                keep_nomination(scene.draft, self.cluster, self.cluster.jobs[victim.job].gang, victim.place)
        self.ledger.charge(found.offer.charge)
        until_s = self.now_s + nomination.PATIENCE_S
        until_s += max((self.grace_s(each.job) for each in found.victims), default=0.0)
        if bid.slot is not None:
            placements = replacement.placements_of_slots(self.cluster, record, bid.slot, found.placements)
            self.actions.append(
                Place(bid.job, tuple(placements)) if found.at_once else self.grown(record, placements, until_s)
            )
        elif found.at_once:
            limit_s = time_limit_s(self.cluster, record.job)
            self.actions.append(
                Start(bid.job, record.attempt + 1, found.placements, self.now_s, found.offer.flavors, limit_s=limit_s)
            )
        else:
            self.actions.append(Nominate(bid.job, found.placements, found.offer.flavors, until_s))
        keep_nomination(scene.draft, self.cluster, found.offer.gang, found.placements)

    def grown(self, record: JobRecord, placements: Sequence[Placement], until_s: float) -> Nominate:
        """Of a job that grows: what it was promised already, in this cycle or before, is promised with it."""
        known = nominated_placements(record)
        for action in [each for each in self.actions if isinstance(each, Nominate) and each.job == record.job.id]:
            self.actions.remove(action)
            known = action.placements
        return Nominate(record.job.id, (*known, *placements), record.flavors, until_s)

    def tell(self, victim: Victim, rights: PreemptionPolicy) -> None:
        record = self.cluster.jobs[victim.job]
        queue = self.cluster.queue_of(record.job)
        grace_s = queue_preemption(self.cluster, queue).grace_s
        reason = preempted.preempted_reason(rights, record, victim.rule, len(victim.slots))
        if victim.slots:
            self.actions.append(Shrink(victim.job, victim.slots, rights.job.id, reason, grace_s))
        else:
            self.actions.append(Preempt(victim.job, record.attempt, rights.job.id, reason, grace_s))
            self.spent[queue] = self.spent.get(queue, 0) + 1
        if victim.place:
            until_s = self.now_s + nomination.PATIENCE_S + (grace_s or 0.0)
            self.actions.append(Nominate(victim.job, victim.place, record.flavors, until_s))
        elif victim.charge is not None:
            self.ledger.charge(victim.charge, -1)
        self.told[victim.job] = None
        stayed = record.placements.keys() - record.leaving if record.leaving else record.placements
        for slot in victim.slots or sorted(stayed):
            demand = record.gang.demands[slot.role]
            self.leaving.append((record.placements[slot], demand, record.devices.get(slot, ())))

    def grace_s(self, job: str) -> float:
        return queue_preemption(self.cluster, self.cluster.queue_of(self.cluster.jobs[job].job)).grace_s or 0.0


def rights_of(key: LineKey) -> type[PreemptionPolicy]:
    """What jobs of the line may ask of others."""
    return ByRight if key.kind == Kind.GROWTH else PreemptionPolicy


def keep_nomination(draft: Draft, cluster: Cluster, crew: Gang, placements: Sequence[Placement]) -> None:
    """On the draft, the promised room is taken, and what it makes overfull takes nothing more."""
    rows = cluster.columns.row_of
    at = {rows[placement.node] for placement in placements}
    position_of = {
        int(draft.rows[position]): position for position in np.isin(draft.rows, list(at)).nonzero()[0].tolist()
    }
    for placement in placements:
        if (position := position_of.get(rows[placement.node])) is not None:  # else it is overfull, and not laid out
            draft.occupy(position, crew.demands[placement.role], placement.devices)
    for position in position_of.values():
        if any(view[position] < 0 for view in draft.views.values()):
            draft.shut(position)
    draft.settle()


def may_preempt(wants: QueuePreemption) -> bool:
    """Whether jobs of such a queue may make anybody give way, or have them moved."""
    others = wants.reclaim is not ReclaimWithinCohort.NEVER or wants.borrowing
    return others or wants.within is not WithinQueue.NEVER or wants.consolidate
