"""The reservations of a cycle: which jobs have one because there is no capacity for them, and what may start beside it.

*EASY* (Lifka 1995; the rules of Mu'alem and Feitelson 2001): the first job, in job order, that finds no capacity gets a
reservation at its earliest start, its *shadow time*, on concrete nodes. Jobs behind it may start only if they are over
by then, or fit beside it then. *Conservative*: every job that cannot start gets one, up to `Policy.backfill_depth`.
*Greedy*: none does.

What exactly counts (docs/decisions/0008-backfill.md; ties are a real part of the meaning):

- A running job ends when its time limit is over; if that is now, or past, what it holds counts as free in the forecast
  at once, though it is not free yet. So a shadow time may be now, and then only what fits beside may start.
- Capacity at the shadow time includes all that is released at that very instant.
- A job that is over exactly at the shadow time does not delay the reservation.
- A job without a time limit never ends: it may start only beside. A job whose start cannot be foreseen, because what it
  waits for states no limit, gets no reservation, and the next one does.

If a candidate fits now, but not beside the nodes of the first reservation, the reservation may take other nodes: what
counts is when its job starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.backfill import advance, beside
from phalanx.core.backfill.ends import INFINITE_S, NOTHING, CycleEnds
from phalanx.core.backfill.one_node import OneNode, alone
from phalanx.core.backfill.one_node_profile import OneNodeProfile
from phalanx.core.backfill.profile import CapacityProfile, PlannedRun
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

TRIES = 64  # times at which counting finds room, tried for one gang
MOVES = 8  # how often in a cycle the first is given other nodes so that another can start


class WouldDelayReservation(NamedTuple):
    """There is capacity now, but the job would delay a reservation: why."""

    reason: Reason


Placer: TypeAlias = Callable[[Draft, Gang, NDArray[np.bool_] | None, Sequence[Release]], gangs.GangPlacement]
PlacementOutcome: TypeAlias = list[Placement] | PlacementShortfall | WouldDelayReservation


class CapacityChange(NamedTuple):
    """Until `until_s` (seconds since the epoch) that much is free (`sign` 1), or taken (-1), which else is not."""

    until_s: float
    held: HeldCapacity
    sign: int


class EarliestStart(NamedTuple):
    """When a gang can start (seconds since the epoch), what it holds where, and by row what is free beside it then."""

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
    """The cycle's reservations, and the forecast that they are made in. It is made when the first job of a cycle is to
    be placed.

    `reservations`: made in this cycle, in order; `wanted`: how many there are to be. `ends`: when what runs, and what
    the cycle has granted, is over."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float, draft: Draft) -> None:
        self.cluster, self.policy, self.now_s, self.draft = cluster, policy, now_s, draft
        self.ends = CycleEnds(cluster, now_s)
        self.reservations: list[BackfillReservation] = []
        self.moves = 0
        self.is_broken = False  # the first does not fit any more where it was
        self.kept_out: set[Gang] = set()
        easy = policy.backfill is Backfill.EASY
        self.wanted = max(0, policy.backfill_depth) if policy.backfill is Backfill.CONSERVATIVE else int(easy)
        self.one = OneNode(cluster, draft, now_s) if easy and self.is_alone() else None
        self.free: Free = {}  # EASY: what is left at the shadow time beside the first
        self.profile: CapacityProfile | OneNodeProfile | None = None  # CONSERVATIVE
        self.open = self.wanted > 0  # the next request that finds no room would get a reservation

    def is_alone(self) -> bool:
        """Return whether the cluster is one node, which is never closed, and no running job gives up a part of its
        pods."""
        return not self.cluster.reservations and alone(self.cluster, self.draft) and not self.ends.partly_leaving()

    def place(self, request: Request, gang: Gang) -> PlacementOutcome:
        """Return the gang's placements, taken from the draft, if that delays no reservation; else why not."""
        if not self.reservations and not self.cluster.reservations:
            return gangs.place(self.draft, gang)
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
        """Return what places gangs of a job that searches for victims beside the reservations; None: nothing is kept
        from it."""
        kept = self.kept(record.job, self.ends.of(record, request))
        return None if kept is None else partial(self.place_after, kept)

    def place_after(
        self, kept: Free, draft: Draft, gang: Gang, among: NDArray[np.bool_] | None, released: Sequence[Release]
    ) -> gangs.GangPlacement:
        """Return where the gang is placed beside the reservations when victims are gone, taken from the draft. `kept`:
        what it may have by row; `released`: when the victims would have ended, and what they held."""
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
        if among is None and (shares := beside.divided(draft, gang, free, first)):
            for _, position, pods in shares:
                draft.put(position, gang.demands[0], pods)
            return gangs.placements_of(draft, gang, shares)
        return outcome

    def fits_beside(self, free: Free, gang: Gang, placements: Sequence[Placement]) -> bool:
        """Return whether the first reservation fits into so much free capacity beside the gang."""
        left = {name: column.copy() for name, column in free.items()}
        held_by_placements(self.cluster.columns, gang, placements).add_to(left, -1)
        first = self.reservations[0]
        return isinstance(gangs.place(draft_over(self.draft, left), first.gang), list)

    def counted(self, gang: Gang, end_s: float) -> bool | None:
        """Return whether there is enough for the gang until `end_s` beside what is reserved, where counting alone
        decides; None: placing does."""
        if self.one is not None and gang.rigid:
            return end_s <= self.one.shadow_s or self.one.fits(gang)
        if isinstance(self.profile, OneNodeProfile) and self.profile.asked(gang).held is not None:
            return not self.profile.is_short(gang, end_s)
        return None

    def grant(self, request: Request, gang: Gang, placements: Sequence[Placement]) -> None:
        """Enter what the cycle granted a job in the forecast too."""
        self.ends.given.append((request, gang, placements))
        if self.profile is None and not self.reservations:
            return  # when it ends is asked if somebody is to have a reservation
        end_s, _, _ = self.ends.granted[-1]
        if self.profile is not None:
            self.profile.change(held_by_placements(self.cluster.columns, gang, placements), self.now_s, end_s, -1)
        elif end_s <= self.reservations[0].run.start_s:
            return
        elif self.one is not None:
            self.one.take(gang, placements)
        else:
            held_by_placements(self.cluster.columns, gang, placements).add_to(self.free, -1)

    def holds_with(self, changes: Sequence[CapacityChange]) -> bool:
        """Return whether every reservation still holds with these changes. The forecast is as before afterwards."""
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
        """Enter a nomination in the forecast, with these changes."""
        self.is_broken = not (self.change(changes) or self.profile) or self.is_broken
        self.ends.given.append((request, gang, placements))

    def change(self, changes: Sequence[CapacityChange]) -> bool:
        """Enter the changes; return whether every reservation still holds. The first may move to other nodes."""
        for change in changes:
            self.foresee(change)
        held = all(self.has_room(change) for change in changes if change.sign < 0)
        return held or (self.may_move and self.rehouse())

    def renew_first(self) -> bool:
        """Make the first reservation again at its new earliest time, if a job that need not respect it has taken its
        nodes; end it, if its job is preempted. Return whether either was so (rule R13)."""
        first = self.reservations[0] if self.reservations and self.profile is None else None
        if first is None or not (self.is_broken or first.request.job in self.ends.leaving):
            return False
        self.reservations.pop(0)
        self.is_broken, self.free, self.open = False, {}, True
        if first.request.job not in self.ends.leaving:
            self.hold(first.request, first.gang)
        return True

    def foresee(self, change: CapacityChange) -> None:
        """Enter the change in the forecast."""
        if self.profile is not None:
            self.profile.change(change.held, self.now_s, change.until_s, change.sign)
        elif change.until_s <= self.reservations[0].run.start_s:
            return
        elif self.one is not None:
            self.one.change(change.held, change.sign)
        else:
            change.held.add_to(self.free, change.sign)

    def has_room(self, change: CapacityChange) -> bool:
        """Return whether, with what the change takes, no node holds more than it can."""
        if self.profile is not None:
            free = self.profile.between(0, self.profile.level(change.until_s))
        elif change.until_s <= self.reservations[0].run.start_s:
            return True
        else:
            free = self.free if self.one is None else self.one.kept()
        amounts, rows = change.held.amounts, change.held.rows
        return all(bool((free[resource][rows] >= 0).all()) for resource in amounts if resource in free)

    def hold(self, request: Request, gang: Gang) -> BackfillReservation | None:
        """Return the job's reservation, if it is to have one and its start can be foreseen; else None."""
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
        """Return the run for which the request would get a reservation; None if its start cannot be foreseen."""
        if not self.ends.anyone_ends():
            return None
        record = self.cluster.jobs[request.job]
        run = self.earliest_run(record.job, self.reserved_gang(gang), self.ends.of(record, request) - self.now_s)
        is_now = run is not None and run.start_s <= self.now_s
        return None if is_now and not self.ends.anyone_leaves_now() else run

    def reserved_gang(self, gang: Gang) -> Gang:
        """Return the part of the gang that a reservation is for: its minimum."""
        return minimum_gang(self.cluster, gang) if any(role.minimum for role in gang.roles) else gang

    def earliest_run(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the gang's earliest run; None if its start cannot be foreseen."""
        if self.one is not None:
            found = self.one.find(gang, self.ends.in_order(), self.ends.granted)
            return PlannedRun(self.one.shadow_s, self.one.shadow_s + runs_s, NOTHING) if found else None
        if self.policy.backfill is Backfill.CONSERVATIVE:
            return self.in_profile(job, gang, runs_s)
        return self.shadow(job, gang, runs_s)

    def kept(self, job: Job, end_s: float) -> Free | None:
        """Return, by row, what is left for the job from now until `end_s`; None: all that is free."""
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
        """Return the outcome for a gang that does not fit beside what is kept: it fits if the first reservation can go
        elsewhere."""
        mark = self.draft.mark()
        outcome = gangs.place(self.draft, gang)
        if isinstance(outcome, PlacementShortfall):
            return outcome
        if self.may_move and self.move_first(record.job, gang, outcome, end_s):
            return outcome
        self.draft.rewind(mark)
        if self.may_move and (shares := beside.divided(self.draft, gang, self.released(), self.reservations[0].gang)):
            for _, position, pods in shares:
                self.draft.put(position, gang.demands[0], pods)
            outcome = gangs.placements_of(self.draft, gang, shares)
            if self.move_first(record.job, gang, outcome, end_s):
                return outcome
            self.draft.rewind(mark)
        return WouldDelayReservation(self.why(record.job, end_s))

    def keeps_out(self, request: Request, gang: Gang, told: Reason) -> bool:
        """Return whether by counting the gang, which is unconstrained, finds too little beside the reservations, of
        which none is moved any more, and would be told the same as it was."""
        if self.may_move or self.cluster.reservations or len(gang.roles) != 1 or not gang.simple:
            return False
        demand, minimum = gang.demands[0], gang.minimums[0]
        end_s = self.ends.of(self.cluster.jobs[request.job], request)
        first = self.first_before(end_s)
        if first is None or not self.draft.ordinary(demand):
            return False
        if (enough := self.counted(gang, end_s)) is not None:
            said = told.numbers
            same = said.get("for") == first.request.job and said.get("until_s") == first.run.start_s
            return same and not enough and self.draft.room(demand) >= minimum
        if self.profile is not None:
            return False
        if gang not in self.kept_out:
            with limited_to(self.draft, self.free):
                if self.draft.room(demand) >= minimum:
                    return False
            self.kept_out.add(gang)
        return True

    def first_before(self, end_s: float) -> BackfillReservation | None:
        """Return the first reservation that begins before that time."""
        return next((each for each in self.reservations if each.run.start_s < end_s), None)

    def shuts_out(self, request: Request, gang: Gang) -> bool:
        """Return whether by counting the reservations that there are leave too little for the gang to start now, under
        CONSERVATIVE."""
        end_s = self.ends.of(self.cluster.jobs[request.job], request)
        return self.profile is not None and self.profile.is_short(gang, end_s)

    @property
    def may_move(self) -> bool:
        """Return whether the first reservation may still be moved to other nodes."""
        return bool(self.reservations) and self.profile is None and self.one is None and self.moves < MOVES

    def move_first(self, job: Job, gang: Gang, placements: Sequence[Placement], end_s: float) -> bool:
        """Move the first reservation to other nodes at the same time if the gang is placed so; return whether that was
        possible."""
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
        held_by_placements(columns, gang, placements).add_to(free, 1)  # `grant` takes it
        first.run.held.add_to(free, -1)
        self.free = free
        return True

    def rehouse(self) -> bool:
        """Move the first reservation to other nodes at the same time, with all that was entered since; return whether
        that was possible."""
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
        """Return what is free, by row, when the first reservation starts, without it."""
        free = {name: column.copy() for name, column in self.free.items()}
        self.reservations[0].run.held.add_to(free, 1)
        return free

    def why(self, job: Job, end_s: float) -> Reason:
        """Return the reason of a job that would delay a reservation."""
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
        """Return the gang's earliest run under EASY; `free` is what is left then."""
        ends, known, of_book = self.cluster.ends, None, None
        if self.is_of_book():
            of_book = gang, self.policy, sum(self.cluster.columns.stamps)
            before, known = ends.foreseen or (None, None)
            known = known if before == of_book else None
        if known is None:
            known = self.find_start(job, gang, runs_s)
            if known is None:
                return None
            if of_book is not None and known.start_s > self.now_s:  # now is another time in the next cycle
                ends.foreseen = of_book, known
        start_s, held, free = known
        self.free = {name: column.copy() for name, column in free.items()}
        return PlannedRun(start_s, start_s + runs_s, held)

    def is_of_book(self) -> bool:
        """Return whether the forecast follows from the state alone, so that it is the same as long as nothing there
        changes, though time passes."""
        overdue = any(end_s <= self.now_s for end_s, _ in self.cluster.ends.order[:1])
        changed = overdue or self.ends.given or self.ends.leaving or self.cluster.reservations or self.cluster.leaving
        return not changed and self.draft.untouched

    def find_start(self, job: Job, gang: Gang, runs_s: float) -> EarliestStart | None:
        """Return the earliest start with what runs and what this cycle has granted; None if it cannot be foreseen."""
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
        """Return a draft of that capacity, without the nodes that are closed to the job then."""
        shut = advance.closed_rows(self.cluster, job, start_s, end_s) if self.cluster.reservations else None
        if shut is not None:
            free = {name: np.where(shut, np.minimum(column, 0), column) for name, column in free.items()}
        return draft_over(self.draft, free)

    def in_profile(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the gang's earliest run beside all reservations, under CONSERVATIVE."""
        if self.profile is None:
            kind = OneNodeProfile if self.is_alone() else CapacityProfile
            free = free_by_row(self.draft)
            self.profile = kind(self.cluster, self.draft, self.now_s, free, list(self.ends.releases()))
        return self.profile.earliest_run(job, gang, runs_s)
