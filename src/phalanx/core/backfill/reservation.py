"""Make the backfill reservations of a cycle. Jobs that find no capacity get a reservation, and other jobs may start as
long as they delay no reservation.

*EASY* (Lifka 1995; the rules of Mu'alem and Feitelson 2001): the first job, in job order, that finds no capacity gets a
reservation on certain nodes from its earliest start on, which is called its *shadow time*. A job behind it in the order
may start only if it ends by that time, or if its nodes and the reserved nodes have capacity for both at that time.
*Conservative*: every job that cannot start gets a reservation, up to `Policy.backfill_depth`. *Greedy*: no job gets a
reservation.

The exact rules (docs/decisions/0008-backfill.md) also state what happens if two times are equal:

- A running job is expected to end at its time limit. If this time is now or past, the forecast treats the job's
  capacity as free at once, although it is not free yet. So a shadow time may be now. Then another job may start only on
  capacity that the reservation does not need.
- The capacity at the shadow time includes all that is released at that very instant.
- A job that ends exactly at the shadow time does not delay the reservation.
- A job without a time limit counts as never ending, so it may start only if there is capacity for it beside the
  reservation. If a job needs the capacity of running jobs that have no time limit, its start cannot be foreseen, and
  the next job gets the reservation instead.

If a job fits now, but only on nodes of the first reservation, the reservation may move to other nodes, as long as the
start of the reserved job stays the same."""

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

TRIES = 64  # one gang is tried at most at this many different times
MOVES = 8  # the largest number of moves of the first reservation in a cycle, each to let another job start


class WouldDelayReservation(NamedTuple):
    """The outcome for a job that has capacity now, but would delay a reservation. `reason` names the reservation."""

    reason: Reason


Placer: TypeAlias = Callable[[Draft, Gang, NDArray[np.bool_] | None, Sequence[Release]], gangs.GangPlacement]
PlacementOutcome: TypeAlias = list[Placement] | PlacementShortfall | WouldDelayReservation
Lack: TypeAlias = PlacementShortfall | WouldDelayReservation | Reason  # why an offer was not placed


