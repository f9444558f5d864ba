"""Who is given a reservation in a cycle, and when all are made.

A reservation goes to the first request in order that finds no room (EASY), or to each up to a depth (conservative) as
long as anybody behind may still start now: else nobody is there whom one more could keep out. So until all are made
every request class within its limits comes up, whether it may start or not; after that only those that may.
Those behind the first reservation then come in the order of their estimates (`BackfillOrder.SHORTEST`, EASY-SJBF),
equal ones as the contest had them. An estimate says who is tried first; who may start goes by limits.
How reservations are made and kept is said in `core.backfill.reservation`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from phalanx.core.backfill.reservation import BackfillForecast
from phalanx.core.backfill.shadow_time import has_room
from phalanx.core.cycle.state import CycleState
from phalanx.lazy import lazy
from phalanx.model.job import Placement
from phalanx.model.policy import Backfill, BackfillOrder
from phalanx.state.classes import Gang
from phalanx.state.pending.request_class import Blocker, Kind, QueuedRequest, Request, RequestClass


class Reserving:
    """The backfill reservations of one cycle. `may_reserve`: the next request that finds no room may be given a
    reservation. `further_requests`: of request classes of which some have one, who comes next. `hopeful`: request
    classes that may start something now, as far as was asked; None: all, since others were found to give way."""

    def __init__(self, state: CycleState) -> None:
        self.state, self.cluster, self.policy = state, state.cluster, state.policy
        self.greedy = self.policy.backfill is Backfill.GREEDY
        self.conservative = self.policy.backfill is Backfill.CONSERVATIVE
        self.further_requests: dict[RequestClass, Iterator[QueuedRequest]] = {}
        self.reserved: set[Request] = set()
        self.hopeful: list[RequestClass] | None = None
        self.foreseen: dict[Gang, bool] = {}
        self.foreseen_at = 0
        self.by_estimate = self._all_reserved = False

    @lazy
    def forecast(self) -> BackfillForecast:
        return BackfillForecast(self.cluster, self.policy, self.state.now_s, self.state.draft)

    @lazy
    def may_reserve(self) -> bool:
        columns, cluster = self.state.pending.columns, self.cluster
        if self.greedy or (self.conservative and self.policy.backfill_depth <= 0):
            return False
        if "forecast" in self.__dict__ and (not self.forecast.open or self.forecast.ends.anyone_ends()):
            return self.forecast.open
        if cluster.ends.order or cluster.reservations or cluster.leaving:
            return True
        return bool((np.isfinite(columns.limit_s) & (columns.placement_class >= 0)).any())

    def victims_leave(self) -> bool:
        """Note that victims leave now. Return whether a request that got no reservation before may get one."""
        could_before, self.hopeful = self.__dict__.pop("may_reserve", True), None
        were_unforeseen = any(self.__dict__.pop("unforeseen", ()))
        return self.may_reserve and (not could_before or were_unforeseen)

    @lazy
    def unforeseen(self) -> bytearray:
        """Return a byte for each class, whether it is known that its start cannot be foreseen. That stays so in a
        cycle until victims leave."""
        return bytearray(len(self.state.blocked.open))

    def may_get_one(self, request_class: RequestClass) -> bool:
        """Return whether the next request of the cell that finds no room may be given a reservation."""
        return self.may_reserve and not (
            "unforeseen" in self.__dict__ and self.unforeseen[request_class.placement_class]
        )

    def first(self) -> tuple[Request, float] | None:
        """Return who has the first reservation, and from when."""
        if "forecast" not in self.__dict__ or not self.forecast.reservations:
            return None
        hold = self.forecast.reservations[0]
        return hold.request, hold.run.start_s

    def mark(self) -> tuple[object, ...] | None:
        """Return what tells the reservations of this cycle from those of others, as far as they bound who preempts;
        None: there are none. Many are made anew whenever anything happens."""
        if self.greedy or "forecast" not in self.__dict__ or not self.forecast.reservations:
            return None
        return (self.state.pending.version,) if self.conservative else self.first()

    def pop_all_reserved(self) -> bool:
        """Return whether all reservations have been made since this was last asked."""
        all_reserved, self._all_reserved = self._all_reserved, False
        return all_reserved

    def was_denied(self, request_class: RequestClass) -> bool:
        """The request class comes up again only so that the next of it is given a reservation too."""
        return request_class in self.further_requests

    def granted(self, request: Request, gang: Gang, placements: Sequence[Placement]) -> bool:
        """Count what the request holds from now on. Return whether its start is a backfill, before a reservation."""
        backfilled = bool(self.reserved) and request not in self.reserved
        if not self.greedy and placements:
            self.forecast.grant(request, gang, placements)
        return backfilled

    def try_reserve(self, request_class: RequestClass, entry: QueuedRequest) -> bool:
        """The request cannot start for want of room: whether it is given a reservation."""
        if entry.request in self.reserved:
            return True  # it was tried again, and keeps its reservation
        if not self.may_reserve or request_class.key.kind == Kind.GROWTH or not self.state.draft.free:
            return False  # growth has none, nor has anybody where no node was ever known
        if not self.is_affordable(request_class, entry):
            return False
        forecast, gang = self.forecast, request_class.key.gang
        is_possible = "unforeseen" not in self.__dict__ or self.has_room_at_last(gang)
        reserved = is_possible and forecast.hold(entry.request, gang) is not None
        if reserved:
            self.reserved.add(entry.request)
        elif not self.cluster.reservations:
            self.unforeseen[request_class.placement_class] = 1
        if not forecast.open or (self.conservative and not self.is_anyone_hopeful()):
            self.may_reserve = False
            self._all_reserved = True
            self.by_estimate = bool(forecast.reservations) and self.policy.backfill_order is not BackfillOrder.QUEUE
        return reserved

    def would_reserve(self, request_class: RequestClass, entry: QueuedRequest) -> bool:
        """Return whether the request, for which nodes have no capacity, would get a reservation now (rule R8)."""
        if not self.may_reserve or request_class.key.kind == Kind.GROWTH or not self.state.draft.free:
            return False
        gang = request_class.key.gang
        has_room = self.has_room_at_last(gang)
        exact = self.conservative or (gang.simple and len(gang.roles) == 1 and gang.demands[0].unconstrained)
        if not has_room or (exact and not self.cluster.reservations):
            return has_room
        return self.forecast.foreseen(entry.request, gang) is not None

    def has_room_at_last(self, gang: Gang) -> bool:
        """Return whether by counting the gang's minimum has room once all has ended that ends."""
        ends = self.forecast.ends
        if not ends.anyone_ends():
            return False
        free = ends.free_at_last(self.state.draft)
        if self.foreseen_at != ends.changes:
            self.foreseen_at, self.foreseen = ends.changes, {}
        if gang not in self.foreseen:
            self.foreseen[gang] = has_room(self.cluster.columns, free, gang)
        return self.foreseen[gang]

    def is_anyone_hopeful(self) -> bool:
        """Return whether some request class may still start beside what is reserved; fewer may as more is reserved. The
        head of a strict queue needs a reservation in any case, not to hold up others."""
        if self.hopeful is None:
            self.hopeful = list(self.state.pending.request_classes.values())
        while self.hopeful and self.cannot_start_now(self.hopeful[-1]):
            self.hopeful.pop()
        return bool(self.hopeful or self.cluster.tree.stricts)

    def cannot_start_now(self, request_class: RequestClass) -> bool:
        """Return whether the request class cannot start anything in this cycle any more, by counting."""
        state = self.state
        if state.is_done[request_class.number] or request_class.number in state.search_classes:
            return bool(state.is_done[request_class.number])
        if not state.blocked.open[request_class.placement_class]:
            return True
        alone = (
            request_class.key.kind == Kind.JOB
            and state.placement_class_of(request_class).single
            and state.is_whole(request_class.key)
        )
        return alone and self.forecast.shuts_out(request_class.first().request, request_class.key.gang)

    def is_affordable(self, request_class: RequestClass, entry: QueuedRequest) -> bool:
        """Return whether quota allows the request, and nothing but room is lacking."""
        if request_class.key.kind == Kind.REPLACEMENT or self.cluster.tree.branches[request_class.key.queue].unbounded:
            return True
        return any(offer.short is None for offer in self.state.offers(request_class.key, entry.request))

    def next_of(self, request_class: RequestClass) -> QueuedRequest | None:
        """The next of a request class whose first was denied, if it is to have a reservation of its own."""
        if not self.conservative or not self.may_reserve:
            return None
        further = self.further_requests.get(request_class)
        if further is None:
            further = self.further_requests[request_class] = iter(request_class)
        still_waits = self.state.still_waits
        return next((each for each in further if each.request not in self.reserved and still_waits(each.request)), None)

    def is_still_blocked_by_reservation(self, request_class: RequestClass, entry: QueuedRequest) -> bool:
        """Return whether the request class was told that its room is kept, and is sure to be told the same again."""
        state = self.state
        if (
            "forecast" not in self.__dict__
            or state.pending.columns.reported_blocker[request_class.number] != Blocker.RESERVATION
            or request_class in state.remaining
        ):
            return False
        key, reason = request_class.key, request_class.reason
        plain = key.kind == Kind.JOB and key.gang.rigid and self.cluster.tree.branches[key.queue].unbounded
        return plain and reason is not None and self.forecast.keeps_out(entry.request, key.gang, reason)
