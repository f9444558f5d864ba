"""Choose the reason that each pending job reports in a cycle.

`core.cycle.steps` calls this module when a request is denied, and once at the end of the cycle for all request classes
that were not tried. The reasons become `Wait` actions of the plan.

- A placement class may have capacity at the beginning of each cycle, but lose it to other jobs every time. The reason
  of such a class is computed again after `RENEWED` cycles.
- The first job of a request class gets a reason with new numbers each time that it is denied. The other jobs of the
  class get the new reason only if its code has changed.
- Jobs behind the *head* (the first waiting request) of a strict queue report `BehindHead` with the head's name and
  reason. If the head changes, only the first `NEXT` classes behind it get a new reason, because thousands of jobs may
  wait there. `phalanx explain` always names the present head."""

from __future__ import annotations

from itertools import islice
from typing import TypeAlias

import numpy as np

from phalanx.core.cycle.known import EXPLAINED
from phalanx.core.cycle.state import CycleState
from phalanx.core.fold.memory import RequestClassReport
from phalanx.core.order.next_job import Tournament
from phalanx.core.reasons import explain, no_quota
from phalanx.model.reason import ALONE, Reason, ReasonCode
from phalanx.state.pending.placement_class import PlacementClass, PlacementClassKey
from phalanx.state.pending.request_class import Blocker, Candidate, Kind, Request, RequestClass

# if a class loses its capacity to other jobs in every cycle, its reason is computed again after this many cycles
RENEWED = 100
# After a node has changed, all reasons are computed again. One cycle computes at most this many reasons.
RENEWED_AT_ONCE = 64
NEXT = 4  # when a strict queue gets a new head, this many request classes behind the head report it

# For a request behind the head of a strict queue: (name of the head, code of the head's reason). Both are None for
# other requests.
Wait: TypeAlias = tuple[str | None, str | None]


