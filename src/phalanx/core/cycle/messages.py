"""What requests are told in a cycle about why they wait.

A class that finds no room is explained once for all that ask the same, in whatever queue (`PendingClass.reason`): the
first `EXPLAINED` failures of a cycle anew, and each class at the latest after `RENEWED` cycles in which it had room and
lost it to others. What quota lacks is said cell by cell. The order of what is said is: what can never be, then quota,
then room. A cell is told again when another of these keeps it; its first is told new numbers when it fails itself.

What waits behind the head of a strict queue says so: who the head is, why that waits, and when enough is expected.
Thousands may wait there, and each time that the head starts another is the head. So whoever comes to stand behind one
is told once; when it is another, or waits for something else, only the next few are told anew. Whoever asks (`phalanx
explain`) has it decided anew, and is told who is the head now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np

from phalanx.core.backfill.reservation import WouldDelayReservation
from phalanx.core.cycle.state import CycleState
from phalanx.core.order.next_job import Tournament
from phalanx.core.placement.gang import PlacementShortfall, place
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.reasons import explain, no_quota
from phalanx.core.reasons.consumers import CycleGrants
from phalanx.model.job import Placement
from phalanx.model.plan import Told
from phalanx.model.reason import ALONE, NEVER, Reason, ReasonCode
from phalanx.state.classes import Gang
from phalanx.state.cluster import JobRecord
from phalanx.state.pending.cell_queue import (
    BEHIND,
    QUOTA,
    ROOM,
    UNTOLD,
    CellKey,
    CellQueue,
    Kind,
    QueuedRequest,
    Request,
)
from phalanx.state.pending.pending import Combination, PendingClass

EXPLAINED = 4  # failures explained in a cycle, at least
RENEWED = 100  # cycles after which a class is explained anew
NEXT = 4  # cells right behind a head, which always name it

Wait: TypeAlias = tuple[str | None, str | None]  # what one behind a head is told: the head, and the code of its reason


class Unlooked(NamedTuple):
    """The cells that did not come up and are to be told: that quota is `short`; that their class is `closed`; and in
    order those that had either when the cycle began and `lost` it."""

    short: list[CellQueue]
    closed: list[CellQueue]
    lost: list[CellQueue]


class Telling:
    """The messages of one cycle. `waits`: what jobs are told. `cells`: what cells are told, and their own reason,
    None: that of their class. `explained`: classes that were explained. `failures`: requests that were tried in
    vain. `eased`: quota that was given back in this cycle lets somebody start in the next, which follows at once."""

    def __init__(self, state: CycleState, contest: Tournament) -> None:
        self.state, self.contest, self.cluster, self.pending = state, contest, state.cluster, state.pending
        self.waits: dict[str, Reason] = {}
        self.cells: dict[CellQueue, Told] = {}
        self.explained: dict[Combination, Reason] = {}
        self.failures = 0
        self.eased = False
        self.grants: CycleGrants | None = None
        self._unnoted: list[tuple[Gang, str, Sequence[Placement]]] = []  # granted, and not in `grants` yet

    def granted(self, gang: Gang, job: str, placements: Sequence[Placement]) -> None:
        """The job was given that: reasons say who holds most."""
        self._unnoted.append((gang, job, placements))

    def granted_so_far(self) -> CycleGrants:
        grants = self.grants = self.grants or CycleGrants()
        for gang, job, placements in self._unnoted:
            grants.note(gang, job, placements)
        self._unnoted.clear()
        return grants

    # What is known

    def reason_of(self, line: CellQueue) -> Reason | None:
        """Return why the cell waits, as last told, in this cycle or before."""
        if (told := self.cells.get(line)) is None:
            return self.pending.reason_of(line)
        return self.reason_of_class(self.state.class_of(line)) if told[1] is None else told[1]

    def reason_of_class(self, found: PendingClass) -> Reason | None:
        return self.explained.get(found.combination) or found.reason

    def is_untold(self, line: CellQueue) -> bool:
        return bool(self.pending.cells.told[line.cell] == UNTOLD)

    def holds_up_for_quota(self, line: CellQueue, entry: QueuedRequest) -> bool:
        """Return whether the cell, which quota keeps out, holds up those behind it in a strict queue: not if it can
        never start, or lacks only what its own user or group may have. It is told if it was told something else."""
        if (reason := self.short_of_quota(line, entry)) is None:
            return True
        said = self.reason_of(line)
        if said is None or said.code is not reason.code:
            self.tell_cell(line, entry, reason, QUOTA, reason)
        return reason.code not in ALONE

    def short_of_quota(self, line: CellQueue, entry: QueuedRequest) -> Reason | None:
        """Return why quota keeps the cell out; None: it does no more when those who give way have given back theirs."""
        offers = self.state.offers(line.key, entry.request)
        if any(offer.short is None for offer in offers):
            self.eased = True
            return None
        return self.why_not(line.key, offers, ())

    def is_hopeless(self, found: PendingClass) -> bool:
        """Return whether the class was found to have no room even if nothing ran: it is given no reservation."""
        reason = self.reason_of_class(found)
        return reason is not None and reason.code in NEVER

    def never_fits(self, key: CellKey, offers: Sequence[FlavorAssignment]) -> bool:
        """Return whether none of the offers could be placed even if nothing ran."""
        return all(self.never(key, offer) is not None for offer in offers)

    def never_starts(self, found: PendingClass) -> bool:
        """Return whether the class, which has no room, could not start even if nothing ran: so its cells hold up
        nobody in a strict queue. What was found of it is forgotten if that says something else."""
        gangs = self.state.blocked.gangs_of_flavors(found) or [found.combination.gang]
        reason = self.reason_of_class(found)
        never = all(explain.never(self.cluster, self.state.draft, gang) is not None for gang in gangs)
        if reason is not None and (reason.code in NEVER) != never:
            self.explained.pop(found.combination, None)
            found.reason = None
        return never

    def explains(self, found: PendingClass) -> bool:
        """Return whether the class, which has no room, is to be explained anew: it had room when the cycle began,
        and few failed before it."""
        return (
            bool(self.state.blocked.had_room[found.number])
            and self.failures < EXPLAINED
            and found.combination not in self.explained
        )

    def known(self, line: CellQueue, found: PendingClass | None) -> Reason | None:
        """Return why the class, which the cell asks for, has no room, if that is known and need not be explained
        anew."""
        blocked = self.state.blocked
        if found is None or (blocked.open[found.number] and found.number not in self.pending.failed):
            return None
        searches = line.cell in self.state.turn and self.failures < EXPLAINED
        if line.strict:
            self.never_starts(found)  # what was found out when nodes were others is forgotten
        return None if searches or self.explains(found) else self.reason_of_class(found)

    # Why not

    def lacking(self, offer: FlavorAssignment, lack: PlacementShortfall | WouldDelayReservation | Reason) -> Reason:
        """Return why the offer, which quota allows, finds no room; said once for all that ask the same."""
        if isinstance(lack, WouldDelayReservation):
            return lack.reason
        if isinstance(lack, Reason):
            return lack
        return self.explain(offer.gang, lack)

    def explain(self, gang: Gang, lack: PlacementShortfall) -> Reason:
        state = self.state
        reason = explain.why_not(self.cluster, state.draft, gang, lack, self.granted_so_far())
        for counts in (True, False):
            number = self.pending.number_of(Combination(gang, counts=counts))
            if number is not None:
                self.explained[Combination(gang, counts=counts)] = reason
        return reason

    def explain_class(self, found: PendingClass) -> Reason | None:
        """Return why requests of the class find no room, found by a trial if it is not known; None: they do."""
        known = self.reason_of_class(found)
        if known is None and not found.ways:
            gang = found.combination.gang
            lack = self.tried(gang)
            known = None if lack is None else self.explain(gang, lack)
        return known

    def tried(self, gang: Gang) -> PlacementShortfall | None:
        draft = self.state.draft
        mark = draft.mark()
        outcome = place(draft, gang)
        if isinstance(outcome, PlacementShortfall):
            return outcome
        draft.rewind(mark)
        return None

    def why_not(self, key: CellKey, offers: Sequence[FlavorAssignment], found: Sequence[Reason]) -> Reason:
        """Return why each offer fails, `found`: those that quota allows, in the same order. The one that the queue
        likes best gives the code; of those with the same flavors one speaks, that time can mend if any is."""
        lacking, reasons = iter(found), dict[tuple[str, ...], Reason]()
        for offer in offers:
            said = reasons.get(offer.flavors)
            if offer.short is None:
                reason = next(lacking)
            else:
                reason = self.never(key, offer) or no_quota.why_not(self.cluster, self.state.ledger, key.queue, offer)
            if reason.code in NEVER:  # but its other groups may fit, for which there is no quota now
                ledger = self.state.ledger
                others = (no_quota.why_not(self.cluster, ledger, key.queue, each) for each in offer.besides[::-1])
                reason = next((each for each in others if each.code not in NEVER), reason)
            if said is None or (said.code in NEVER and reason.code not in NEVER):
                reasons[offer.flavors] = reason
        return no_quota.of_flavors(list(reasons), list(reasons.values()))

    def never(self, key: CellKey, offer: FlavorAssignment) -> Reason | None:
        """Return why the offer could not be placed even if nothing ran: that is said before what quota lacks."""
        if not self.state.is_whole(key) or explain.may_get_nodes(self.cluster, offer.gang):
            return None
        return explain.never(self.cluster, self.state.draft, offer.gang)

    # What cells are told

    def denied(self, line: CellQueue, entry: QueuedRequest, reason: Reason, told: int) -> None:
        """The first of the cell was tried, or asked about, in vain. `told` UNTOLD: quota allows none of its offers."""
        self.failures += 1
        if told == UNTOLD:
            told = ROOM if self.state.is_within_limits(line) else QUOTA
        own = None if reason is self.reason_of_class(self.state.class_of(line)) else reason
        self.tell_cell(line, entry, reason, told, own)

    def lacks_room(self, line: CellQueue, entry: QueuedRequest) -> None:
        """The cell came up, and its class is known to have no room."""
        if self.pending.cells.told[line.cell] != ROOM and line not in self.cells:
            found = self.state.class_of(line)
            reason = self.explain_class(found)
            if reason is not None:
                self.tell_cell(line, entry, reason, ROOM, None)

    def tell_cell(self, line: CellQueue, entry: QueuedRequest, reason: Reason, told: int, own: Reason | None) -> None:
        """The first is told the new numbers, the others only if the code is another, newcomers in any case. In a strict
        queue a cell is at the head, and behind another's, in turns: then only the next few are told."""
        said = self.reason_of(line)
        self.cells[line] = Told(told, own)
        self.tell_request(entry.request, reason)
        if said is None or said.code is not reason.code:
            few = said is not None and takes_turns(said, reason)
            for other in islice(self.state.following(line), NEXT if few else None):
                self.tell_request(other.request, reason)

    def tell_others(self) -> None:
        """Tell all cells that did not come up, if another thing keeps them now than they were told."""
        if self.pending.lines:
            self.renew()
            if self.contest.closed:
                self.tell_behind()
            if self.pending.loose or self.pending.headroom.keys:
                self.tell_unlooked(self.unlooked())
        for request in self.pending.untold:
            line = self.pending.line_of(request)
            if line is not None and self.state.still_waits(request):
                self.tell_newcomer(line, request)

    def renew(self) -> None:
        """Explain classes anew: at times those that had room and lost it, and all when a node became another."""
        blocked, pending = self.state.blocked, self.pending
        left = EXPLAINED
        for found in blocked.closed(all_of_them=pending.renews):
            found.stale += blocked.had_room[found.number]
            if found.stale <= RENEWED or found.reason is None or found.ways or found.combination in self.explained:
                continue
            lack = self.tried(found.combination.gang)
            if lack is not None:
                self.explain(found.combination.gang, lack)
                self.tell_some_of(found)
            if not (left := left - 1):
                return
        pending.renews = False

    def tell_some_of(self, found: PendingClass) -> None:
        """The first of the first few cells of a class are told its new reason."""
        cells = self.pending.cells
        reason = self.reason_of_class(found)
        some = (cells.cls == found.number) & (cells.told == ROOM)
        for cell in some.nonzero()[0][:EXPLAINED].tolist():
            line = cells.lines[cell]
            if line is not None and line.reason is None and (entry := self.state.first_waiting(line)) is not None:
                assert reason is not None  # it was explained just now
                self.tell_cell(line, entry, reason, ROOM, None)

    def unlooked(self) -> Unlooked:
        """Return the cells that quota or a count kept from coming up, by what they are to be told."""
        state, told = self.state, self.pending.cells.told
        found, is_open = Unlooked([], [], []), state.blocked.open
        unbounded = not self.pending.headroom.keys
        for line in self.to_be_told():
            said = told.item(line.cell)
            if unbounded or state.is_within_limits(line):
                if is_open[line.cls]:
                    continue
                if said != ROOM:
                    if not line.strict:
                        found.closed.append(line)
                elif state.blocked.had_room[line.cls]:
                    found.lost.append(line)
            elif said in (UNTOLD, ROOM):  # quota is said before capacity (rule R25)
                if not line.strict:
                    found.short.append(line)
            elif said == QUOTA and state.within_at_first[line.cell]:
                found.lost.append(line)
        found.lost.sort(key=lambda line: (-line.key.priority, line.first().arrival_s))
        return found

    def to_be_told(self) -> Iterable[CellQueue]:
        """Return the cells that may have to be told something: all if they are few. Of those that had room, or quota,
        and lost it, the first few are."""
        state, cells = self.state, self.pending.cells
        if state.is_small:
            return self.pending.lines.values()
        count = len(cells)
        cls, row, told = cells.cls[:count], cells.row[:count], cells.told[:count]
        within, (open_, had_room) = state.within_limits(cls, row), state.blocked.columns()
        is_open, live = open_[cls], cls >= 0
        another = np.where(within, ~is_open & (told != ROOM), (told == UNTOLD) | (told == ROOM)) & live
        if self.cluster.tree.stricts:
            another &= ~state.is_strict[row]
        some = another.nonzero()[0].tolist()
        if self.failures < EXPLAINED:
            was_within = np.frombuffer(state.within_at_first, np.bool_)[:count]
            lost = np.where(within, ~is_open & (told == ROOM) & had_room[cls], was_within & (told == QUOTA)) & live
            losing = lost.nonzero()[0]
            order = np.lexsort((cells.arrival_s[losing], -cells.priority[losing]))
            some += losing[order[: 2 * EXPLAINED]].tolist()
        return [line for cell in some if (line := cells.lines[cell]) is not None]

    def tell_unlooked(self, unlooked: Unlooked) -> None:
        """Tell cells what keeps them, if they were told something else; and of those that had room, or quota, and
        lost it to others, the first few the new numbers."""
        state = self.state
        for line in unlooked.short:
            if line not in self.cells and (entry := state.first_waiting(line)) is not None:
                self.tell_short(line, entry)
        for line in unlooked.closed:
            if line not in self.cells and (entry := state.first_waiting(line)) is not None:
                self.tell_closed(line, entry, state.class_of(line))
        for line in unlooked.lost:
            if self.failures >= EXPLAINED:
                return
            if line not in self.cells and (entry := state.first_waiting(line)) is not None:
                self.tell_lost(line, entry, state.class_of(line))

    def tell_closed(self, line: CellQueue, entry: QueuedRequest, found: PendingClass) -> None:
        """The cell's class has no room."""
        if not found.ways:
            if (reason := self.explain_class(found)) is not None:
                self.tell_cell(line, entry, reason, ROOM, None)
            return
        offers, lacking = self.state.offers(line.key, entry.request), []
        for offer in offers:
            way = self.state.class_of_offer(line, offer) if offer.short is None else None
            if offer.short is None and (said := None if way is None else self.explain_class(way)) is None:
                return
            if offer.short is None and said is not None:
                lacking.append(said)
        reason = self.why_not(line.key, offers, lacking)
        self.tell_cell(line, entry, reason, ROOM, reason)

    def tell_lost(self, line: CellQueue, entry: QueuedRequest, found: PendingClass) -> None:
        """The cell had room, or quota, when the cycle began."""
        if self.pending.cells.told[line.cell] == QUOTA:
            self.failures += 1
            self.tell_short(line, entry)
        elif not found.ways and line.reason is None:
            if found.combination not in self.explained and (lack := self.tried(found.combination.gang)) is not None:
                self.explain(found.combination.gang, lack)
            if (reason := self.reason_of_class(found)) is not None:
                self.failures += 1
                self.tell_cell(line, entry, reason, ROOM, None)

    def tell_short(self, line: CellQueue, entry: QueuedRequest) -> None:
        if (reason := self.short_of_quota(line, entry)) is not None:
            self.tell_cell(line, entry, reason, QUOTA, reason)

    def tell_newcomer(self, line: CellQueue, request: Request) -> None:
        """Tell a newcomer what its cell was told; unless that names the job itself as who holds what is lacking."""
        reason = self.reason_of(line)
        if (
            reason is not None
            and request.slot is None
            and self.cluster.jobs[request.job].attempt
            and reason.names(request.job)
        ):
            found = self.state.class_of(line)
            lack = None if found.ways or reason.code is not ReasonCode.NO_ROOM else self.tried(found.combination.gang)
            if lack is not None:
                reason = self.explain(found.combination.gang, lack)
                self.cells[line] = Told(ROOM)
        if reason is not None:
            self.tell_request(request, reason)

    # Behind a head

    def tell_behind(self) -> None:
        """Tell all that this cycle's heads hold up."""
        behind = self.newly_behind()
        for queue, (head, entry) in self.contest.closed.items():
            why = self.reason_of(head)
            now = entry.request.job, None if why is None else str(why.code)
            new = behind.get(queue, [])
            near = self.next_few(queue, now)
            if not (new or near):
                continue
            reason = no_quota.behind_head(self.cluster, entry.request.job, queue, why)
            for line in dict.fromkeys((*new, *near)):
                first = self.state.first_waiting(line)
                if first is not None and line is not head:
                    self.tell_cell(line, first, reason, BEHIND, reason)

    def newly_behind(self) -> dict[str, list[CellQueue]]:
        """Return by strict queue the cells that a head holds up from now on."""
        state, cells = self.state, self.pending.cells
        some: Iterable[int] = range(len(cells))
        if not state.is_small:
            cls, row = cells.cls[: len(cells)], cells.row[: len(cells)]
            some = (state.is_strict[row] & (cells.told[: len(cells)] != BEHIND) & (cls >= 0)).nonzero()[0].tolist()
        found: dict[str, list[CellQueue]] = {}
        for cell in some:
            line = cells.lines[cell]
            if line is None or state.over[cell] or cells.told[cell] == BEHIND:
                continue
            strict = self.cluster.tree.strict_above(line.key.queue)
            if strict is not None and line.key.kind != Kind.REPLACEMENT:
                found.setdefault(strict.name, []).append(line)
        return found

    def next_few(self, queue: str, now: Wait) -> list[CellQueue]:
        """The cells right behind the head that wait for its sake; none if the first of them has heard of it, since the
        others were told with it."""
        found: list[CellQueue] = []
        for _, line in islice(self.contest.left.get(queue, ()), 2 * NEXT):
            said = self.pending.reason_of(line)
            if said is not None and said.code is ReasonCode.BEHIND_HEAD:
                if not found and wait_of(said) == now:
                    break
                found.append(line)
                if len(found) == NEXT:
                    break
        return found

    # Telling

    def tell_request(self, request: Request, reason: Reason) -> None:
        record = self.cluster.jobs[request.job]
        if request.slot is not None:
            reason = explain.of_slots(record, reason, granted=len(self.state.places.get(request.job, ())))
        self.tell(record, reason)

    def tell(self, record: JobRecord, reason: Reason) -> None:
        if record.reason != reason:
            self.waits[record.job.id] = reason


def is_behind(reason: Reason | None) -> bool:
    return reason is not None and reason.code is ReasonCode.BEHIND_HEAD


def takes_turns(said: Reason, reason: Reason) -> bool:
    """The cell comes to the head, or behind another's: who stands further back in it waits as before."""
    return is_behind(said) != is_behind(reason) and not ALONE & {said.code, reason.code}


def wait_of(reason: Reason) -> Wait:
    """Return the head and the code of its reason: when enough is expected back moves all the time."""
    return reason.numbers.get("head"), reason.numbers.get("head_code")
