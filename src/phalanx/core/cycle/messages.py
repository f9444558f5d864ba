"""Choose the reason that each pending job reports in a cycle.

`core.cycle.steps` calls this module when a request is denied, and once at the end of the cycle for all request classes
that were not tried. The reasons become `Wait` actions of the plan.

- A reason for missing capacity is computed once for a placement class, and shared by all queues
  (`PlacementClass.reason`). A cycle computes about `EXPLAINED` of them again. A class that loses its capacity in every
  cycle is explained again after `RENEWED` cycles.
- A reason for missing quota is computed for each request class.
- If several reasons apply, the order is: requests that can never start, then quota, then capacity.
- The first job of a class gets new numbers each time that it is denied. The other jobs get a new reason only if its
  code changes.
- Behind the head of a strict queue, jobs report `BehindHead` with the head's name and reason. If the head changes, only
  the next `NEXT` classes are updated, because thousands of jobs may wait there. `phalanx explain` always computes the
  current head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np

from phalanx.core.backfill.reservation import WouldDelayReservation
from phalanx.core.cycle.state import CycleState
from phalanx.core.fold.memory import RequestClassReport
from phalanx.core.order.next_job import Tournament
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.reasons import explain, no_quota
from phalanx.core.reasons.consumers import CycleGrants
from phalanx.model.job import Placement
from phalanx.model.reason import ALONE, NEVER, Reason, ReasonCode
from phalanx.state.classes import Gang
from phalanx.state.cluster import JobRecord
from phalanx.state.pending.request_class import (
    Blocker,
    Candidate,
    Kind,
    PlacementClass,
    PlacementClassKey,
    Request,
    RequestClass,
)

EXPLAINED = 4  # failed requests of a cycle that get a new reason, at least
RENEWED = 100  # cycles after which the reason of a class is computed again
RENEWED_AT_ONCE = 64  # reasons of classes that a cycle computes again after a node changed; the next cycle follows
NEXT = 4  # request classes right behind a head, which always report its name

Lack: TypeAlias = PlacementShortfall | WouldDelayReservation | Reason  # why an offer was not placed
Wait: TypeAlias = tuple[str | None, str | None]  # the head that blocks a request, and the code of the head's reason


class ReasonReporter:
    """The reasons of one cycle.

    `waits`: job -> the reason that it reports.
    `reports`: request class -> its new report. The reason in it is None if it is that of the placement class.
    `explained`: placement class -> the reason that was computed in this cycle.
    `disproved`: placement classes whose stored reason no longer holds.
    `stale`: placement class -> its new `PlacementClass.stale`.
    `renewed`: True if the reasons of all classes are up to date again, after a node changed.
    `failures`: the number of requests that were denied.
    `eased`: True if victims have returned quota that lets a request start in the next cycle, which follows at once."""

    def __init__(self, state: CycleState, tournament: Tournament) -> None:
        self.state, self.tournament, self.cluster, self.pending = state, tournament, state.cluster, state.pending
        self.waits: dict[str, Reason] = {}
        self.reports: dict[RequestClass, RequestClassReport] = {}
        self.explained: dict[PlacementClassKey, Reason] = {}
        self.disproved: dict[PlacementClassKey, None] = {}
        self.stale: dict[PlacementClassKey, int] = {}
        self.renewed = False
        self.failures = 0
        self.eased = False
        self.grants: CycleGrants | None = None
        self._unnoted: list[tuple[Gang, str, Sequence[Placement]]] = []  # grants that are not in `grants` yet

    def note_granted(self, gang: Gang, job: str, placements: Sequence[Placement]) -> None:
        """Remember the placements of the job, because reasons name the largest consumers."""
        self._unnoted.append((gang, job, placements))

    def granted_so_far(self) -> CycleGrants:
        grants = self.grants = self.grants or CycleGrants()
        for gang, job, placements in self._unnoted:
            grants.note(gang, job, placements)
        self._unnoted.clear()
        return grants

    # What is known

    def reason_of(self, request_class: RequestClass) -> Reason | None:
        """Return the last reported reason of the request class, from this cycle or before."""
        report = self.reports.get(request_class)
        if report is None and not self.disproved:
            return self.pending.reason_of(request_class)
        found = request_class.placement_class
        if report is not None:
            return self.reason_of_placement_class(found) if report.reason is None else report.reason
        is_shared = request_class.reason is None
        return None if is_shared and found.key in self.disproved else self.pending.reason_of(request_class)

    def reason_of_placement_class(self, found: PlacementClass) -> Reason | None:
        return self.explained.get(found.key) or (None if found.key in self.disproved else found.reason)

    def has_no_report(self, request_class: RequestClass) -> bool:
        return bool(self.pending.columns.reported_blocker[request_class.number] == Blocker.NONE_REPORTED)

    def holds_up_for_quota(self, candidate: Candidate) -> bool:
        """Return whether the request class, which quota blocks, also blocks the classes behind it in a strict queue. A
        class does not block if it can never start, or if only a limit of its own user or group is short. Report the
        reason if its code has changed."""
        if (reason := self.short_of_quota(candidate)) is None:
            return True
        said = self.reason_of(candidate.request_class)
        if said is None or said.code is not reason.code:
            self.report(candidate, reason, Blocker.QUOTA, reason)
        return reason.code not in ALONE

    def short_of_quota(self, candidate: Candidate) -> Reason | None:
        """Return why quota blocks the request class; None if it does not, once victims have returned their quota."""
        request_class = candidate.request_class
        offers = self.state.offers(request_class.key, candidate.entry.request)
        if any(offer.short is None for offer in offers):
            self.eased = True
            return None
        return self.why_not(request_class, offers, ())

    def is_hopeless(self, found: PlacementClass) -> bool:
        """Return whether the class has no capacity even on empty nodes. Such a class gets no reservation."""
        reason = self.reason_of_placement_class(found)
        return reason is not None and reason.code in NEVER

    def never_starts(self, found: PlacementClass) -> bool:
        """Return whether the class, which has no capacity now, could not start even on empty nodes. Its request classes
        then block no jobs in a strict queue. A stored reason that contradicts the result is forgotten."""
        gangs = [way.key.gang for way in found.flavor_classes or (found,)]
        reason = self.reason_of_placement_class(found)
        never = all(explain.never(self.cluster, self.state.draft, gang) is not None for gang in gangs)
        if reason is not None and (reason.code in NEVER) != never:
            self.explained.pop(found.key, None)
            self.disproved[found.key] = None
        return never

    def explains(self, found: PlacementClass) -> bool:
        """Return whether the reason of the class, which has no capacity now, must be computed again: it had capacity
        when the cycle began, and few requests failed before it."""
        return (
            bool(self.state.blocked.had_room[found.number])
            and self.failures < EXPLAINED
            and found.key not in self.explained
        )

    def known_reason(self, request_class: RequestClass, found: PlacementClass | None) -> Reason | None:
        """Return the stored reason why the class has no capacity; None if the class is open, or if the reason must be
        computed again."""
        blocked = self.state.blocked
        if found is None or (blocked.open[found.number] and found not in self.pending.failed):
            return None
        searches = request_class.number in self.state.search_classes and self.failures < EXPLAINED
        if request_class.strict:
            self.never_starts(found)  # forget a stored reason that earlier nodes caused
        return None if searches or self.explains(found) else self.reason_of_placement_class(found)

    # Why not

    def lacking(self, offer: FlavorAssignment, lack: Lack) -> Reason:
        """Return why the offer, which quota allows, finds no capacity. The reason is shared by all equal requests."""
        if isinstance(lack, WouldDelayReservation):
            return lack.reason
        if isinstance(lack, Reason):
            return lack
        return self.explain(offer.gang, lack)

    def explain(self, gang: Gang, lack: PlacementShortfall) -> Reason:
        state = self.state
        reason = explain.why_not(self.cluster, state.draft, gang, lack, self.granted_so_far())
        for counts in (True, False):
            if (key := PlacementClassKey(gang, counts=counts)) in self.pending.placement_class_of:
                self.explained[key] = reason
        return reason

    def explain_placement_class(self, found: PlacementClass) -> Reason | None:
        """Return why requests of the class find no capacity, by a trial placement if it is not known; None if they find
        some."""
        known = self.reason_of_placement_class(found)
        if known is None and not found.flavor_classes:
            gang = found.key.gang
            lack = self.try_placement(gang)
            known = None if lack is None else self.explain(gang, lack)
        return known

    def try_placement(self, gang: Gang) -> PlacementShortfall | None:
        draft = self.state.draft
        mark = draft.mark()
        outcome = place(draft, gang)
        if isinstance(outcome, PlacementShortfall):
            return outcome
        draft.rewind(mark)
        return None

    def why_not(
        self, request_class: RequestClass, offers: Sequence[FlavorAssignment], found: Sequence[Reason]
    ) -> Reason:
        """Return why each offer fails. `found`: the reasons of the offers that quota allows, in the same order. The
        offer that the queue prefers gives the code. Of several offers with the same flavors one is reported, if
        possible one that can succeed later."""
        lacking, reasons, queue = iter(found), dict[tuple[str, ...], Reason](), request_class.key.queue
        for offer in offers:
            said = reasons.get(offer.flavors)
            if offer.short is None:
                reason = next(lacking)
            else:
                reason = self.never(request_class, offer) or no_quota.why_not(
                    self.cluster, self.state.ledger, queue, offer
                )
            if reason.code in NEVER:  # its other groups may fit, but have no quota now
                ledger = self.state.ledger
                others = (no_quota.why_not(self.cluster, ledger, queue, each) for each in offer.besides[::-1])
                reason = next((each for each in others if each.code not in NEVER), reason)
            if said is None or (said.code in NEVER and reason.code not in NEVER):
                reasons[offer.flavors] = reason
        return no_quota.of_flavors(list(reasons), list(reasons.values()))

    def never(self, request_class: RequestClass, offer: FlavorAssignment) -> Reason | None:
        """Return why the offer could not be placed even on empty nodes. This reason comes before missing quota."""
        is_whole, queue = request_class.placement_class.key.whole, request_class.key.queue
        if not is_whole or explain.may_get_nodes(self.cluster, queue, offer.gang):
            return None
        return explain.never(self.cluster, self.state.draft, offer.gang)

    # Reports to request classes

    def report_denied(self, candidate: Candidate, reason: Reason, blocker: int) -> None:
        """Report that the first request of the class was denied. `blocker` NONE_REPORTED: quota allows none of its
        offers."""
        self.failures += 1
        request_class = candidate.request_class
        if blocker == Blocker.NONE_REPORTED:
            blocker = Blocker.CAPACITY if self.state.is_within_limits(request_class) else Blocker.QUOTA
        own = None if reason is self.reason_of_placement_class(request_class.placement_class) else reason
        self.report(candidate, reason, blocker, own)

    def report_no_capacity(self, candidate: Candidate) -> None:
        """Report that the placement class of the head is known to have no capacity."""
        request_class = candidate.request_class
        if (
            self.pending.columns.reported_blocker[request_class.number] != Blocker.CAPACITY
            and request_class not in self.reports
        ):
            found = request_class.placement_class
            reason = self.explain_placement_class(found)
            if reason is not None:
                self.report(candidate, reason, Blocker.CAPACITY, None)

    def report(self, candidate: Candidate, reason: Reason, blocker: int, own: Reason | None) -> None:
        """Report a reason to a request class. The first request gets the new numbers. The others get it only if the
        code changes; new requests always get it. If the class only moved to or from the head of a strict queue, only
        the next few requests get it."""
        request_class = candidate.request_class
        said = self.reason_of(request_class)
        self.reports[request_class] = RequestClassReport(blocker, own)
        changed = said is None or said.code is not reason.code
        few = said is not None and changed and is_head_change(said, reason)
        if few or not changed:
            self.report_request(candidate.entry.request, reason)
        for other in islice(self.state.all_waiting(request_class), NEXT + 1 if few else None) if changed else ():
            self.report_request(other.request, reason)

    def report_remaining(self) -> None:
        """Report to all request classes that were not tried, if the kind of their blocker has changed."""
        if self.pending.request_classes:
            self.renew()
            if self.tournament.closed:
                self.report_blocked_by_head()
            self.report_untried()
        for request in self.pending.unreported:
            request_class = self.pending.request_class_of.get(request)
            if request_class is not None and self.state.still_waits(request):
                self.report_new_request(request_class, request)

    def renew(self) -> None:
        """Compute reasons again: from time to time for classes that had capacity and lost it, and for all classes after
        a node changed."""
        blocked, pending = self.state.blocked, self.pending
        left = RENEWED_AT_ONCE if pending.renews else EXPLAINED
        for found in blocked.closed(all_of_them=pending.renews):
            stale = self.stale[found.key] = found.stale + blocked.had_room[found.number]
            known = found.reason is not None and found.key not in self.disproved and found.key not in self.explained
            if stale <= RENEWED or not known or found.flavor_classes:
                continue
            self.stale[found.key] = 0
            if (lack := self.try_placement(found.key.gang)) is not None:
                self.explain(found.key.gang, lack)
                self.report_first_few(found)
            if not (left := left - 1):
                return
        self.renewed = True

    def report_first_few(self, found: PlacementClass) -> None:
        """Report the new reason of a placement class to the first requests of its first few request classes."""
        columns = self.pending.columns
        reason = self.reason_of_placement_class(found)
        some = (columns.placement_class == found.number) & (columns.reported_blocker == Blocker.CAPACITY)
        for number in some.nonzero()[0][:EXPLAINED].tolist():
            request_class = columns.request_classes[number]
            if (
                request_class is not None
                and request_class.reason is None
                and (entry := self.state.first_waiting(request_class)) is not None
            ):
                assert reason is not None  # the caller has just computed the reason
                self.report(Candidate(request_class, entry), reason, Blocker.CAPACITY, None)

    def report_untried(self) -> None:
        """Report to the request classes that quota or a count kept from being tried, if their blocker has changed.
        Quota is reported before capacity (rule R25). If other jobs took their quota or capacity in this cycle, the
        first few get new numbers."""
        state, columns, count = self.state, self.pending.columns, len(self.pending.columns)
        placement_class, row = columns.placement_class[:count], columns.row[:count]
        reported, live = columns.reported_blocker[:count], placement_class >= 0
        open_, had_room = state.blocked.columns()
        within = state.within_limits(placement_class, row)
        has_none, has_capacity = reported == Blocker.NONE_REPORTED, reported == Blocker.CAPACITY
        is_shut = within & ~open_[placement_class]
        may_never_fit = (reported == Blocker.QUOTA) & self.pending.renews  # a node has changed
        another = live & np.where(within, is_shut & ~has_capacity, has_none | has_capacity | may_never_fit)
        if self.cluster.tree.stricts:
            another &= ~state.is_strict[row]
        for candidate in self.unreported(another.nonzero()[0].tolist()):
            if within[candidate.request_class.number]:
                self.report_closed(candidate, candidate.request_class.placement_class)
            else:
                self.report_short_of_quota(candidate)
        if self.failures >= EXPLAINED:
            return
        was_within = np.frombuffer(state.within_at_first, np.bool_)[:count]
        lost = np.where(
            within, is_shut & has_capacity & had_room[placement_class], was_within & (reported == Blocker.QUOTA)
        )
        losing = (live & lost).nonzero()[0]
        order = np.lexsort((columns.arrival_s[losing], -columns.priority[losing]))
        for candidate in self.unreported(losing[order].tolist()):
            self.report_lost(candidate, candidate.request_class.placement_class)
            if self.failures >= EXPLAINED:
                return

    def unreported(self, numbers: Iterable[int]) -> Iterator[Candidate]:
        """Yield the first request that waits of each of these classes to which this cycle has not reported."""
        for number in numbers:
            request_class = self.pending.columns.request_classes[number]
            if request_class is None or request_class in self.reports:
                continue
            if (entry := self.state.first_waiting(request_class)) is not None:
                yield Candidate(request_class, entry)

    def report_closed(self, candidate: Candidate, found: PlacementClass) -> None:
        """Report that the placement class has no capacity."""
        if not found.flavor_classes:
            if (reason := self.explain_placement_class(found)) is not None:
                self.report(candidate, reason, Blocker.CAPACITY, None)
            return
        request_class, lacking = candidate.request_class, list[Reason]()
        offers = self.state.offers(request_class.key, candidate.entry.request)
        for offer in offers:
            way = self.state.placement_class_of_offer(request_class, offer) if offer.short is None else None
            if offer.short is None and (said := None if way is None else self.explain_placement_class(way)) is None:
                return
            if offer.short is None and said is not None:
                lacking.append(said)
        reason = self.why_not(request_class, offers, lacking)
        self.report(candidate, reason, Blocker.CAPACITY, reason)

    def report_lost(self, candidate: Candidate, found: PlacementClass) -> None:
        """Report to a class that had capacity or quota when the cycle began."""
        request_class = candidate.request_class
        if self.pending.columns.reported_blocker[request_class.number] == Blocker.QUOTA:
            self.failures += 1
            self.report_short_of_quota(candidate)
        elif not found.flavor_classes and request_class.reason is None:
            if found.key not in self.explained and (lack := self.try_placement(found.key.gang)) is not None:
                self.explain(found.key.gang, lack)
            if (reason := self.reason_of_placement_class(found)) is not None:
                self.failures += 1
                self.report(candidate, reason, Blocker.CAPACITY, None)

    def report_short_of_quota(self, candidate: Candidate) -> None:
        if (reason := self.short_of_quota(candidate)) is not None:
            self.report(candidate, reason, Blocker.QUOTA, reason)

    def report_new_request(self, request_class: RequestClass, request: Request) -> None:
        """Report the reason of the request class to a new request. If the reason names the job itself as a consumer,
        compute it again."""
        reason = self.reason_of(request_class)
        if (
            reason is not None
            and request.slot is None
            and self.cluster.jobs[request.job].attempt
            and reason.names(request.job)
        ):
            found = request_class.placement_class
            lack = (
                None
                if found.flavor_classes or reason.code is not ReasonCode.NO_ROOM
                else self.try_placement(found.key.gang)
            )
            if lack is not None:
                reason = self.explain(found.key.gang, lack)
                self.reports[request_class] = RequestClassReport(Blocker.CAPACITY)
        if reason is not None:
            self.report_request(request, reason)

    # Behind a head

    def report_blocked_by_head(self) -> None:
        """Report to all classes that the heads of strict queues block in this cycle."""
        behind = self.newly_blocked()
        for queue, (head, entry) in self.tournament.closed.items():
            why = self.reason_of(head)
            now = entry.request.job, None if why is None else str(why.code)
            new = behind.get(queue, [])
            near = self.next_few(queue, now)
            if not (new or near):
                continue
            reason = no_quota.behind_head(self.cluster, entry.request.job, queue, why)
            for request_class in dict.fromkeys((*new, *near)):
                first = self.state.first_waiting(request_class)
                if first is not None and request_class is not head:
                    self.report(Candidate(request_class, first), reason, Blocker.HEAD, reason)

    def newly_blocked(self) -> dict[str, list[RequestClass]]:
        """Return, by strict queue, the request classes that a head blocks from now on."""
        state, columns, count = self.state, self.pending.columns, len(self.pending.columns)
        some = state.is_strict[columns.row[:count]] & (columns.reported_blocker[:count] != Blocker.HEAD)
        some &= ~np.frombuffer(state.is_done, np.bool_)[:count]
        found: dict[str, list[RequestClass]] = {}
        for number in some.nonzero()[0].tolist():
            request_class = columns.request_classes[number]
            strict = None if request_class is None else self.cluster.tree.strict_above(request_class.key.queue)
            if request_class is not None and strict is not None and request_class.key.kind != Kind.REPLACEMENT:
                found.setdefault(strict.name, []).append(request_class)
        return found

    def next_few(self, queue: str, now: Wait) -> list[RequestClass]:
        """Return the classes right behind the head that wait because of it; none if the first of them has reported this
        head already, because the others were updated with it."""
        found: list[RequestClass] = []
        for _, request_class in islice(self.tournament.left.get(queue, ()), 2 * NEXT):
            said = self.pending.reason_of(request_class)
            if said is not None and said.code is ReasonCode.BEHIND_HEAD:
                if not found and wait_of(said) == now:
                    break
                found.append(request_class)
                if len(found) == NEXT:
                    break
        return found

    # ReasonReporter

    def report_request(self, request: Request, reason: Reason) -> None:
        record = self.cluster.jobs[request.job]
        if request.slot is not None:
            reason = explain.of_slots(record, reason, granted=len(self.state.places.get(request.job, ())))
        self.report_job(record, reason)

    def report_job(self, record: JobRecord, reason: Reason) -> None:
        if record.reason != reason:
            self.waits[record.job.id] = reason


def is_blocked_by_head(reason: Reason | None) -> bool:
    return reason is not None and reason.code is ReasonCode.BEHIND_HEAD


def is_head_change(said: Reason, reason: Reason) -> bool:
    """Return whether the class only moved to or from the head of a strict queue. Requests further back in the class
    then wait as before."""
    return is_blocked_by_head(said) != is_blocked_by_head(reason) and not ALONE & {said.code, reason.code}


def wait_of(reason: Reason) -> Wait:
    """Return the head and the code of its reason. The expected time is left out, because it changes all the time."""
    return reason.numbers.get("head"), reason.numbers.get("head_code")
