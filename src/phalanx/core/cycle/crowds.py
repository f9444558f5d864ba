"""Crowds in a cycle: lines of many queues that ask for the same room, decided together as far as they can be.

When room grows, crowds are roused for which there may be enough (`state.pending.watching`). Until counting shows that
there is not (`core.placement.capacity`) they are *live*. Within a cycle room only shrinks, so a crowd that is not live,
or not any more, can start nothing, and none of its lines needs to contend: the contest draws from the sleeping lines of
each arena, in order, only those of live crowds, and when none is live it is over but for those who contend by
themselves. So a cycle costs what starts and the crowds that wake, and not the lines.

A crowd keeps the reasons it has; the first failures of a cycle are explained anew, and each crowd at times. A newcomer
that asks what a sleeping crowd asks is told what the crowd was told; and whoever comes up, awake or new, in whatever
queue, is told what was found for another that asked the same: so the first cycle after a restart, in which all are new,
costs its shapes.

Where backfill may make a reservation each failure counts, in order, so until it is made lines are drawn from crowds
that live no more as well, and the best of those that sleep contend (`core.cycle.lookahead`). Where many reservations
are made all lines of roused crowds contend by themselves, as they do where they are few; and where those behind the
first come in another order, the best in either, as many as there may be room for."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from phalanx.core.cycle import sleep
from phalanx.core.order.rank import rank
from phalanx.core.placement.capacity import GangColumns
from phalanx.model.plan import Asleep, Watch
from phalanx.model.policy import Backfill, BackfillOrder
from phalanx.model.queue import QueueOrder
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.classes import Gang
from phalanx.state.pending.line import Entry, Kind, LineKey
from phalanx.state.pending.sleepers import Place
from phalanx.state.pending.turns import Turn

if TYPE_CHECKING:
    from phalanx.core.cycle.steps import Cycle

FEW = 64  # lines in all: they contend each by itself
EXPLAINED = 4  # failures explained in a cycle, at least
MISS = 32  # crowds are counted together for what it costs to count one by itself
FEW_ARENAS = 16  # in each of which to put all crowds in order costs less than to keep them so
HANDFUL = 64  # of so few crowds each is as soon counted by itself
MANY = 2**30  # to be explained anew as soon as can be
RENEW_REASON = 100  # a crowd's first is examined at the latest when it was screened out that often in a row

NOBODY: Mapping[Gang, Sequence[Turn]] = {}

# A new line's first bid, what the order of its queue counts most, and what the line is told if it lacks room; None:
# nobody knows yet.
Standby: TypeAlias = tuple[Entry, float, Reason | None]


class Lacking(NamedTuple):
    """Why a gang found no room, and what it waits for."""

    reason: Reason
    watches: tuple[Watch, ...] = ()
    heeds: bool = False


class Crowds:
    """Of one cycle. `live` is asked for membership only."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle, self.waiting = cycle, cycle.waiting
        self.watches = cycle.waiting.watches
        self.roused = self.watches.roused
        self.live: set[Gang] = set()
        self.began: set[Gang] = set()  # that lived when the first line was drawn
        self.due: set[Gang] = set()  # to be explained anew
        self.explained: set[Gang] = set()
        self.told: dict[LineKey, Asleep] = {}  # new lines that fell asleep as their crowd has
        self.lacked: dict[Gang, Lacking] = {}  # what was found, of gangs for which counting shows too little room
        self.standby: dict[LineKey, Standby] = {}  # new lines that are drawn
        self.beside: dict[str, dict[Gang, list[Turn]]] = {}  # in order: by arena and gang
        self.asking: GangColumns | None = None  # live crowds as columns, since all were last counted
        self.missed = 0  # crowds that were counted each by itself, and have no room, since all were counted
        self.together = False  # crowds contend as such in this cycle
        self.each_counts = False  # each failure does, since it may be given a reservation

    def divide(self) -> dict[LineKey, None]:
        """Who contends as a crowd and who by itself: the lines that do."""
        policy = self.cycle.policy
        self.each_counts = self.may_be_reserved()
        in_turn = policy.backfill is not Backfill.CONSERVATIVE and policy.backfill_order is not BackfillOrder.SHORTEST
        self.together = in_turn or not self.each_counts
        alone = self.divided() if self.roused else {}
        if not self.each_counts and len(self.cycle.new) > EXPLAINED:
            self.tell_newcomers()
        return alone

    def divided(self) -> dict[LineKey, None]:
        if not (self.together and self.many()):
            with_room, crowds = self.cycle.lookahead.with_room, self.watches.crowds
            few, self.together = self.together, False  # if they are not few, they may not be drawn
            each = (crowds[gang] if few else with_room(gang, crowds[gang], first=True) for gang in self.roused)
            return dict.fromkeys(chain.from_iterable(each))
        unexplained = self.watches.unexplained
        self.due = set(islice((gang for gang in self.roused if unexplained.get(gang, 0) >= RENEW_REASON), EXPLAINED))
        self.live = set(self.roused)
        return {}

    def many(self) -> bool:
        """More lines are roused than each by itself is worth looking at."""
        return len(self.roused) > FEW or sum(len(self.watches.crowds[gang]) for gang in self.roused) > FEW

    def may_be_reserved(self) -> bool:
        """Whether some bid that fails in this cycle may be given a reservation."""
        cluster, policy = self.cycle.cluster, self.cycle.policy
        if policy.backfill is Backfill.GREEDY:
            return False
        if cluster.ends.order or cluster.reservations or self.waiting.timed:
            return True
        return any(key.terms.limit_s is not None for key in self.cycle.new)

    def is_due(self, key: LineKey) -> bool:
        """The line is of a crowd that is to be explained anew."""
        return self.watches.unexplained.get(key.gang, 0) >= RENEW_REASON and self.watches.in_crowd(key)

    def is_roused(self, key: LineKey) -> bool:
        return key.gang in self.roused and key in self.watches.crowds[key.gang]

    # Newcomers

    def tell_newcomers(self) -> None:
        """New lines, but for the first few, that lack nothing but room need not contend by themselves: they are told
        what the crowd was told that asks the same, or make one."""
        cycle = self.cycle
        keys = list(islice(cycle.new, EXPLAINED, None))
        alike = Counter([key.gang for key in keys])
        for key in keys:
            if key in self.waiting.lines or not self.lacks_room_only(key):
                continue
            if key.gang not in self.watches.crowds:
                if alike[key.gang] > 1:  # one by itself is as soon tried as counted
                    self.gather(key)
            elif key.gang in self.live:
                self.stand_by(key, self.waiting.lines[next(iter(self.watches.crowds[key.gang]))].reason)
            elif (lacking := self.of_crowd(key.gang)) is not None:
                first = self.first_of(key)
                self.tell(key, first, self.foremost(key, first), lacking)
                del cycle.new[key]

    def gather(self, key: LineKey) -> None:
        """The new line is drawn with all new ones that ask the same, as if they slept in a crowd."""
        gang = key.gang
        if len(gang.roles) == 1 and gang.simple and gang.roles[0].minimum:
            self.live.add(gang)
            self.stand_by(key, None)

    def stand_by(self, key: LineKey, reason: Reason | None) -> None:
        """The new line is drawn as if it slept in the crowd that asks the same, as long as that lives. `reason`: what
        the crowd was told, if there is one."""
        first = self.first_of(key)
        foremost = self.foremost(key, first)
        if foremost is not None and (reason is None or reason.code is ReasonCode.NO_ROOM):
            self.standby[key] = first, foremost, reason
            arena = self.cycle.cluster.tree.branches[key.queue].arena.name
            place = (foremost, first.arrival_s, key.kind, first.tie)
            insort(self.beside.setdefault(arena, {}).setdefault(key.gang, []), (place, key))

    def tell_standby(self) -> None:
        """The new lines that were not drawn while their crowd lived."""
        told: dict[Gang, Lacking] = {}
        for key, (first, foremost, reason) in self.standby.items():
            lacking = told.get(key.gang)
            if lacking is None:
                lacking = self.explain(key, first) if reason is None else self.short_of(key.gang, reason)
                told[key.gang] = lacking
            self.tell(key, first, foremost, lacking)

    def explain(self, key: LineKey, first: Entry) -> Lacking:
        """Why lines that ask that find no room."""
        known = self.lacked.get(key.gang)
        if known is not None:
            return known
        outcome = self.cycle.lookahead.horizon.place(first.bid, key.gang)
        assert not isinstance(outcome, list)  # by counting there was too little room
        return self.cycle.lacking(key.gang, outcome)

    def short_of(self, gang: Gang, reason: Reason) -> Lacking:
        """As the crowd was told, and with as little room as was counted."""
        demand, need, room = gang.demands[0], gang.roles[0].minimum, self.cycle.rooms.short(gang)
        watch = Watch(demand, need - 1 if room is None else room, need)
        return Lacking(reason, (watch,), sleep.heeds(self.cycle.draft, gang))

    def tell(self, key: LineKey, first: Entry, foremost: float | None, lacking: Lacking) -> None:
        """The new line sleeps as its crowd does."""
        cycle, (reason, watches, heeds) = self.cycle, lacking
        if not by_counting(key.gang, watches):
            foremost = None
        self.told[key] = Asleep(key, reason, watches, (), heeds, cycle.lookahead.place_of(key, first), False, foremost)
        for entry in cycle.new[key]:
            cycle.tell_bid(entry.bid, reason)

    def first_of(self, key: LineKey) -> Entry:
        """Of a new line."""
        entries = self.cycle.new[key]
        if len(entries) > 1:
            entries.sort()
        return entries[0]

    def lacks_room_only(self, key: LineKey) -> bool:
        """Nothing but room can keep the line from starting, and its queue makes nobody give way for it."""
        tree = self.cycle.cluster.tree
        return (
            key.kind == Kind.JOB
            and self.cycle.is_whole(key)
            and tree.branches[key.queue].unbounded
            and not self.cycle.preempting.preempts(key)
            and tree.strict_above(key.queue) is None
        )

    def sleeps_for_room(self, key: LineKey, reason: Reason) -> bool:
        """The line sleeps in a crowd, since it lacks room, and nothing else can keep it from starting."""
        return reason.code is ReasonCode.NO_ROOM and self.watches.in_crowd(key) and self.lacks_room_only(key)

    # While contending

    def draws(self) -> Iterator[tuple[str, Iterator[Turn]]]:
        """By arena, the lines of live crowds that may contend, in order."""
        if not (self.live or self.beside):
            return
        arenas = self.waiting.turns.of if self.together else {}
        self.began = set(self.live)
        for arena, crowds in arenas.items():
            beside = list(self.beside.pop(arena, {}).values())
            if len(arenas) > FEW_ARENAS:
                if beside or not self.began.isdisjoint(crowds):
                    yield arena, self.in_order(beside, crowds, self.waiting.turns.fronts(arena))
                continue
            fewer, others = (self.live, crowds) if len(self.live) < len(crowds) else (crowds, self.live)
            if live := [*(crowds[gang] for gang in fewer if gang in others), *beside]:
                yield arena, self.in_order(live)
        for arena, new in self.beside.items():
            yield arena, self.in_order(list(new.values()))

    def in_order(
        self,
        rows: Sequence[Sequence[Turn]],
        crowds: Mapping[Gang, Sequence[Turn]] = NOBODY,
        fronts: Iterable[tuple[Place, Gang]] = (),
    ) -> Iterator[Turn]:
        """Merged; what dies meanwhile is left out. `crowds` join when their first is the next, as `fronts` has them: of
        many arenas most are asked for one line or two."""
        heap = [(turns[0][0], 0, turns, turns[0][1].gang) for turns in rows]
        heapify(heap)
        coming = iter(fronts)
        front = next(coming, None)
        while heap or front is not None:
            if front is not None and (not heap or front[0] < heap[0][0]):
                place, gang = front
                if gang in self.live or (gang in self.began and self.draws_all()):
                    heappush(heap, (place, 0, crowds[gang], gang))
                front = next(coming, None)
                continue
            if len(heap) > 2 * len(self.live) and not self.draws_all():  # of a crowd there are old lines and new ones
                heap = [each for each in heap if each[3] in self.live]
                heapify(heap)
                continue
            _, at, turns, gang = heap[0]
            if not self.is_drawn_from(gang):
                heappop(heap)
                continue
            yield turns[at]
            at += 1
            while at < len(turns) and not self.stands(turns[at]):
                at += 1
            if at < len(turns):
                heapreplace(heap, (turns[at][0], at, turns, gang))
            else:
                heappop(heap)

    def stands(self, turn: Turn) -> bool:
        return turn[1] in self.standby or self.waiting.turns.stands(turn)

    def is_drawn_from(self, gang: Gang) -> bool:
        return self.lives(gang) or self.draws_all()

    def draws_all(self) -> bool:
        """As long as reservations are made, each failure counts: so then also of crowds that live no more."""
        return self.each_counts and self.cycle.lookahead.may_reserve()

    def lives(self, gang: Gang) -> bool:
        """Whether there may be room for the crowd still. When many had none, all are counted."""
        rooms, live = self.cycle.rooms, self.live
        if gang not in live:
            return False
        if gang in self.due or rooms.fits_alone(gang):
            return True
        live.discard(gang)
        self.missed += 1
        if self.missed * MISS > len(live) > HANDFUL:
            self.count_all()
        return False

    def count_all(self) -> None:
        """Those for which there is no room live no more."""
        rooms, live = self.cycle.rooms, self.live
        self.missed, asking = 0, self.asking or rooms.asking(live)
        self.asking = rooms.count(asking.only(np.array([each in live for each in asking.gangs], np.bool_)))
        live.intersection_update({*self.asking.gangs.tolist(), *self.due})

    def may_be_drawn(self) -> bool:
        """Whether any line may; if not, those that were drawn cannot start either."""
        return bool(self.live) or self.draws_all()

    def is_live(self, key: LineKey) -> bool:
        """The line may be drawn: so it is awake rather than asleep."""
        return key.gang in self.live and self.together and self.watches.in_crowd(key)

    def all_live(self, arena: str) -> bool:
        """Every line may that sleeps in a crowd there."""
        return self.together and self.waiting.turns.of.get(arena, {}).keys() <= self.live

    def lacks(self, key: LineKey) -> bool:
        """A line that was drawn finds too little room, by counting."""
        if not self.lives(key.gang):
            return True
        self.standby.pop(key, None)  # it contends like others from now on
        self.due.discard(key.gang)
        return False

    def denied(self, gang: Gang, *, together: bool) -> None:
        """A line was examined and denied: only room for its one role was lacking, so no other that asks the same finds
        it. `together`: it sleeps in a crowd."""
        if together:
            self.live.discard(gang)
            self.explained.add(gang)

    def found(self, gang: Gang, lacking: Lacking) -> None:
        if by_counting(gang, lacking.watches):
            self.lacked[gang] = lacking

    def lacking(self, gang: Gang) -> Lacking | None:
        """What was found for another that asked the same, in this cycle or before; but the first failures are each
        explained."""
        if self.cycle.failures() < EXPLAINED:
            return None
        known = self.lacked.get(gang)
        if known is None and (known := self.of_crowd(gang)) is not None:
            self.lacked[gang] = known
        return known

    def of_crowd(self, gang: Gang) -> Lacking | None:
        """What the crowd that asks the same was told, if there is one and still too little room for it."""
        crowd = self.watches.crowds.get(gang)
        if crowd is None or gang in self.live or (gang in self.roused and not self.together):
            return None
        first = next(iter(crowd))
        if first in self.waiting.awake:
            return None
        reason = self.waiting.lines[first].reason
        if reason is None or reason.code is not ReasonCode.NO_ROOM:
            return None
        demand, need = gang.demands[0], gang.roles[0].minimum
        room = self.cycle.rooms.short(gang) if gang in self.roused else None
        watch = Watch(demand, min(self.watches.posts[demand].room if room is None else room, need - 1), need)
        return Lacking(reason, (watch,), sleep.heeds(self.cycle.draft, gang))

    def foremost(self, key: LineKey, entry: Entry) -> float | None:
        """What the order of its queue counts most, if its lines may sleep in crowds: by factors, ranks change with
        time; and in a strict queue the first is looked at whatever changes."""
        tree = self.cycle.cluster.tree
        branch = tree.branches[key.queue]
        crowds = key.kind in {Kind.JOB, Kind.POD} and branch.order is not QueueOrder.MULTIFACTOR
        if not crowds or tree.strict_above(key.queue) is not None:
            return None
        return rank(key, entry, branch.order)[0]

    # Found

    def quiet(self) -> Iterator[tuple[Gang, int | None, int]]:
        """Of all that were roused: how many pods fit, if counted; and how often in a row that was not explained."""
        for gang in self.roused:
            if self.together and gang not in self.explained and self.watches.unexplained.get(gang, 0) >= MANY:
                continue  # its turn to be explained anew comes in a later cycle
            room = self.cycle.rooms.short(gang) if self.together else None
            unexplained = self.watches.unexplained.get(gang, 0) + self.together
            yield gang, room, 0 if gang in self.explained else unexplained


def by_counting(gang: Gang, watches: Sequence[Watch]) -> bool:
    """Whether the gang lacks nothing but room for its one role: counting shows it."""
    if len(gang.roles) != 1 or len(watches) != 1:
        return False
    watch = watches[0]
    return watch.demand is gang.demands[0] and watch.need > 0 and watch.room < watch.need