class CapacityChange(NamedTuple):
    """A change of the free capacity that lasts until `until_s` (seconds since the epoch). `sign`: 1 if the capacity is
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

    `reservations`: the reservations of the cycle, in the order in which they were made. `wanted`: the largest number of
        reservations.
    `ends`: the expected ends of running jobs and of the cycle's grants."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float, draft: Draft, given: list[Grant]) -> None:
        self.cluster, self.policy, self.now_s, self.draft = cluster, policy, now_s, draft
        self.ends = CycleEnds(cluster, now_s, given)
        self.reservations: list[BackfillReservation] = []
        self.moves = 0
        self.is_broken = False  # the first reservation no longer fits on its nodes
        easy = policy.backfill is Backfill.EASY
        self.wanted = max(0, policy.backfill_depth) if policy.backfill is Backfill.CONSERVATIVE else int(easy)
        self.one = OneNode(cluster, draft, now_s) if easy and self.is_alone() else None
        self.free: Free = {}  # EASY: the free amounts of each row at the shadow time, beside the first reservation
        self.profile: CapacityProfile | OneNodeProfile | None = None  # CONSERVATIVE
        self.open = self.wanted > 0  # True if the next request that finds no capacity gets a reservation

    def is_alone(self) -> bool:
        """Return whether the cluster has only one node, no advance reservation ever closes this node, and no running
        job gives up a part of its pods."""
        has_one = len(self.draft.rows) == 1 == len(self.cluster.columns.row_of)
        return has_one and not self.cluster.reservations and not self.ends.partly_leaving()

    def place(self, request: Request, gang: Gang) -> PlacementOutcome:
        """Place the gang on the draft if that delays no reservation, and return its placements. Otherwise return the
        reason why it was not placed."""
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
        """Return a function that places gangs for a job that searches for victims. The function delays no reservation.
        Return None if no capacity is reserved."""
        kept = self.kept(record.job, self.ends.of(record, request))
        return None if kept is None else partial(self.place_after, kept)

    def place_after(
        self, kept: Free, draft: Draft, gang: Gang, among: NDArray[np.bool_] | None, released: Sequence[Release]
    ) -> gangs.GangPlacement:
        """Place the gang on the draft, from which the victims have been removed, so that no reservation is delayed.
        `kept`: the amounts of each row that the gang may take. `released`: the expected ends of the victims, and the
        capacity that they hold."""
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
        """Return whether there is enough capacity for the gang until `end_s` beside the reservations. Return None if
        counting cannot decide this, so that the gang must be placed to find out."""
        if self.one is not None and gang.rigid:
            return end_s <= self.one.shadow_s or self.one.fits(gang)
        if isinstance(self.profile, OneNodeProfile) and self.profile.asked(gang).held is not None:
            return not self.profile.is_short(gang, end_s)
        return None

    def enter_last_grant(self) -> None:
        """Subtract the capacity of the last grant of this cycle from the forecast."""
        if self.profile is None and not self.reservations:
            return  # the end of the grant is computed later, when a request needs a reservation
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
        """Return whether the job of every reservation could still start at its time if these changes were made. The
        forecast is unchanged afterwards."""
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
        """Add a nomination to the forecast: the amounts that its victims release, and the amounts that it takes
        (`changes`)."""
        self.is_broken = not (self.change(changes) or self.profile) or self.is_broken
        self.ends.given.append((request, gang, placements))

    def change(self, changes: Sequence[CapacityChange]) -> bool:
        """Apply the changes to the forecast. Return whether the job of every reservation can still start at its time.
        The first reservation may move to other nodes to make this possible."""
        for change in changes:
            self.foresee(change)
        held = all(self.has_room(change) for change in changes if change.sign < 0)
        return held or (self.may_move and self.rehouse())

    def renew_first(self) -> bool:
        """If a job that need not respect the first reservation has taken the reserved nodes, make the reservation again
        at the new earliest time. If the job with the reservation is preempted, remove the reservation. Return whether
        the reservation was made again or removed (rule R13)."""
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
        """Remove the reservation of the request from the forecast as long as the `with` block runs, so that the
        capacity for the request is not counted twice."""
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
        """Take the reservation of the request out of the forecast. Return its index and the reservation; None if the
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
        """Return whether the nodes of the change are not overcommitted in the forecast, to which the change was already
        applied."""
        if self.profile is not None:
            free = self.profile.between(0, self.profile.level(change.until_s))
        elif change.until_s <= self.reservations[0].run.start_s:
            return True
        else:
            free = self.free if self.one is None else self.one.kept()
        amounts, rows = change.held.amounts, change.held.rows
        return all(bool((free[resource][rows] >= 0).all()) for resource in amounts if resource in free)

    def hold(self, request: Request, gang: Gang) -> BackfillReservation | None:
        """Make a reservation for the request, if one more reservation is allowed and the start of the request can be
        foreseen. Return the reservation; None if none was made."""
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
        """Return the gang that a reservation must hold: the minimum of each role. For a gang without minimums, this is
        the whole gang."""
        return minimum_gang(self.cluster, gang) if any(role.minimum for role in gang.roles) else gang

    def earliest_run(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the gang's earliest run; None if its start cannot be foreseen."""
        if self.ends.shrunk:
            self.one = None  # `OneNode` supports only jobs whose pods all end together
        if self.one is not None:
            found = self.one.find(gang, self.ends.in_order(), self.ends.granted)
            return PlannedRun(self.one.shadow_s, self.one.shadow_s + runs_s, NOTHING) if found else None
        if self.policy.backfill is Backfill.CONSERVATIVE:
            return self.in_profile(job, gang, runs_s)
        return self.shadow(job, gang, runs_s)

    def kept(self, job: Job, end_s: float) -> Free | None:
        """Return the amounts of each row that the job may use from now until `end_s`; None: all free amounts."""
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
        """Place a gang that does not fit beside the reserved capacity: if possible, move the first reservation to other
        nodes. Return the placements. Otherwise return the reason why the gang cannot be placed."""
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
        """Return the first reservation that begins before this time."""
        return next((each for each in self.reservations if each.run.start_s < end_s), None)

    def shuts_out(self, request: Request, gang: Gang) -> bool:
        """Return whether the present reservations leave too little capacity for the gang to start now, as far as
        counting can show it. Always False unless the policy is CONSERVATIVE."""
        end_s = self.ends.of(self.cluster.jobs[request.job], request)
        return self.profile is not None and self.profile.is_short(gang, end_s)

    @property
    def may_move(self) -> bool:
        """Return whether the first reservation may still be moved to other nodes."""
        return bool(self.reservations) and self.profile is None and self.one is None and self.moves < MOVES

    def move_first(self, job: Job, gang: Gang, placements: Sequence[Placement], end_s: float) -> bool:
        """Move the first reservation to nodes that have capacity for it although the gang is placed. Its start stays
        the same. Return whether it was moved."""
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
        held_by_placements(columns, gang, placements).add_to(free, 1)  # `grant` takes these amounts from the draft
        first.run.held.add_to(free, -1)
        self.free = free
        return True

    def rehouse(self) -> bool:
        """Place the first reservation again on the free amounts of the forecast, without changing its start. Return
        whether it fits."""
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
        """Return the amounts of each row that would be free at the start of the first reservation if this reservation
        did not exist."""
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
        """Return the gang's earliest run under EASY. Set `free` to the amounts that are still free at the start of this
        run after the gang has taken its capacity."""
        ends, known, of_book = self.cluster.ends, None, None
        if self.is_of_book():
            of_book = gang, self.policy, sum(self.cluster.columns.stamps)
            before, known = ends.foreseen or (None, None)
            known = known if before == of_book else None
        if known is None:
            known = self.find_start(job, gang, runs_s)
            if known is None:
                return None
            # A start at `now_s` is not stored, because it depends on the time of this cycle.
            if of_book is not None and known.start_s > self.now_s:
                ends.foreseen = of_book, known
        start_s, held, free = known
        self.free = {name: column.copy() for name, column in free.items()}
        return PlannedRun(start_s, start_s + runs_s, held)

    def is_of_book(self) -> bool:
        """Return whether the forecast depends only on the cluster state, and neither on decisions of this cycle nor on
        the time. Such a forecast may be stored until the state changes."""
        overdue = any(end_s <= self.now_s for end_s, _ in self.cluster.ends.order[:1])
        changed = overdue or self.ends.given or self.ends.leaving or self.cluster.reservations or self.cluster.leaving
        return not changed and self.draft.untouched

    def find_start(self, job: Job, gang: Gang, runs_s: float) -> EarliestStart | None:
        """Return the gang's earliest start: the time at which enough running jobs, and jobs granted in this cycle, have
        ended. None: this time cannot be foreseen."""
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
        """Return a draft with these free amounts, in which nodes that are closed to the job between `start_s` and
        `end_s` have nothing free."""
        shut = advance.closed_rows(self.cluster, job, start_s, end_s) if self.cluster.reservations else None
        if shut is not None:
            free = {name: np.where(shut, np.minimum(column, 0), column) for name, column in free.items()}
        return draft_over(self.draft, free)

    def in_profile(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the gang's earliest run that delays no reservation. This is only used under CONSERVATIVE."""
        if self.profile is None:
            kind = OneNodeProfile if self.is_alone() else CapacityProfile
            free = free_by_row(self.draft)
            self.profile = kind(self.cluster, self.draft, self.now_s, free, list(self.ends.releases()))
        return self.profile.earliest_run(job, gang, runs_s)
