"""One cycle: from the book to a plan. The cycle is `decide`; all else here are its steps.

It only reads the book and thinks on a draft laid over it. Bids are taken strictly in order (`core.order`), but one
that finds no room does not hold up the next (work conservation): so what is not started is exactly what did not fit
when its turn came. Bids that are alike stand in one line, and a line whose first fails is done for this cycle."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from heapq import heapify, heappop, heappush, merge
from typing import TypeAlias

from phalanx.core import explain, gang, sleep
from phalanx.core.draft import Draft
from phalanx.core.order import Rank, place_in_line, rank
from phalanx.model.cluster import Cluster, Record
from phalanx.model.demand import Demand
from phalanx.model.job import Placement
from phalanx.model.line import Bid, Entry, LineKey
from phalanx.model.plan import Action, Asleep, Findings, Joined, Place, Plan, Start, Wait
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Code, Reason

EXPLAINED = 64  # lines explained in one cycle, besides those that never were
RENEW_REASON = 16  # a line is explained anew at the latest when it was woken that often in vain

Contenders: TypeAlias = list[tuple[Rank, LineKey]]


def decide(cluster: Cluster, policy: Policy, now_s: float) -> Plan:
    """What to do now. `now_s`: seconds since the epoch."""
    cycle = Cycle(cluster, policy)

    # 1. Whatever is new, or has rested long enough, is answered at once or gets its place in a line.
    for bid in cycle.newcomers(now_s):
        cycle.receive(bid)

    # 2. Lines in which something may have changed contend, each with its first bid.
    contenders = cycle.contenders()
    while contenders:
        _, key = heappop(contenders)
        entry = cycle.first[key]

        # 3. The best bid is placed whole, or nothing is taken.
        if cycle.still_too_little(key):
            continue
        outcome = gang.place(cycle.draft, cycle.demands[key], key.roles)
        if isinstance(outcome, gang.Shortfall):
            # 4. It cannot be: the line says why, and sleeps until that may have changed.
            cycle.put_to_sleep(key, entry, outcome)
        else:
            # 5. It is: its room is taken, and the next of its line contends.
            cycle.grant(entry.bid, outcome)
            cycle.next_of(key, contenders)

    # 6. The plan, and when to look again though nothing happens.
    return cycle.plan(now_s)


class Cycle:
    """What one call of `decide` knows and has decided so far."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self.cluster, self.policy = cluster, policy
        self.first: dict[LineKey, Entry] = {}
        self.demands: dict[LineKey, tuple[Demand, ...]] = {}
        self._rest: dict[LineKey, Iterator[Entry]] = {}
        self._new: dict[LineKey, list[Entry]] = {}
        self._starts: list[Start] = []
        self._places: dict[str, list[Placement]] = {}
        self._waits: dict[str, Reason] = {}
        self._joined: dict[Bid, Joined] = {}
        self._parked: list[Bid] = []
        self._asleep: list[Asleep] = []
        self._explained = 0

    @cached_property
    def draft(self) -> Draft:
        return Draft(self.cluster.columns)  # made when first needed: most cycles have nothing to place

    def newcomers(self, now_s: float) -> Iterator[Bid]:
        yield from self.cluster.waiting.fresh
        for not_before_s, bid in self.cluster.waiting.resting:
            if not_before_s > now_s:
                break
            yield bid

    def receive(self, bid: Bid) -> None:
        """Answer a bid that needs no room, or put it in its line."""
        record = self.cluster.jobs[bid.job]
        queue = self.cluster.queues.get(record.job.queue or self.policy.default_queue)
        if bid.slot is None and (obstacle := self.obstacle(record, queue)):
            self._parked.append(bid)
            self.tell(record, obstacle)
        elif bid.slot is None and queue is not None and not queue.gang:
            self.grant(bid, [])  # its pods are placed one by one as they open
        else:
            self.stand_in_line(record, bid, whole=queue is None or queue.gang)

    def obstacle(self, record: Record, queue: Queue | None) -> Reason | None:
        if record.job.blocked is not None:
            return record.job.blocked
        return None if queue is not None else queue_unknown(self.cluster, record, self.policy)

    def stand_in_line(self, record: Record, bid: Bid, *, whole: bool) -> None:
        key, entry = place_in_line(record, bid, whole=whole)
        line = self.cluster.waiting.lines.get(key)
        demands = record.demands if bid.slot is None else (record.demands[bid.slot.role],)
        self._joined[bid] = Joined(key, demands, entry)
        if line is not None and line.reason is not None and key not in self.cluster.waiting.awake:
            self.tell_bid(bid, line.reason)  # what its likes could not get, it cannot get
        else:
            self.demands[key] = demands
            self._new.setdefault(key, []).append(entry)

    def contenders(self) -> Contenders:
        lines = self.cluster.waiting.lines
        found: Contenders = []
        for key in {**self.cluster.waiting.awake, **self._new}:
            if key in lines:
                self.demands[key] = lines[key].demands
            self._rest[key] = merge(lines.get(key, ()), sorted(self._new.get(key, ())))
            self.next_of(key, found, heap=False)
        heapify(found)
        return found

    def next_of(self, key: LineKey, contenders: Contenders, *, heap: bool = True) -> None:
        """The next of the line contends, if there is one."""
        entry = next(self._rest[key], None)
        if entry is None:
            return
        self.first[key] = entry
        contender = (rank(key, entry), key)
        heappush(contenders, contender) if heap else contenders.append(contender)

    def grant(self, bid: Bid, placements: list[Placement]) -> None:
        if placements:
            self.draft.settle()
        self._joined.pop(bid, None)
        if bid.slot is None:
            attempt = self.cluster.jobs[bid.job].attempt + 1
            self._starts.append(Start(bid.job, attempt, tuple(placements)))
        else:
            self._places.setdefault(bid.job, []).append(Placement(*bid.slot, placements[0].node))

    def still_too_little(self, key: LineKey) -> bool:
        """A line that was explained before goes back to sleep without asking why, if counting shows that it cannot be
        placed; but the first few of a cycle, and each line now and then, are explained anew."""
        line = self.cluster.waiting.lines.get(key)
        if line is None or line.reason is None or line.unexplained >= RENEW_REASON or self._explained < EXPLAINED:
            return False
        watches = sleep.too_little(self.draft, line.demands, key.roles)
        if watches:
            self._asleep.append(Asleep(key, line.reason, watches))
            for other in self._new.get(key, ()):
                self.tell_bid(other.bid, line.reason)
        return bool(watches)

    def put_to_sleep(self, key: LineKey, entry: Entry, shortfall: gang.Shortfall) -> None:
        """The first is told the new numbers; the others only a new code, and newcomers what holds for all."""
        self._explained += 1
        reason = explain.why_not(self.cluster, self.draft, self.demands[key], key.roles, shortfall)
        self._asleep.append(Asleep(key, reason, sleep.watches(self.draft, self.demands[key], key.roles)))
        self.tell_bid(entry.bid, reason)
        line = self.cluster.waiting.lines.get(key)
        if line is None or line.reason is None or line.reason.code is not reason.code:
            for other in self._rest[key]:
                self.tell_bid(other.bid, reason)
        else:
            for other in self._new.get(key, ()):
                self.tell_bid(other.bid, reason)

    def tell_bid(self, bid: Bid, reason: Reason) -> None:
        record = self.cluster.jobs[bid.job]
        self.tell(record, reason if bid.slot is None else explain.of_slots(record, reason))

    def tell(self, record: Record, reason: Reason) -> None:
        if record.reason != reason:
            self._waits[record.job.id] = reason

    def plan(self, now_s: float) -> Plan:
        places = [Place(job, tuple(placements)) for job, placements in self._places.items()]
        waits = [Wait(job, reason) for job, reason in self._waits.items()]
        actions: tuple[Action, ...] = (*places, *self._starts, *waits)
        later = (at_s for at_s, _ in self.cluster.waiting.resting if at_s > now_s)
        findings = Findings(
            version=self.cluster.waiting.version,
            joined=tuple(self._joined.values()),
            parked=tuple(self._parked),
            asleep=tuple(self._asleep),
        )
        return Plan(actions=actions, wake_s=next(later, None), findings=findings)


def queue_unknown(cluster: Cluster, record: Record, policy: Policy) -> Reason:
    name = record.job.queue or policy.default_queue
    known = ", ".join(sorted(cluster.queues)) or "none"
    via = "" if record.job.queue else " (the default, since the job names none)"
    return Reason(
        code=Code.QUEUE_UNKNOWN,
        text=f"there is no queue {name!r}{via}; queues: {known}",
        numbers={"queue": name, "queues": sorted(cluster.queues)},
    )
