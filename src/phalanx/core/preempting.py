"""Preemption's part of a cycle: promises that stand are looked at first, and whoever finds no room may push.

A search costs milliseconds, so it must be worth it: not for a job whose queue preempts nobody, not before its queue's
delay is over, not again in this cycle for another that may push nobody either, and at most `SEARCHES` times in a cycle.
A line that came too late for that has its turn in the next cycle, which follows at once; those whose turn it is have a
budget of their own, else those that come first would search again in every cycle, and the others never. One whose
search found nobody *hunts*: it is woken when something that runs has changed, a few lines a cycle, those that waited
longest for it first (`model.waiting`), and when time makes somebody available (a minimum run time, or a budget's hour,
passes).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import numpy as np

from phalanx.core import consolidate, displace, explain_preemption, preempt, promise, quota, reserve
from phalanx.core.backfill import Horizon
from phalanx.core.draft import Draft
from phalanx.core.overfull import with_overfull
from phalanx.core.preempt import Found
from phalanx.core.promise import State
from phalanx.core.quota import Ledger, Offer
from phalanx.core.residency import residents
from phalanx.core.rights import Rights, next_chance_s, preemption_of
from phalanx.core.scene import Scene
from phalanx.core.units import Victim
from phalanx.model.cluster import Cluster, Record
from phalanx.model.demand import Demand, Gang
from phalanx.model.job import Job, Phase, Placement
from phalanx.model.line import Kind, LineKey
from phalanx.model.plan import Action, Preempt, Promise, Shrink, Start
from phalanx.model.preemption import Preemption, Reclaim, Within

SEARCHES = 8


class Preempting:
    """`actions`: what was decided so far. `told`: who gives way by them, whole or in part. `hunting`: lines that may
    push, and whether they are yet to search; `again_s`: of lines, when time makes another search worth it."""

    def __init__(self, cluster: Cluster, ledger: Ledger, now_s: float) -> None:
        self.cluster, self.ledger, self.now_s = cluster, ledger, now_s
        self.actions: list[Action] = []
        self.told: dict[str, None] = {}
        self.spent: dict[str, int] = {}
        self.leaving: list[tuple[str, Demand, tuple[str, ...]]] = []
        self.others = promise.Leaving(cluster, now_s)
        self.searches = [0, 0]  # of those that came up anyhow, and of those whose turn it is
        self.in_vain = 0
        self.kept: list[str] = []  # whose promises stand
        self.withdrawn: dict[str, None] = {}  # whose promises do not
        self.hunting: dict[LineKey, bool] = {}
        self.again_s: dict[LineKey, float | None] = {}
        self._scene: Scene | None = None
        self._chance: tuple[int, float | None] | None = None  # after so many actions

    # Promises that stand

    def promises(self) -> Iterator[tuple[Record, State]]:
        """Of the jobs that wait: what is to become of their promises, oldest first."""
        for job in list(self.cluster.promised):
            record = self.cluster.jobs[job]
            found = State.KEPT
            if record.phase is Phase.QUEUED:
                found = promise.state(self.cluster, record, self.now_s, self.others)
                yield record, found
            if found is State.KEPT:
                self.kept.append(job)

    def withdraw(self, record: Record) -> None:
        """It stands in line again, in the next cycle."""
        self.actions.append(Promise(record.job.id, ()))
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
        withdrawn = any(isinstance(action, Promise) and not action.placements for action in self.actions)
        if withdrawn or self.cluster.waiting.hunters.due or any(self.hunting.values()):
            yield self.now_s
        yield from (self.cluster.jobs[job].promised_until_s for job in self.kept)
        yield from (action.until_s for action in self.actions if isinstance(action, Promise) and action.placements)

    # Bids that found no room

    def pushes(self, key: LineKey) -> bool:
        """Whether jobs of the line may make others give way at all."""
        return key.kind == Kind.JOB and key.terms.preempts and pushes(preemption_of(self.cluster, key.queue))

    def make_room(
        self, draft: Draft, key: LineKey, record: Record, offers: Sequence[Offer], horizon: Horizon | None
    ) -> bool:
        """Others give way, so that the line's first starts as one of the offers says. It is promised its place then;
        else it hunts, or is asked about again in the next cycle, or when its delay is over. `horizon`: of those who
        have a reservation, if anybody may have one: they are not delayed."""
        wants = preemption_of(self.cluster, key.queue)
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
        aside = displace.Aside(horizon, scene, record, offers[0].charge.cost)
        found = self.search(scene, record.job, offers, aside)
        if found is None and not self.actions and (wider := with_overfull(self.cluster, draft, self.others)):
            found = self.search(replace(scene, draft=wider), record.job, offers, aside)
        if found is not None:
            self.settle(scene, record.job, found)
            self.give_up(key)
            return True
        self.hunting[key] = self.takes_over(key, record.job, wants)
        self.again_s[key] = self.next_chance_s(scene)
        return False

    def put_off(self, key: LineKey) -> None:
        """As many have searched in this cycle as may: it is its turn in the next, unless it has searched since anything
        changed."""
        rests = key in self.cluster.waiting.hunters.resting
        self.hunting[key] = not rests
        if rests:
            self.again_s[key] = self.cluster.waiting.dawn_of.get(key)

    def finds_nobody(self, draft: Draft, key: LineKey, record: Record) -> bool:
        """Of a hunting line that lacks room and nothing else: that a search would end before it begins. So it hunts
        on."""
        wants = preemption_of(self.cluster, key.queue)
        if wants.delay_s > 0 or wants.consolidate or self.kept or self.searches[True] >= SEARCHES:
            return False
        scene = self.scene(draft)
        if preempt.changes_anything(scene, record.job, key.gang.due()):
            return False
        self.searches[True] += 1
        self.in_vain += 1
        self.hunting[key] = False
        self.again_s[key] = self.next_chance_s(scene)
        return True

    def next_chance_s(self, scene: Scene) -> float | None:
        """When time alone makes somebody available, whoever asks (seconds since the epoch)."""
        if self._chance is None or self._chance[0] != len(self.actions):
            self._chance = len(self.actions), next_chance_s(scene)
        return self._chance[1]

    def search(self, scene: Scene, job: Job, offers: Sequence[Offer], aside: displace.Aside) -> Found | None:
        """For the first of the offers for which there is a way."""
        wants = preemption_of(self.cluster, self.cluster.queue_of(job))
        with reserve.closed_off(scene.draft, self.cluster, job, self.now_s), aside.cut(scene.draft):
            for offer in offers:
                found = preempt.search(scene, job, offer)
                if found is None and wants.consolidate and offer.short is None:
                    found = consolidate.search(scene, job, offer)
                if found is not None and aside.allows(found):
                    return found
        return None

    def give_up(self, key: LineKey) -> None:
        """Nobody's going helps the line: it does not hunt."""
        self.hunting.pop(key, None)
        self.again_s.pop(key, None)

    def takes_over(self, key: LineKey, job: Job, wants: Preemption) -> bool:
        """Another job of its queue, of lower priority, is promised room that holds it: that promise is taken back, and
        in the next cycle, which follows at once, what is leaving there counts for whoever is first."""
        if wants.within is Within.NEVER or len(key.gang.roles) != 1:
            return False
        for name in self.kept:
            other = self.cluster.jobs[name]
            same = self.cluster.queue_of(other.job) == key.queue and other.phase is Phase.QUEUED
            if same and name not in self.withdrawn and other.job.priority < job.priority:
                held = promise.holds(self.cluster, other, key.gang.demands[0], self.now_s)
                if held >= key.gang.roles[0].minimum:
                    self.withdraw(other)
                    return True
        return False

    def hunters(self, *, stirred: bool) -> Iterator[tuple[LineKey, bool]]:
        """Lines that hunt from now on, and whether they are due. `stirred`: others run, or leave, when this cycle is
        over. So whoever searched before that was decided searches again in the next, whenever that is: a queue that
        starts jobs may have too much then, what it starts may be pushed or moved, and what leaves may be enough."""
        return ((key, due or stirred) for key, due in self.hunting.items())

    def scene(self, draft: Draft) -> Scene:
        if self._scene is None:
            self._scene = Scene(
                cluster=self.cluster,
                draft=draft,
                ledger=self.ledger,
                residents=residents(self.cluster),
                now_s=self.now_s,
                leaving=self.leaving,
                told=self.told,
                spent=self.spent,
            )
        return self._scene

    # Decided

    def settle(self, scene: Scene, job: Job, found: Found) -> None:
        """Who goes is given back in the ledger; the job's place is its own from now on."""
        rights = Rights(scene, job, found.offer.charge.cost)
        for victim in found.victims:
            self.tell(victim, rights)
        for victim in found.victims:
            if victim.place:
                keep(scene.draft, self.cluster, self.cluster.jobs[victim.job].gang, victim.place)
        self.ledger.charge(found.offer.charge)
        if found.at_once:
            attempt, limit_s = self.cluster.jobs[job.id].attempt + 1, quota.time_limit_s(self.cluster, job)
            self.actions.append(
                Start(job.id, attempt, found.placements, self.now_s, found.offer.flavors, limit_s=limit_s)
            )
        else:
            until_s = (
                self.now_s + promise.PATIENCE_S + max((self.grace_s(each.job) for each in found.victims), default=0.0)
            )
            self.actions.append(Promise(job.id, found.placements, found.offer.flavors, until_s))
        keep(scene.draft, self.cluster, found.offer.gang, found.placements)

    def tell(self, victim: Victim, rights: Rights) -> None:
        record = self.cluster.jobs[victim.job]
        queue = self.cluster.queue_of(record.job)
        grace_s = preemption_of(self.cluster, queue).grace_s
        reason = explain_preemption.gave_way(rights, record, victim.rule, len(victim.slots))
        if victim.slots:
            self.actions.append(Shrink(victim.job, victim.slots, rights.job.id, reason, grace_s))
        else:
            self.actions.append(Preempt(victim.job, record.attempt, rights.job.id, reason, grace_s))
            self.spent[queue] = self.spent.get(queue, 0) + 1
        if victim.place:
            until_s = self.now_s + promise.PATIENCE_S + (grace_s or 0.0)
            self.actions.append(Promise(victim.job, victim.place, record.flavors, until_s))
        elif victim.charge is not None:
            self.ledger.charge(victim.charge, -1)
        self.told[victim.job] = None
        stayed = record.placements.keys() - record.leaving if record.leaving else record.placements
        for slot in victim.slots or sorted(stayed):
            demand = record.gang.demands[slot.role]
            self.leaving.append((record.placements[slot], demand, record.devices.get(slot, ())))

    def grace_s(self, job: str) -> float:
        return preemption_of(self.cluster, self.cluster.queue_of(self.cluster.jobs[job].job)).grace_s or 0.0


def keep(draft: Draft, cluster: Cluster, crew: Gang, placements: Sequence[Placement]) -> None:
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


def pushes(wants: Preemption) -> bool:
    """Whether jobs of such a queue may make anybody give way, or have them moved."""
    others = wants.reclaim is not Reclaim.NEVER or wants.borrowing
    return others or wants.within is not Within.NEVER or wants.consolidate
