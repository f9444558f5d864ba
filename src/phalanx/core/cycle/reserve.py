"""Choose which requests get a backfill reservation in a cycle. A *backfill reservation* reserves nodes, from an
expected time on, for a request that finds no capacity now.

`core.cycle.steps` calls `try_reserve` for each request that found no capacity. `core.backfill.reservation` makes the
reservation.

- EASY: the first request that does not fit gets the only reservation.
- CONSERVATIVE: each request that does not fit gets a reservation, up to `backfill_depth` reservations. If no other
  request can start any more, no further reservation is made, because it would have no effect.
- Until all reservations are made, the cycle tries every request class within its limits. When all reservations are
  made, the cycle tries only classes that may start.
- With `BackfillOrder.SHORTEST` (EASY-SJBF), the requests after the first reservation are tried in the order of their
  estimated run times. Requests with equal estimates are tried in the usual job order (`core.order.next_job`). Estimates
  only change this order: whether a request may start still depends on its time limit.

Example (EASY): 4 of 8 nodes are busy until 10:00. Job a (8 nodes) reserves all nodes from 10:00 on. Job b (4 nodes) may
start before job a only if its time limit ends by 10:00."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from phalanx.core.backfill.ends import Grant, nominated_gangs
from phalanx.core.backfill.reservation import BackfillForecast, PlacementOutcome
from phalanx.core.backfill.shadow_time import has_room
from phalanx.core.cycle.state import CycleState
from phalanx.core.placement.gang import place
from phalanx.model.job import Placement
from phalanx.model.plan import FirstReservation
from phalanx.model.policy import Backfill, BackfillOrder
from phalanx.state.classes import Gang
from phalanx.state.pending.request_class import Candidate, Kind, QueuedRequest, Request, RequestClass


class Reserving:
    """The backfill reservations of one cycle.

    `grants`: the requests that start in this cycle, and the nominated jobs, with their placements. `may_reserve`:
    whether the next request that finds no capacity may get a reservation.
    `all_reserved`: set when the last reservation is made, and reset when the cycle has ranked the classes again.
    `unforeseen`: the numbers of placement classes that got no reservation because no start time could be computed for
    them. The set is emptied when this cycle evicts victims.
    `further_requests`: for each request class with a reservation, an iterator over its further requests. `hopeful`:
    request classes that may still start in this cycle. `is_anyone_hopeful` removes classes from the end of this list
    until the last one may start. The list is None before the first use, and after each eviction."""

    def __init__(self, state: CycleState) -> None:
        self.state, self.cluster, self.policy = state, state.cluster, state.policy
        self.greedy = self.policy.backfill is Backfill.GREEDY
        self.conservative = self.policy.backfill is Backfill.CONSERVATIVE
        self.further_requests: dict[RequestClass, Iterator[QueuedRequest]] = {}
        self.reserved: set[Request] = set()
        self.hopeful: list[RequestClass] | None = None
        self.by_estimate = self.all_reserved = self.may_reserve = False
        self.unforeseen: set[int] = set()
        self.grants: list[Grant] = [*nominated_gangs(self.cluster)] if self.cluster.nominated else []
        self._forecast: BackfillForecast | None = None

    @property
    def forecast(self) -> BackfillForecast:
        """The forecast of free capacity, with the reservations. It is computed when this property is first read."""
        if self._forecast is None:
            state = self.state
            self._forecast = BackfillForecast(self.cluster, self.policy, state.now_s, state.draft, self.grants)
        return self._forecast

    def place(self, request: Request, gang: Gang) -> PlacementOutcome:
        """Place the gang on the draft if it fits and delays no reservation, and return its placements. Otherwise return
        the reason why the gang was not placed."""
        if not self.reserved and not self.cluster.reservations:
            return place(self.state.draft, gang)
        return self.forecast.place(request, gang)

    def could_reserve(self) -> bool:
        """Return whether a request may get a reservation at all. This is only possible if it is known when some
        capacity will be released: by the end of a running, nominated, terminating or waiting job, or by the end of an
        advance reservation."""
        columns, cluster = self.state.pending.columns, self.cluster
        if self.greedy or (self.conservative and self.policy.backfill_depth <= 0):
            return False
        if cluster.ends.order or cluster.reservations or cluster.leaving:
            return True
        if cluster.nominated and self.forecast.ends.anyone_ends():
            return True  # a nominated job is treated as running, so its end may be known
        return bool((np.isfinite(columns.limit_s) & (columns.placement_class >= 0)).any())

    def victims_leave(self) -> bool:
        """Update this object after the cycle has evicted victims. Return whether a request that could get no
        reservation before the eviction may get one now."""
        could_before, were_unforeseen, self.hopeful = self.may_reserve, bool(self.unforeseen), None
        # The forecast removes a reservation if a preemptor got its nodes.
        self.unforeseen, self.reserved = set(), self.reserved and {each.request for each in self.forecast.reservations}
        known = not self.greedy and (not self.forecast.open or self.forecast.ends.anyone_ends())
        self.may_reserve = self.forecast.open if known else self.could_reserve()
        return self.may_reserve and (not could_before or were_unforeseen)

    def first(self) -> FirstReservation | None:
        """Return the first reservation of the cycle; None if there is no reservation."""
        if not self.reserved or not self.forecast.reservations:
            return None
        hold = self.forecast.reservations[0]
        return FirstReservation(*hold.request, hold.run.start_s)

    def mark(self) -> tuple[object, ...] | None:
        """Return a value that identifies the reservations that limit preemption: if they change, the value changes.
        Return None if there are no reservations."""
        first = self.first()
        return (self.state.pending.version,) if first is not None and self.conservative else first

    def granted(self, request: Request, gang: Gang, placements: Sequence[Placement]) -> bool:
        """Add the placements of a granted request to the forecast. Return whether the start is a backfill, that is,
        whether another request that comes earlier in the job order has a reservation."""
        if placements:
            self.grants.append((request, gang, placements))
            if self._forecast is not None:
                self._forecast.enter_last_grant()
        return bool(self.reserved) and request not in self.reserved

    def try_reserve(self, candidate: Candidate) -> bool:
        """Try to make a reservation for a request that found no capacity. Return whether the request now has a
        reservation."""
        request_class, entry = candidate
        if entry.request in self.reserved:
            return True  # the request got its reservation earlier in this cycle
        if not self.may_reserve or request_class.key.kind == Kind.GROWTH or not self.state.draft.free:
            # No reservation is made for pods above a minimum, or on a cluster without nodes.
            return False
        if not self.is_affordable(candidate):
            return False
        forecast, gang = self.forecast, request_class.key.gang
        is_possible = not self.unforeseen or self.has_room_at_last(gang)
        reserved = is_possible and forecast.hold(entry.request, gang) is not None
        if reserved:
            self.reserved.add(entry.request)
        elif not self.cluster.reservations:
            self.unforeseen.add(request_class.placement_class.number)
        if not forecast.open or (self.conservative and not self.is_anyone_hopeful()):
            self.may_reserve = False
            self.all_reserved = True
            self.by_estimate = bool(forecast.reservations) and self.policy.backfill_order is not BackfillOrder.QUEUE
        return reserved

    def would_reserve(self, candidate: Candidate) -> bool:
        """Return whether the request would get a reservation now if there were no capacity for it (rule R8)."""
        key, request = candidate.request_class.key, candidate.entry.request
        if not self.may_reserve or key.kind == Kind.GROWTH or not self.state.draft.free:
            return False
        gang = key.gang
        has_room = self.has_room_at_last(gang)
        exact = self.conservative or (gang.simple and len(gang.roles) == 1 and gang.demands[0].unconstrained)
        if not has_room or (exact and not self.cluster.reservations):
            return has_room
        return self.forecast.foreseen(request, gang) is not None

    def has_room_at_last(self, gang: Gang) -> bool:
        """Return whether the free amounts would be enough for the gang's minimum after all jobs with a known end have
        ended."""
        ends = self.forecast.ends
        if not ends.anyone_ends():
            return False
        free = ends.free_at_last(self.state.draft)
        return has_room(self.cluster.columns, free, gang)

    def is_anyone_hopeful(self) -> bool:
        """Return whether at least one request may still start without delaying a reservation. If there are strict
        queues, always return True: each head of a strict queue should get a reservation, because the jobs behind it may
        then start."""
        if self.hopeful is None:
            self.hopeful = list(self.state.pending.request_classes.values())
        while self.hopeful and self.cannot_start_now(self.hopeful[-1]):
            self.hopeful.pop()
        return bool(self.hopeful or self.cluster.tree.stricts)

    def cannot_start_now(self, request_class: RequestClass) -> bool:
        """Return True if it is certain that no further request of the class can start in this cycle. Only the counts of
        free amounts and the reservations are checked, so the result may be False although no request can start."""
        state, found = self.state, request_class.placement_class
        is_done = bool(state.known.is_done[request_class.number])
        if is_done or request_class.number in state.search_classes:
            return is_done
        if not state.known.open[found.number]:
            return True
        alone = request_class.key.kind == Kind.JOB and found.single and found.key.whole
        return alone and self.forecast.shuts_out(request_class.first.request, request_class.key.gang)

    def is_affordable(self, candidate: Candidate) -> bool:
        """Return whether quota allows the request."""
        key = candidate.request_class.key
        if key.kind == Kind.REPLACEMENT or self.cluster.tree.branches[key.queue].unbounded:
            return True
        return any(offer.short is None for offer in self.state.offers(candidate))

    def next_of(self, request_class: RequestClass) -> QueuedRequest | None:
        """Return the next waiting request of the class, after one of its requests has got a reservation; None if it
        need not be tried. Under CONSERVATIVE it must be tried because it may get a reservation as well. In a strict
        queue it must be tried because it is the new head (rule R14)."""
        if not (request_class.strict or (self.conservative and self.may_reserve)):
            return None
        further = self.further_requests.get(request_class) if self.conservative else iter(request_class)
        if further is None:
            further = self.further_requests[request_class] = iter(request_class)
        still_waits = self.state.still_waits
        return next((each for each in further if each.request not in self.reserved and still_waits(each.request)), None)
