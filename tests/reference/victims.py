"""Find the right sets of victims (R17, R18, R19). Every set is tried."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, islice, product

from phalanx.model.job import Phase
from phalanx.model.queue import Strategy, VictimOrder

from .facts import Facts, Nodes, Work, plus, times
from .nodes import Reservation, free, may_take, take
from .order import Kind, Request
from .quota import Usage, all_of, allows, charges, less
from .rights import Victims, comes_before, falls_below, has_right, is_protected, returns, richer

CHOICES = 400  # choices of surplus pods that are tried for one set of gangs
Gangs = frozenset[str]


def apply_victims(facts: Facts, victims: Victims) -> None:
    """R24: preempt the victims. A preempted job has no nomination and no open slot."""
    for name, ordinals in victims.items():
        work = facts.works[name]
        is_whole = ordinals == work.kept().keys()
        lost = all_of(work) if is_whole else times(work.asks, len(ordinals))
        if is_whole:
            work.phase, work.preempted = Phase.STOPPING, work.preempted + 1
            work.open, work.nominated, work.leaving, work.size = set(), {}, set(), 0
            work.pods = {ordinal: node for ordinal, node in work.pods.items() if ordinal not in work.imagined}
            facts.preempted_at.setdefault(work.queue, []).append(facts.now_s)
        else:
            work.leaving |= ordinals
        facts.given_back[work.queue] = plus(facts.given_back.get(work.queue, facts.zero), lost)


class Search:
    """The search for victims of one request. `held`: the reservation that the request has to respect.

    R15: with `final-then-initial` the search goes by `final-share` if that finds victims, else by `initial-share`.
    `final`: the search by `final-share`."""

    def __init__(self, facts: Facts, request: Request, held: Reservation | None) -> None:
        self.facts, self.request, self.held, self.final = facts, request, held, self
        if facts.queues[request.work.queue].preemption.strategy is Strategy.FINAL_THEN_INITIAL:
            self.final = Search(by_strategy(facts, request, Strategy.FINAL_SHARE), request, held)
            self.facts = self.final.facts if self.final.first() else by_strategy(facts, request, Strategy.INITIAL_SHARE)
        self.usage = charges(facts)
        others = [work for work in facts.started() if work is not request.work and work.queue in facts.queues]
        others = [work for work in others if not is_protected(facts, work)]
        self.gangs = [work for work in others if work.kept() and self.is_candidate(work)]
        self.shrinkable = [work for work in others if work.is_elastic and work.spare() and self.is_candidate(work)]

    def is_candidate(self, work: Work) -> bool:
        losses, states = (all_of(work), work.asks), (self.usage, self.without_surplus())
        return any(has_right(self.facts, usage, self.request, work, loss) for usage in states for loss in losses)

    def without_surplus(self) -> Usage:
        """Return the charges without any pod above a minimum."""
        usage = self.usage
        for work in self.facts.started():
            if work.queue in usage and work.is_elastic:
                usage = less(usage, work, work.spare())
        return usage

    def whole(self, gangs: Collection[str]) -> Victims:
        return {name: frozenset(self.facts.works[name].kept()) for name in gangs}

    def is_enough(self, victims: Victims) -> bool:
        """R17: return whether nodes and quota allow the request's minimum, and no reservation is delayed, after the
        victims and all terminating pods are gone."""
        usage = self.usage
        for name, ordinals in victims.items():
            work = self.facts.works[name]
            usage = less(usage, work, work.charged() if len(ordinals) == len(work.kept()) else len(ordinals))
        if not allows(self.facts, usage, self.request.work, self.request.pods):
            return False
        left = free(self.facts, is_soon=True, gone=victims)
        return may_take(self.facts, self.held, self.request, self.without_nominations(left, victims), victims)

    def without_nominations(self, left: Nodes, victims: Victims) -> Nodes:
        """R24: return the free capacity without the nominations of jobs that are preempted whole."""
        for name, ordinals in victims.items():
            work = self.facts.works[name]
            if len(ordinals) == len(work.kept()):
                take(left, work.nominated.values(), work.asks, -1)
        return left

    def surplus_choices(self, gangs: Collection[str]) -> Iterator[Victims]:
        """R18: yield every choice of surplus pods, the smallest first. On each node, the highest ordinals are
        chosen."""
        groups = []
        for work in self.shrinkable:
            if work.job.id not in gangs:
                for node in sorted(set(work.kept().values())):
                    here = sorted((each for each, on in work.kept().items() if on == node), reverse=True)
                    groups.append([(work, here[:count]) for count in range(min(len(here), work.spare()) + 1)])
        for choice in sorted(islice(product(*groups), CHOICES), key=lambda each: sum(len(pods) for _, pods in each)):
            victims: dict[str, frozenset[int]] = {}
            for work, pods in choice:
                if pods:
                    victims[work.job.id] = victims.get(work.job.id, frozenset()) | frozenset(pods)
            if all(len(pods) <= self.facts.works[name].spare() for name, pods in victims.items()):
                yield victims

    def may_go(self, usage: Usage, left: Mapping[str, int], *, whole: bool) -> bool:
        """R15, R18: return whether all these victims may be preempted in some order. Each is judged after the earlier
        victims of other queues have left. `left`: job -> the number of its pods that are preempted one by one; with
        `whole`, 1 for each gang."""
        for name in left:
            work = self.facts.works[name]
            loss, pods = (all_of(work), work.charged()) if whole else (work.asks, 1)
            if has_right(self.facts, usage, self.request, work, loss):
                rest = {each: count - (each == name) for each, count in left.items() if count > (each == name)}
                after = usage if work.queue == self.request.work.queue else less(usage, work, pods)
                if self.may_go(after, rest, whole=whole):
                    return True
        return not left

    def may_take_gangs(self, usage: Usage, gangs: Collection[str]) -> bool:
        """R15, R16, R18: return whether the gangs may be preempted in some order. `usage`: the charges before the
        first. Gangs of the preemptor's own queue stay in the charges."""
        works = [self.facts.works[name] for name in gangs]
        for queue in {work.queue for work in works}:
            mine = [work for work in works if work.queue == queue]
            if any(is_protected(self.facts, work, len(mine) - 1) for work in mine):
                return False
        return self.may_go(usage, dict.fromkeys(gangs, 1), whole=True)

    def is_permitted(self, gangs: Gangs, surplus: Victims, *, strictly: bool) -> bool:
        """R18: return whether the victims may be preempted. Rights are judged before surplus pods leave. `strictly`:
        rights must also hold after the surplus pods in the set have left, so that only undisputed sets are demanded."""
        usages = [self.usage, self.reduced(surplus), self.without_surplus()]
        verdicts = (self.may_take_gangs(usage, gangs) for usage in usages)
        if not (all(islice(verdicts, 2)) if strictly else any(verdicts)):
            return False
        return self.may_go(self.usage, {name: len(pods) for name, pods in surplus.items()}, whole=False)

    def reduced(self, surplus: Victims) -> Usage:
        usage = self.usage
        for name, pods in surplus.items():
            usage = less(usage, self.facts.works[name], len(pods))
        return usage

    def rests(self, gangs: Gangs, surplus: Victims, *, strictly: bool) -> bool:
        """R20: return whether preemption comes to an end. `strictly`: no victim has a right against the preemptor.
        Else: no victim has a right against the preemptor and would also fit in its place."""
        after = self.facts.copy()
        apply_victims(after, {**self.whole(gangs), **surplus})
        had, before = charges(self.facts), charges(after)
        work = after.works[self.request.name]
        work.phase, work.pods = Phase.RUNNING, dict.fromkeys(range(self.request.pods), "")
        if self.request.kind is not Kind.JOB:
            work.phase, work.pods = self.request.work.phase, {**self.request.work.pods, -1: ""}
        gone = [after.works[name] for name in gangs]
        mine = Request(self.request.kind, work)
        back = returns(after, charges(after), mine, gone)
        losers = [*gone, *(after.works[name] for name in surplus)]
        if strictly:
            grown = [each for each in losers if each not in gone and may_grow_back(after, mine, each)]
            return not back and not grown and not falls_below(after, had, before, charges(after), mine, losers)
        return not any(self.is_of_use(after, victim) for victim in back) and not falls_below(
            after, had, before, charges(after), mine, gone
        )

    def is_of_use(self, after: Facts, victim: Work) -> bool:
        """Return whether the victim would fit in place of the preemptor."""
        usage = charges(after)
        work = after.works[self.request.name]
        usage[work.queue] = plus(usage[work.queue], self.request.asks, -1)
        return allows(after, usage, victim, victim.minimum)

    def is_right(self, gangs: Gangs, surplus: Victims) -> bool:
        """Return whether the set is undisputed: the rules permit it strictly, and no surplus pod in it is needless."""
        is_permitted = self.is_enough({**self.whole(gangs), **surplus}) and (
            self.is_permitted(gangs, surplus, strictly=True) and self.rests(gangs, surplus, strictly=True)
        )
        return is_permitted and next(self.needless(gangs, surplus), None) is None

    def needless(self, gangs: Gangs, surplus: Victims) -> Iterator[tuple[str, int]]:
        """R18: yield the surplus pods (job, ordinal) without which the set frees enough as well."""
        for name, pods in surplus.items():
            for ordinal in pods:
                fewer = {**self.whole(gangs), **surplus, name: pods - {ordinal}}
                if self.is_enough({each: lost for each, lost in fewer.items() if lost}):
                    yield name, ordinal

    def answer(self, gangs: Gangs) -> Victims | None:
        """Return surplus pods that form a right set together with these gangs; None if there are none."""
        everything = self.whole(gangs)
        for work in self.shrinkable:
            everything.setdefault(work.job.id, frozenset(work.kept()))
        if not self.is_enough(everything):
            return None
        return next((choice for choice in self.surplus_choices(gangs) if self.is_right(gangs, choice)), None)

    def sets(self) -> Iterator[tuple[Gangs, Victims]]:
        """R17, R18: yield the right sets of victims, sorted by the number of gangs."""
        names = [work.job.id for work in self.gangs]
        for count in range(len(names) + 1):
            for gangs in map(frozenset, combinations(names, count)):
                surplus = self.answer(gangs)
                if surplus is None or not (gangs or surplus):
                    continue
                if not any(self.is_enough({**self.whole(gangs - {name}), **surplus}) for name in gangs):
                    yield gangs, surplus

    def first(self) -> tuple[Gangs, Victims] | None:
        """R17: return a right set of victims; None if there is none."""
        if not self.gangs and not self.shrinkable:
            return None
        everything = self.whole([work.job.id for work in (*self.gangs, *self.shrinkable)])
        return next(self.sets(), None) if self.is_enough(everything) else None


