"""The steps of one cycle, and what it has decided so far.

Who takes part: awake lines and newcomers, each with its first bid. Who is next is decided by `core.order.next_job`;
slots that replace lost pods of started gangs come before all that. A bid's way, a method each:

    receive       obstacles that no room can mend (`core.cycle.eligible`), else its place in a line
    contenders    the next bid
    offers        what the queue tree allows: flavors, or the number that says no (`core.quota.flavor_assignment`)
    place         its gang is placed on the draft, whole (`core.placement.gang`)
    grant         it starts: room, and what its queue is charged with, are taken
    deny          it does not: its line says why and falls asleep until that may have changed

What other modules need of a cycle: `cluster`, `policy`, `now_s` (seconds since the epoch), `draft` (room) and
`ledger` (the queue tree's accounts), both with what was decided so far laid over the book and with mark and rewind.
Whatever finds out that a bid that has room may not have it (backfill, reservations) belongs between `place` and
`grant`; whatever makes room for one that has none (preemption) at the beginning of `deny`.

Many lines wake when room is freed and the first few take it. A line of one role that counting shows to find too
little room goes back to sleep unexamined; that is exact, because within a cycle room only shrinks. It keeps the reason
it has; so that reasons stay true, the first `EXPLAINED` failures of a cycle, and every line now and then, are explained
anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TypeAlias

from phalanx.core.backfill.reservation import PlacementOutcome, WouldDelayReservation
from phalanx.core.cycle import behind, sleep
from phalanx.core.cycle.crowds import EXPLAINED, RENEW_REASON, Crowds, Lacking, by_counting
from phalanx.core.cycle.eligible import not_eligible
from phalanx.core.cycle.lines import place_in_line
from phalanx.core.cycle.lookahead import Lookahead
from phalanx.core.cycle.preempt import CyclePreemption
from phalanx.core.order.multifactor import MultifactorPriority
from phalanx.core.order.next_job import Tournament
from phalanx.core.order.rank import rank
from phalanx.core.placement import replacement
from phalanx.core.placement.capacity import BLOCK, FreeCapacity
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.gang import PlacementShortfall
from phalanx.core.placement.node_order import ordered_nodes
from phalanx.core.placement.scoring.typical_pods import expected_pods
from phalanx.core.preemption import nomination
from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.core.reasons import explain, no_quota, preempted
from phalanx.core.reasons.consumers import CycleGrants
from phalanx.lazy import lazy
from phalanx.model.job import Phase, Placement, Slot
from phalanx.model.plan import Asleep, Joined, Start, Still, Watch
from phalanx.model.policy import Policy, ScoringStrategy
from phalanx.model.reason import ALONE, NEVER, SHORT, Reason, ReasonCode
from phalanx.state.classes import Demand, Gang
from phalanx.state.cluster import Cluster, JobRecord, nominated_placements
from phalanx.state.dependencies import JobFamily
from phalanx.state.pending.line import Bid, Entry, Kind, LineKey
from phalanx.state.queue_tree import Charge

Lack: TypeAlias = PlacementShortfall | WouldDelayReservation | Lacking

NO_CHARGE = Charge("", "", "", (), 0)
NOBODY: Iterator[Entry] = iter(())


class Cycle:
    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self.waiting, self.awake = cluster.waiting, cluster.waiting.awake
        self.ledger = QuotaLedger(cluster.tree)
        self.contest = Tournament(cluster.tree, self.ledger, self.priority_of, self.first_of)
        self.lookahead = Lookahead(self)
        self.crowds = Crowds(self)
        self.cleared: dict[JobFamily, int] = {}  # jobs of arrays that were let through
        self.new: dict[LineKey, list[Entry]] = {}  # newcomers by line, sorted when contending begins
        self.rest: dict[LineKey, Iterator[Entry]] = {}  # of lines that were granted something: who comes next
        self.unnoted: list[tuple[Gang, str, Sequence[Placement]]] = []  # what jobs got, and `granted` does not show yet
        self.starts: list[Start] = []
        self.places: dict[str, list[Placement]] = {}
        self.waits: dict[str, Reason] = {}
        self.joined: dict[Bid, Joined] = {}
        self.parked: dict[Bid, None] = {}
        self.resting: list[tuple[Bid, float]] = []
        self.asleep: list[Asleep] = []
        self.still: list[Still] = []
        self.renewed = 0  # of these, those that are told new numbers
        self.won: set[Bid] = set()
        self.untrue: set[LineKey] = set()  # lines whose reason says that a newcomer to them holds what it waits for
        self.preempting = CyclePreemption(cluster, self.ledger, now_s)
        self.dozing: set[LineKey] = set()  # lines of strict queues that take part though nothing has changed for them
        self.closing: list[str] = []  # strict queues of which lines are drawn in order until a head cannot start

    @lazy
    def draft(self) -> Draft:
        # Made when first needed: most cycles have nothing to place.
        policy, columns = self.policy, self.cluster.columns
        layout = ordered_nodes(columns, packed=policy.score is ScoringStrategy.PACK)
        return Draft(columns, policy.topologies, policy.score, expected_pods(self.cluster, policy), layout)

    @lazy
    def granted(self) -> CycleGrants:
        return CycleGrants()

    @lazy
    def rooms(self) -> FreeCapacity:
        return FreeCapacity(self.draft, self.waking())

    @lazy
    def priorities(self) -> MultifactorPriority:
        return MultifactorPriority(self.cluster, self.policy, self.now_s)

    def close(self) -> None:
        """It is over. What it thought with is the book's to keep; and its parts, which know it, let go of each other,
        so that nothing is left for the garbage collector."""
        if "draft" in self.__dict__:
            self.draft.leave()
        self.__dict__.clear()

    # Promises

    def start_nominated(self) -> None:
        """Whoever was promised room starts when others have left it, or stands in line again if they will not."""
        if not self.cluster.nominated:
            return
        for record, state in self.preempting.nominations():
            bid, waits = Bid(record.job.id), record.phase is Phase.QUEUED
            if state is nomination.NominationState.BROKEN or (waits and self.hindered(record)):
                self.preempting.withdraw(record)
                continue
            self.parked |= dict.fromkeys([bid] if waits else [Bid(bid.job, slot) for slot in record.nominated])
            if state is nomination.NominationState.FREE:
                placements = nominated_placements(record)
                if waits:
                    self.start(record, placements, record.flavors)
                else:
                    self.places[bid.job] = list(placements)
                self.unnoted.append((record.gang, bid.job, placements))
            else:
                leavers = nomination.leavers(record, self.preempting.others)
                self.tell(record, preempted.preemptor_reason(self.cluster, record, leavers))

    def hindered(self, record: JobRecord) -> bool:
        return not_eligible(self.cluster, record, self.now_s, self.cleared) is not None

    # Receiving

    def newcomers(self) -> Iterator[Bid]:
        yield from self.waiting.fresh
        for not_before_s, bid in self.waiting.resting:
            if not_before_s > self.now_s:
                break
            yield bid

    def receive(self, bid: Bid) -> None:
        """Answer a bid that needs no room, or put it in its line."""
        record = self.cluster.jobs[bid.job]
        queue = self.cluster.queues.get(self.cluster.queue_of(record.job))
        whole = queue is None or queue.gang
        if record.nominated and (bid.slot is None or bid.slot in record.nominated):
            return  # `keep_promises` has looked at it
        if bid.slot is not None:
            self.stand_in_line(record, bid, whole=whole)
        elif found := not_eligible(self.cluster, record, self.now_s, self.cleared):
            if found.again_s is None:
                self.parked[bid] = None
            else:
                self.resting.append((bid, found.again_s))
            self.tell(record, found.reason)
        elif record.not_before_s > self.now_s:
            self.resting.append((bid, record.not_before_s))
            self.tell(record, explain.backoff(record, self.now_s))
        elif not whole and self.cluster.tree.branches[self.cluster.queue_of(record.job)].unbounded:
            # Its pods are placed one by one as they open.
            self.start(record)
        else:
            self.stand_in_line(record, bid, whole=whole)

    def stand_in_line(self, record: JobRecord, bid: Bid, *, whole: bool) -> None:
        if bid.slot is not None and bid.slot != replacement.slots_together(self.cluster, record, bid.slot)[0]:
            self.parked[bid] = None  # another stands in line for it
            return
        key, entry = place_in_line(self.cluster, self.policy.topologies, record, bid, whole=whole)
        self.joined[bid] = Joined(key, entry)
        line = self.waiting.lines.get(key)
        reason = None if line is None else line.reason
        if reason is not None and bid.slot is None and reason.names(bid.job):
            self.untrue.add(key)
        elif reason is not None and not self.may_come_up(key, reason):
            self.tell_bid(bid, reason)  # what its likes could not get, it cannot get
            return
        self.new.setdefault(key, []).append(entry)

    def may_come_up(self, key: LineKey, reason: Reason) -> bool:
        """Whether the line, asleep or not, may contend in this cycle. One that only others hold up does when those are
        gone, and then its newcomers must be among it."""
        held_up = reason.code is ReasonCode.BEHIND_HEAD or self.waiting.sleepers.is_held(key)
        return held_up or key in self.awake or self.crowds.is_roused(key)

    # Contending

    def contenders(self) -> Iterator[tuple[LineKey, Bid]]:
        """Best first. Who asks for the next must have granted or denied the last."""
        if alone := self.crowds.divide():
            self.awake = {**self.awake, **alone}
        keys = {**self.awake, **self.new, **self.held_up(), **self.lookahead.entrants()}
        for key in keys:
            if key not in self.crowds.standby:
                self.contest.enter(key, self.first_of(key))
        for arena in self.closing:
            self.contest.draw_from(arena, self.waiting.heads.of(arena), in_crowd=False)
        for arena, lines in self.crowds.draws():
            self.contest.draw_from(arena, lines, in_crowd=True)
        self.contest.begin()
        known, others = self.waiting.lines, self.lookahead.others
        while (head := self.lookahead.next_head()) is not None:
            key, entry = head
            runner = self.contest.at
            drawn = runner.drawn is key
            if drawn and runner.in_crowd:
                if not self.crowds.lacks(key):
                    yield key, entry.bid
                    continue
                self.give_way(key, entry)
                if not self.crowds.may_be_drawn():
                    self.contest.draw_no_more()
            elif key not in known and not others:
                yield key, entry.bid  # of newcomers alone: nothing is known of it
            elif self.lookahead.sleeps(key):
                self.give_way(key, entry, holds_up=self.may_hold_up(key))
            elif key in self.dozing or (drawn and self.dozes(key)):
                self.contest.lost(holds_up=self.may_hold_up(key))
            elif self.lookahead.is_held_still(key, entry.bid) or self.lacks_room_still(key, entry):
                self.give_way(key, entry)
            elif self.lacks_quota_still(key):
                self.contest.lost(holds_up=self.may_hold_up(key))
            else:
                yield key, entry.bid
        self.crowds.tell_standby()
        behind.tell(self)

    def give_way(self, key: LineKey, entry: Entry, *, holds_up: bool = True) -> None:
        """The bid cannot start for want of room. With a reservation it holds up nobody, and the next of its line may
        have one too."""
        reserved = self.lookahead.lacks(key, entry.bid, key.gang)
        following = self.lookahead.next_of(key) if reserved else None
        if following is not None:
            self.contest.won(following)
        else:
            self.contest.lost(holds_up=holds_up and not reserved)

    def entry_of(self, key: LineKey, bid: Bid) -> Entry:
        joined = self.joined.get(bid)
        return joined.entry if joined is not None else self.waiting.lines[key].entry(bid)

    def still_waits(self, bid: Bid) -> bool:
        """It has not been granted what it asks in this cycle."""
        return bid not in self.won

    def first_of(self, key: LineKey) -> Entry:
        new = self.new.get(key)
        if new is None:
            return self.waiting.lines[key].first()
        if len(new) > 1:
            new.sort()
        line = self.waiting.lines.get(key)
        return min(line.first(), new[0]) if line else new[0]

    def first_waiting(self, key: LineKey) -> Entry | None:
        """The first bid of the line that this cycle has not granted what it asks."""
        if key not in self.rest:
            return self.first_of(key)  # none of it was granted anything
        entries = merge(self.waiting.lines.get(key, ()), sorted(self.new.get(key, ())))
        return next((entry for entry in entries if self.still_waits(entry.bid)), None)

    def held_up(self) -> dict[LineKey, None]:
        """Of strict queues in which anything changed the head is the best of all lines, asleep or not: those of which
        it is kept who is next are `closing`, of the others all lines."""
        tree, waiting = self.cluster.tree, self.waiting
        found: dict[LineKey, None] = {}
        if not tree.stricts:
            return found
        changed = dict.fromkeys([*waiting.shaken, *[key.queue for key in (*self.awake, *self.new)]])
        if waiting.sleepers.stirred and not self.lookahead.greedy:
            changed |= dict.fromkeys(sorted(tree.stricts))  # a head that may have a reservation now holds up nobody
        stricts = dict.fromkeys([tree.branches[name].strict for name in changed])
        for strict in stricts:
            if strict is None:
                continue
            if strict.name in waiting.heads.orders and not self.lookahead.by_estimates:
                self.closing.append(strict.name)
                continue
            for each in strict.below():
                found.update(waiting.lines_of.get(each.name, {}))
        self.dozing = {key for key in found if self.dozes(key)}
        return found

    def dozes(self, key: LineKey) -> bool:
        """The line sleeps for another reason than who is before it."""
        line = self.waiting.lines[key]
        if key in self.awake or key in self.untrue or line.reason is None or self.waiting.sleepers.is_held(key):
            return False  # for one that is held there is room: it starts as soon as that is not kept any more
        return line.reason.code is not ReasonCode.BEHIND_HEAD

    def may_hold_up(self, key: LineKey) -> bool:
        line = self.waiting.lines.get(key)
        return line is None or line.reason is None or line.reason.code not in ALONE

    def lacks_room_still(self, key: LineKey, entry: Entry) -> bool:
        """Those before it have taken what it needs, or what has grown was not enough: its line goes back to sleep, with
        `entry` its first."""
        line, hunts = self.waiting.lines.get(key), key in self.waiting.hunters.woken
        if line is None or line.reason is None or line.reason.code in NEVER or key in self.untrue:
            return False  # all is said anew: whether it can never start decides whom it holds up
        few = self.failures() < (1 if hunts else EXPLAINED)
        anew = few or line.unexplained >= RENEW_REASON or self.crowds.is_due(key)
        if anew and (not self.won or key in self.rest or not self.crowds.sleeps_for_room(key, line.reason)):
            return False  # it may well start, or sleeps otherwise from now on
        watch = self.waiting.watches.only(key)
        if watch is None or watch.demand is not key.gang.demands[0] or not watch.need:
            return False
        if (room := self.short(key.gang)) is None or (hunts and not self.hunts_on(key, entry)):
            return False
        if anew:
            return self.renew(key, entry, room)
        if key in self.rest:
            # What it was granted may have emptied the line that the book knows: all is said anew.
            place, foremost = self.lookahead.place_of(key, entry), self.crowds.foremost(key, entry)
            watches = (Watch(watch.demand, room, watch.need),)
            self.asleep.append(Asleep(key, line.reason, watches, place=place, foremost=foremost))
        else:
            self.still.append(Still(key, room))
        self.tell_new(key, line.reason)
        return True

    def renew(self, key: LineKey, entry: Entry, room: int) -> bool:
        """The line sleeps on in its crowd, and is told as before what it lacks, with the numbers of now; whether that
        is all there is to say."""
        reason, _, heeds = self.crowds.explain(key, entry)
        if heeds or reason.code is not ReasonCode.NO_ROOM:
            return False
        self.renewed += 1
        self.still.append(Still(key, room, reason))
        self.crowds.denied(key.gang, together=True)
        self.tell_bid(entry.bid, reason)
        self.tell_new(key, reason)
        return True

    def lacks_quota_still(self, key: LineKey) -> bool:
        """Those before it have taken what was given back, or it was not enough: its line goes back to sleep."""
        toll, line = self.waiting.bars.only(key), self.waiting.lines.get(key)
        if toll is None or line is None or line.reason is None or line.reason.code in NEVER:
            return False
        if self.failures() < EXPLAINED or line.unexplained >= RENEW_REASON or key in self.untrue or key in self.rest:
            return False  # all is said anew
        if key.kind == Kind.GROWTH or self.preempting.preempts(key):
            return False  # another job may ask it of other flavors; or others may be made to give it back
        if self.ledger.room(toll.bar) >= toll.need:
            return False
        self.still.append(Still(key, None))
        self.tell_new(key, line.reason)
        return True

    def failures(self) -> int:
        """Lines that were looked at one by one in this cycle, in vain."""
        return len(self.asleep) + self.renewed + self.preempting.in_vain

    def hunts_on(self, key: LineKey, entry: Entry) -> bool:
        """It was woken to search for somebody to give way, and there is nobody to be asked."""
        plain = self.cluster.tree.branches[key.queue].unbounded and self.preempting.preempts(key)
        return plain and self.preempting.finds_nobody(self.draft, key, self.cluster.jobs[entry.bid.job])

    def short(self, gang: Gang) -> int | None:
        """How many pods of the gang's one role fit by counting, if those are too few."""
        if not self.draft.few:
            return None if self.rooms.fits(gang) else self.rooms.short(gang)
        room = self.draft.room(gang.demands[0])
        return room if room < gang.minimums[0] else None

    def waking(self) -> Iterator[Gang]:
        """What lines ask that were woken by room; if not all are counted at once, in the order in which they will
        roughly come up."""
        keys = list(self.awake)
        if len(keys) >= BLOCK:
            keys.sort(key=lambda key: (rank(key, self.waiting.lines[key].first()), key))
        gangs = dict.fromkeys(key.gang for key in keys if self.waiting.watches.only(key) is not None)
        yield from (gang for gang in gangs if len(gang.roles) == 1)

    # Deciding

    def offers(self, key: LineKey, bid: Bid) -> list[FlavorAssignment]:
        """The ways in which it may start, best first. Replacements are within their queue's quota already."""
        if key.kind == Kind.REPLACEMENT:
            return [FlavorAssignment((), key.gang, NO_CHARGE)]
        record = self.cluster.jobs[bid.job]
        given: tuple[str, ...] = ()
        if bid.slot is not None and key.kind == Kind.GROWTH and record.flavors:
            given = tuple(record.flavors[role] for role in replacement.roles_together(self.cluster, record, bid.slot))
        return flavor_assignment.flavor_assignments(self.cluster, self.ledger, key, record.job, given)

    def place(self, key: LineKey, bid: Bid, offer: FlavorAssignment) -> PlacementOutcome | Lacking:
        """The whole gang, or nothing; of what is above its minimum only as much as quota allows."""
        if not self.is_whole(key):
            return []
        if (known := self.crowds.lacking(offer.gang)) is not None:
            return known
        return self.lookahead.horizon.place(bid, flavor_assignment.capped_gang(self.cluster, self.ledger, offer))

    def is_whole(self, key: LineKey) -> bool:
        """Not a job whose pods are placed one by one as they open."""
        return key.kind != Kind.JOB or (queue := self.cluster.queues.get(key.queue)) is None or queue.gang

    def start(self, record: JobRecord, placements: tuple[Placement, ...] = (), flavors: tuple[str, ...] = ()) -> None:
        limit_s = record.job.limit_s
        if limit_s is None:
            limit_s = self.cluster.tree.branches[self.cluster.queue_of(record.job)].longest_s
        self.starts.append(Start(record.job.id, record.attempt + 1, placements, self.now_s, flavors, limit_s))

    def grant(self, key: LineKey, bid: Bid, offer: FlavorAssignment, outcome: list[Placement]) -> None:
        placements = tuple(outcome)
        if "rooms" in self.__dict__:
            self.rooms.grants += 1
        self.draft.settle()
        self.lookahead.granted(bid, offer.gang, placements)
        if self.preempting.hunting:
            self.preempting.give_up(key)  # it searched for another flavor's sake
        self.joined.pop(bid, None)
        self.won.add(bid)
        self.unnoted.append((key.gang, bid.job, placements))
        if bid.slot is None:
            self.start(self.cluster.jobs[bid.job], placements, offer.flavors)
        else:
            self.seat(bid, bid.slot, placements)
        if key.kind != Kind.REPLACEMENT:
            self.ledger.grant(flavor_assignment.charge_for(offer, placements))
        self.contest.won(next(self.following(key), None))

    def seat(self, bid: Bid, slot: Slot, placements: Sequence[Placement]) -> None:
        """Open slots have a node: this one, and those that it stood in line for."""
        record = self.cluster.jobs[bid.job]
        self.places.setdefault(bid.job, []).extend(
            replacement.placements_of_slots(self.cluster, record, slot, placements)
        )
        for beside in replacement.slots_together(self.cluster, record, slot)[1:]:
            self.parked.pop(Bid(bid.job, beside), None)

    def prefers_preemption(self, key: LineKey, offer: FlavorAssignment) -> bool:
        """The queue would have others give way for this offer rather than look at the next."""
        if not offer.flavors or (branch := self.cluster.tree.branches[key.queue]).queue is None:
            return False
        wish = branch.queue.fungibility
        return wish.preempt_before_next or (wish.prefer_preemption and offer.short is not None)

    def make_room(self, key: LineKey, bid: Bid, offers: Sequence[FlavorAssignment]) -> bool:
        """Others give way, if it may push them and that is enough; who has a reservation is not delayed by that."""
        if not self.preempting.preempts(key):
            return False
        horizon = None if self.lookahead.greedy else self.lookahead.horizon
        if not self.preempting.make_room(self.draft, key, bid, offers, horizon):
            return False
        self.joined.pop(bid, None)
        self.won.add(bid)
        self.contest.won(next(self.following(key), None))
        return True

    def deny(
        self, key: LineKey, bid: Bid, offers: Sequence[FlavorAssignment], lacks: Sequence[tuple[FlavorAssignment, Lack]]
    ) -> None:
        """`lacks`: how far those offers came that quota allows; or that there is room, but it is kept."""
        found: list[Lacking] = []
        watching: dict[Demand, Watch] = {}
        heeds = held = hopes = False
        for offer, lack in lacks:
            lacking = self.lacking(offer.gang, lack)
            found.append(lacking)
            for watch in lacking.watches:
                watching[watch.demand] = watch
            heeds, held = heeds or lacking.heeds, held or isinstance(lack, WouldDelayReservation)
            hopes = hopes or lacking.reason.code not in NEVER
        watches, reason, entry = tuple(watching.values()), self.why_not(key, offers, found), self.entry_of(key, bid)
        wanted = [each for offer in offers for each in (offer, *offer.besides)]
        tolls = tuple([toll for each in wanted if each.short is not None for toll in each.short.tolls])
        place = self.lookahead.place_of(key, entry, held=held) if hopes else None
        if reason.code not in SHORT and not held:
            self.preempting.give_up(key)
        foremost = None
        if not (tolls or held or reason.code in NEVER) and by_counting(key.gang, watches):
            foremost = self.crowds.foremost(key, entry)
            self.crowds.denied(key.gang, together=foremost is not None)
        self.put_to_sleep(key, bid, Asleep(key, reason, watches, tolls, heeds, place, held, foremost))
        if place is not None:
            self.give_way(key, entry)
        else:
            self.contest.lost(holds_up=reason.code not in ALONE)

    def lacking(self, gang: Gang, lack: Lack) -> Lacking:
        """Why the gang finds no room, and what it waits for; said once for all that ask the same."""
        if isinstance(lack, Lacking):
            return lack
        if isinstance(lack, WouldDelayReservation):
            return Lacking(lack.reason)
        reason = explain.why_not(self.cluster, self.draft, gang, lack, self.granted_so_far())
        found = Lacking(reason, sleep.watches(self.draft, gang, lack), sleep.heeds(self.draft, gang))
        self.crowds.found(gang, found)
        return found

    def why_not(self, key: LineKey, offers: Sequence[FlavorAssignment], found: Sequence[Lacking]) -> Reason:
        """Why each offer fails, `found`: those that quota allows, in the same order. The one that the queue likes best
        gives the code; of those with the same flavors one speaks, that time can mend if any is."""
        lacking, reasons = iter(found), dict[tuple[str, ...], Reason]()
        for offer in offers:
            said = reasons.get(offer.flavors)
            if offer.short is None:
                reason = next(lacking).reason
            else:
                reason = no_quota.why_not(self.cluster, self.ledger, key.queue, offer)
            if reason.code in NEVER:  # but its other groups may fit, for which there is no quota now
                others = (no_quota.why_not(self.cluster, self.ledger, key.queue, each) for each in offer.besides[::-1])
                reason = next((each for each in others if each.code not in NEVER), reason)
            if said is None or (said.code in NEVER and reason.code not in NEVER):
                reasons[offer.flavors] = reason
        return no_quota.of_flavors(list(reasons), list(reasons.values()))

    def put_to_sleep(self, key: LineKey, bid: Bid, asleep: Asleep) -> None:
        """The first is told the new numbers, the others only if the code is another, newcomers in any case. In a strict
        queue a line is at the head, and behind another's, in turns: then only the next few are told."""
        self.asleep.append(asleep)
        self.tell_bid(bid, asleep.reason)
        line = self.waiting.lines.get(key)
        said = None if line is None else line.reason
        if said is None or said.code is not asleep.reason.code:
            takes_turns = said is not None and behind.takes_turns(said, asleep.reason)
            for other in islice(self.following(key), behind.NEXT if takes_turns else None):
                self.tell_bid(other.bid, asleep.reason)
            if not takes_turns:
                return
        self.tell_new(key, asleep.reason)

    def priority_of(self, entry: Entry) -> float:
        """The sum of factors, where a queue is ordered by it."""
        return self.priorities.of(self.cluster.jobs[entry.bid.job])

    def granted_so_far(self) -> CycleGrants:
        """For reasons, which say who holds most: what this cycle has given to whom."""
        for gang, job, placements in self.unnoted:
            self.granted.note(gang, job, placements)
        self.unnoted.clear()
        return self.granted

    def following(self, key: LineKey) -> Iterator[Entry]:
        """Who stands behind the first, in order; each is given out once."""
        rest = self.rest.get(key)
        if rest is None:
            line, new = self.waiting.lines.get(key, ()), self.new.get(key, ())
            if len(line) + len(new) == 1:
                rest = NOBODY
            else:
                rest = merge(line, new) if line and new else iter(line or new)
                next(rest)  # the first is up already
            self.rest[key] = rest
        return rest

    # Telling

    def tell_new(self, key: LineKey, reason: Reason) -> None:
        for entry in self.new.get(key, ()):
            if entry.bid in self.joined:
                self.tell_bid(entry.bid, reason)

    def tell_bid(self, bid: Bid, reason: Reason) -> None:
        record = self.cluster.jobs[bid.job]
        if bid.slot is not None:
            reason = explain.of_slots(record, reason, granted=len(self.places.get(bid.job, ())))
        self.tell(record, reason)

    def tell(self, record: JobRecord, reason: Reason) -> None:
        if record.reason != reason:
            self.waits[record.job.id] = reason
