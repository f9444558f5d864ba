"""The steps of one cycle, and what it has decided so far.

Contending: awake lines and newcomers, by the rank of their first bid. Many lines wake when room is freed and the
first few take it, so lines are *screened* in blocks shortly before their turn: a line of one role that counting shows
to find too little room goes back to sleep unexamined. That is exact, because within a cycle room only shrinks.
Screened lines keep the reason they have; so that reasons stay true, the first `EXPLAINED` failures of a cycle, and
every line now and then, are examined and explained anew."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from heapq import heappop, heappush, merge
from itertools import chain
from typing import TypeAlias

from phalanx.core import explain, misfit, sleep
from phalanx.core.draft import Draft
from phalanx.core.gang import Shortfall
from phalanx.core.order import Rank, place_in_line, rank
from phalanx.model.cluster import Cluster, Record
from phalanx.model.holders import Holders
from phalanx.model.job import Placement
from phalanx.model.line import Bid, Entry, LineKey
from phalanx.model.plan import Action, Asleep, Findings, Joined, Place, Plan, Start, Wait, Watch
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason

EXPLAINED = 16
RENEW_REASON = 100  # a line is examined at the latest when it was screened out that often in a row
BLOCK = 64

Contender: TypeAlias = tuple[Rank, LineKey, Entry]


class Cycle:
    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self.waiting = cluster.waiting
        self.new: dict[LineKey, list[Entry]] = {}  # newcomers by line, sorted when contending begins
        self.rest: dict[LineKey, Iterator[Entry]] = {}  # of lines that were granted something: who comes next
        self.again: list[Contender] = []  # heap: the next of those lines
        self.granted = Holders()
        self.unnoted: list[tuple[LineKey, Bid, list[Placement]]] = []  # grants that `granted` does not show yet
        self.starts: list[Start] = []
        self.places: dict[str, list[Placement]] = {}
        self.waits: dict[str, Reason] = {}
        self.joined: dict[Bid, Joined] = {}
        self.parked: list[Bid] = []
        self.resting: list[tuple[Bid, float]] = []
        self.asleep: list[Asleep] = []
        self.still: list[tuple[LineKey, int]] = []

    @cached_property
    def draft(self) -> Draft:
        # Made when first needed: most cycles have nothing to place.
        return Draft(self.cluster.columns, self.policy.topologies)

    def newcomers(self) -> Iterator[Bid]:
        yield from self.waiting.fresh
        for not_before_s, bid in self.waiting.resting:
            if not_before_s > self.now_s:
                break
            yield bid

    def receive(self, bid: Bid) -> None:
        """Answer a bid that needs no room, or put it in its line."""
        record = self.cluster.jobs[bid.job]
        queue = self.cluster.queues.get(record.job.queue or self.policy.default_queue)
        if bid.slot is not None:
            self.stand_in_line(record, bid, whole=queue is None or queue.gang)
        elif obstacle := self.obstacle(record, queue):
            self.parked.append(bid)
            self.tell(record, obstacle)
        elif record.not_before_s > self.now_s:
            self.resting.append((bid, record.not_before_s))
            self.tell(record, explain.backoff(record))
        elif queue is not None and not queue.gang:
            self.starts.append(
                Start(bid.job, record.attempt + 1, (), self.now_s)
            )  # its pods are placed one by one as they open
        else:
            self.stand_in_line(record, bid, whole=True)

    def obstacle(self, record: Record, queue: Queue | None) -> Reason | None:
        """Why the job waits whatever room there is."""
        if record.job.blocked is not None:
            return record.job.blocked
        if record.gang.wrong:
            return misfit.invalid(record.gang)
        return None if queue is not None else explain.queue_unknown(self.cluster, record, self.policy.default_queue)

    def stand_in_line(self, record: Record, bid: Bid, *, whole: bool) -> None:
        key, entry = place_in_line(self.cluster, self.policy.topologies, record, bid, whole=whole)
        self.joined[bid] = Joined(key, entry)
        line = self.waiting.lines.get(key)
        if line is not None and line.reason is not None and key not in self.waiting.awake:
            self.tell_bid(bid, line.reason)  # what its likes could not get, it cannot get
        else:
            self.new.setdefault(key, []).append(entry)

    def contenders(self) -> Iterator[tuple[LineKey, Bid]]:
        """Best first. Who asks for the next must have granted or put to sleep the last."""
        waiting = sorted(self.first_of(key) for key in {**self.waiting.awake, **self.new})
        for start in range(0, len(waiting), BLOCK):
            for contender in self.screened(waiting[start : start + BLOCK]):
                while self.again and self.again[0] < contender:
                    yield from self.up(heappop(self.again))
                yield from self.up(contender)
        while self.again:
            yield from self.up(heappop(self.again))

    def first_of(self, key: LineKey) -> Contender:
        line, new = self.waiting.lines.get(key), self.new.get(key)
        if new is None:
            entry = self.waiting.lines[key].first()
        else:
            new.sort()
            entry = min(line.first(), new[0]) if line else new[0]
        return rank(key, entry), key, entry

    def up(self, contender: Contender) -> Iterator[tuple[LineKey, Bid]]:
        """It contends, unless those before it have taken what it needs: then its line goes back to sleep."""
        _, key, entry = contender
        if self.may_sleep_on(key):
            room = self.draft.room(key.gang.demands[0])
            if room < key.gang.roles[0].minimum:
                self.sleep_on(key, room)
                return
        yield key, entry.bid

    def screened(self, block: list[Contender]) -> list[Contender]:
        """The block without the lines that go back to sleep."""
        keys = [key for _, key, _ in block if self.may_sleep_on(key)]
        if not keys:
            return block
        rooms = dict(zip(keys, sleep.screen(self.draft, [key.gang for key in keys]), strict=True))
        for key, room in rooms.items():
            if room is not None:
                self.sleep_on(key, room)
        return [contender for contender in block if rooms.get(contender[1]) is None]

    def sleep_on(self, key: LineKey, room: int) -> None:
        reason = self.waiting.lines[key].reason
        if key in self.rest and reason is not None:
            # What it was granted may have emptied the line that the book knows: all is said anew.
            watch = Watch(key.gang.demands[0], room, key.gang.roles[0].minimum)
            self.asleep.append(Asleep(key, reason, (watch,)))
        else:
            self.still.append((key, room))
        self.tell_new(key)

    def may_sleep_on(self, key: LineKey) -> bool:
        """The line has a reason that is fresh enough, and counting decides."""
        line = self.waiting.lines.get(key)
        if line is None or line.reason is None or len(key.gang.roles) != 1:
            return False
        return len(self.asleep) >= EXPLAINED and line.unexplained < RENEW_REASON

    def grant(self, key: LineKey, bid: Bid, placements: list[Placement]) -> None:
        self.draft.settle()
        self.joined.pop(bid, None)
        self.unnoted.append((key, bid, placements))
        if bid.slot is None:
            attempt = self.cluster.jobs[bid.job].attempt + 1
            self.starts.append(Start(bid.job, attempt, tuple(placements), self.now_s))
        else:
            self.places.setdefault(bid.job, []).append(Placement(*bid.slot, placements[0].node, placements[0].devices))
        following = next(self.following(key), None)
        if following is not None:
            heappush(self.again, (rank(key, following), key, following))

    def granted_so_far(self) -> Holders:
        """For reasons, which say who holds most: what this cycle has given to whom."""
        for key, bid, placements in self.unnoted:
            for role, demand in enumerate(key.gang.demands):
                pods = sum(placement.role == role for placement in placements)
                for resource, amount in demand.asks if pods else ():
                    self.granted.change(bid.job, resource, amount * pods)
        self.unnoted.clear()
        return self.granted

    def following(self, key: LineKey) -> Iterator[Entry]:
        """Who stands behind the first, in order; each is given out once."""
        rest = self.rest.get(key)
        if rest is None:
            rest = self.rest[key] = merge(self.waiting.lines.get(key, ()), self.new.get(key, ()))
            next(rest)  # the first is up already
        return rest

    def put_to_sleep(self, key: LineKey, bid: Bid, shortfall: Shortfall) -> None:
        """The first is told the new numbers, the others only if the code is another, newcomers in any case."""
        reason = explain.why_not(self.cluster, self.draft, key.gang, shortfall, self.granted_so_far())
        self.asleep.append(Asleep(key, reason, sleep.watches(self.draft, key.gang)))
        self.tell_bid(bid, reason)
        line = self.waiting.lines.get(key)
        if line is None or line.reason is None or line.reason.code is not reason.code:
            for other in self.following(key):
                self.tell_bid(other.bid, reason)
        else:
            self.tell_new(key)

    def tell_new(self, key: LineKey) -> None:
        line = self.waiting.lines[key]
        for entry in self.new.get(key, ()):
            if entry.bid in self.joined and line.reason is not None:
                self.tell_bid(entry.bid, line.reason)

    def tell_bid(self, bid: Bid, reason: Reason) -> None:
        record = self.cluster.jobs[bid.job]
        if bid.slot is not None:
            reason = explain.of_slots(record, reason, granted=len(self.places.get(bid.job, ())))
        self.tell(record, reason)

    def tell(self, record: Record, reason: Reason) -> None:
        if record.reason != reason:
            self.waits[record.job.id] = reason

    def plan(self) -> Plan:
        places = [Place(job, tuple(placements)) for job, placements in self.places.items()]
        waits = [Wait(job, reason) for job, reason in self.waits.items()]
        actions: tuple[Action, ...] = (*places, *self.starts, *waits)
        times = chain((at_s for at_s, _ in self.waiting.resting), (at_s for _, at_s in self.resting))
        wake_s = min((at_s for at_s in times if at_s > self.now_s), default=None)
        findings = Findings(
            version=self.waiting.version,
            joined=tuple(self.joined.values()),
            parked=tuple(self.parked),
            resting=tuple(self.resting),
            asleep=tuple(self.asleep),
            still=tuple(self.still),
        )
        return Plan(actions=actions, wake_s=wake_s, findings=findings)