def by_strategy(facts: Facts, request: Request, strategy: Strategy) -> Facts:
    """R15: return the facts in which the request's queue has this strategy."""
    queue = facts.queues[request.work.queue]
    other = replace(queue, preemption=replace(queue.preemption, strategy=strategy))
    return replace(facts, queues={**facts.queues, queue.name: other})


def may_grow_back(after: Facts, request: Request, victim: Work) -> bool:
    growth = Request(Kind.GROWTH, victim)
    return victim.job.preempts and has_right(after, charges(after), growth, request.work, request.asks)


def faults(search: Search, victims: Victims) -> Iterator[tuple[str, str]]:
    """Yield the rules that a set of victims breaks: R15 to R20. If `final-share` permits a set in one of the two ways
    of R18, the set is right, although the search may not demand it and may go on by `initial-share`."""
    if search.final is not search and next(faults(search.final, victims), None) is None:
        return
    facts, works = search.facts, search.facts.works
    gangs = frozenset(name for name, pods in victims.items() if pods == works[name].kept().keys())
    surplus = {name: pods for name, pods in victims.items() if name not in gangs}
    for name in victims:
        if is_protected(facts, works[name]):
            yield "R16", f"{name} is protected"
    for name, pods in surplus.items():
        if len(pods) > works[name].spare() or not works[name].is_elastic:
            yield "R18", f"{name} loses pods of its minimum"
        yield from _ordinals(works[name], pods)
    if not search.is_enough(victims):
        yield "R17", f"{sorted(victims)} are not enough"
        return
    own = [works[name] for name in victims if works[name].queue == search.request.work.queue]
    if any(comes_before(facts, work, search.request.work) for work in own):
        yield "R20", f"{search.request.name} preempts {sorted(victims)}, which come before it in their queue"
        return
    if not search.is_permitted(gangs, surplus, strictly=False):
        yield "R15", f"{search.request.name} may not preempt {sorted(victims)}"
        return
    if not search.rests(gangs, surplus, strictly=False):
        yield "R20", f"preempting {sorted(victims)} for {search.request.name} does not come to rest"
    if search.is_enough({}):
        yield "R17", f"{search.request.name} preempts {sorted(victims)}, but terminating pods are enough"
        return
    yield from _needless(search, gangs, surplus)
    if gangs:
        yield from _dear(search, gangs, surplus)


