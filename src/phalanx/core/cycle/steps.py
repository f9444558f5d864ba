"""The steps of one cycle.

A *request class* has equal requests of one queue; a *placement class* has requests of any queue with equal demands on
nodes. A request class is a candidate if quota allows it, and if its placement class fits *by counting*, that is, if a
count of the free amounts shows enough capacity before any placement is tried. `core.cycle.known`
and `core.cycle.candidates` find all candidates in the cluster at once. These modules only check the first request of
each class. `core.order.next_job` chooses the next request. Slots that replace lost pods of started gangs come before
all other requests. A request passes through these methods (`offers` is a method of `CycleState`, and `receive` a
function of `core.cycle.intake`):

    receive       report why the request is not eligible, or add it to a request class
    candidates    yield the next request, with its class: a `Candidate`
    offers        list the flavors that the queue tree allows, or the limit that is short (`core.quota`)
    place         place the request's whole gang on the draft (`core.placement.gang`)
    grant         start the job: charge its nodes and its queue
    deny          report why the request does not start (`core.cycle.report`)

Where shares or guarantees decide between queues, one request class of each queue sets the rank of the queue. It is the
first class that may search for victims, or that is within its limits and fits by counting. In a strict queue it is
always the very first class. Until all backfill reservations are made, the cycle tries every request class within its
limits, because the first class that finds no capacity must get a reservation.

Within a cycle the set of classes that may start only shrinks. There are three reasons. First, grants reduce the
headroom of queues. Second, quota that victims return is not available to other requests before the next cycle. Third, a
placement class is closed when one of its requests fails. So it has no influence on decisions when the cycle skips a
class that cannot start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from phalanx.core.backfill.reservation import Lack, PlacementOutcome, WouldDelayReservation
from phalanx.core.cycle.candidates import Candidates
from phalanx.core.cycle.intake.surplus import Growing, Surplus, first_pass_gang
from phalanx.core.cycle.preempt.search import CyclePreemption
from phalanx.core.cycle.report import ReasonReporter
from phalanx.core.cycle.reserve import Reserving
from phalanx.core.cycle.state import CycleState
from phalanx.core.order.next_job import Tournament
from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.lazy import lazy
from phalanx.model.job import Placement
from phalanx.model.policy import Policy
from phalanx.model.reason import ALONE, NEVER, SHORT, Reason
from phalanx.state.cluster import Cluster, is_incomplete
from phalanx.state.pending.request_class import Blocker, Candidate, Kind, RequestClass

REQUEST_CLASSES_OF_EFFORT = 256  # sorting this many classes takes about as long as a search for victims
# if more queues than this wait, `hopeless_heads` checks their first requests only once in a cycle (rule R8)
FEW_QUEUES = 64


class Cycle:
    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self.pending = cluster.pending
        self.state = CycleState(cluster, policy, now_s)
        self.ledger = self.state.ledger
        self.reserving = Reserving(self.state)
        self.field = Candidates(self.state, self.reserving)
        self.tournament = Tournament(cluster.tree, self.ledger, self.field)
        self.reporter = ReasonReporter(self.state, self.tournament)
        self.known = self.state.known
        self.growing: dict[str, Growing] = {}  # jobs that may get pods above their minimums
        # The number of decisions, and the value of `Reserving.may_reserve`, when `hopeless_heads` last checked the
        # heads of queues.
        self.weeded: tuple[int, bool] | None = None
        # Numbers of request classes that `hopeless_heads` yielded, and that were denied because they would delay a
        # reservation.
        self.kept_out: set[int] = set()

    @lazy
    def preempting(self) -> CyclePreemption:
        return CyclePreemption(self.state)

    @lazy
    def surplus(self) -> Surplus:
        return Surplus(self.state, self.tournament.closed, self.growing)

    # The order of requests

    def candidates(self) -> Iterator[Candidate]:
        """Yield the requests to try, the best first. The caller must grant or deny each request before it takes the
        next request."""
        for at in range(len(self.state.starts)):
            self.surplus.note(self.state.starts, at)
        if self.pending.request_classes:
            self.field.refresh()
            self.field.fill(self.tournament)
            while not self.state.is_over:
                if self.cluster.tree.root.split:
                    yield from self.hopeless_heads()
                head = self.tournament.head()
                if self.growing and self.grows_first(head):
                    self.tournament.renew()
                    self.try_again(across=True)
                    continue
                if head is None:
                    break
                if self.must_try(head):
                    yield head
                if self.reserving.all_reserved:
                    self.reserving.all_reserved = False
                    if self.reserving.by_estimate:
                        self.field.fill(self.tournament)
                    else:
                        self.tournament.renew()
        while self.growing and not self.state.is_over:
            self.grants_surplus(None)
        self.reporter.report_remaining()

    def hopeless_heads(self) -> Iterator[Candidate]:
        """For each queue, yield the requests at its front that can neither start, nor preempt other jobs, nor get a
        reservation. The caller denies these requests at once, before it tries the first request of the job order. After
        that, each queue competes with a request that can start, preempt or get a reservation (rule R8). If more
        than `FEW_QUEUES` queues wait, their first requests are checked only once in a cycle."""
        decided = self.state.grants + len(self.state.actions), self.reserving.may_reserve
        cursors = self.tournament.cursors() if self.weeded != decided else []
        if len(cursors) < 2 or (self.weeded and len(cursors) > FEW_QUEUES):
            return
        self.weeded, denied = decided, False
        for cursor in cursors:
            while cursor.candidates and not self.gets_something(cursor.candidates[0][1]):
                head, denied = self.tournament.head_of(cursor), True
                if self.must_try(head):
                    yield head
        if denied:
            self.tournament.renew()

    def gets_something(self, head: Candidate) -> bool:
        """Return whether the request can start, finds victims, or would get a reservation. If `head` is the first
        request of a strict queue, return instead whether it can ever start."""
        request_class = head.request_class
        found, state = request_class.placement_class, self.state
        if request_class.strict and request_class.key.kind != Kind.GROWTH:
            return not self.known.never_starts(found) and not self.never_within_quota(head)
        if self.reserving.by_estimate or request_class in self.reserving.further_requests:
            return True
        if self.wants_nothing(head) or not self.field.may_be_tried(request_class):
            return False
        has_room = state.known.counted(found, state.grants)
        offers = state.offers(head)
        allowed = [offer for offer in offers if offer.short is None]
        if allowed and has_room and any(self.could_be_placed(head, offer) for offer in allowed):
            return True
        if allowed and self.reserving.would_reserve(head):
            return True
        return self.finds_victims(head, offers)

    def never_within_quota(self, head: Candidate) -> bool:
        """Return whether the request exceeds quota even while no job runs."""
        offers = self.state.offers(head)
        if any(offer.short is None for offer in offers):
            return False
        return self.known.why_not(head.request_class, offers, ()).code in NEVER

    def could_be_placed(self, head: Candidate, offer: FlavorAssignment) -> bool:
        """Return whether the offer's gang could be placed now."""
        mark = self.state.draft.mark()
        outcome = self.place(head, offer)
        self.state.draft.rewind(mark)
        return isinstance(outcome, list)

    def finds_victims(self, head: Candidate, offers: Sequence[FlavorAssignment]) -> bool:
        """Return whether the request may preempt now, and its search for victims succeeds. Also return True if the
        search would succeed without the pods that this cycle has placed above the minimums of running jobs."""
        if not self.may_search(head.request_class) or self.preempting.is_delayed(head):
            return False
        forecast = None if self.reserving.greedy else self.reserving.forecast
        found = self.preempting.search(head, offers, forecast)
        return found is not None or self.preempting.is_behind_growth(head, offers)

    def may_search(self, request_class: RequestClass) -> bool:
        """Return whether the request class may search for victims now, and a new search may succeed."""
        is_able = request_class.number in self.state.search_classes
        return is_able and self.preempting.may_search(request_class, self.reserving.mark())

    def wants_nothing(self, candidate: Candidate) -> bool:
        """Return whether the request must be skipped. This is so in two cases: its job is being stopped; or the request
        is for a pod above the job's minimum, and the job has fewer pods than the minimum."""
        job, grows = candidate.entry.request.job, candidate.request_class.key.kind == Kind.GROWTH
        placed = self.state.places.get(job, ())
        return job in self.state.stopped or (grows and is_incomplete(self.cluster.jobs[job], placed))

    def must_try(self, head: Candidate) -> bool:
        """Return True if the cycle must try the request. Otherwise skip or deny the request, so that the tournament
        goes on without it."""
        request_class = head.request_class
        if self.wants_nothing(head):
            self.advance(head)
            return False
        has_others = self.field.several_arenas or self.tournament.urgent is not None
        if has_others and not self.field.may_be_tried(request_class):
            # a grant in another arena, or a replacement of a lost pod, has taken the capacity of this request
            self.lose(head, holds_up=False)
            return False
        # The previous request of this class got a reservation, and this request may get one as well.
        if request_class in self.reserving.further_requests:
            self.reserve_or_block(head)
            return False
        found, is_within = request_class.placement_class, self.state.is_within_limits(request_class)
        if is_within and self.known.counted(found, self.state.grants):
            return True
        if self.may_search(request_class) or (is_within and self.known.explains(found)):
            return True
        if not is_within or not self.reserving.is_affordable(head):
            asks = request_class.strict or self.reporter.has_no_report(request_class)
            asks = asks and head.entry.request not in self.reserving.reserved
            self.lose(head, holds_up=asks and self.reporter.holds_up_for_quota(head))
            return False
        if found.flavor_classes and (self.reserving.may_reserve or self.reporter.has_no_report(request_class)):
            return True  # the reason depends on the flavors that quota allows, so each of them is tried
        never = request_class.strict and self.known.never_starts(found)
        reason = self.reporter.report_no_capacity(head)
        if never or (reason is not None and reason.code in NEVER):
            self.lose(head, holds_up=False)
        else:
            self.reserve_or_block(head)
        return False

    def lose(self, head: Candidate, *, holds_up: bool) -> None:
        """Do not try the request class again in this cycle. But if another request of the class may find victims, try
        that request next. `holds_up`: whether the request blocks the jobs behind it in a strict queue."""
        self.state.denied.add(head.request_class)
        blocks = holds_up and head.request_class.strict and head.request_class.key.kind != Kind.GROWTH
        if not blocks and head.request_class.number in self.state.search_classes:
            following = self.preempting.next_ready(head)
            other = following and Candidate(head.request_class, following)
            if other and (self.preempting.is_delayed(head) or self.gets_something(other)):
                self.tournament.accept_head(following)
                return
        self.known.is_done[head.request_class.number] = 1
        self.tournament.reject_head(holds_up=holds_up)

    def reserve_or_block(self, head: Candidate, *, holds_up: bool = True) -> None:
        """Handle a request that found no capacity: try to make a reservation for it. With a reservation, the next
        request of its class may also get one. Without a reservation, the request blocks its queue if the queue is
        strict. `holds_up`: whether the request may block its queue."""
        self.state.denied.add(head.request_class)
        reserved = self.reserving.try_reserve(head)
        following = self.reserving.next_of(head.request_class) if reserved else None
        if following is not None:
            self.tournament.accept_head(following)
        else:
            self.lose(head, holds_up=holds_up and not reserved)

    # Deciding

    def place(self, candidate: Candidate, offer: FlavorAssignment) -> PlacementOutcome | Reason:
        """Place all pods of the gang's minimum on the draft, or none. Pods above the minimum are placed later in the
        cycle (rule R10)."""
        request_class, request = candidate.request_class, candidate.entry.request
        if not request_class.placement_class.key.whole:
            return []
        searches = request_class.number in self.state.search_classes
        # `must_try` has already checked the placement class of the request's own gang.
        is_other = bool(offer.flavors) or offer.gang is not request_class.key.gang
        if (searches or is_other) and (known := self.known.known_reason(request_class, offer, searches=searches)):
            return known
        gang = offer.gang if offer.gang.rigid else first_pass_gang(self.state, request, offer)
        outcome = self.reserving.place(request, gang)
        if not isinstance(outcome, list | WouldDelayReservation):
            self.known.fail(offer.gang, outcome.placed)
        return outcome

    def grant(self, candidate: Candidate, offer: FlavorAssignment, outcome: list[Placement]) -> None:
        key, request = candidate.request_class.key, candidate.entry.request
        placements = tuple(outcome)
        self.state.grants += 1
        self.state.draft.settle()
        backfilled = self.reserving.granted(request, offer.gang, placements)
        # forget a search for victims that failed for another flavor
        self.state.searched.pop(key, None)
        self.state.granted.add(request)
        self.state.placed.append((key.gang, request.job, placements))
        if request.slot is None:
            record = self.cluster.jobs[request.job]
            self.state.waits.pop(request.job, None)
            self.state.start(record, key.terms.limit_s, placements, offer.flavors)
            if backfilled:
                self.state.starts[-1] = self.state.starts[-1]._replace(backfilled=True)
            if not record.gang.rigid:
                self.surplus.note(self.state.starts, -1)
        else:
            self.state.place_slots(request, request.slot, placements)
        if key.kind != Kind.REPLACEMENT:
            starts = self.cluster.jobs[request.job].job if request.slot is None else None
            self.state.charge(flavor_assignment.charge_for(offer, placements), starts)
        self.advance(candidate)
        if key.kind != Kind.REPLACEMENT and self.state.search_classes:
            self.try_again(across=True)

    def grows_first(self, head: Candidate | None) -> bool:
        """Place pods above the minimums of jobs, if these pods come before the head of the tournament (rule R10).
        Return whether there were such pods to place."""
        if head is not None and head.request_class.key.kind == Kind.REPLACEMENT:
            return False
        if self.grants_surplus(None if head is None else head.request_class.key.priority):
            return True
        return head is not None and self.surplus.grow_in_turn(self.tournament, head, self.reserving)

    def grants_surplus(self, head_priority: int | None) -> bool:
        """Place pods above the minimums of jobs with a higher priority than `head_priority`. A job only gets these pods
        if no request with its priority or a higher one is left to try. `head_priority`: the priority of the next
        request; None if no request is left. As long as requests are left, leave out jobs with `GangSize.IN_TURN`,
        because `grow_in_turn` places their pods. Return whether there was a job that may get pods."""
        due = self.surplus.priorities(in_turn=head_priority is None)
        if head_priority is not None:
            due = list(takewhile(lambda each: each > head_priority and not self.field.any_from(each), due))
        if due:
            self.surplus.place(due, self.reserving)
        return bool(due)

    def advance(self, candidate: Candidate) -> None:
        """Continue with the next request of the class, because this request was granted or must be skipped."""
        request_class, state = candidate.request_class, self.state
        if request_class not in state.remaining:
            # the first request of the class is the one that was just tried
            state.remaining[request_class] = islice(request_class, 1, None)
        remaining = state.remaining[request_class]
        following = next((entry for entry in remaining if state.still_waits(entry.request)), None)
        self.known.is_done[request_class.number] = following is None
        self.tournament.accept_head(following)

    def prefers_preemption(self, candidate: Candidate, offer: FlavorAssignment) -> bool:
        """Return whether the settings of the queue require that preemption is tried for this offer before the next
        offer is tried."""
        queue = self.cluster.tree.branches[candidate.request_class.key.queue].queue
        wish = None if queue is None else queue.fungibility
        return wish is not None and (wish.preempt_before_next or (wish.prefer_preemption and offer.short is not None))

    def make_room(self, candidate: Candidate, offers: Sequence[FlavorAssignment]) -> bool:
        """Search for victims if the request may preempt. If their eviction frees enough capacity and no reservation is
        delayed, evict them. Return whether this succeeded."""
        request = candidate.entry.request
        if not self.may_search(candidate.request_class):
            return False
        forecast = None if self.reserving.greedy else self.reserving.forecast
        first, stopped, placed = self.reserving.first(), set(self.state.stopped), set(self.state.places)
        self.preempting.reserved = self.reserving.mark()
        if not self.preempting.make_room(candidate, offers, forecast):
            return False
        self.surplus.note(self.state.actions, -1)
        self.state.granted.add(request)
        self.state.grants += 1
        self.state.waits.pop(request.job, None)
        self.advance(candidate)
        preempted = self.state.stopped - stopped
        if (first and first.job in {request.job, *preempted}) or not preempted.isdisjoint(placed):
            # The first reservation no longer exists, or placed pods were removed again. So the cycle tries the heads of
            # closed strict queues again.
            self.kept_out |= {head.request_class.number for head in self.tournament.closed.values()}
            self.tournament.closed.clear()
        if self.reserving.victims_leave() or self.preempting.has_taken_back:
            self.preempting.has_taken_back = False
            self.known.begin()
        while self.kept_out:
            self.known.is_done[self.kept_out.pop()] = 0
        self.try_again(across=False)
        return True

    def try_again(self, *, across: bool) -> None:
        """Try the request classes with a failed search for victims again. A decision has changed the charges of queues,
        so the search may now succeed. `across`: whether to try only classes that may preempt jobs of other queues."""
        numbers, over = self.state.search_classes, self.known.is_done
        again = [each for each in numbers if over[each] and self.preempting.may_try_again(each, across)]
        if across and not again:
            return
        for number in again:
            over[number] = 0
        self.preempting.effort += len(self.pending.request_classes) // REQUEST_CLASSES_OF_EFFORT
        self.field.fill(self.tournament)  # the order may have changed, because it may depend on shares
        # (-1, False) makes `hopeless_heads` check the heads again, unless more than `FEW_QUEUES` queues wait
        self.weeded = self.weeded and (-1, False)

    def deny(
        self, candidate: Candidate, offers: Sequence[FlavorAssignment], lacks: Sequence[tuple[FlavorAssignment, Lack]]
    ) -> None:
        """Deny the request. `lacks`: for each offer that quota allows, a pair (offer, cause). The cause is either the
        shortfall of the placement, or the reservation that the start would delay."""
        key = candidate.request_class.key
        found = [self.known.explain(offer.gang, lack) for offer, lack in lacks]
        held = any(isinstance(lack, WouldDelayReservation) for _, lack in lacks)
        if held and self.tournament.out_of_turn:
            self.kept_out.add(candidate.request_class.number)
        reason = self.known.why_not(candidate.request_class, offers, found)
        # such a reason does not depend on running jobs, so no eviction can help this request
        if key in self.state.searched and reason.code not in SHORT and not held:
            self.preempting.await_change(key)
        lacks_capacity = lacks or self.state.is_within_limits(candidate.request_class)
        blocker = Blocker.RESERVATION if held else Blocker.CAPACITY if lacks_capacity else Blocker.QUOTA
        self.known.failures += 1
        self.reporter.report(candidate, reason, blocker)
        if lacks and any(each.code not in NEVER for each in found):
            self.reserve_or_block(candidate, holds_up=reason.code not in ALONE)
        else:
            # The request may already have a reservation from earlier in this cycle, when quota still allowed it.
            has_reservation = candidate.entry.request in self.reserving.reserved
            self.lose(candidate, holds_up=reason.code not in ALONE and not has_reservation)
