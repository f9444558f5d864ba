"""The candidates of one search for victims. A candidate is a single pod above a gang's minimum (a surplus pod), or a
whole gang.

Candidates are numbered: first all single pods, then all gangs. `evict` checks whether the policy allows the eviction of
a candidate. If so, it releases the candidate's charge in the ledger and frees its capacity on the draft. `restore`
undoes an eviction. If a gang is evicted, its remaining surplus pods are evicted, too, and the pods that this cycle has
placed for the gang are removed.

Whether the policy allows the preemption of a candidate must not depend on the order in which victims were chosen (rule
R18). So the policy judges each candidate as if some earlier victims were still running. If the candidate is a gang,
these are the surplus pods among the victims; if it is a surplus pod, the gangs among the victims. Victims from the
preemptor's own queue are always treated as still running."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from phalanx.core.preemption import nomination
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.policy import GOES_BEYOND, PreemptionPolicy, PreemptionRule
from phalanx.core.preemption.victims import CandidatePods, CandidateTable, Ints
from phalanx.model.job import GangSize, Placement, Slot, pods_by_role
from phalanx.state.classes import Demand
from phalanx.state.cluster import JobRecord, nominated_placements, spare_pods, with_their_members
from phalanx.state.queues.quota import Charge, Cost, Key, gang_cost

SURPLUS = -1  # the tier of single pods above a minimum; lower tiers are evicted first
LAST = 3  # added to the tier of jobs that must be preempted last, so that all other jobs have lower tiers
LIGHT = 1e-3  # when victims are counted, a single pod above a minimum counts as this fraction of a victim


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A job that is preempted, shrunk or moved.

    `slots`: the slots that the job releases; empty if the whole job is preempted. `charge`: the amounts by which the
    usage of the victim's queue falls. `place`: if the job is moved, its new placements, to which it is nominated."""

    job: str
    rule: PreemptionRule
    slots: tuple[Slot, ...] = ()
    charge: Charge | None = None
    place: tuple[Placement, ...] = ()


