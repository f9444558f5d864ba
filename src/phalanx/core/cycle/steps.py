"""The steps of one cycle, and what it has decided so far.

Who takes part: all request classes (`state.pending.pending`) that may start by counting and by what quota allows, found
for all at once (`core.cycle.blocked`, `core.cycle.candidates`), each with its first request. Who is next is decided by
`core.order.next_job`; slots that replace lost pods of started gangs come before all that. The way of a request, a
method each (`offers` is the state's):

    receive       obstacles that no room can mend (`core.cycle.intake.eligible`), else its place in a request class
    contenders    the next request
    offers        what the queue tree allows: flavors, or the number that says no (`core.quota.flavor_assignment`)
    place         its gang is placed on the draft, whole (`core.placement.gang`)
    grant         it starts: room, and what its queue is charged with, are taken
    deny          it does not: its request class is told why (`core.cycle.messages`)

By which request class a queue stands where shares or guarantees decide between queues: its first one that the limits of
its queue, and of those above, allow, and whose class fits by counting; or whose turn it is to search for victims. A
strict queue stands by its first one. While backfill is to make a reservation every request class within its limits
comes up, since the first that finds no room has it.

What may start only shrinks within a cycle, and by what came up in it alone: headroom falls by what is granted, and what
victims give back is there for others in the next cycle; a class closes when one of it came up in vain. So it does not
matter when a request class is passed over, and what is decided follows from the state alone. What the modules named
above need of a cycle is in `core.cycle.state`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

from phalanx.core.backfill.reservation import PlacementOutcome, WouldDelayReservation
from phalanx.core.cycle.candidates import Candidates
from phalanx.core.cycle.intake.receive import Intake
from phalanx.core.cycle.intake.surplus import Surplus, first_pass_gang
from phalanx.core.cycle.messages import ReasonReporter
from phalanx.core.cycle.preempt.search import CyclePreemption
from phalanx.core.cycle.reserve import Reserving
from phalanx.core.cycle.state import CycleState
from phalanx.core.placement.gang import PlacementShortfall
from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.model.job import Placement
from phalanx.model.policy import Policy
from phalanx.model.reason import ALONE, NEVER, SHORT, Reason
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import (
    Blocker,
    Kind,
    QueuedRequest,
    Request,
    RequestClass,
    RequestClassKey,
)

REQUEST_CLASSES_OF_EFFORT = 256  # so many request classes, ordered again, cost as much as a search for victims
FEW_QUEUES = 64  # with more that wait, what they take part with is looked at once a cycle
Lack: TypeAlias = PlacementShortfall | WouldDelayReservation | Reason


class Cycle:
    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self.pending = cluster.pending
        self.state = CycleState(cluster, policy, now_s)
        self.ledger = self.state.ledger
        self.reserving = Reserving(self.state)
        self.candidates = Candidates(self.state, self.reserving)
        self.tournament = self.candidates.tournament
        self.reporter = ReasonReporter(self.state, self.tournament)
        self.preempting = CyclePreemption(self.state)
        self.intake = Intake(self.state, self.reporter, self.preempting)
        self.surplus = Surplus(self.state, self.tournament.closed, self.candidates.usage, self.reporter)
        self.request_class: RequestClass  # whose first is being tried
        self.weeded: tuple[int, bool] | None = None  # decisions before the heads of queues were looked at; may_reserve

    def close(self) -> None:
        """End the cycle. What it thought with is the state's to keep; and its parts, which know it, let go of each
        other, so that nothing is left for the garbage collector."""
        self.state.close()
        for part in (self.candidates, self.reporter.grants, self):
            if part is not None:
                part.__dict__.clear()

    # Contending

    def contenders(self) -> Iterator[tuple[RequestClassKey, Request]]:
        """Yield the contending requests, best first. Who asks for the next must have granted or denied the last."""
        for at in range(len(self.state.starts)):
            self.surplus.note(self.state.starts, at)
        if self.pending.request_classes:
            self.candidates.refresh(self.preempting.classes_to_search())
            self.candidates.fill_tournament()
            while not self.preempting.withdrawn:  # else the job that handed its nomination over comes next (rule R23)
                yield from self.hopeless_heads()
                head = self.tournament.head()
                if (head is None or head[0].key.kind != Kind.REPLACEMENT) and self.grants_surplus(
                    None if head is None else head[0].key.priority
                ):
                    self.tournament.renew()
                    self.try_again(across=True)
                    continue
                if head is None:
                    break
                in_turn = head[0].key.kind != Kind.REPLACEMENT
                if in_turn and self.surplus.grow_in_turn(self.tournament, head, self.reserving.forecast):
                    self.tournament.renew()
                    self.try_again(across=True)
                    continue
                if self.takes_its_turn(head):
                    yield self.request_class.key, head[1].request
                if self.reserving.pop_all_reserved():
                    if self.reserving.by_estimate:
                        self.candidates.fill_tournament()
                    else:
                        self.tournament.renew()
        while not self.preempting.withdrawn and self.grants_surplus(None):
            pass
        self.reporter.report_remaining()

    def hopeless_heads(self) -> Iterator[tuple[RequestClassKey, Request]]:
        """Yield the first requests of queues that would get nothing, to be denied out of turn: a queue takes part with
        its first request that would get something (rule R8). In large trees that is looked at once a cycle."""
        decided = self.state.grants + len(self.preempting.actions), self.reserving.may_reserve
        cursors = self.tournament.cursors() if self.state.has_several_arenas and self.weeded != decided else []
        if len(cursors) < 2 or (self.weeded and len(cursors) > FEW_QUEUES) or self.tournament.urgent.request_classes:
            return
        self.weeded, denied = decided, False
        for cursor in cursors:
            while cursor.request_classes and not self.gets_something(*cursor.request_classes[0][1:]):
                head, denied = self.tournament.head_of(cursor), True
                if self.takes_its_turn(head):
                    yield self.request_class.key, head[1].request
        if denied:
            self.tournament.renew()

    def takes_its_turn(self, head: tuple[RequestClass, QueuedRequest]) -> bool:
        """Return whether the head of a queue is to be tried. If not, the next request of the queue takes part."""
        self.request_class, entry = head
        if self.state.wants_nothing(self.request_class, entry):
            self.advance()
        elif not self.candidates.may_be_tried(self.request_class):
            self.lose(self.request_class, holds_up=False)
        else:
            return self.must_try(self.request_class, entry)
        return False

    def gets_something(self, request_class: RequestClass, entry: QueuedRequest) -> bool:
        """Return whether the request can start, finds victims, or would get the reservation."""
        found = self.state.placement_class_of(request_class)
        if request_class.strict:
            return not self.reporter.never_starts(found)
        if self.reserving.by_estimate or self.reserving.was_denied(request_class):
            return True
        if self.state.wants_nothing(request_class, entry) or not self.candidates.may_be_tried(request_class):
            return False
        if not (self.weeded and self.weeded[0]) and not self.pending.capacity.behind:
            has_room = bool(self.state.blocked.open[request_class.placement_class])  # counted when the cycle began
        else:
            has_room = self.state.blocked.counted(self.state.draft, found.number, self.state.grants)
        if has_room and self.is_sure_to_start(request_class):
            return True
        offers = self.state.offers(request_class.key, entry.request)
        allowed = [offer for offer in offers if offer.short is None]
        if allowed and has_room and any(self.could_be_placed(request_class, entry.request, offer) for offer in allowed):
            return True
        if allowed and self.reserving.would_reserve(request_class, entry):
            return True
        return self.finds_victims(request_class, entry.request, offers)

    def is_sure_to_start(self, request_class: RequestClass) -> bool:
        """Return whether the class, which has room by counting, is sure to be placed, and its queue has quota."""
        found = self.state.placement_class_of(request_class)
        if not found.single or self.reserving.first() is not None or not self.state.is_within_limits(request_class):
            return False
        return self.state.draft.ordinary_amounts(found.key.gang.demands[0])

    def could_be_placed(self, request_class: RequestClass, request: Request, offer: FlavorAssignment) -> bool:
        """Return whether the offer's gang has its nodes now."""
        self.request_class, mark = request_class, self.state.draft.mark()
        outcome = self.place(request_class.key, request, offer)
        self.state.draft.rewind(mark)
        return isinstance(outcome, list)

    def finds_victims(self, request_class: RequestClass, request: Request, offers: Sequence[FlavorAssignment]) -> bool:
        """Return whether the request may preempt now, and finds victims."""
        if request_class.number not in self.state.search_classes or not self.preempting.may_search(
            request_class.key, self.reserving.mark()
        ):
            return False
        if self.preempting.is_delayed(request_class.key, request):
            return False
        forecast = None if self.reserving.greedy else self.reserving.forecast
        return self.preempting.search(request_class.key, request, offers, forecast) is not None

    def must_try(self, request_class: RequestClass, entry: QueuedRequest) -> bool:
        """Return whether the request is to be tried, or to be told anything. If not, it has lost."""
        if self.reserving.was_denied(request_class):
            self.reserve_or_block(request_class, entry)
            return False
        found, may_search = (
            self.state.placement_class_of(request_class),
            request_class.number in self.state.search_classes,
        )
        may_search = may_search and self.preempting.may_search(request_class.key, self.reserving.mark())
        if not self.state.is_within_limits(request_class):
            if may_search:
                return True
            asks = request_class.strict or self.reporter.has_no_report(request_class)
            asks = asks and entry.request not in self.reserving.reserved
            self.lose(request_class, holds_up=asks and self.reporter.holds_up_for_quota(request_class, entry))
            return False
        if self.state.blocked.counted(self.state.draft, found.number, self.state.grants):
            if may_search or not self.reserving.is_still_blocked_by_reservation(request_class, entry):
                return True
            self.reserve_or_block(request_class, entry)
            return False
        if may_search or self.reporter.explains(found):
            return True
        never = request_class.strict and self.reporter.never_starts(found)
        anew = not found.flavor_classes or self.reserving.may_reserve or self.reporter.has_no_report(request_class)
        if anew and self.reporter.reason_of_placement_class(found) is None:
            return True
        self.reporter.report_no_capacity(request_class, entry)
        if never or self.reporter.is_hopeless(found):
            self.lose(request_class, holds_up=False)
        else:
            self.reserve_or_block(request_class, entry)
        return False

    def lose(self, request_class: RequestClass, *, holds_up: bool) -> None:
        """End the request class's part in the cycle, unless another request of it may search for victims."""
        entry = self.tournament.at.request_classes[0][2]
        if (following := self.preempting.next_ready(request_class, entry)) is not None:
            self.tournament.accept_head(following)
            return
        self.state.is_done[request_class.number] = 1
        self.tournament.reject_head(holds_up=holds_up)

    def reserve_or_block(self, request_class: RequestClass, entry: QueuedRequest, *, holds_up: bool = True) -> None:
        """The request cannot start for want of room. With a reservation it holds up nobody, and the next of its request
        class may have one too."""
        reserved = self.reserving.try_reserve(request_class, entry)
        following = self.reserving.next_of(request_class) if reserved else None
        if following is not None:
            self.tournament.accept_head(following)
        else:
            self.lose(request_class, holds_up=holds_up and not reserved)

    # Deciding

    def place(self, key: RequestClassKey, request: Request, offer: FlavorAssignment) -> PlacementOutcome | Reason:
        """Place the whole minimum of the gang, or nothing. Pods above it follow in the second pass of the cycle."""
        if not self.state.is_whole(key):
            return []
        known = self.reporter.known_reason(
            self.request_class, self.state.placement_class_of_offer(self.request_class, offer)
        )
        if known is not None:
            return known
        outcome = self.reserving.forecast.place(request, first_pass_gang(self.state, request, offer))
        if isinstance(outcome, PlacementShortfall):
            self.state.blocked.fail(self.state.draft, offer.gang, outcome.placed)
        return outcome

    def grant(self, key: RequestClassKey, request: Request, offer: FlavorAssignment, outcome: list[Placement]) -> None:
        placements = tuple(outcome)
        self.state.grants += 1
        self.state.draft.settle()
        backfilled = self.reserving.granted(request, offer.gang, placements)
        self.preempting.forget(key)  # it searched for another flavor's sake
        self.state.granted.add(request)
        self.reporter.note_granted(key.gang, request.job, placements)
        if request.slot is None:
            self.reporter.waits.pop(request.job, None)
            self.intake.start(self.cluster.jobs[request.job], placements, offer.flavors)
            if backfilled:
                self.state.starts[-1] = self.state.starts[-1]._replace(backfilled=True)
            self.surplus.note(self.state.starts, -1)
        else:
            self.intake.place_slots(request, request.slot, placements)
        if key.kind != Kind.REPLACEMENT:
            charge = flavor_assignment.charge_for(offer, placements)
            self.state.charge(charge)
            if request.slot is None:
                self.candidates.usage.start(self.cluster.jobs[request.job].job, charge.cost)
        self.advance()
        if key.kind != Kind.REPLACEMENT:
            self.try_again(across=True)

    def grants_surplus(self, head_priority: int | None) -> bool:
        """Grant the surplus that comes before a request of that priority (None: there is no further request): that of
        jobs of a higher priority, of which no request is left. Return whether there was any (rule R10)."""
        due = self.surplus.priorities()
        if head_priority is not None:
            due = list(takewhile(lambda each: each > head_priority and not self.candidates.any_from(each), due))
        if due:
            self.surplus.place(due, self.reserving.forecast)
        return bool(due)

    def advance(self) -> None:
        """Continue with the next request of the request class: the first one is granted what it asks, or its job
        stops."""
        following = self.state.next_waiting(self.request_class)
        self.state.is_done[self.request_class.number] = following is None
        self.tournament.accept_head(following)

    def prefers_preemption(self, key: RequestClassKey, offer: FlavorAssignment) -> bool:
        """The queue would have others give way for this offer rather than look at the next."""
        if not offer.flavors or (branch := self.cluster.tree.branches[key.queue]).queue is None:
            return False
        wish = branch.queue.fungibility
        return wish.preempt_before_next or (wish.prefer_preemption and offer.short is not None)

    def make_room(self, key: RequestClassKey, request: Request, offers: Sequence[FlavorAssignment]) -> bool:
        """Have others give way, if the request may preempt them and that is enough; reservations are not delayed by
        that."""
        if self.request_class.number not in self.state.search_classes or not self.preempting.may_search(
            key, self.reserving.mark()
        ):
            return False
        forecast = None if self.reserving.greedy else self.reserving.forecast
        self.preempting.reserved = self.reserving.mark()
        if not self.preempting.make_room(key, request, offers, forecast):
            return False
        self.surplus.note(self.preempting.actions, -1)
        self.state.granted.add(request)
        self.state.grants += 1
        self.reporter.waits.pop(request.job, None)
        self.advance()
        if self.reserving.victims_leave() or self.preempting.has_taken_back:
            self.preempting.has_taken_back = False
            self.state.reopen()
        self.try_again(across=False)
        return True

    def try_again(self, *, across: bool) -> None:
        """Let requests whose searches for victims failed come up again, because something was decided that may let them
        succeed. `across`: only those that may preempt jobs of other queues."""
        if across and not self.state.search_classes:
            return
        over, preempting = self.state.is_done, self.preempting
        again = [
            number for number in self.state.search_classes if over[number] and preempting.may_try_again(number, across)
        ]
        if across and not again:
            return
        for number in again:
            over[number] = 0
        self.preempting.effort += len(self.pending.request_classes) // REQUEST_CLASSES_OF_EFFORT
        self.candidates.fill_tournament()  # shares have changed, too

    def deny(
        self,
        key: RequestClassKey,
        request: Request,
        offers: Sequence[FlavorAssignment],
        lacks: Sequence[tuple[FlavorAssignment, Lack]],
    ) -> None:
        """Deny the request. `lacks`: how far those offers came that quota allows; or that there is room, but it is
        kept."""
        request_class = self.request_class
        entry = request_class.entry(request)
        found = [self.reporter.lacking(offer, lack) for offer, lack in lacks]
        held = any(isinstance(lack, WouldDelayReservation) for _, lack in lacks)
        reason = self.reporter.why_not(key, offers, found)
        if reason.code not in SHORT and not held:  # others' going cannot mend it
            self.preempting.await_change(key)
        self.reporter.report_denied(
            request_class,
            entry,
            reason,
            Blocker.RESERVATION if held else Blocker.CAPACITY if lacks else Blocker.NONE_REPORTED,
        )
        if lacks and any(each.code not in NEVER for each in found):
            self.reserve_or_block(request_class, entry, holds_up=reason.code not in ALONE)
        else:
            has_reservation = request in self.reserving.reserved  # from before others used up its quota
            self.lose(request_class, holds_up=reason.code not in ALONE and not has_reservation)
