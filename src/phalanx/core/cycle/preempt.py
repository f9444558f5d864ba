"""Preemption's part of a cycle: promises that stand are looked at first, and whoever finds no room may search for
victims.

A search costs milliseconds, so it must be worth it: not for a job whose queue preempts nobody, not before its queue's
delay is over, and at most `SEARCHES` times in a cycle. Cells that have searched before take turns, those that searched
longest ago first, with a budget of their own; new ones come as the contest has them, and those that come too late for
that search in the next cycle, which follows at once. A search that found nobody is remembered (`Pending.searched`) with
what had changed by then, and is not made again before something that runs has changed, or time makes somebody available
(a minimum run time, or a budget's hour, passes).
"""

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
from phalanx.model.queue import QueuePreemption, WithinQueue
from phalanx.state.classes import Demand, Gang
from phalanx.state.cluster import Cluster, JobRecord, nominated_placements, residents, time_limit_s
from phalanx.state.pending.cell_queue import CellKey, Kind, Request
from phalanx.state.pending.pending import Search
from phalanx.state.pending.timers import NEVER_S

SEARCHES = 8
DELAYED = -1  # in place of what had changed: its queue's delay is not over


class CyclePreemption:
    """`actions`: what was decided so far. `told`: who gives way by them, whole or in part. `searched`: cells
    whose search found nobody; `taken`: those that searched before and
    whose turn it is; `put_off`: some are to search in the next cycle, which follows at once."""

    def __init__(self, cluster: Cluster, ledger: QuotaLedger, now_s: float) -> None:
        self.cluster, self.ledger, self.now_s = cluster, ledger, now_s
        self.pending = cluster.pending
        self.actions: list[Action] = []
        self.told: dict[str, None] = {}
        self.spent: dict[str, int] = {}
        self.leaving: list[tuple[str, Demand, tuple[str, ...]]] = []
        self.others = nomination.LeavingPods(cluster, now_s)
        self.searches = [0, 0]  # of those that came up anyhow, and of those whose turn it is
        self.kept: list[str] = []  # whose promises stand
        self.withdrawn: dict[str, None] = {}  # whose promises do not
        self.searched: dict[CellKey, Search] = {}
        self.given_up: set[CellKey] = set()
        self.taken: dict[CellKey, None] = {}
        self.put_off = False
        self.reserved: object = None  # what searches were not to delay
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
        """When promises and searches want the next cycle (seconds since the epoch)."""
        if not (self.actions or self.kept or self.pending.searched or self.put_off):
            return
        withdrawn = any(isinstance(action, Nominate) and not action.placements for action in self.actions)
        if withdrawn or self.put_off or self.is_due():
            yield self.now_s
        yield from (self.cluster.jobs[job].nominated_until_s for job in self.kept)
        yield from (action.until_s for action in self.actions if isinstance(action, Nominate) and action.placements)

    # Requests that found no room

    def turns(self) -> Iterator[int]:
        """The cells whose turn it is to search: those that never did, and of the others the `SEARCHES` that did so
        longest ago."""
        cells, pending = self.pending.cells, self.pending
        searched = pending.searched
        for cell in cells.preempts.nonzero()[0].tolist():
            line = cells.lines[cell]
            if line is not None and line.key not in searched:
                yield cell
        for key, search in searched.items():
            if search.changes == DELAYED and self.now_s < search.again_s:
                continue
            yield pending.lines[key].cell
            self.taken[key] = None
            if len(self.taken) == SEARCHES:
                break

    def may_search(self, key: CellKey, reserved: object) -> bool:
        """Whether a search may find somebody, as far as is known: something has changed since the last, or time has
        passed; or this cycle has decided something. `reserved`: who has a reservation, which is not to be delayed."""
        search = self.pending.searched.get(key)
        if search is None or self.now_s >= search.again_s:
            return True
        if search.changes == DELAYED:
            return False
        known = search.changes == self.pending.changes and search.reserved == reserved
        return not known or bool(self.ledger.mark() or self.actions)

    def make_room(
        self,
        draft: Draft,
        key: CellKey,
        request: Request,
        offers: Sequence[FlavorAssignment],
        forecast: BackfillForecast | None,
    ) -> bool:
        """Others give way, so that the cell's first starts as one of the offers says. It is promised its place then;
        else it is asked about again when something changed, or when its delay is over. `forecast`: of those who have a
        reservation, if anybody may have one: they are not delayed."""
        wants, record = queue_preemption(self.cluster, key.queue), self.cluster.jobs[request.job]
        since_s = self.now_s if record.short_since_s is None else record.short_since_s
        if (ready_s := since_s + max(0.0, wants.delay_s)) > self.now_s:
            self.searched[key] = Search(DELAYED, ready_s, None)
            return False
        its_turn = key in self.pending.searched
        if self.searches[its_turn] >= SEARCHES:
            self.put_off = self.put_off or not its_turn
            return False
        self.searches[its_turn] += 1
        context = self.context(draft)
        aside = guard.ReservationGuard(forecast, context, record, offers[0].charge.cost)
        rights = rights_of(key)
        found = self.search(context, record.job, offers, aside, rights)
        if found is None and not self.actions and (wider := with_overcommitted(self.cluster, draft, self.others)):
            found = self.search(replace(context, draft=wider), record.job, offers, aside, rights)
        if found is not None:
            self.settle(context, request, found, rights)
            self.give_up(key)
            return True
        if key.kind == Kind.JOB:
            self.take_over(key, record.job, wants)
        again_s = self.next_chance_s(context)
        self.searched[key] = Search(self.pending.changes, NEVER_S if again_s is None else again_s, self.reserved)
        return False

    def is_due(self) -> bool:
        """Whether cells are left whose turn did not come though something changed since they searched."""
        for key, search in self.pending.searched.items():
            if key in self.taken or key in self.searched:
                continue
            if search.changes == DELAYED and self.now_s >= search.again_s:
                return True  # its delay is over
            if search.changes != DELAYED:
                return search.changes != self.pending.changes
        return False

    def outcomes(self) -> Iterator[tuple[CellKey, Search]]:
        """What became of searches; and whose turn passed, since they did not come up, or nothing had changed."""
        for key in self.taken:
            if key not in self.searched and key not in self.given_up:
                yield key, self.pending.searched[key]._replace(changes=self.pending.changes)
        yield from self.searched.items()

    def next_chance_s(self, context: PreemptionContext) -> float | None:
        """When time alone makes somebody available, whoever asks (seconds since the epoch)."""
        if self._chance is None or self._chance[0] != len(self.actions):
            self._chance = len(self.actions), next_chance_s(context)
        return self._chance[1]

    def search(
        self,
        context: PreemptionContext,
        job: Job,
        offers: Sequence[FlavorAssignment],
        aside: guard.ReservationGuard,
        rights: type[PreemptionPolicy],
    ) -> PreemptionPlan | None:
        """For the first of the offers for which there is a way."""
        wants = queue_preemption(self.cluster, self.cluster.queue_of(job))
        with advance.without_closed_nodes(context.draft, self.cluster, job, self.now_s), aside.cut(context.draft):
            for offer in offers:
                if rights is ByRight and not ByRight(context, job, offer.charge.cost).due():
                    continue
                kinds = in_turn(wants.strategy) if rights is PreemptionPolicy else (rights,)
                found = next(
                    (found for each in kinds if (found := preempt.find_victims(context, job, offer, each))), None
                )
                if found is None and wants.consolidate and offer.short is None and rights is PreemptionPolicy:
                    found = consolidation.find_moves(context, job, offer)
                if found is not None and aside.allows(found):
                    return found
        return None

    def give_up(self, key: CellKey) -> None:
        """Nobody's going helps the cell: what it searched for is forgotten."""
        self.searched.pop(key, None)
        self.given_up.add(key)

    def take_over(self, key: CellKey, job: Job, wants: QueuePreemption) -> None:
        """If another job of its queue, of lower priority, is promised room that holds it, that promise is taken back,
        and in the next cycle, which follows at once, what is leaving there counts for whoever is first."""
        if wants.within is WithinQueue.NEVER or len(key.gang.roles) != 1:
            return
        for name in self.kept:
            other = self.cluster.jobs[name]
            same = self.cluster.queue_of(other.job) == key.queue and other.phase is Phase.QUEUED
            if same and name not in self.withdrawn and other.job.priority < job.priority:
                held = nomination.nominated_capacity(self.cluster, other, key.gang.demands[0], self.now_s)
                if held >= key.gang.roles[0].minimum:
                    self.withdraw(other)
                    return

    def context(self, draft: Draft) -> PreemptionContext:
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

    def settle(
        self, context: PreemptionContext, request: Request, found: PreemptionPlan, how: type[PreemptionPolicy]
    ) -> None:
        """Who goes is given back in the ledger; the job's place is its own from now on."""
        record = self.cluster.jobs[request.job]
        rights = how(context, record.job, found.offer.charge.cost)
        for victim in found.victims:
            self.tell(victim, rights)
        for victim in found.victims:
            if victim.place:
                keep_nomination(context.draft, self.cluster, self.cluster.jobs[victim.job].gang, victim.place)
        self.ledger.charge(found.offer.charge)
        until_s = self.now_s + nomination.PATIENCE_S
        until_s += max((self.grace_s(each.job) for each in found.victims), default=0.0)
        if request.slot is not None:
            placements = replacement.placements_of_slots(self.cluster, record, request.slot, found.placements)
            self.actions.append(
                Place(request.job, tuple(placements)) if found.at_once else self.grown(record, placements, until_s)
            )
        elif found.at_once:
            limit_s = time_limit_s(self.cluster, record.job)
            self.actions.append(
                Start(
                    request.job, record.attempt + 1, found.placements, self.now_s, found.offer.flavors, limit_s=limit_s
                )
            )
        else:
            self.actions.append(Nominate(request.job, found.placements, found.offer.flavors, until_s))
        keep_nomination(context.draft, self.cluster, found.offer.gang, found.placements)

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


def rights_of(key: CellKey) -> type[PreemptionPolicy]:
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