def _ordinals(work: Work, pods: frozenset[int]) -> Iterator[tuple[str, str]]:
    """R18: check that on each node the pods with the highest ordinals are preempted first."""
    kept = work.kept()
    for ordinal in pods:
        if any(kept[each] == kept[ordinal] and each > ordinal for each in kept.keys() - pods):
            yield "R18", f"{work.job.id} loses pod {ordinal}, and not one of a higher ordinal on the same node"


def _needless(search: Search, gangs: Gangs, surplus: Victims) -> Iterator[tuple[str, str]]:
    """R18: check that no job is a victim if the request would also fit with that job running. Surplus pods come before
    gangs."""
    for name in gangs:
        if search.answer(gangs - {name}) is not None:
            yield "R18", f"{search.request.name} need not preempt {name} ({sorted(gangs)} go)"
    for name, ordinal in search.needless(gangs, surplus):
        yield "R18", f"{search.request.name} need not preempt pod {ordinal} of {name}"


def _dear(search: Search, gangs: Gangs, surplus: Victims) -> Iterator[tuple[str, str]]:
    """R18, R19: check the choice of the set. Victims in other queues come before those of the own queue. No queue loses
    a gang while a richer queue could lose one. The cost is the lowest."""
    facts, queue = search.facts, search.request.work.queue
    works = facts.works
    own = {name for name in gangs if works[name].queue == queue}
    fairest = facts.queues[queue].preemption.victims is VictimOrder.FAIREST
    found = [(each, lost) for each, lost in search.sets() if each]
    least = [(each, lost) for each, lost in found if not any(other < each for other, _ in found)]
    queues = sorted(works[name].queue for name in gangs)
    others = {each: lost for each, lost in least if all(works[name].queue != queue for name in each)}
    for other, lost in least:
        if fairest and other in others and next(_unfair(search, other, lost, others), None):
            continue  # only fair sets are compared
        theirs = {name for name in other if works[name].queue == queue}
        if own and not theirs:
            yield "R18", f"{sorted(gangs)} go, though {sorted(other)} of other queues are enough"
            return
        is_alike = sorted(works[name].queue for name in other) == queues
        comparable = (not own and not theirs) or (len(own) == len(gangs) and len(theirs) == len(other))
        if comparable and (is_alike or not fairest or own):
            mine, best = cost(search, gangs, surplus), cost(search, other, lost)
            size = min(len(mine), len(best))
            if best[:size] < mine[:size]:
                yield "R19", f"{sorted(gangs)} go, though {sorted(other)} cost less"
                return
    if fairest and not own:
        yield from _unfair(search, gangs, surplus, others)


