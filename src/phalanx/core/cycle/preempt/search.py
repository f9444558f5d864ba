"""The preemption step of a cycle. Existing nominations are checked first. Then pods of queues above their limits are
evicted. Then requests for which no capacity was found may search for victims.

`core.cycle.steps` calls `make_room` for each request without capacity. The request then starts, is nominated, or
continues to wait.

- There is no search if the queue of the request may not preempt jobs, or if the queue's preemption delay has not
  passed.
- A failed search is stored with the version of the running jobs (`Pending.changes`) and the reservations that it had to
  respect. As long as neither has changed, the search is not repeated, with two exceptions: this cycle has already made
  a decision; or a job has become preemptible without an event, because its minimum run time or an hour of a preemption
  budget has ended.
- The cost of all searches of a cycle is limited by `EFFORT`. A search costs more if more jobs run. If the limit is
  reached before all searches are made, the next cycle follows at once and makes the remaining searches.
- The result of a search is stored until the next decision. So if a search was made to rank a queue, the same search is
  not made again when the request is tried.
- If a search fails, the request may get the nodes to which a job of lower priority in the same queue is nominated (rule
  R23)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from math import inf
from typing import NamedTuple

from phalanx.core.backfill.reservation import BackfillForecast
from phalanx.core.cycle.preempt import evict
from phalanx.core.cycle.state import CycleState
from phalanx.core.preemption import guard, nomination
from phalanx.core.preemption.context import PreemptionContext
from phalanx.core.preemption.nomination import NominationState
from phalanx.core.preemption.policy import GuaranteeOnlyPolicy, PreemptionPolicy, next_chance_s, queue_preemption
from phalanx.core.preemption.search import PreemptionPlan
from phalanx.core.quota import excess
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.lazy import lazy
from phalanx.model.job import Phase, Placement
from phalanx.model.plan import Nominate
from phalanx.state.cluster import JobRecord, residents
from phalanx.state.pending.request_class import (
    Candidate,
    Kind,
    QueuedRequest,
    Request,
    RequestClass,
    RequestClassKey,
    Search,
)

EFFORT = 256
JOBS_OF_EFFORT = 128  # a search costs 1, and 1 more for every 128 running jobs
DELAYED = -1  # the value of `Search.changes` if no search was made, because the preemption delay had not passed


class Found(NamedTuple):
    """The result of a successful search. `aside`: the object that has checked that the plan delays no reservation.
    `instead_of`: the job that loses its nomination if the plan is carried out; None if no job does."""

    plan: PreemptionPlan
    aside: guard.ReservationGuard
    instead_of: JobRecord | None


class CyclePreemption:
    """The nominations and the searches for victims in one cycle.

    `effort`: the cost of all searches of this cycle so far.
    `known`: the results of searches since the last decision. `known_at`: the number of decisions, and whether there was
        a reservation, when the results were stored. If one of the two has changed, the results are no longer valid.
    `behind_growth`: the searches in `known` that would succeed if this cycle had placed no pods above the minimums of
        jobs. Only the next cycle can preempt these pods. So this cycle ends when it tries a request with such a search.
    `has_taken_back`: whether requests that failed before may now start. There are two possible reasons: this cycle has
        preempted a job and removed pods that it had placed for this job; or the first reservation has changed."""

    def __init__(self, state: CycleState) -> None:
        self.state, self.cluster, self.ledger, self.now_s = state, state.cluster, state.ledger, state.now_s
        self.pending, self.actions = state.pending, state.actions
        self.effort = 0
        self.known: dict[tuple[Request, tuple[tuple[str, ...], ...]], Found | None] = {}
        self.known_at: tuple[int, bool] | None = None
        self.has_taken_back = False
        self.behind_growth: set[tuple[Request, tuple[tuple[str, ...], ...]]] = set()
        self.reserved: object = None  # identifies the reservations that searches must not delay (`Reserving.mark`)

    # Existing nominations

    def nominations(self) -> Iterator[tuple[JobRecord, NominationState]]:
        """Yield (nominated job, state of its nomination), the oldest nomination first."""
        for job in list(self.cluster.nominated):
            record = self.cluster.jobs[job]
            found = NominationState.KEPT
            if record.phase is not Phase.STOPPING:
                found = nomination.nomination_state(self.cluster, record, self.now_s, self.state.leaving)
                yield record, found
            if found is NominationState.KEPT:
                self.state.kept_nominations.append(job)

    def move(self, record: JobRecord) -> None:
        """Nominate the job to other nodes, if other nodes have capacity for all of its pods. The caller calls this
        method if victims take too long to leave the present nodes."""
        if elsewhere := nomination.place_elsewhere(self.cluster, self.state.draft, record, self.now_s):
            self.withdraw(record, elsewhere)

    def withdraw(self, record: JobRecord, instead: Sequence[Placement] = ()) -> None:
        """Withdraw the job's nomination. `instead`: the placements of a new nomination to other nodes; if empty, the
        job gets no nomination now, and the next cycle decides about it again."""
        self.actions.append(Nominate(record.job.id, tuple(instead), record.flavors, self.now_s + nomination.PATIENCE_S))
        self.state.withdrawn[record.job.id] = None
        self.state.is_over = True

    # Queues above their limits

    def evict_excess(self) -> None:
        """Evict pods of queues whose usage has been above the limit for longer than `excess_delay_s`."""
        self.state.exceeding = excess.exceeding(self.cluster, self.now_s)
        for branch in excess.due_queues(self.cluster, self.state.exceeding, self.now_s):
            for record, slots in excess.victims(self.cluster, branch):
                evict.evict(self.context, self.actions, record, slots, "", excess.reason(branch, record, slots))
                if not slots:
                    self.state.stopped.add(record.job.id)

    # Requests without capacity

    def may_search(self, request_class: RequestClass, reserved: object) -> bool:
        """Return whether a new search may succeed. True if no search has failed, if running jobs or reservations have
        changed since the failed search, or if its retry time (`Search.again_s`) has come. Also True if this cycle has
        granted a request or preempted a job. `reserved`: the present value of `Reserving.mark`."""
        search = self.pending.searched.get(request_class.key)
        if search is None or self.now_s >= search.again_s:
            return True
        if search.changes == DELAYED:
            return any(ready_s <= self.now_s for _, ready_s in self.first_ready(request_class))
        known = search.changes == self.pending.changes and search.reserved == reserved
        return not known or bool(self.ledger.mark() or self.actions)

    def make_room(
        self, candidate: Candidate, offers: Sequence[FlavorAssignment], forecast: BackfillForecast | None
    ) -> bool:
        """Search for victims whose eviction lets the request start with one of the offers. If the search finds victims,
        preempt them and nominate the request. Return whether the request was nominated or started. `forecast`: the
        forecast with the reservations that must not be delayed; None if the policy makes no reservations."""
        if self.is_delayed(candidate):
            return False
        found = self.search(candidate, offers, forecast)
        if found is not None:
            self.carry_out(candidate, found, forecast)
            return True
        is_behind = self.is_behind_growth(candidate, offers)
        self.state.is_over = self.state.is_over or is_behind
        if self.is_spent() or is_behind:
            return False
        again_s = next_chance_s(self.context) or inf
        self.state.searched[candidate.request_class.key] = Search(self.pending.changes, again_s, self.reserved)
        return False

    def is_delayed(self, candidate: Candidate) -> bool:
        """Return whether the preemption delay of the request's queue has not passed yet."""
        request_class, entry = candidate
        if (ready_s := self.ready_s(request_class.key, entry.request)) > self.now_s:
            later_s = (each_s for _, each_s in self.first_ready(request_class) if each_s > self.now_s)
            self.state.searched[request_class.key] = Search(DELAYED, min([ready_s, *later_s]), None)
        return ready_s > self.now_s

    def ready_s(self, key: RequestClassKey, request: Request) -> float:
        """Return the time at which the preemption delay of the queue ends for the request (seconds since the epoch)."""
        since_s = self.cluster.jobs[request.job].short_since_s
        delay_s = max(0.0, queue_preemption(self.cluster, key.queue).delay_s)
        return (self.now_s if since_s is None else since_s) + delay_s

    def first_ready(self, request_class: RequestClass) -> Iterator[tuple[QueuedRequest, float]]:
        """Yield (waiting request, end of its preemption delay) for the requests of the class in order, up to the first
        request whose job was never preempted. The delay of a job starts again when the job is preempted. So the delay
        of an earlier request may end later than that of a later request."""
        for each in self.state.all_waiting(request_class):
            yield each, self.ready_s(request_class.key, each.request)
            if not self.cluster.jobs[each.request.job].preempted:
                return

    def next_ready(self, candidate: Candidate) -> QueuedRequest | None:
        """Return another request of the class that may search for victims now, after the search of `candidate` has
        found none; None if the class has no such request. The other search may succeed if `candidate` only waits for
        the end of its preemption delay, or if the other job was preempted less often (rule R15)."""
        request_class, entry = candidate
        jobs = self.cluster.jobs
        most = inf if self.ready_s(request_class.key, entry.request) > self.now_s else jobs[entry.request.job].preempted
        ready = (each for each, ready_s in self.first_ready(request_class) if ready_s <= self.now_s)
        return next((each for each in ready if jobs[each.request.job].preempted < most), None)

    def may_try_again(self, number: int, across: bool) -> bool:
        """Return whether a search of the request class has failed and may be repeated in this cycle. `across`: whether
        to accept only classes that may preempt jobs of other queues."""
        request_class = self.pending.columns.request_classes[number]
        if request_class is None or self.is_spent() or self.state.first_waiting(request_class) is None:
            return False
        search = self.state.searched.get(request_class.key) or self.pending.searched.get(request_class.key)
        if search is None or search.changes == DELAYED:
            return False
        wants = queue_preemption(self.cluster, request_class.key.queue)
        return not across or wants.borrowing or self.cluster.tree.branches[request_class.key.queue].rules.reclaims

    def search(
        self, candidate: Candidate, offers: Sequence[FlavorAssignment], forecast: BackfillForecast | None
    ) -> Found | None:
        """Search for victims, without evicting them. Return the result with the plan; None if no plan was found."""
        key, request = candidate.request_class.key, candidate.entry.request
        is_bound = forecast is not None and bool(forecast.reservations)
        decided = self.state.grants + len(self.actions), is_bound
        if self.known_at != decided:
            self.known, self.known_at = {}, decided
            self.behind_growth.clear()
        asked = request, tuple(offer.flavors for offer in offers)
        if asked in self.known:
            return self.known[asked]
        if self.is_spent():
            self.state.has_postponed = True
            return None
        self.effort += 1 + len(residents(self.cluster).number_of) // JOBS_OF_EFFORT
        context, record, rights = self.context, self.cluster.jobs[request.job], rights_of(key)
        with nullcontext() if forecast is None else forecast.without(request):
            aside = guard.ReservationGuard(forecast, context, request, offers[0].charge.cost, rights)
            plan = aside.find(context, offers, rights)
            found = None if plan is None else Found(plan, aside, None)
            if found is None and key.kind == Kind.JOB:
                found = self.take_over(record, offers, aside)
            if (found is None or found.plan is plan) and aside.finds_behind_growth(context, offers, rights, plan):
                found = None
                self.behind_growth.add(asked)
        if found is None and nomination.growing_jobs(self.cluster, self.state.places, self.actions) - {request.job}:
            # The next cycle must search again, because it may preempt pods that this cycle places or nominates.
            self.state.has_postponed = True
        return self.known.setdefault(asked, found)

    def is_behind_growth(self, candidate: Candidate, offers: Sequence[FlavorAssignment]) -> bool:
        """Return whether the last search of the request would have succeeded if this cycle had placed no pods above
        minimums."""
        return (candidate.entry.request, tuple(offer.flavors for offer in offers)) in self.behind_growth

    def is_spent(self) -> bool:
        """Return whether the cost of all searches has reached the limit for this cycle. If so, no further search is
        made."""
        return self.effort >= EFFORT

    def carry_out(self, candidate: Candidate, found: Found, forecast: BackfillForecast | None) -> None:
        """Carry out the plan that a search has found: preempt the victims, and nominate the request to their nodes or
        start it."""
        key, request = candidate.request_class.key, candidate.entry.request
        context, plan, mark = self.context, found.plan, self.ledger.mark()
        found.aside.enter(plan)
        if found.instead_of is not None:
            evict.give_back(context, found.instead_of)
            self.withdraw(found.instead_of)
        asks = rights_of(key)(context, self.cluster.jobs[request.job].job, plan.offer.charge.cost)
        self.has_taken_back |= any(not each.slots and each.job in self.state.places for each in plan.victims)
        is_free = evict.settle(context, self.actions, request, plan, asks)
        self.state.charge_preemptor(mark, plan.offer.charge)
        self.has_taken_back |= forecast is not None and forecast.renew_first()
        self.state.stopped |= {victim.job for victim in plan.victims if not victim.slots}
        # The nodes are free already, so the next cycle follows at once and starts the job if possible.
        self.state.has_postponed |= is_free and not plan.at_once
        self.state.searched.pop(key, None)

    def await_change(self, key: RequestClassKey) -> None:
        """Record that no eviction can help the request class now, so that it does not search again before running jobs
        have changed. Otherwise it would search in each cycle and might use up the budget (`EFFORT`) before other
        classes search."""
        self.state.searched[key] = Search(self.pending.changes, inf, self.reserved)

    def take_over(
        self, record: JobRecord, offers: Sequence[FlavorAssignment], aside: guard.ReservationGuard
    ) -> Found | None:
        """Find a nominated job of the same queue with a lower priority that can lose its nomination, so that the job
        of `record` fits (rule R23). Return the plan; None if the capacity of no single nomination is enough."""
        context, decided = self.context, {each.job for each in self.actions if isinstance(each, Nominate)}
        for other in nomination.lower_nominated(self.cluster, record):
            if other.job.id not in self.state.kept_nominations or other.job.id in decided | self.state.stopped:
                continue
            drafted, entered = context.draft.mark(), context.ledger.mark()
            evict.give_back(context, other)
            plan = aside.find_instead_of(context, offers, other)
            context.draft.rewind(drafted)
            context.ledger.rewind(entered)
            if plan is not None:
                return Found(plan, aside, other)
        return None

    @lazy
    def context(self) -> PreemptionContext:
        return PreemptionContext(
            cluster=self.cluster,
            draft=self.state.draft,
            ledger=self.ledger,
            running_pods=residents(self.cluster),
            now_s=self.now_s,
            victims=self.state.victims,
            placed=self.state.places,
        )


def rights_of(key: RequestClassKey) -> type[PreemptionPolicy]:
    """Return the type of the preemption policy for requests of this class."""
    return GuaranteeOnlyPolicy if key.kind == Kind.GROWTH else PreemptionPolicy
