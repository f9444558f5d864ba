"""Choose the cheapest set of victims. This module works on a small *pool* of candidates, and tries every set of
candidates that the pool has.

If all candidates together form a small pool (at most `ALL_SETS` sets), the result is exact: if the rules permit any set
of victims, one is found. Otherwise `core.preemption.search` first finds a set of victims that frees enough, with the
method of `core.preemption.victims`. This module then tries several small pools, and replaces victims by better ones
from the same pool. Such a pool has the candidates on one of the nodes of the victims, and often also the candidates on
one of the next best nodes.

Array operations compute for all sets of a pool at once what each set costs, and whether it frees enough capacity
according to a count of pods. Sets that free enough are then tried one by one, the cheapest first. The chosen set is the
first one that meets four conditions: the preemption policy permits it; every victim is needed; no victim could preempt
the preemptor afterwards; and the set is *fair*. If a gang has several pods above its minimum on one node, it makes no
difference which of them is evicted. So only sets with those pods that have the highest ordinals are tried.

The costs of two sets are compared by these criteria, one after the other, until the sets differ:

1. sets that have only pods above minimums are the cheapest, then come sets with gangs of other queues, then sets with
   gangs of the preemptor's own queue;
2. the set is cheaper in which the highest priority of a gang is lower;
3. the set with fewer whole gangs is cheaper;
4. the set that loses less work is cheaper. The lost work of a gang is its run time since its start or its last
   checkpoint, times its amount of the scarce resource;
5. the set that frees less of the scarce resource is cheaper;
6. last, three properties are compared, one after the other; the lower value is cheaper: the highest priority of a pod
   above a minimum, the number of pods above minimums, and the total run time of all victims.

A set is *fair* if no gang in it could be replaced by victims of queues with higher shares. Shares change with each
eviction. So a queue counts as a queue with a higher share only if its share is still higher just before each of its
replacing victims is evicted. `PreemptionPolicy.share_of` tells how the shares of two queues are compared.
With `VictimOrder.FAIREST`, fair sets come before all other sets. With `CHEAPEST`, fairness only decides between sets of
equal cost."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import accumulate, islice
from operator import or_
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement import gang
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.core.placement.gang import GangPlacement
from phalanx.core.preemption.candidates import SURPLUS, VictimCandidates
from phalanx.core.preemption.policy import PreemptionPolicy, PreemptionRule
from phalanx.core.preemption.victims import Descending
from phalanx.core.quota.ledger import QuotaShortfall, missing_amount
from phalanx.model.job import Placement
from phalanx.state.classes import Demand, Gang

OWN = 1  # the tier of gangs of the preemptor's own queue; gangs of other queues have a lower tier
LEAST = -(2**62) - 1  # a placeholder for a missing priority, lower than every priority
# fairness is only checked if the candidates belong to at least this many queues, without the preemptor's queue
MANY = 2
MOST_UNITS = 13  # the maximum number of candidates in a pool, except for a pool with all candidates
ALL_SETS = 1 << 13  # if at most this many sets can be formed from all candidates, all candidates are one pool
ALL_TRIED = 1024  # the maximum number of sets that are tried one by one in a pool with all candidates
NODES = 8  # if the victims are on more nodes than this, their set is not improved
# the maximum number of pools with the candidates of two nodes (but at least one for each node of a victim)
NEXT = 8
SETS = 128  # the maximum number of sets that are tried one by one in a smaller pool
TRIED_INSTEAD = 32  # at most this many sets are tried as a replacement for one candidate
MOST_ORDERED = 6  # for sets with more candidates than this, only one order of eviction is tried

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


class SearchForVictims(Protocol):
    """The attributes and methods of `core.preemption.search.VictimSearch` that this module uses. `at_once`: True if
    nodes are already free for the job and only quota is short. `by_amounts`: True if a comparison of amounts is enough
    to show whether the gang can be placed. `named`: True if pods request named devices, so that a comparison of amounts
    cannot show which pods fit."""

    draft: Draft
    gang: Gang
    at_once: bool
    by_amounts: bool
    named: bool
    rights: PreemptionPolicy
    candidates: VictimCandidates

    def quota_short(self) -> QuotaShortfall | None:
        """Return the first limit of the queue tree that the job would exceed; None if it would exceed none."""

    def comes_to_rest(self) -> bool:
        """Return whether no victim could preempt the job as soon as the victim is pending again (rule R20)."""

    def place(self) -> GangPlacement:
        """Place the gang on the draft. The caller has already removed the victims from the draft."""

    def scarce(self) -> NDArray[np.float64]:
        """Return for each candidate how much it holds of the scarce resource (see `VictimSearch.scarce`)."""


def is_small(candidates: VictimCandidates) -> bool:
    """Return whether at most `ALL_SETS` sets can be formed from all candidates."""
    if len(candidates.field.job) > 4 * MOST_UNITS:
        return False
    return math.prod(len(each) for each in options(candidates, range(len(candidates.field.job)))) <= ALL_SETS


def options(candidates: VictimCandidates, pool: Sequence[int]) -> list[list[int]]:
    """Return for each job of the pool the sets of its candidates that may be evicted together, as bit masks. These are
    the empty set, the whole gang, and each choice of pods above the job's minimum. A choice has any number of pods on
    each node; on one node, the pods with the highest ordinals are chosen first."""
    entries: dict[int, dict[int, list[int]]] = {}
    gangs: dict[int, int] = {}
    for at, candidate in enumerate(pool):
        job = int(candidates.field.job[candidate])
        if candidates.is_gang(candidate):
            gangs[job] = 1 << at
        else:
            entries.setdefault(job, {}).setdefault(candidates.entry_of(candidate), []).append(1 << at)
    found = []
    for job in {**gangs, **entries}:
        ways = [0]
        for bits in entries.get(job, {}).values():
            firsts = list(accumulate(bits, or_, initial=0))
            ways = [way | first for way in ways for first in firsts]
        found.append([*ways, gangs[job]] if job in gangs else ways)
    return found


def improve(hunt: SearchForVictims, placements: list[Placement]) -> list[Placement]:
    """Replace the present victims by better sets from small pools. Return the placements of the job that belong to the
    new victims."""
    if len(hunt.candidates.going) > NODES * MOST_UNITS:
        return placements
    for pool in pools(hunt):
        placements = Choice(hunt, pool).settle(placements)
    return placements


def pools(hunt: SearchForVictims) -> Iterator[list[int]]:
    """Yield the pools. If there are few candidates, one pool has all candidates. Otherwise each node of a victim has a
    pool with the candidates on this node. Each pair of a node of a victim and one of the next best nodes has a pool,
    too."""
    field, going = hunt.candidates.field, hunt.candidates.going
    everybody = range(len(field.job))
    if len(everybody) <= MOST_UNITS:
        yield list(everybody)
        return
    touched = dict.fromkeys(each.position for candidate in going for each in field.holdings(candidate))
    if len(touched) > NODES:
        return
    for position in touched:
        yield fewest(going, field.units_on(position))
    others = [position for position in field.next_best if position not in touched]
    for position in others[: max(1, NEXT // len(touched))]:
        for left in touched:
            yield fewest(going, dict.fromkeys((*field.units_on(left), *field.units_on(position))))


def fewest(going: Collection[int], there: Collection[int]) -> list[int]:
    """Return the pool for one or two nodes. `there`: the candidates on these nodes. The pool has at most `MOST_UNITS`
    of them; present victims come first. `going`: all present victims. Those on other nodes are added if all of them fit
    into the pool."""
    found = sorted(there, key=lambda candidate: candidate not in going)[:MOST_UNITS]
    others = [candidate for candidate in going if candidate not in there]
    return found + others if len(found) + len(others) <= MOST_UNITS else found


class Choice:
    """All sets of candidates of one pool. A set is stored as an integer: bit i is 1 if `pool[i]` is in the set."""

    def __init__(self, hunt: SearchForVictims, pool: Sequence[int]) -> None:
        self.hunt, self.candidates, self.field = hunt, hunt.candidates, hunt.candidates.field
        self.pool = list(pool)
        ways = (np.array(each, np.int64) for each in options(self.candidates, self.pool))
        none = np.zeros(1, np.int64)
        self.sets: Ints = np.sort(reduce(lambda found, each: (found[:, None] | each).ravel(), ways, none))
        # A mask with the members of each set: `has[set, candidate]` is True if the set has the candidate.
        self.has = ((self.sets[:, None] >> np.arange(len(self.pool))) & 1).astype(np.bool_)
        self.tried = SETS
        self.bit_of = {candidate: 1 << at for at, candidate in enumerate(self.pool)}
        self.found = [candidate for candidate in self.pool if candidate in self.candidates.going]
        self.rules = {candidate: self.candidates.going[candidate] for candidate in self.found}
        self.fairest = hunt.rights.fairest
        self.rivals = len({self.field.group[candidate] for candidate in self.pool if self.field.tier[candidate] < OWN})
        self._placed: dict[int, list[Placement] | None] = {}
        self._spared: dict[int, Mask] = {}  # candidate's bit -> the result of `_can_spare`

    def find(self) -> list[Placement] | None:
        """Evict the best of all sets, and return the placements of the gang. Return an empty list if only quota is
        short. Return None if no permitted set frees enough. Precondition: no candidate is evicted."""
        self.enough, self.tried = self._enough(), ALL_TRIED
        chosen = self._chosen(-1)
        if chosen is None:
            return None
        self._go(chosen)
        return self._placed.get(chosen) or []

    def settle(self, placements: list[Placement]) -> list[Placement]:
        """Evict the best set of the pool instead of the pool's present victims. Return the new placements of the job.
        If the present victims are already the best set, or if only quota was short, return `placements`."""
        if not self.found:
            return placements
        for candidate in reversed(self.found):
            self.candidates.restore(candidate)
        self.field.gone[self.pool] = False
        self.enough = self._enough()
        chosen = self._chosen(self._number(self.found))
        if chosen is not None:
            self._go(chosen)
            return self._placed.get(chosen) or placements
        for candidate in self.found:
            self.candidates.go(candidate, self.rules[candidate])
        return placements

    def _chosen(self, before: int) -> int | None:
        """Return the best set; None if no set is better than the present victims. `before`: the set of the present
        victims, or -1 if there are none."""
        best, best_cost = None, None
        order, costs = self._cheapest_first()
        unfair = None  # the cheapest permitted set among the unfair sets, which is used if no set is fair
        for chosen, cost in zip(order, costs, strict=True):
            if best is not None and cost != best_cost:
                break
            if self._is_right(chosen):
                if self.rivals < MANY or self._is_fair(chosen):
                    best = chosen
                elif not self.fairest and best is None:
                    best, best_cost = chosen, cost
                elif unfair is None:
                    unfair = chosen
            self._come_back()
            if best is not None and best_cost is None:
                break
        if best is None and before < 0:
            best = unfair
        return None if best == before else best

    def _is_right(self, chosen: int) -> bool:
        """Evict the set. Return whether the set meets the conditions of the module docstring except fairness: its
        eviction is permitted and frees enough, every victim is needed, and no victim could preempt the preemptor
        afterwards."""
        is_enough = self._go(chosen) and self._is_enough(chosen) and self._everybody_is_needed(chosen)
        return is_enough and self.hunt.comes_to_rest()

    @property
    def counts_quota(self) -> bool:
        """Return whether the victims' charges, added up, are the quota that their eviction returns. This is not so if
        queues keep a part of their guarantee for themselves, because a parent queue is charged this part even if no job
        uses it."""
        return not self.candidates.cluster.tree.keeps

    # Sets as bit masks

    def _number(self, candidates: Iterable[int]) -> int:
        return sum(self.bit_of[candidate] for candidate in candidates)

    def _members(self, chosen: int) -> list[int]:
        return [candidate for candidate, bit in self.bit_of.items() if chosen & bit]

    def _summed(self, values: Sequence[Any] | NDArray[Any], dtype: Any = np.int64) -> NDArray[Any]:
        """For each set, add up the values of its candidates, and return the sums. `values`: a number (or an array of
        numbers) for each candidate of the pool."""
        found: NDArray[Any] = self.has.astype(dtype) @ np.asarray(values, dtype)
        return found

    def _highest(self, values: Sequence[int], least: int) -> Ints:
        found: Ints = np.where(self.has, np.array(values, np.int64), least).max(axis=1, initial=least)
        return found

    def _at(self, sets: Ints) -> tuple[Ints, Mask]:
        """Look up `sets` in `self.sets`. Return (the index of each set, a mask that is True for each set that was
        found)."""
        at = np.minimum(np.searchsorted(self.sets, sets), len(self.sets) - 1)
        return at, self.sets[at] == sets

    def _counts_enough(self, chosen: int) -> bool:
        """Return whether the set could free enough, according to the mask `enough`."""
        at, there = self._at(np.array([chosen]))
        return bool(there[0] and self.enough[at[0]])

    # Which sets free enough, and their costs

    def _enough(self) -> Mask:
        """Return the mask of the sets that could free enough, according to a count of pods and a sum of charges. For
        each role, the nodes must have capacity for its minimum if no other role existed. If quota is short, the
        victims' charges must cover the missing amount."""
        enough: Mask = np.ones(len(self.sets), np.bool_)
        if not self.hunt.at_once and not self.hunt.named:
            for role, demand in zip(self.hunt.gang.roles, self.hunt.gang.demands, strict=True):
                enough &= self._room(demand) >= role.minimum
        if self.counts_quota and (short := self.hunt.quota_short()) is not None:
            enough &= self._summed([self._charged(each, short) for each in self.pool], np.float64) >= missing_amount(
                short
            )
        return enough

    def _charged(self, candidate: int, short: QuotaShortfall) -> float:
        """Return the candidate's charge for the missing resource; 0 if its queue is neither the queue whose limit is
        reached nor below it."""
        charge = self.candidates.charge_of(candidate)
        if charge is None or not self.hunt.rights.is_under(charge.queue, short.bound.queue):
            return 0.0
        return float(dict(charge.cost).get(short.bound.key, 0))

    def _room(self, demand: Demand) -> Ints:
        """Return for each set the number of pods of the demand that fit on the nodes after the set is evicted."""
        draft, holdings = self.hunt.draft, [self.field.holdings(candidate) for candidate in self.pool]
        if draft.asked(demand) is None:
            return np.zeros(len(self.sets), np.int64)  # a requested resource exists on no node
        positions = sorted({each.position for held in holdings for each in held})
        at = {position: number for number, position in enumerate(positions)}
        allowed = draft.allowed(demand.where)
        may = np.ones(len(draft), np.bool_) if allowed is None else allowed.astype(np.bool_)
        room = np.where(may, np.maximum(0, matching.pods_held(draft.free, demand.asks, np.arange(len(draft)))), 0)
        fits = np.full((len(self.sets), len(positions)), np.iinfo(np.int64).max, np.int64)
        for resource, ask in demand.asks:
            freed = np.zeros((len(self.pool), len(positions)), np.int64)
            for number, held in enumerate(holdings):
                for position, other, pods, _ in held:
                    freed[number, at[position]] += other.amounts.get(resource, 0) * pods
            np.minimum(fits, (draft.free[resource][positions] + self._summed(freed)) // ask, out=fits)
        there: Ints = np.where(may[positions], np.maximum(0, fits), 0).sum(axis=1)
        return there + int(room.sum() - room[positions].sum())

    def _cheapest_first(self) -> tuple[list[int], list[tuple[float, ...]]]:
        """Return the sets that could free enough, the cheapest first, and the costs of these sets."""
        field, candidates, pool = self.field, self.candidates, self.pool
        gangs = [int(candidates.is_gang(candidate)) for candidate in pool]
        priority = [int(field.priority[candidate]) for candidate in pool]
        held = self.hunt.scarce()
        work = [
            float(field.work_s[candidate] * held[candidate]) * gang for candidate, gang in zip(pool, gangs, strict=True)
        ]
        costs = (
            self._highest([int(field.tier[candidate]) for candidate in pool], SURPLUS),
            self._highest([each if gang else LEAST for each, gang in zip(priority, gangs, strict=True)], LEAST),
            self._summed(gangs),
            self._summed(work, np.float64),
            self._summed([held[candidate] for candidate in pool], np.float64),
            self._highest([LEAST if gang else each for each, gang in zip(priority, gangs, strict=True)], LEAST),
            self._summed([1 - gang for gang in gangs]),
        )
        oldest = self._summed([float(field.ran_s[candidate]) for candidate in pool], np.float64)
        enough, bits, sets = self.enough, list(self.bit_of.values()), self.sets
        if self.hunt.by_amounts and len(self.hunt.gang.roles) == 1 and self.hunt.quota_short() is None:
            for bit in bits:
                enough = enough & ~self._can_spare(bit)  # leave out sets in which a candidate is not needed
        at = enough.nonzero()[0]
        order = at[np.lexsort((oldest[at], *(cost[at] for cost in reversed(costs))))][: self.tried]
        return sets[order].tolist(), list(zip(*(cost[order].tolist() for cost in costs), strict=True))

    # Evicting and checking one set

    def _go(self, chosen: int) -> bool:
        """Evict the candidates of the set in the order of `_in_turn`. If the policy does not allow all evictions in
        this order, try another order. Return True if three conditions are met: all candidates were evicted; the quota
        then allows the job; and no queue that loses jobs could take the capacity back by preemption (rule R20)."""
        members = self._members(chosen)
        evict = self.candidates.evict_if_permitted
        if not all(map(evict, self._in_turn([*members]))):
            self._come_back()
            if not all(map(evict, self._permitted_order(members))):
                return False
        # Rule R20 is checked once for the whole set, because it depends on the total amounts that a queue loses.
        is_taken_back = self.candidates.would_be_taken_back(self.candidates.going)
        return self.hunt.quota_short() is None and not is_taken_back

    def _permitted_order(self, members: list[int]) -> list[int]:
        """Return the candidates in an order in which the policy is likely to allow all evictions. The order matters,
        because each eviction lowers the usage of a queue, and a queue with too little usage may not lose more jobs. So
        candidates that may be evicted even after all others are put at the end."""
        order: list[int] = []
        while (
            1 < len(members) <= MOST_ORDERED
            and (last := next(filter(partial(self._may_go_after, members), members), None)) is not None
        ):
            order.insert(0, last)
            members = [each for each in members if each != last]
        return [*members, *order]

    def _may_go_after(self, members: list[int], candidate: int) -> bool:
        """Return whether the policy allows the eviction of the candidate after all other members were evicted."""
        for each in members:
            if each != candidate:
                self.candidates.go(each, PreemptionRule.WITHIN)
        found = self.candidates.evict_if_permitted(candidate)
        self._come_back()
        return found

    def _in_turn(self, left: list[int]) -> Iterator[int]:
        """Yield the candidates in the order of eviction: pods above minimums, then gangs of the preemptor's own queue,
        then other gangs. Within each of these, candidates of the queue with the highest share come first, and within a
        queue those that hold the least of the scarce resource. Shares change with each eviction, so the caller must
        evict each candidate before it takes the next one."""
        share_of, field, held = self.hunt.rights.share_of, self.field, self.hunt.scarce()
        while left:
            shares = {
                group: Descending(share_of(group)) for group in {int(field.group[candidate]) for candidate in left}
            }
            candidate = min(
                left,
                key=lambda candidate: (
                    (field.tier[candidate] > SURPLUS, field.tier[candidate] != OWN, field.tier[candidate]),
                    shares[int(field.group[candidate])],
                    held[candidate],
                    candidate,
                ),
            )
            left.remove(candidate)
            yield candidate

    def _come_back(self) -> None:
        for candidate in [candidate for candidate in reversed(self.candidates.going) if candidate in self.bit_of]:
            self.candidates.restore(candidate)

    def _is_enough(self, gone: int) -> bool:
        """Return whether there is enough capacity and quota for the job. Precondition: exactly the set `gone` is
        evicted."""
        if not self._counts_enough(gone) or self.hunt.quota_short() is not None:
            return False
        if self.hunt.at_once:
            return True
        if gone not in self._placed:
            mark = self.hunt.draft.mark()
            placed = self.hunt.place()
            self.hunt.draft.rewind(mark)
            self._placed[gone] = None if isinstance(placed, gang.PlacementShortfall) else placed
        return self._placed[gone] is not None

    def _everybody_is_needed(self, chosen: int) -> bool:
        return not any(self._is_spare(candidate, chosen) for candidate in self._members(chosen))

    def _is_spare(self, candidate: int, gone: int) -> bool:
        """Return whether the set `gone` would still free enough if `candidate` were not evicted."""
        rule = self.candidates.going[candidate]
        self.candidates.restore(candidate)
        found = self._is_enough(gone ^ self.bit_of[candidate])
        self.candidates.go(candidate, rule)
        return found

    def _is_fair(self, chosen: int) -> bool:
        """Return whether no gang of the set could be replaced by gangs of queues with higher shares or by pods above
        minimums. Gangs of the preemptor's own queue are not checked."""
        gangs = [each for each in self._members(chosen) if self.candidates.is_gang(each)]
        return not any(self._could_be_replaced(each, chosen) for each in gangs if self.field.tier[each] < OWN)

    def _could_be_replaced(self, candidate: int, chosen: int) -> bool:
        """Return whether other candidates could be evicted instead of `candidate`: gangs of queues with higher shares,
        or pods above minimums. Just before each gang is evicted, its queue must have a higher share than the queue
        of `candidate`."""
        rule, rest = self.candidates.going[candidate], chosen ^ self.bit_of[candidate]
        self.candidates.restore(candidate)
        found = any(
            self._could_go_besides(extra, candidate) for extra in islice(self._extras(candidate, rest), TRIED_INSTEAD)
        )
        self.candidates.go(candidate, rule)
        return found

    def _extras(self, candidate: int, rest: int) -> Iterator[int]:
        """Yield sets of candidates that could replace `candidate`: gangs of other queues, and pods above minimums. Each
        yielded set could free enough together with the set `rest`. The smallest sets come first. A set is left out if
        it has a pod above a minimum that is not needed. The eviction of such a pod would only lower the share of its
        queue."""
        group, tier = self.field.group[candidate], self.field.tier[candidate]
        others = [
            each
            for each in self.pool
            if (self.field.group[each] != group and self.field.tier[each] <= tier) or not self.candidates.is_gang(each)
        ]
        at = self.enough & (self.sets & ~(rest | self._number(others)) == 0)
        for each in self._members(rest):  # the whole gang may be evicted instead of one of its pods
            at &= self.sets & (self.bit_of[each] | self._gang_bit(each)) > 0
        for each in self.pool:
            if not self.candidates.is_gang(each) and not rest & self.bit_of[each] and self.counts_quota:
                at &= ~self._can_spare(self.bit_of[each])
        extras = (self.sets[at] & ~rest).tolist()
        yield from sorted(extras, key=lambda extra: extra.bit_count())

    def _can_spare(self, bit: int) -> Mask:
        """Return the mask of the sets that contain a candidate which is not needed: without it, the set would still
        free enough, according to the mask `enough`. `bit`: the bit of the candidate."""
        if bit not in self._spared:
            without, there = self._at(self.sets & ~bit)
            self._spared[bit] = (self.sets & bit > 0) & there & self.enough[without]
        return self._spared[bit]

    def _gang_bit(self, candidate: int) -> int:
        """Return the bit of the candidate that is the whole gang of `candidate`'s job; 0 if the pool does not have
        it."""
        return self.bit_of.get(int(self.candidates.gang_unit[self.field.job[candidate]]), 0)

    def _could_go_besides(self, extra: int, candidate: int) -> bool:
        """Return True if three conditions are met: all candidates of the set `extra` could be evicted; their eviction
        frees enough; and the queue of each gang in the set, just before the gang's eviction, has a higher share
        than `candidate`'s queue."""
        rights, group, went = self.hunt.rights, int(self.field.group[candidate]), list[int]()
        for each in self._in_turn(self._members(extra)):
            # pods above minimums may always be evicted, without regard to the share of their queue
            is_alone = not self.candidates.is_gang(each)
            richer = is_alone or rights.share_of(int(self.field.group[each])) > rights.share_of(group)
            if not (richer and self.candidates.evict(each)):
                break
            went.append(each)
        gone = self._number(
            each for each in self.candidates.going.keys() & self.bit_of if not self.candidates.goes_with_its_gang(each)
        )
        found = len(went) == extra.bit_count() and self._is_enough(gone)
        if found and not self.counts_quota:
            found = not any(self._is_spare(each, gone) for each in went if not self.candidates.is_gang(each))
        for each in reversed(went):
            self.candidates.restore(each)
        return found
