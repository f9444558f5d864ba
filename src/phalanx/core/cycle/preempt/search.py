"""Preemption's part of a cycle: promises that stand are looked at first, and whoever finds no room may search for
victims.

A search costs milliseconds, so it must be worth it: not for a job whose queue preempts nobody, not before its queue's
delay is over, and at most `SEARCHES` times in a cycle. Cells that have searched before take turns, with a budget of
their own: first those for which a time has come, then those that searched longest ago. New ones come as the contest has
them. Those that come too late search in the next cycle, which follows at once. A search that found nobody is remembered
(`Pending.searched`) with what had changed by then, and is not made again before something that runs has changed, or
time makes somebody available (a minimum run time, or a budget's hour, passes).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import chain

from phalanx.core.backfill.reservation import BackfillForecast
from phalanx.core.cycle.preempt import evict
from phalanx.core.cycle.state import CycleState
from phalanx.core.preemption import guard, nomination
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.nomination import NominationState
from phalanx.core.preemption.policy import ByRight, PreemptionPolicy, next_chance_s, queue_preemption
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import Job, Phase
from phalanx.model.plan import Action, Nominate, Preempt, Shrink
from phalanx.model.queue import QueuePreemption, WithinQueue
from phalanx.state.cluster import JobRecord, residents
from phalanx.state.pending.cell_queue import CellKey, Kind, Request
from phalanx.state.pending.pending import Search
from phalanx.state.pending.timers import NEVER_S

SEARCHES = 8
DELAYED = -1  # in place of what had changed: its queue's delay is not over


class CyclePreemption:
    """The preemption of one cycle.

    `actions`: what was decided so far. `told`: who gives way by them, whole or in part. `searched`: cells whose search
    found nobody; `taken`: those that searched before and whose turn it is; `put_off`: some are to search in the next
    cycle, which follows at once."""

    def __init__(self, state: CycleState) -> None:
        self.state, self.cluster, self.ledger, self.now_s = state, state.cluster, state.ledger, state.now_s
        self.pending = state.pending
        self.actions: list[Action] = []
        self.told: dict[str, None] = {}
        self.searches = [0, 0]  # of those that came up anyhow, and of those whose turn it is
        self.kept: list[str] = []  # whose promises stand
        self.withdrawn: dict[str, None] = {}  # whose promises do not
        self.searched: dict[CellKey, Search] = {}
        self.given_up: set[CellKey] = set()
        self.taken: dict[CellKey, None] = {}
        self.put_off = False
        self.reserved: object = None  # what searches were not to delay
        self._context: PreemptionContext | None = None
        self._chance: tuple[int, float | None] | None = None  # after so many actions

    # Promises that stand

    def nominations(self) -> Iterator[tuple[JobRecord, NominationState]]:
        """Yield the nominated jobs, oldest first, and what is to become of their nominations."""
        for job in list(self.cluster.nominated):
            record = self.cluster.jobs[job]
            found = NominationState.KEPT
            if record.phase is not Phase.STOPPING:
                found = nomination.nomination_state(self.cluster, record, self.now_s, self.state.leaving)
                yield record, found
            if found is NominationState.KEPT:
                self.kept.append(job)

    def withdraw(self, record: JobRecord) -> None:
        """Withdraw the job's nomination: it is received again in the next cycle."""
        self.actions.append(Nominate(record.job.id, ()))
        self.withdrawn[record.job.id] = None

    def gone(self) -> Container[str]:
        """Return the jobs that do not wait any more as they did when they were looked at: their nomination is
        withdrawn, or they are stopped."""
        if not self.actions:
            return ()
        return {*self.withdrawn, *(action.job for action in self.actions if isinstance(action, Preempt))}

    def wake_s(self) -> Iterator[float]:
        """Yield when nominations and searches want the next cycle (seconds since the epoch)."""
        if not (self.actions or self.kept or self.pending.searched or self.put_off):
            return
        withdrawn = any(isinstance(action, Nominate) and not action.placements for action in self.actions)
        if withdrawn or self.put_off or self.is_due():
            yield self.now_s
        yield from (self.cluster.jobs[job].nominated_until_s for job in self.kept)
        yield from (action.until_s for action in self.actions if isinstance(action, Nominate) and action.placements)

    # Requests that found no room

    def turns(self) -> Iterator[int]:
        """The cells whose turn it is to search: those that never did, and of the others `SEARCHES`, those that are due
        by time and then those that did so longest ago."""
        cells, pending = self.pending.cells, self.pending
        searched = pending.searched
        for cell in cells.preempts.nonzero()[0].tolist():
            line = cells.lines[cell]
            if line is not None and line.key not in searched:
                yield cell
        for key in chain(pending.due, searched):
            search = searched[key]
            if key in self.taken or (search.changes == DELAYED and self.now_s < search.again_s):
                continue
            yield pending.lines[key].cell
            self.taken[key] = None
            if len(self.taken) == SEARCHES:
                break

    def may_search(self, key: CellKey, reserved: object) -> bool:
        """Return whether a search may find somebody, as far as is known: something has changed since the last, or
        time has passed; or this cycle has decided something. `reserved`: who has a reservation, which is not to be
        delayed."""
        search = self.pending.searched.get(key)
        if search is None or self.now_s >= search.again_s:
            return True
        if search.changes == DELAYED:
            return False
        known = search.changes == self.pending.changes and search.reserved == reserved
        return not known or bool(self.ledger.mark() or self.actions)

    def make_room(
        self,
        key: CellKey,
        request: Request,
        offers: Sequence[FlavorAssignment],
        forecast: BackfillForecast | None,
    ) -> bool:
        """Have others give way, so that the cell's first starts as one of the offers says. It is nominated then;
        else it is asked about again when something changed, or when its delay is over. `forecast`: of those who have
        a reservation, if anybody may have one: they are not delayed."""
        wants, record = queue_preemption(self.cluster, key.queue), self.cluster.jobs[request.job]
        since_s = self.now_s if record.short_since_s is None else record.short_since_s
        if (ready_s := since_s + max(0.0, wants.delay_s)) > self.now_s:
            self.searched[key] = Search(DELAYED, ready_s, None)
            return False
        its_turn = key in self.pending.searched
        if key not in self.searched:  # of one cell, searches for one offer after the other count once
            if self.searches[its_turn] >= SEARCHES:
                self.put_off = self.put_off or not its_turn or key in self.given_up
                self.taken.pop(key, None)  # its turn is yet to come
                return False
            self.searches[its_turn] += 1
        context = self.context
        aside = guard.ReservationGuard(forecast, context, record, offers[0].charge.cost)
        rights = rights_of(key)
        found = aside.find(context, offers, rights)
        if found is not None:
            asks = rights(context, record.job, found.offer.charge.cost)
            is_free = evict.settle(context, self.actions, request, found, asks)
            self.state.stopped |= {victim.job for victim in found.victims if not victim.slots}
            self.put_off = self.put_off or (is_free and not found.at_once)  # the next cycle starts it, if it can
            self.give_up(key)
            return True
        if key.kind == Kind.JOB:
            self.take_over(key, record.job, wants)
        if any(isinstance(action, Shrink) for action in self.actions):
            self.put_off = True  # who gives up pods is asked once a cycle, and may have more to give
        again_s = self.next_chance_s(context)
        self.searched[key] = Search(self.pending.changes, NEVER_S if again_s is None else again_s, self.reserved)
        return False

    def is_due(self) -> bool:
        """Return whether cells are left whose turn did not come though something changed since they searched, or their
        time has come."""
        had = self.taken.keys() | self.searched.keys() | self.given_up
        searched, changes = self.pending.searched, self.pending.changes
        left = (each.changes for key, each in searched.items() if each.changes != DELAYED and key not in had)
        return not had.issuperset(self.pending.due) or next(left, changes) != changes  # no other searched before it

    def outcomes(self) -> Iterator[tuple[CellKey, Search]]:
        """Yield what became of searches; and whose turn passed, since they did not come up, or nothing had changed."""
        for key in self.taken:
            if key not in self.searched and key not in self.given_up:
                yield key, self.pending.searched[key]._replace(changes=self.pending.changes)
        yield from self.searched.items()

    def next_chance_s(self, context: PreemptionContext) -> float | None:
        """Return when time alone makes somebody available, whoever asks (seconds since the epoch)."""
        if self._chance is None or self._chance[0] != len(self.actions):
            self._chance = len(self.actions), next_chance_s(context)
        return self._chance[1]

    def await_change(self, key: CellKey) -> None:
        """Note that nobody's going helps the cell, nor does time: it searches again when something has changed. (It is
        not forgotten: it would be new in each cycle, and put off others to the next, at once, for ever.)"""
        if key in self.searched:
            self.searched[key] = Search(self.pending.changes, NEVER_S, self.reserved)

    def give_up(self, key: CellKey) -> None:
        """Forget the cell's search: its first has what it asks."""
        self.searched.pop(key, None)
        self.given_up.add(key)

    def take_over(self, key: CellKey, job: Job, wants: QueuePreemption) -> None:
        """Withdraw the nomination of another job of its queue, of lower priority, if its nodes hold the job: in the
        next cycle, which follows at once, what is leaving there counts for whoever is first."""
        if wants.within is WithinQueue.NEVER or len(key.gang.roles) != 1:
            return
        for name in self.kept:
            other = self.cluster.jobs[name]
            same = self.cluster.queue_of(other.job) == key.queue and other.phase is Phase.QUEUED
            if same and name not in self.withdrawn and other.job.priority < job.priority:
                held = nomination.nominated_capacity(self.cluster, other, key.gang.demands[0])
                if held >= key.gang.roles[0].minimum:
                    self.withdraw(other)
                    return

    @property
    def context(self) -> PreemptionContext:
        if self._context is None:
            self._context = PreemptionContext(
                cluster=self.cluster,
                draft=self.state.draft,
                ledger=self.ledger,
                running_pods=residents(self.cluster),
                now_s=self.now_s,
                told=self.told,
                placed=self.state.places,
            )
        return self._context


def rights_of(key: CellKey) -> type[PreemptionPolicy]:
    """Return what jobs of the cell may ask of others."""
    return ByRight if key.kind == Kind.GROWTH else PreemptionPolicy