class VictimCandidates:
    """The candidates of one search.

    `going`: evicted candidate -> the preemption rule that allows its eviction, in the order of the evictions.
    `above`: the number of candidates that are single pods. Candidates with a number below `above` are single pods, all
    others are gangs.
    `evicted_slots`: job -> the slots that earlier searches of this cycle have evicted; empty if the whole job is
    preempted. `excluded`: jobs that are not candidates."""

    def __init__(self, context: PreemptionContext, rights: PreemptionPolicy, excluded: Collection[str] = ()) -> None:
        self.cluster, self.draft, self.ledger, self.running_pods = (
            context.cluster,
            context.draft,
            context.ledger,
            context.running_pods,
        )
        self.rights = rights
        self.placed, self.evicted_slots = context.placed, context.victims
        self.going: dict[int, PreemptionRule] = {}
        # True (for judging a gang) or False (for judging a surplus pod) -> queue -> the charges of its victims that are
        # treated as still running
        self._aside: dict[bool, dict[str, Counter[Key]]] = {True: {}, False: {}}
        self._lost: dict[str, Counter[Key]] = {}  # queue -> the amounts charged for its evicted candidates
        # (job number, role) -> the number of the role's pods that were evicted as single candidates
        self._spared: dict[tuple[int, int], int] = {}
        self._spared_slots: set[tuple[int, Slot]] = set()
        # entry of the table of running pods -> the slots of its pods, the highest ordinal first
        self._slots: dict[int, list[Slot]] = {}
        self._growth = {job: found for job, placed in self.placed.items() if (found := self._growth_of(job, placed))}
        self._lay_out((*(job for job, slots in self.evicted_slots.items() if not slots), *excluded))
        self._name_pods()
        self._free_leaving(context)
        if context.without_growth:
            self.free_growth()

    def _lay_out(self, excluded: Collection[str]) -> None:
        residents, entry = self.running_pods, self.running_pods.entry
        may, tier = self.rights.may_be_asked()
        for name in excluded:
            may[residents.number_of[name]] = False
        stay, shed = self._stay()
        alive = (stay > 0) & (entry("leaving") == 0)
        entries, ties = (alive & may[entry("job")]).nonzero()[0], residents.of_jobs("tie")
        order = (ties[entry("job")[entries]] << 31) | (entry("row")[entries] << 7) | (entry("role")[entries] & 127)
        entries = entries[order.argsort()]
        runs = np.zeros(len(may), np.bool_)
        runs[entry("job")[entries]] = True
        placed = [residents.number_of[job] for job in self.placed if job in residents.number_of]
        runs[placed] = may[placed]
        gangs = runs.nonzero()[0]
        gangs = gangs[ties[gangs].argsort(kind="stable")]
        counts = shed[entries]
        spare = np.repeat(entries, counts)
        self.above = above = len(spare)
        # indexed by job number: the candidate number of the job's whole gang; -1 if the gang is no candidate
        self.gang_unit = np.full(len(may), -1, np.int64)
        self.gang_unit[gangs] = np.arange(above, above + len(gangs))
        self._nth = np.arange(above) - np.repeat(np.cumsum(counts) - counts, counts)
        jobs = np.concatenate((entry("job")[spare], gangs))
        self.field = CandidateTable(
            self.draft,
            residents,
            self.rights.now_s,
            entry=np.concatenate((spare, entries)),
            candidate=np.concatenate((np.arange(above), self.gang_unit[entry("job")[entries]])),
            pods=np.concatenate((np.ones(above, np.int64), stay[entries])),
            job=jobs,
        )
        self.field.tier = tier[jobs]
        self.field.tier[:above], self.field.weight[:above] = SURPLUS, LIGHT
        self.field.tier += LAST * residents.of_jobs("last_victim")[jobs]
        self._single = spare

    def _stay(self) -> tuple[Ints, Ints]:
        """Return two arrays with one number for each entry of the table of running pods. The first number is how many
        pods of the entry this cycle has not evicted. The second is how many of these pods are above the job's
        minimum."""
        residents, entry, rows = self.running_pods, self.running_pods.entry, self.cluster.columns.row_of
        pods, spare = entry("pods"), entry("spare")
        if any(self.evicted_slots.values()) or self._growth:
            pods, spare = pods.copy(), spare.copy()
        # Pods that this cycle has placed count towards the job's minimum. So more of its running pods are above the
        # minimum.
        for job, growth in self._growth.items():
            for role, more in Counter(each.role for each in growth).items():
                spare[(entry("job") == residents.number_of[job]) & (entry("role") == role)] += more
        for job, slots in self.evicted_slots.items():
            for slot in slots:
                row = rows[self.cluster.jobs[job].placements[slot]]
                here = (entry("job") == residents.number_of[job]) & (entry("row") == row) & (entry("role") == slot.role)
                pods[here & (entry("leaving") == 0)] -= 1
        return pods, np.minimum(spare, pods)

    def _name_pods(self) -> None:
        """Mark the candidates whose pods must be listed one by one. These are candidates with devices, gangs for which
        this cycle has placed pods, and gangs with a nomination. (An evicted gang also loses its nomination, by rule
        R24.)"""
        for job in dict.fromkeys((*self.placed, *self.cluster.nominated)):
            number = self.running_pods.number_of.get(job, -1)
            if number >= 0 and (candidate := int(self.gang_unit[number])) >= 0:
                self.field.named[candidate] = partial(self._seats, candidate)
        for candidate in range(len(self.field.job)) if self.cluster.columns.devices.listed else ():
            if self.record(candidate).devices:
                self.field.named[candidate] = partial(self._seats, candidate)

    def _seats(self, candidate: int) -> list[CandidatePods]:
        """Return the position, demand and devices of each pod that the candidate holds."""
        record, number = self.record(candidate), int(self.field.job[candidate])
        if self.is_gang(candidate):
            kept = record.placements.keys() - record.leaving - {*self.evicted_slots.get(record.job.id, ())}
            slots = sorted(slot for slot in kept if (number, slot) not in self._spared_slots)
        else:
            slots = [self.slot_of(candidate)]
        rows, demands = self.cluster.columns.row_of, record.gang.demands
        seats = []
        for slot in slots:
            position = int(self.field.position_of[rows[record.placements[slot]]])
            if position >= 0:
                seats.append(CandidatePods(position, demands[slot.role], 1, record.devices.get(slot, ())))
        placed = self.placed.get(record.job.id, ())
        further = nomination.each_slot_once(placed, nominated_placements(record)) if self.is_gang(candidate) else ()
        for placement in further:
            position = int(self.field.position_of[rows[placement.node]])
            if position >= 0 and (number, Slot(placement.role, placement.ordinal)) not in self._spared_slots:
                seats.append(CandidatePods(position, demands[placement.role], 1, placement.devices))
        return seats

    def free_growth(self) -> None:
        """Remove from the draft the pods that this cycle has placed for running jobs above their minimums. Pods whose
        eviction the policy does not allow stay on the draft."""
        for job, growth in self._growth.items():
            number, record = self.running_pods.number_of[job], self.cluster.jobs[job]
            for each in growth if self.gang_unit[number] >= 0 else ():
                if self._left_to_spare(number, each.role) <= 0:
                    continue
                lost = partial(self._growth_charge, record, each.role)
                with self._judged(gang=False):
                    rule = self.rights.rule_for(number, whole=False, loss=lost)
                if rule is None:
                    break
                self._vacate(self.cluster.columns.row_of[each.node], record.gang.demands[each.role], each.devices)
                self._spared[number, each.role] = self._spared.get((number, each.role), 0) + 1
                self._spared_slots.add((number, Slot(each.role, each.ordinal)))
                if self.rights.counts and (charge := lost()) is not None:
                    self._account(charge.queue, charge, -1, gang=False)

    def _growth_of(self, job: str, placed: Sequence[Placement]) -> list[Placement]:
        """Return the placements in `placed` that are above the minimum of the running job."""
        return [*growth_of(self.cluster.jobs[job], placed)] if job in self.running_pods.number_of else []

    def _growth_charge(self, record: JobRecord, role: int) -> Charge | None:
        """Return the amounts that the job's queue is charged for one pod of the role."""
        pods = [int(each == role) for each in range(len(record.job.roles))]
        return record.charge and record.charge._replace(cost=self._cost(record, pods), jobs=0)

    def _free_leaving(self, context: PreemptionContext) -> None:
        """Free the capacity of terminating pods on the draft."""
        rows = self.cluster.columns.row_of
        for record, slot in nomination.leaving_slots(self.cluster):
            self._vacate(rows[record.placements[slot]], record.gang.demands[slot.role], record.devices.get(slot, ()))
        for node, demand, devices in context.leaving:
            self._vacate(rows[node], demand, devices)
        self.draft.reopen()

    def _vacate(self, row: int, demand: Demand, devices: tuple[str, ...]) -> None:
        position = int(self.field.position_of[row])
        if position >= 0:
            self.draft.vacate(position, demand, devices)

    # Properties of one candidate

    def is_gang(self, candidate: int) -> bool:
        """Return whether the candidate is a whole gang."""
        return candidate >= self.above

    def record(self, candidate: int) -> JobRecord:
        """Return the record of the candidate's job."""
        return self.cluster.jobs[self.running_pods.ids[self.field.job[candidate]]]

    def queue(self, candidate: int) -> str:
        """Return the queue of the candidate's job."""
        queue: str = self.running_pods.queues[int(self.field.group[candidate])]
        return queue

    def entry_of(self, candidate: int) -> int:
        """Return the entry of a candidate that is a single pod. An entry of the table of running pods has the pods of
        one job and role on one node."""
        return int(self._single[candidate])

    def slot_of(self, candidate: int) -> Slot:
        """Return the slot of a candidate that is a single pod. If a role has several pods on one node, the pod with the
        highest ordinal is evicted first."""
        entry = int(self._single[candidate])
        if entry not in self._slots:
            record, role = self.record(candidate), int(self.running_pods.entry("role")[entry])
            node = self.cluster.columns.names[int(self.running_pods.entry("row")[entry])]
            here = (slot for slot, name in record.placements.items() if name == node and slot.role == role)
            going = record.leaving.union(self.evicted_slots.get(record.job.id, ()))
            self._slots[entry] = sorted((slot for slot in here if slot not in going), reverse=True)
        return self._slots[entry][int(self._nth[candidate])]

    # Evicting and restoring

    def evict(self, candidate: int) -> bool:
        """Evict the candidate if the policy allows it, and if the candidate's queue could not take the capacity back by
        preemption later (rule R20). Return whether the candidate was evicted."""
        if not self.evict_if_permitted(candidate):
            return False
        if self.would_be_taken_back([candidate]):
            self.restore(candidate)
            return False
        return True

    def evict_if_permitted(self, candidate: int) -> bool:
        """Evict the candidate if the policy allows the eviction. Return whether the candidate was evicted."""
        number, gang = int(self.field.job[candidate]), self.is_gang(candidate)
        if not gang and (self.field.gone[self.gang_unit[number]] or not self._can_spare(candidate)):
            return False
        with self._judged(gang=gang):
            rule = self.rights.rule_for(number, whole=gang, loss=partial(self._loss, candidate))
        if rule is None:
            return False
        self.go(candidate, rule)
        return True

    def would_be_taken_back(self, evicted: Iterable[int]) -> bool:
        """Return whether the queue of one of the evicted candidates could later preempt the preemptor, and so take the
        capacity back (rule R20)."""
        queues = {self.queue(each) for each in evicted if self.going[each] in GOES_BEYOND}
        return any(self.rights.takes_too_much(queue, self._lost) for queue in queues)

    def could_return(self, charge: Charge) -> bool:
        """Return whether an evicted gang of another queue could preempt the preemptor as soon as the gang is pending
        again (rule R20). `charge`: the charge of the preemptor."""
        gangs = np.array([each for each in self.going if self.is_gang(each)], np.int64)
        queues, alike = self.field.group[gangs], dict[tuple[Any, ...], JobRecord]()
        others = [each for each in set(queues.tolist()) if self.rights.may_lose_to(self.running_pods.queues[each])]
        for each in gangs[np.isin(queues, others)].tolist() if others else ():
            record = self.record(each)
            alike[self.queue(each), record.job.priority, record.preempted, record.gang, record.flavors] = record
        mark = self.ledger.mark()
        self.ledger.charge(charge)
        records = (each for each in alike.values() if each.job.preempts)
        found = any(self.rights.is_outranked(each, self._cost(each, each.gang.minimums), charge) for each in records)
        self.ledger.rewind(mark)
        return found

    @contextmanager
    def _judged(self, *, gang: bool) -> Iterator[None]:
        """While the `with` block runs, the ledger also has the charges of the victims that the policy must treat as
        still running. The policy judges a candidate in this block. `gang`: True if the candidate is a whole gang."""
        aside, mark = self._aside[gang], self.ledger.mark()
        for queue, amounts in aside.items():
            self.ledger.charge(Charge(queue, "", "", tuple(amounts.items()), 0))
        try:
            yield
        finally:
            self.ledger.rewind(mark)

    def _loss(self, candidate: int) -> Charge | None:
        """Return the amounts by which the usage of the candidate's queue falls if the candidate is evicted. The result
        for a gang includes its pods that were evicted earlier as single candidates."""
        return self._whole_charge(candidate) if self.is_gang(candidate) else self.charge_of(candidate)

    def _whole_charge(self, candidate: int) -> Charge | None:
        """Return the amounts that the queue is charged for the gang. Pods that this cycle has granted to the gang are
        included. Slots that earlier searches of this cycle have evicted are left out."""
        record = self.record(candidate)
        granted, told = self.ledger.of_jobs.get(record.job.id), self.evicted_slots.get(record.job.id)
        if record.charge is None or not (granted or told):
            return record.charge
        cost = Counter(dict(record.charge.cost))
        for charge in granted or ():
            cost.update(dict(charge.cost))
        if told:
            pods = pods_by_role(told, len(record.job.roles))
            cost.subtract(dict(gang_cost(record.gang, pods, record.flavors)))
        return record.charge._replace(cost=tuple(cost.items()))

    def go(self, candidate: int, rule: PreemptionRule) -> None:
        """Evict the candidate. `rule`: the preemption rule that allows the eviction."""
        self._enter(candidate, -1)
        self.field.leave(candidate)
        self.field.gone[candidate] = True
        self.going[candidate] = rule
        if not self.is_gang(candidate):
            self._spare(candidate, 1)

    def restore(self, candidate: int) -> None:
        """Undo the eviction of the candidate."""
        if not self.is_gang(candidate):
            self._spare(candidate, -1)
        self.field.come_back(candidate)
        self._enter(candidate, 1)
        self.field.gone[candidate] = False
        del self.going[candidate]

    def charge_of(self, candidate: int) -> Charge | None:
        """Return the amounts by which the usage of the candidate's queue falls if the candidate is evicted. The result
        for a gang does not include its pods that were evicted earlier as single candidates."""
        record, number = self.record(candidate), int(self.field.job[candidate])
        if record.charge is None:
            return None
        pods = [0] * len(record.job.roles)
        if not self.is_gang(candidate):
            pods[self.slot_of(candidate).role] = 1
            return record.charge._replace(cost=self._cost(record, pods), jobs=0)
        charge = self._whole_charge(candidate)
        assert charge is not None  # gangs without a charge are not candidates
        for role in range(len(pods)):
            pods[role] = self._spared.get((number, role), 0)
        if not any(pods):
            return charge
        less = dict(self._cost(record, pods))
        return charge._replace(cost=tuple((key, amount - less.get(key, 0)) for key, amount in charge.cost))

    def _cost(self, record: JobRecord, pods: Sequence[int]) -> Cost:
        branch = self.cluster.tree.branch(record.queue)
        return gang_cost(record.gang, pods, record.flavors, branch.rules.flavors)

    def _enter(self, candidate: int, sign: int) -> None:
        """If `sign` is -1, release the candidate's charge in the ledger. For a gang, also count the eviction against
        the hourly preemption budget of its queue. If `sign` is 1, undo both."""
        queue = self.queue(candidate)
        if self.rights.counts and (charge := self.charge_of(candidate)) is not None:
            self._account(queue, charge, sign, gang=self.is_gang(candidate))
        if self.is_gang(candidate):
            self.rights.spent[queue] = self.rights.spent.get(queue, 0) - sign

    def _account(self, queue: str, charge: Charge, sign: int, *, gang: bool) -> None:
        """Release (`sign` -1) or restore (`sign` 1) the charge of a victim in the ledger. `gang`: True if the victim is
        a whole gang."""
        self.ledger.charge(charge, sign)
        self._lost.setdefault(queue, Counter()).update({key: -sign * amount for key, amount in charge.cost})
        for judged in (True, False):
            if queue == self.rights.queue or gang is not judged:
                aside = self._aside[judged].setdefault(queue, Counter())
                aside.update({key: -sign * amount for key, amount in charge.cost})
                if not any(aside.values()):
                    del self._aside[judged][queue]

    def _can_spare(self, candidate: int) -> bool:
        return self._left_to_spare(int(self.field.job[candidate]), self.slot_of(candidate).role) > 0

    def _left_to_spare(self, number: int, role: int) -> int:
        """Return the number of further pods of the role that the job may lose without falling below its minimum.
        `number`: the number of the job."""
        job = self.running_pods.ids[number]
        told = sum(slot.role == role for slot in self.evicted_slots.get(job, ()))
        more = sum(each.role == role for each in self._growth.get(job, ()))
        return spare_pods(self.cluster.jobs[job])[role] + more - told - self._spared.get((number, role), 0)

    def _spare(self, candidate: int, pods: int) -> None:
        number, slot, entry = int(self.field.job[candidate]), self.slot_of(candidate), int(self._single[candidate])
        self._spared[number, slot.role] = self._spared.get((number, slot.role), 0) + pods
        self.field.given[entry] = self.field.given.get(entry, 0) + pods
        (self._spared_slots.add if pods > 0 else self._spared_slots.discard)((number, slot))

    # The victims of a search

    def most_precious_first(self) -> list[int]:
        """Return the evicted candidates in the order in which they should be restored. Gangs come before single pods,
        and candidates of the preemptor's own queue before those of other queues. Then come higher priorities before
        lower, and longer run times before shorter."""
        field, at = self.field, np.fromiter(self.going, np.int64, len(self.going))
        keys = (at, -field.ran_s[at], -field.priority[at], -field.tier[at], at < self.above)
        found: list[int] = at[np.lexsort(keys)].tolist()
        return found

    def goes_with_its_gang(self, candidate: int) -> bool:
        """Return whether the candidate is a single pod, and its whole gang is evicted as well."""
        return not self.is_gang(candidate) and int(self.gang_unit[self.field.job[candidate]]) in self.going

    def victims(self) -> Iterator[Victim]:
        """Yield the victims. First come the gangs, in the reverse order of `most_precious_first`; then the jobs that
        lose only single pods."""
        alone: dict[str, list[int]] = {}
        for candidate in reversed(self.most_precious_first()):
            record = self.record(candidate)
            if self.is_gang(candidate):
                yield Victim(job=record.job.id, rule=self.going[candidate], charge=self._whole_charge(candidate))
            elif not self.goes_with_its_gang(candidate):
                alone.setdefault(record.job.id, []).append(candidate)
        for job, candidates in alone.items():
            yield self._shrunk(self.cluster.jobs[job], candidates)

    def _shrunk(self, record: JobRecord, candidates: Sequence[int]) -> Victim:
        slots = with_their_members(record, {self.slot_of(candidate) for candidate in candidates})
        cost = self._cost(record, pods_by_role(slots, len(record.job.roles)))
        charge = record.charge._replace(cost=cost, jobs=0) if record.charge else None
        return Victim(job=record.job.id, rule=self.going[candidates[0]], slots=slots, charge=charge)


def growth_of(record: JobRecord, placed: Sequence[Placement]) -> Iterator[Placement]:
    """Yield those of `placed` that are above the minimum of the started job and can be preempted one by one. Placements
    that the job needs to reach its minimum are not yielded."""
    if record.job.size not in (GangSize.ELASTIC, GangSize.IN_TURN):
        return
    missing = [max(0, least - has) for has, least in zip(record.kept(), record.minimums, strict=True)]
    for each in placed:
        if missing[each.role]:
            missing[each.role] -= 1
        else:
            yield each