class ReasonReporter:
    """The reasons that one cycle reports.

    `reports`: request class -> its report in this cycle. If a report has no reason, the reason of the placement class
    applies.
    `stale`: placement class -> the new value of `PlacementClass.stale` (how often the class has lost its capacity since
    its reason was computed).
    `renewed`: whether the reasons of all classes are up to date again after a node has changed.
    `eased`: whether a request may start with quota that victims of this cycle return. It can use this quota only in the
    next cycle, which follows at once."""

    def __init__(self, state: CycleState, tournament: Tournament) -> None:
        self.state, self.tournament, self.known = state, tournament, state.known
        self.cluster, self.pending = state.cluster, state.pending
        self.reports: dict[RequestClass, RequestClassReport] = {}
        self.stale: dict[PlacementClassKey, int] = {}
        self.renewed = False
        self.eased = False

    # Reasons of request classes

    def reason_of(self, request_class: RequestClass) -> Reason | None:
        """Return the reason that the request class reported last, in this cycle or in an earlier one."""
        found, report = request_class.placement_class, self.reports.get(request_class)
        if report is not None:
            return self.known.reason_of_placement_class(found) if report.reason is None else report.reason
        if request_class.reason is None and found.key in self.known.disproved:
            return None
        return self.pending.reason_of(request_class)

    def has_no_report(self, request_class: RequestClass) -> bool:
        return bool(self.pending.columns.reported_blocker[request_class.number] == Blocker.NONE_REPORTED)

    def holds_up_for_quota(self, candidate: Candidate) -> bool:
        """Return whether a request class without quota blocks the classes behind it in a strict queue. A request class
        that can never start blocks no other class, and neither does a class that only waits for a limit of its own user
        or group. If the code of the reason has changed, also report the new reason."""
        if (reason := self.short_of_quota(candidate)) is None:
            return True
        said = self.reason_of(candidate.request_class)
        if said is None or said.code is not reason.code:
            self.report(candidate, reason, Blocker.QUOTA)
        return reason.code not in ALONE

    def short_of_quota(self, candidate: Candidate) -> Reason | None:
        """Return the reason why quota does not allow the request class. Return None if quota allows it. Quota that
        victims of this cycle return counts as free."""
        offers = self.state.offers(candidate)
        if any(offer.short is None for offer in offers):
            self.eased = True
            return None
        return self.known.why_not(candidate.request_class, offers, ())

    def report_no_capacity(self, candidate: Candidate) -> Reason | None:
        """Report why there is no capacity for the request's placement class, unless the request class has already
        reported it. Return the reason; None if it depends on flavors that are not tried yet."""
        request_class = candidate.request_class
        found, report = request_class.placement_class, self.reports.get(request_class)
        blocker = report.blocker if report else self.pending.columns.reported_blocker[request_class.number]
        reason = self.known.reason_of_placement_class(found)
        if reason is None and not found.flavor_classes:
            self.known.failures += 1
            reason, blocker = self.known.explain_anew(found), Blocker.NONE_REPORTED
        if reason is not None and blocker != Blocker.CAPACITY:
            self.report(candidate, reason, Blocker.CAPACITY)
        return reason

    def report(self, candidate: Candidate, reason: Reason, blocker: int) -> None:
        """Report `reason` as the reason why the requests of a class wait. The first request always gets the new reason.
        The other requests of the class only get the new reason if its code has changed. If the code has only changed
        because a head of a strict queue now blocks the class, or no longer blocks it, only the first few requests get
        the new reason."""
        request_class = candidate.request_class
        said = self.reason_of(request_class)
        is_shared = reason is self.known.reason_of_placement_class(request_class.placement_class)
        self.reports[request_class] = RequestClassReport(blocker, None if is_shared else reason)
        changed = said is None or said.code is not reason.code
        few = said is not None and changed and is_head_change(said, reason)
        if few or not changed:
            self.report_request(candidate.entry.request, reason)
        for other in islice(self.state.all_waiting(request_class), NEXT + 1 if few else None) if changed else ():
            self.report_request(other.request, reason)

    def report_remaining(self) -> None:
        """At the end of the cycle, report the reasons of the request classes that were not tried. Leave out a class if
        the obstacle that it reported last (quota, capacity or the head of its queue) still applies. Also report a
        reason for each new request."""
        if self.pending.request_classes:
            self.renew()
            if self.tournament.closed:
                self.report_blocked_by_head()
            self.report_untried()
        for request in self.pending.unreported:
            request_class = self.pending.request_class_of.get(request)
            if request_class is None or not self.state.still_waits(request):
                continue
            # this cycle may have computed the reason of the class again after it was reported
            reason, has_run = self.reason_of(request_class), bool(self.cluster.jobs[request.job].attempt)
            if reason is not None and request.slot is None and has_run and reason.names(request.job):
                # The stored reason names the job itself as a consumer of the missing capacity, but the job now holds
                # nothing.
                reason = self.explain_again(request_class, reason)
            if reason is not None:
                self.report_request(request, reason)

    def renew(self) -> None:
        """Compute outdated reasons of placement classes again. After a node has changed, all reasons are outdated. The
        reason of a class is also outdated if, in more than `RENEWED` cycles since it was computed, the class had
        capacity at the beginning and lost it to other jobs."""
        pending = self.pending
        left = RENEWED_AT_ONCE if pending.renews else EXPLAINED
        closed = ~self.known.open_mask & (pending.renews | np.frombuffer(self.known.opened, np.bool_))
        for number in closed[:-1].nonzero()[0].tolist():
            if (found := pending.placement_classes.by_number[number]) is None:
                continue
            stale = self.stale[found.key] = found.stale + self.known.had_room[found.number]
            known = found.reason is not None and found.key not in self.known.explained
            if stale <= RENEWED or not known or found.flavor_classes:
                continue
            self.stale[found.key] = 0
            if self.known.explain_anew(found) is not None:
                self.report_first_few(found)
            if not (left := left - 1):
                return
        self.renewed = True

    def report_first_few(self, found: PlacementClass) -> None:
        """Report the new reason of a placement class for a few of its request classes that are within their limits
        (rule R25)."""
        columns = self.pending.columns
        reason = self.known.reason_of_placement_class(found)
        some = (columns.placement_class == found.number) & (columns.reported_blocker == Blocker.CAPACITY)
        some &= self.state.within_limits(columns.placement_class, columns.row)
        some[[each.number for each in self.reports]] = False
        for number in some.nonzero()[0][:EXPLAINED].tolist():
            if (candidate := self.first_of(number)) is not None and candidate.request_class.reason is None:
                assert reason is not None  # the caller has just computed the reason of the placement class
                self.report(candidate, reason, Blocker.CAPACITY)

    def report_untried(self) -> None:
        """Report a reason for each request class that was not tried because quota or capacity is missing. If both are
        missing, report missing quota (rule R25). Leave out classes that have reported the same obstacle before. But
        some of these classes have lost quota or capacity to other jobs in this cycle. For the first few of them, report
        the reason again, with new numbers."""
        state, columns, count = self.state, self.pending.columns, len(self.pending.columns.request_classes)
        placement_class, row = columns.placement_class[:count], columns.row[:count]
        reported, live = columns.reported_blocker[:count], placement_class >= 0
        live[[each.number for each in self.reports]] = False  # this cycle has already reported their reasons
        within = state.within_limits(placement_class, row)
        has_none, has_capacity = reported == Blocker.NONE_REPORTED, reported == Blocker.CAPACITY
        is_shut = within & ~state.known.open_mask[placement_class]
        may_never_fit = (reported == Blocker.QUOTA) & self.pending.renews  # a node has changed
        outdated = has_none | has_capacity | (reported == Blocker.RESERVATION) | may_never_fit
        another = live & np.where(within, is_shut & ~has_capacity, outdated)
        if self.cluster.tree.stricts:
            another &= ~columns.strict[:count]
        for number in another.nonzero()[0].tolist():
            if (candidate := self.first_of(number)) is None:
                continue
            if within[number]:
                self.report_closed(candidate)
            else:
                self.report_short_of_quota(candidate)
        reported_before = live & ~another & (has_capacity | (reported == Blocker.QUOTA))
        if self.known.failures >= EXPLAINED or not reported_before.any():
            return
        was_within = state.within_limits(placement_class, row, state.left_at_first)
        had_room = np.frombuffer(state.known.had_room, np.bool_)
        lost = np.where(
            within,
            is_shut & has_capacity & had_room[placement_class],
            was_within & (reported == Blocker.QUOTA),
        )
        losing = (reported_before & lost).nonzero()[0]
        order = np.lexsort((columns.arrival_s[losing], -columns.priority[losing]))
        for number in losing[order].tolist():
            if self.known.failures >= EXPLAINED:
                return
            if (candidate := self.first_of(number)) is not None:
                self.report_lost(candidate)

    def first_of(self, number: int) -> Candidate | None:
        """Return the first waiting request of the class; None if no request waits."""
        request_class = self.pending.columns.request_classes[number]
        entry = None if request_class is None else self.state.first_waiting(request_class)
        return None if request_class is None or entry is None else Candidate(request_class, entry)

    def report_closed(self, candidate: Candidate) -> None:
        """Report missing capacity for a request class that is within its limits, but whose placement class is
        closed."""
        request_class, found = candidate.request_class, candidate.request_class.placement_class
        if not found.flavor_classes:
            if (reason := self.known.explain_placement_class(found)) is not None:
                self.report(candidate, reason, Blocker.CAPACITY)
            return
        offers, lacking = self.state.offers(candidate), list[Reason]()
        for offer in (each for each in offers if each.short is None):
            way = self.known.class_of_offer(request_class, offer)
            said = None if way is None else self.known.explain_placement_class(way)
            if said is None:
                return
            lacking.append(said)
        reason = self.known.why_not(request_class, offers, lacking)
        self.report(candidate, reason, Blocker.CAPACITY)

    def report_lost(self, candidate: Candidate) -> None:
        """Report the reason again, with new numbers, for a class that lost its capacity or quota to other jobs in this
        cycle."""
        request_class, found = candidate.request_class, candidate.request_class.placement_class
        if self.pending.columns.reported_blocker[request_class.number] == Blocker.QUOTA:
            self.known.failures += 1
            self.report_short_of_quota(candidate)
        elif not found.flavor_classes and request_class.reason is None:
            if found.key not in self.known.explained:
                self.known.explain_anew(found)
            if (reason := self.known.reason_of_placement_class(found)) is not None:
                self.known.failures += 1
                self.report(candidate, reason, Blocker.CAPACITY)

    def report_short_of_quota(self, candidate: Candidate) -> None:
        if (reason := self.short_of_quota(candidate)) is not None:
            self.report(candidate, reason, Blocker.QUOTA)

    def explain_again(self, request_class: RequestClass, reason: Reason) -> Reason:
        """If capacity is missing, compute the reason of the request class again, and return it; otherwise
        return `reason`. In the stored reason, one of the named consumers of the capacity may be a job that has lost its
        nodes and waits again."""
        found = request_class.placement_class
        if found.flavor_classes or reason.code is not ReasonCode.NO_ROOM:
            return reason
        if (anew := self.known.explain_anew(found)) is None:
            return reason
        self.reports[request_class] = RequestClassReport(Blocker.CAPACITY)
        return anew

    # Classes behind the head of a strict queue

    def report_blocked_by_head(self) -> None:
        """Report the reason `BehindHead` for the classes that wait behind the heads of strict queues."""
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
                    self.report(Candidate(request_class, first), reason, Blocker.HEAD)

    def newly_blocked(self) -> dict[str, list[RequestClass]]:
        """Return a mapping: strict queue -> the request classes behind its head that have not reported `BehindHead`
        yet."""
        state, columns, count = self.state, self.pending.columns, len(self.pending.columns.request_classes)
        some = columns.strict[:count] & (columns.reported_blocker[:count] != Blocker.HEAD)
        found: dict[str, list[RequestClass]] = {}
        for number in some.nonzero()[0].tolist():
            request_class = columns.request_classes[number]
            if request_class is None or request_class in state.denied or request_class.key.kind == Kind.REPLACEMENT:
                continue  # a class denied in this cycle is not blocked: it was tried before the head
            if (strict := self.cluster.tree.strict_above(request_class.key.queue)) is not None:
                found.setdefault(strict.name, []).append(request_class)
        return found

    def next_few(self, queue: str, now: Wait) -> list[RequestClass]:
        """Return the first few classes behind the head of the queue. If the first of them has already reported the
        present head, return no class, because the other ones have reported it, too. `now`: the present head, and the
        code of its reason."""
        found: list[RequestClass] = []
        for _, (request_class, _) in islice(self.tournament.left.get(queue, ()), 2 * NEXT):
            said = self.pending.reason_of(request_class)
            if said is not None and said.code is ReasonCode.BEHIND_HEAD:
                if not found and wait_of(said) == now:
                    break
                found.append(request_class)
                if len(found) == NEXT:
                    break
        return found

    # Single requests

    def report_request(self, request: Request, reason: Reason) -> None:
        if request.slot is not None:
            record, granted = self.cluster.jobs[request.job], len(self.state.places.get(request.job, ()))
            reason = explain.of_slots(record, reason, granted)
        self.state.waits[request.job] = reason


def is_blocked_by_head(reason: Reason | None) -> bool:
    return reason is not None and reason.code is ReasonCode.BEHIND_HEAD


def is_head_change(said: Reason, reason: Reason) -> bool:
    """Return whether the reason has only changed because the head of a strict queue now blocks the class, or no longer
    blocks it. If so, only the first few requests of the class get a new reason. `said`: the last reported reason."""
    return is_blocked_by_head(said) != is_blocked_by_head(reason) and not ALONE & {said.code, reason.code}


def wait_of(reason: Reason) -> Wait:
    """Return the name of the head and the code of the head's reason, as `reason` states them; (None, None) if `reason`
    is not `BehindHead`."""
    return reason.numbers.get("head"), reason.numbers.get("head_code")