def _unfair(
    search: Search, gangs: Gangs, surplus: Victims, least: Mapping[Gangs, Victims]
) -> Iterator[tuple[str, str]]:
    """R19, fairest: check that no queue loses a gang while a queue that is richer at that moment could lose one instead
    (R15). At that moment the surplus pods of both sets have left, because they are preempted first (R18)."""
    works = search.facts.works
    for name in gangs:
        for other, lost in least.items():
            rest, more = gangs - {name}, other - gangs
            usage = search.reduced({**surplus, **{each: pods for each, pods in lost.items() if each not in rest}})
            for each in rest:
                usage = less(usage, works[each], works[each].charged())
            if gangs - other == {name} and len(more) == 1:
                victim = works[next(iter(more))]
                may_go = has_right(search.facts, usage, search.request, victim, all_of(victim))
                if may_go and richer(search.facts, usage, victim.queue, works[name].queue):
                    yield "R19", f"{works[name].queue} loses {name}, though {victim.queue} is richer ({victim.job.id})"
                    return


def cost(search: Search, gangs: Gangs, surplus: Victims) -> tuple[object, ...]:
    """R19: return the cost of a set: the highest priority, the number of gangs, the lost work, the needlessly freed
    capacity, the ages. Only the first two are compared in three cases: the request names several resources, surplus
    pods are preempted, or a victim has lost or gained pods."""
    facts = search.facts
    works = [facts.works[name] for name in gangs]
    known: tuple[object, ...] = (max(work.job.priority for work in works), len(works))
    asked = {at for work in facts.works.values() for at, amount in enumerate(work.asks) if amount}
    is_partial = any(work.has_grown or work.open or set(work.kept().values()) - facts.nodes.keys() for work in works)
    if surplus or is_partial or len(asked) > 1:
        return known
    (at,) = asked
    held = {work.job.id: len(work.kept()) * work.asks[at] for work in works}
    lost = sum((facts.now_s - work.started_s) * held[work.job.id] for work in works)
    return (*known, lost, sum(held.values()))
