"""Make the backfill reservations of a cycle. Jobs that find no capacity get a reservation, and other jobs may start as
long as they delay no reservation.

*EASY* (Lifka 1995; the rules of Mu'alem and Feitelson 2001): the first job, in job order, that finds no capacity gets a
reservation on certain nodes. The reservation begins at the job's earliest start, which is called its *shadow time*. A
job that comes later in the order may start only if it ends by the shadow time, or if the nodes have capacity for both
jobs at the shadow time. *Conservative*: every job that cannot start gets a reservation, up to `Policy.backfill_depth`.
*Greedy*: no job gets a reservation.

These rules (from docs/decisions/0008-backfill.md) also cover the case that two times are equal:

- A running job is expected to end at its time limit. If the job has exceeded its time limit, the forecast treats its
  capacity as free from now on, although the job still holds it. So the shadow time of a waiting job may be the present
  time. In this case other jobs may start only on capacity that the reservation does not need.
- The capacity at the shadow time includes capacity that is released exactly at the shadow time.
- A job that ends exactly at the shadow time does not delay the reservation.
- A job without a time limit counts as never ending, so it may start only on capacity that the reservation does not
  need. The start of a waiting job cannot be foreseen if it needs capacity of a running job without a time limit. The
  next job then gets the reservation instead.

If a job fits now, but only on nodes of the first reservation, the reservation may move to other nodes. The start of the
reserved job must stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.backfill import advance, pod_division
from phalanx.core.backfill.ends import INFINITE_S, NOTHING, CycleEnds, Grant
from phalanx.core.backfill.one_node import OneNode
from phalanx.core.backfill.profile import CapacityProfile, OneNodeProfile, PlannedRun
from phalanx.core.backfill.shadow_time import (
    Free,
    HeldCapacity,
    Release,
    ReleaseTimeline,
    draft_over,
    free_by_row,
    held_by_placements,
    limited_to,
)
from phalanx.core.placement import gang as gangs
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.gang import PlacementShortfall
from phalanx.model.job import Job, Placement
from phalanx.model.policy import Backfill, Policy
from phalanx.model.reason import Reason, ReasonCode, format_time
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, minimum_gang
from phalanx.state.pending.request_class import Request

TRIES = 64  # for each gang, at most this many start times are tried
# the maximum number of times that a cycle moves the first reservation to other nodes, so that another job can start
MOVES = 8


class WouldDelayReservation(NamedTuple):
    """The result of `place` for a job that has enough capacity now, but would delay a reservation if it started.
    The reserved job, or the advance reservation, is named in `reason`."""

    reason: Reason


Placer: TypeAlias = Callable[[Draft, Gang, NDArray[np.bool_] | None, Sequence[Release]], gangs.GangPlacement]
PlacementOutcome: TypeAlias = list[Placement] | PlacementShortfall | WouldDelayReservation
# the reason why a gang was not placed
Lack: TypeAlias = PlacementShortfall | WouldDelayReservation | Reason


class CapacityChange(NamedTuple):
    """A change of the free capacity from now until `until_s` (seconds since the epoch). `sign`: 1 if the capacity is
    released, -1 if it is taken."""

    until_s: float
    held: HeldCapacity
    sign: int


class EarliestStart(NamedTuple):
    """The earliest start of a gang. `start_s`: seconds since the epoch. `held`: the capacity that the gang takes on
    each node. `free`: the free amounts that remain on each row at that time."""

    start_s: float
    held: HeldCapacity
    free: Free


@dataclass(slots=True)
class BackfillReservation:
    """A reservation made in this cycle."""

    request: Request
    gang: Gang
    run: PlannedRun


class BackfillForecast:
    """The cycle's reservations, and the forecast of free capacity from which they are computed. The object is created
    in the cycle as soon as a request may need a reservation.

    `reservations`: the reservations of the cycle, in the order in which they were made. `wanted`: the maximum number of
        reservations.
    `ends`: the expected ends of running jobs and of jobs that this cycle has started."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float, draft: Draft, given: list[Grant]) -> None:
        self.cluster, self.policy, self.now_s, self.draft = cluster, policy, now_s, draft
        self.ends = CycleEnds(cluster, now_s, given)
        self.reservations: list[BackfillReservation] = []
        self.moves = 0
        self.is_broken = False  # True if the first reservation no longer fits on its nodes
        easy = policy.backfill is Backfill.EASY
        self.wanted = max(0, policy.backfill_depth) if policy.backfill is Backfill.CONSERVATIVE else int(easy)
        self.one = OneNode(cluster, draft, now_s) if easy and self.is_alone() else None
        # EASY: the free amounts of each row at the shadow time, without the amounts of the first reservation
        self.free: Free = {}
        self.profile: CapacityProfile | OneNodeProfile | None = None  # only set under CONSERVATIVE
        self.open = self.wanted > 0  # True if the next request that finds no capacity gets a reservation

    def is_alone(self) -> bool:
        """Return whether three conditions are met: the cluster has only one node; no advance reservation ever closes
        the node; and no running job will release a part of its pods before the others."""
        has_one = len(self.draft.rows) == 1 == len(self.cluster.columns.row_of)
        return has_one and not self.cluster.reservations and not self.ends.partly_leaving()

    def place(self, request: Request, gang: Gang) -> PlacementOutcome:
        """Place the gang on the draft and return its placements. If the gang does not fit, or would delay a
        reservation, return the reason instead."""
        is_first = bool(self.reservations) and self.profile is None and self.reservations[0].request == request
        if (is_first or not self.reservations) and not self.cluster.reservations:
            outcome = gangs.place(self.draft, gang)
            if is_first and isinstance(outcome, list):
                self.drop(request)  # the job of the first reservation starts now
            return outcome
        record = self.cluster.jobs[request.job]
        end_s = self.ends.of(record, request)
        if (enough := self.counted(gang, end_s)) is not None:
            return gangs.place(self.draft, gang) if enough else self.beyond(record, gang, end_s)
        kept = self.kept(record.job, end_s)
        if kept is None:
            return gangs.place(self.draft, gang)
        with limited_to(self.draft, kept):
            outcome = gangs.place(self.draft, gang)
        return outcome if isinstance(outcome, list) else self.beyond(record, gang, end_s)

    def placer(self, record: JobRecord, request: Request) -> Placer | None:
        """Return a function that a search for victims uses to place gangs without delaying a reservation. Return None
        if no reservation restricts the job."""
        kept = self.kept(record.job, self.ends.of(record, request))
        return None if kept is None else partial(self.place_after, kept)

    def place_after(
        self, kept: Free, draft: Draft, gang: Gang, among: NDArray[np.bool_] | None, released: Sequence[Release]
    ) -> gangs.GangPlacement:
        """Place the gang on the draft without delaying a reservation. The caller has already removed the pods of the
        victims from the draft. `kept`: the amounts of each row that the gang may take. `released`: the expected ends of
        the victims, and the capacity that they hold."""
        shadow_s = self.reservations[0].run.start_s if self.reservations and self.profile is None else -INFINITE_S
        later = [held for end_s, held in released if end_s > shadow_s] if not self.cluster.reservations else []
        kept = {name: column.copy() for name, column in kept.items()}
        for held in later:
            held.add_to(kept, 1)
        with limited_to(draft, kept):
            outcome = gangs.place(draft, gang, among)
        if isinstance(outcome, list) or not self.may_move or self.cluster.reservations:
            return outcome
        free, first = self.released(), self.reservations[0].gang
        for held in later:
            held.add_to(free, 1)
        mark = draft.mark()
        anywhere = gangs.place(draft, gang, among)
        if isinstance(anywhere, list) and self.fits_beside(free, gang, anywhere):
            return anywhere
        draft.rewind(mark)
        if among is None and (shares := pod_division.divided(draft, gang, free, first)):
            for _, position, pods in shares:
                draft.put(position, gang.demands[0], pods)
            return gangs.placements_of(draft, gang, shares)
        return outcome

    def fits_beside(self, free: Free, gang: Gang, placements: Sequence[Placement]) -> bool:
        """Return whether the free amounts `free` have capacity for both the placed gang and the job of the first
        reservation."""
        left = {name: column.copy() for name, column in free.items()}
        held_by_placements(self.cluster.columns, gang, placements).add_to(left, -1)
        first = self.reservations[0]
        return isinstance(gangs.place(draft_over(self.draft, left), first.gang), list)

    def counted(self, gang: Gang, end_s: float) -> bool | None:
        """Return whether the gang can run until `end_s` on capacity that no reservation needs, found by counting.
        Return None if counting is not exact for the gang, so that the caller must try to place it."""
        if self.one is not None and gang.rigid:
            return end_s <= self.one.shadow_s or self.one.fits(gang)
        if isinstance(self.profile, OneNodeProfile) and self.profile.asked(gang).held is not None:
            return not self.profile.is_short(gang, end_s)
        return None

    def enter_last_grant(self) -> None:
        """Subtract the capacity of the last grant of this cycle from the forecast."""
        if self.profile is None and not self.reservations:
            return  # there is no reservation yet, and the forecast for the first reservation will include this grant
        end_s, gang, placements = self.ends.granted[-1]
        if self.profile is not None:
            self.profile.change(held_by_placements(self.cluster.columns, gang, placements), self.now_s, end_s, -1)
        elif end_s <= self.reservations[0].run.start_s:
            return
        elif self.one is not None:
            self.one.take(gang, placements)
        else:
            held_by_placements(self.cluster.columns, gang, placements).add_to(self.free, -1)

    def holds_with(self, changes: Sequence[CapacityChange]) -> bool:
        """Return whether every reserved job could still start at its reserved time if `changes` were applied. The
        forecast is unchanged when the function returns."""
        runs, free, moves = [each.run for each in self.reservations], self.free, self.moves
        held = self.change(changes)
        for each, run in zip(self.reservations, runs, strict=True):
            each.run = run
        self.free, self.moves = free, moves
        for change in changes:
            self.foresee(change._replace(sign=-change.sign))
        return held

    def displace(
        self, request: Request, gang: Gang, placements: Sequence[Placement], changes: Sequence[CapacityChange]
    ) -> None:
        """Add a nomination to the forecast. `changes`: the amounts that its victims release, and the amounts that the
        nominated job takes."""
        self.is_broken = not (self.change(changes) or self.profile) or self.is_broken
        self.ends.given.append((request, gang, placements))

    def change(self, changes: Sequence[CapacityChange]) -> bool:
        """Apply `changes` to the forecast. Return whether every reserved job can still start at its reserved time. If
        necessary, the first reservation is moved to other nodes."""
        for change in changes:
            self.foresee(change)
        held = all(self.has_room(change) for change in changes if change.sign < 0)
        return held or (self.may_move and self.rehouse())

    def renew_first(self) -> bool:
        """Make the first reservation again, or remove it, if it no longer holds (rule R13). Return whether it was made
        again or removed.

        It is made again, with a new start, if a job that need not respect it was placed on its nodes. It is removed if
        the reserved job itself is preempted."""
        first = self.reservations[0] if self.reservations and self.profile is None else None
        if first is None or not (self.is_broken or first.request.job in self.ends.leaving):
            return False
        self.drop(first.request)
        if first.request.job not in self.ends.leaving:
            self.hold(first.request, first.gang)
        return True

    def drop(self, request: Request) -> None:
        """Remove the reservation of the request, if there is one. The next request that finds no capacity may then get
        a reservation."""
        if self.take_out(request) is not None:
            self.open = True
            if self.profile is None:
                self.is_broken, self.free = False, {}

    @contextmanager
    def without(self, request: Request) -> Iterator[None]:
        """Remove the reservation of the request from the forecast while the `with` block runs, so that the request can
        use its own reserved capacity."""
        taken = self.take_out(request)
        try:
            yield
        finally:
            if taken is not None:
                at, hold = taken
                self.reservations.insert(at, hold)
                if self.profile is not None:
                    self.profile.take(hold.run)

    def take_out(self, request: Request) -> tuple[int, BackfillReservation] | None:
        """Remove the reservation of the request from the forecast. Return (its index, the reservation); None if the
        request has no reservation."""
        found = next((pair for pair in enumerate(self.reservations) if pair[1].request == request), None)
        if found is not None:
            at, hold = found
            del self.reservations[at]
            if self.profile is not None:
                self.profile.change(hold.run.held, hold.run.start_s, hold.run.end_s, 1)
        return found

    def foresee(self, change: CapacityChange) -> None:
        """Apply the change to the forecast."""
        if self.profile is not None:
            self.profile.change(change.held, self.now_s, change.until_s, change.sign)
        elif change.until_s <= self.reservations[0].run.start_s:
            return
        elif self.one is not None:
            self.one.change(change.held, change.sign)
        else:
            change.held.add_to(self.free, change.sign)

    def has_room(self, change: CapacityChange) -> bool:
        """Return whether no node that `change` affects has a negative free amount in the forecast. The caller has
        already applied `change` to the forecast."""
        if self.profile is not None:
            free = self.profile.between(0, self.profile.level(change.until_s))
        elif change.until_s <= self.reservations[0].run.start_s:
            return True
        else:
            free = self.free if self.one is None else self.one.kept()
        amounts, rows = change.held.amounts, change.held.rows
        return all(bool((free[resource][rows] >= 0).all()) for resource in amounts if resource in free)

    def hold(self, request: Request, gang: Gang) -> BackfillReservation | None:
        """Make a reservation for the request, unless there are `wanted` reservations already or the start of the
        request cannot be foreseen. Return the reservation; None if no reservation was made."""
        if not self.open or not self.ends.anyone_ends():
            return None
        run = self.foreseen(request, gang)
        if run is None:
            return None
        if self.profile is not None:
            self.profile.take(run)
        hold = BackfillReservation(request, self.reserved_gang(gang), run)
        self.reservations.append(hold)
        self.open = len(self.reservations) < self.wanted
        return hold

    def foreseen(self, request: Request, gang: Gang) -> PlannedRun | None:
        """Return the run (nodes, start and end) that a reservation of the request would have; None if its start cannot
        be foreseen."""
        if not self.ends.anyone_ends():
            return None
        record = self.cluster.jobs[request.job]
        run = self.earliest_run(record.job, self.reserved_gang(gang), self.ends.of(record, request) - self.now_s)
        is_now = run is not None and run.start_s <= self.now_s
        return None if is_now and not self.ends.anyone_leaves_now() else run

    def reserved_gang(self, gang: Gang) -> Gang:
        """Return the part of the gang for which capacity is reserved: the minimum number of pods of each role. If no
        role has a minimum, return the whole gang."""
        return minimum_gang(self.cluster, gang) if any(role.minimum for role in gang.roles) else gang

    def earliest_run(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the gang's earliest run; None if its start cannot be foreseen."""
        if self.ends.shrunk:
            self.one = None  # the forecast for one node supports only jobs whose pods all end together
        if self.one is not None:
            found = self.one.find(gang, self.ends.in_order(), self.ends.granted)
            return PlannedRun(self.one.shadow_s, self.one.shadow_s + runs_s, NOTHING) if found else None
        if self.policy.backfill is Backfill.CONSERVATIVE:
            return self.in_profile(job, gang, runs_s)
        return self.shadow(job, gang, runs_s)

    def kept(self, job: Job, end_s: float) -> Free | None:
        """Return the amounts of each row that the job may use from now until `end_s`; None if it may use all free
        amounts."""
        if self.profile is not None:
            return self.profile.beside(job, end_s)
        free = None
        if self.reservations and end_s > self.reservations[0].run.start_s:
            free = self.free if self.one is None else self.one.kept()
        shut = advance.closed_rows(self.cluster, job, self.now_s, end_s) if self.cluster.reservations else None
        if shut is None:
            return free
        free = {name: column.copy() for name, column in (free or self.cluster.columns.free).items()}
        for column in free.values():
            np.minimum(column, 0, out=column, where=shut)
        return free

    def beyond(self, record: JobRecord, gang: Gang, end_s: float) -> PlacementOutcome:
        """Try to place a gang by moving the first reservation to other nodes. Return the placements of the gang, or the
        reason why this is not possible."""
        mark = self.draft.mark()
        outcome = gangs.place(self.draft, gang)
        if isinstance(outcome, PlacementShortfall):
            return outcome
        if self.may_move and self.move_first(record.job, gang, outcome, end_s):
            return outcome
        self.draft.rewind(mark)
        if self.may_move and (
            shares := pod_division.divided(self.draft, gang, self.released(), self.reservations[0].gang)
        ):
            for _, position, pods in shares:
                self.draft.put(position, gang.demands[0], pods)
            outcome = gangs.placements_of(self.draft, gang, shares)
            if self.move_first(record.job, gang, outcome, end_s):
                return outcome
            self.draft.rewind(mark)
        return WouldDelayReservation(self.why(record.job, end_s))

    def first_before(self, end_s: float) -> BackfillReservation | None:
        """Return the first reservation in the list that begins before `end_s`; None if no reservation does."""
        return next((each for each in self.reservations if each.run.start_s < end_s), None)

    def shuts_out(self, request: Request, gang: Gang) -> bool:
        """Return True if counting shows that the gang cannot start now, because the reservations leave too little
        capacity. Without CONSERVATIVE backfill the result is always False."""
        end_s = self.ends.of(self.cluster.jobs[request.job], request)
        return self.profile is not None and self.profile.is_short(gang, end_s)

    @property
    def may_move(self) -> bool:
        """Return whether the first reservation may still be moved to other nodes."""
        return bool(self.reservations) and self.profile is None and self.one is None and self.moves < MOVES

    def move_first(self, job: Job, gang: Gang, placements: Sequence[Placement], end_s: float) -> bool:
        """Move the first reservation to nodes that have capacity for it in addition to the placed gang. The start of
        the reservation stays the same. Return whether the move was possible."""
        shut = advance.closed_rows(self.cluster, job, self.now_s, end_s) if self.cluster.reservations else None
        columns = self.cluster.columns
        if shut is not None and any(shut[columns.row_of[each.node]] for each in placements):
            return False
        self.moves += 1
        first, free = self.reservations[0], self.released()
        held_by_placements(columns, gang, placements).add_to(free, -1)
        first_job = self.cluster.jobs[first.request.job].job
        found = gangs.place(self.without_closed(free, first_job, first.run.start_s, first.run.end_s), first.gang)
        if isinstance(found, PlacementShortfall):
            return False
        first.run = first.run._replace(held=held_by_placements(columns, first.gang, found))
        # add the amounts of the gang again, because `grant` subtracts them later
        held_by_placements(columns, gang, placements).add_to(free, 1)
        first.run.held.add_to(free, -1)
        self.free = free
        return True

    def rehouse(self) -> bool:
        """Choose new nodes for the first reservation, from the free amounts of the forecast. The start of the
        reservation stays the same. Return whether the reserved gang fits."""
        first, free = self.reservations[0], self.released()
        job = self.cluster.jobs[first.request.job].job
        found = gangs.place(self.without_closed(free, job, first.run.start_s, first.run.end_s), first.gang)
        if isinstance(found, PlacementShortfall):
            return False
        self.moves += 1
        first.run = first.run._replace(held=held_by_placements(self.cluster.columns, first.gang, found))
        first.run.held.add_to(free, -1)
        self.free = free
        return True

    def released(self) -> Free:
        """Return for each row the free amounts at the start of the first reservation, plus the amounts that the first
        reservation takes."""
        free = {name: column.copy() for name, column in self.free.items()}
        self.reservations[0].run.held.add_to(free, 1)
        return free

    def why(self, job: Job, end_s: float) -> Reason:
        """Return the reason for a job that would delay a reservation if it started now."""
        shut = (
            next(advance.closing_reservations(self.cluster, job, self.now_s, end_s), None)
            if self.cluster.reservations
            else None
        )
        hold = self.first_before(end_s)
        if hold is not None and (shut is None or hold.run.start_s < shut.start_s):
            start_s = hold.run.start_s
            expected = f"expected to start at {format_time(start_s, self.now_s)}"
            return Reason(
                code=ReasonCode.RESERVED,
                text=f"there is room now, but it would delay {hold.request.job}, {expected}",
                numbers={"for": hold.request.job, "until_s": start_s, "limit_s": job.limit_s},
            )
        if shut is not None:
            return Reason(
                code=ReasonCode.RESERVED,
                text=f"nodes with room for it are reserved: {shut.name}, "
                f"from {format_time(shut.start_s, self.now_s)} to {format_time(shut.end_s, self.now_s)}",
                numbers={"reservation": shut.name, "start_s": shut.start_s, "until_s": shut.end_s},
            )
        return advance.reserved_reason(job, f"the nodes of the reservation {job.reservation} have no room for it now")

    def shadow(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the gang's earliest run under EASY; None if its start cannot be foreseen. Set `self.free` to the
        amounts that remain free at the start of the run after the gang's amounts are subtracted."""
        ends, known, of_book = self.cluster.ends, None, None
        if self.is_of_book():
            of_book = gang, self.policy, sum(self.cluster.columns.stamps)
            before, known = ends.foreseen or (None, None)
            known = known if before == of_book else None
        if known is None:
            known = self.find_start(job, gang, runs_s)
            if known is None:
                return None
            # A start at `now_s` is not stored, because the next cycle has a different `now_s`.
            if of_book is not None and known.start_s > self.now_s:
                ends.foreseen = of_book, known
        start_s, held, free = known
        self.free = {name: column.copy() for name, column in free.items()}
        return PlannedRun(start_s, start_s + runs_s, held)

    def is_of_book(self) -> bool:
        """Return whether the forecast depends only on the cluster state, and neither on decisions of this cycle nor on
        the time. If so, the caller may store the forecast and reuse it until the state changes."""
        overdue = any(end_s <= self.now_s for end_s, _ in self.cluster.ends.order[:1])
        changed = overdue or self.ends.given or self.ends.leaving or self.cluster.reservations or self.cluster.leaving
        return not changed and self.draft.untouched

    def find_start(self, job: Job, gang: Gang, runs_s: float) -> EarliestStart | None:
        """Return the gang's earliest start: the time at which enough running jobs, and jobs granted in this cycle, have
        ended. Return None if this time cannot be foreseen."""
        columns = self.cluster.columns
        timeline = ReleaseTimeline(columns, self.now_s, free_by_row(self.draft), self.ends.releases())
        for start_s, free in islice(timeline.starts(gang), TRIES):
            found = gangs.place(self.without_closed(free, job, start_s, start_s + runs_s), gang)
            if isinstance(found, list):
                held = held_by_placements(columns, gang, found)
                held.add_to(free, -1)
                return EarliestStart(start_s, held, free)
        return None

    def without_closed(self, free: Free, job: Job, start_s: float, end_s: float) -> Draft:
        """Return a draft with the free amounts `free`. In this draft, nodes that are closed to the job at some time
        between `start_s` and `end_s` have no free capacity."""
        shut = advance.closed_rows(self.cluster, job, start_s, end_s) if self.cluster.reservations else None
        if shut is not None:
            free = {name: np.where(shut, np.minimum(column, 0), column) for name, column in free.items()}
        return draft_over(self.draft, free)

    def in_profile(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the gang's earliest run that delays no reservation. The method is only used under CONSERVATIVE."""
        if self.profile is None:
            kind = OneNodeProfile if self.is_alone() else CapacityProfile
            free = free_by_row(self.draft)
            self.profile = kind(self.cluster, self.draft, self.now_s, free, list(self.ends.releases()))
        return self.profile.earliest_run(job, gang, runs_s)
