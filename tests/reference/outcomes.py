"""Compute the outcome of each request by the rules: it starts, is nominated, preempts, gets the reservation, or
waits."""

from __future__ import annotations

from enum import Enum

from phalanx.model.job import Phase

from .facts import Facts, Nodes, Work, plus
from .nodes import Reservation, fits, free, may_take, reserve, take
from .order import Kind, Request
from .quota import all_of, allows, charges
from .rights import comes_before, has_right, may_search
from .victims import Search


class Demand(Enum):
    """The outcome of a request by the rules."""

    START = "starts"
    NOMINATE = "is nominated to the nodes of terminating pods"
    PREEMPT = "preempts"
    TAKE_OVER = "takes over a nomination"
    RESERVE = "gets the reservation"
    NOTHING = "waits"


class Cycle:
    """A cycle on facts that change decision by decision. `held`: the reservation, after it was made. `last_rank`: the
    rank of the youngest nomination at the start of the cycle."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.held: Reservation | None = None
        self.last_rank = max((work.rank for work in facts.works.values()), default=0)

    def must_withdraw(self, work: Work) -> str:
        """R23: return the reason why the nomination has to be withdrawn; empty: it may stay."""
        if any(node not in self.facts.nodes for node in work.nominated.values()):
            return "a node is lost"
        if work.is_started and len(work.kept()) < work.minimum:
            return "the job fell below its minimum"
        if work.phase is Phase.STOPPING:
            return "the job was preempted"
        return "" if self.nodes_are_free(work, is_soon=True) else "too little will be released"

    def free_elsewhere(self, work: Work) -> Nodes:
        """R23: return the free capacity for a nomination whose time is over. The capacity that the nomination itself
        holds counts as free, except on nodes over capacity. Return an empty mapping if the time is not over, or if the
        pods do not fit."""
        left = free(self.facts)
        take(left, [node for node in work.nominated.values() if min(left[node]) >= 0], work.asks, -1)
        is_slow = work.until_s <= self.facts.now_s
        return left if is_slow and fits(left, work.asks, len(work.nominated)) else {}

    def nodes_are_free(self, work: Work, *, is_soon: bool) -> bool:
        """R4: return whether no node of the nomination is over capacity. Later nominations do not count."""
        left = free(self.facts, is_soon=is_soon)
        for other in self.facts.works.values():
            if other.rank > work.rank:
                take(left, other.nominated.values(), other.asks, -1)
        return all(min(left[node]) >= 0 for node in set(work.nominated.values()))

    def outcome(self, request: Request) -> Demand:
        """R9 to R13, R17, R21 to R23: return the outcome of the request that is tried."""
        facts, held = self.facts, self.holder_for(request)
        now, soon, quota = free(facts), free(facts, is_soon=True), self.allows(request)
        if quota and may_take(facts, held, request, now):
            return Demand.START
        if may_search(facts, request):
            if quota and may_take(facts, held, request, soon):
                return Demand.NOMINATE
            if Search(facts, request, held).first() is not None:
                return Demand.PREEMPT
            if any(self.could_take_over(request, other, strictly=True) for other in facts.works.values()):
                return Demand.TAKE_OVER
        is_short = quota and not fits(now, request.work.asks, request.pods)
        if is_short and self.may_reserve(request) and reserve(facts, request):
            return Demand.RESERVE
        return Demand.NOTHING

    def allows(self, request: Request) -> bool:
        """R5, R9, R21: return whether quota allows the request. Replacements are within quota already."""
        if request.kind is Kind.REPLACEMENT:
            return True
        usage = charges(self.facts, counts_given_back=may_search(self.facts, request))
        return allows(self.facts, usage, request.work, request.pods)

    def holder_for(self, request: Request) -> Reservation | None:
        """R13, R17: return the reservation that the request must respect; None if the request may preempt its
        holder."""
        if self.held is None or not may_search(self.facts, request):
            return self.held
        holder, usage, loss = self.held.request, charges(self.facts), all_of(self.held.request.work)
        if holder.kind is Kind.JOB:  # a started job is charged with its minimum already (R3)
            loss = holder.asks
            usage[holder.work.queue] = plus(usage[holder.work.queue], loss)
        is_free = holder.work.job.preemptible and has_right(self.facts, usage, request, holder.work, loss)
        return None if is_free else self.held

    def may_reserve(self, request: Request) -> bool:
        """R13: return whether the request may get the reservation. Growth may not."""
        is_growth = request.kind not in (Kind.JOB, Kind.REPLACEMENT)
        return self.facts.has_reservations and self.held is None and not is_growth

    def could_take_over(self, request: Request, other: Work, *, strictly: bool = False) -> bool:
        """R23: return whether the job fits in place of the nomination of another job, which has a lower priority and is
        in the same queue. `strictly`: the job must also come before the other job in the queue's order, and the
        nomination must be older than this cycle. Only then do the rules demand the take-over."""
        work = request.work
        if request.kind is not Kind.JOB or other is work or not other.nominated or other.queue != work.queue:
            return False
        if other.job.priority >= work.job.priority:
            return False
        if strictly and (other.rank > self.last_rank or not comes_before(self.facts, work, other)):
            return False
        facts = self.facts.copy()
        facts.works[other.job.id].nominated = {}
        fresh = Request(request.kind, facts.works[request.name])
        if not allows(facts, charges(facts), fresh.work, fresh.pods):
            return False
        return may_take(facts, self.holder_for(request), fresh, free(facts, is_soon=True))
