"""What the parts of a cycle share: the state that it decides on, what was decided so far, and what follows for cells.

Whoever takes part in a cycle (`core.cycle.candidates`, `core.cycle.reserve`, `core.cycle.messages`) is given this, and
nothing of each other that they do not ask for by name; `core.cycle.steps` has them all, and is the only one that
decides. (As the CycleState of kube-scheduler's framework.)"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phalanx.core.cycle.blocked import Blocked
from phalanx.core.placement import replacement
from phalanx.core.placement.draft import Draft
from phalanx.core.preemption.nomination import LeavingPods, cycle_draft
from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.lazy import lazy
from phalanx.model.job import Placement
from phalanx.model.plan import Start
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster, JobRecord, is_incomplete
from phalanx.state.pending.cell_queue import CellKey, CellQueue, Kind, QueuedRequest, Request
from phalanx.state.pending.pending import Combination, PendingClass
from phalanx.state.queue_tree import Charge

FEW = 64  # cells that are looked at one by one faster than together
NO_CHARGE = Charge("", "", "", (), 0)
NOBODY: Iterator[QueuedRequest] = iter(())


class CycleState:
    """The state of one cycle. `now_s`: seconds since the epoch. `draft` (room) and `ledger` (the queue tree's
    accounts) have what was decided so far laid over the state, with mark and rewind. `without_returns`: the accounts
    without what victims gave back in this cycle. `places`: of started jobs, the
    pods that are placed now; `won`: all that start. `stopped`: jobs that this cycle preempts whole; `withdrawn`:
    jobs whose nominations it withdraws. `rest`: of cells
    that were granted something, who comes next.
    `failed`: classes that a trial closed though counting found room. `starts`: queued jobs that start. `received`,
    `parked`, `resting`: as in `Findings`.

    Since it began: `over`: a byte a cell, nothing more of it comes up; `turn`: cells whose turn it is to search for
    victims; `is_small`: they are few; `within_at_first`: a byte a cell, its limits let it start."""

    over: bytearray
    turn: frozenset[int]
    is_small: bool
    within_at_first: bytes | bytearray

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self.pending = cluster.pending
        self.ledger = QuotaLedger(cluster.tree)
        self.without_returns = self.ledger
        self.places: dict[str, list[Placement]] = {}
        self.won: set[Request] = set()
        self.grants = 0
        self.stopped: set[str] = set()
        self.withdrawn: dict[str, None] = {}
        self.rest: dict[CellQueue, Iterator[QueuedRequest]] = {}
        self.failed: list[int] = []
        self.starts: list[Start] = []
        self.received: list[Request] = []
        self.parked: dict[Request, None] = {}
        self.resting: list[tuple[Request, float]] = []

    def begin(self, *, turn: frozenset[int]) -> None:
        """Begin the cycle: all that is pending is in its cell."""
        cells, lines = self.pending.cells, self.pending.lines
        self.over, self.turn = bytearray(len(cells)), turn
        self.is_small = len(lines) <= FEW
        if not self.is_small:
            self.within_at_first = self.within_limits(cells.cls, cells.row).tobytes()
        elif self.pending.headroom.keys:
            self.pending.cost_columns()
            self.within_at_first = found = bytearray(len(cells))
            for line in lines.values():
                found[line.cell] = self.is_within_limits(line)

    def close(self) -> None:
        """The cycle is over. What it laid out for its draft is kept for the next."""
        if "draft" in self.__dict__ and self.draft.columns is self.cluster.columns:
            self.draft.leave()

    @lazy
    def draft(self) -> Draft:
        # Made when first needed: most cycles have nothing to place.
        return cycle_draft(self.cluster, self.policy, self.leaving)

    @lazy
    def leaving(self) -> LeavingPods:
        return LeavingPods(self.cluster)

    @lazy
    def blocked(self) -> Blocked:
        return Blocked(self.cluster, self.failed, is_small=self.is_small, several=self.several)

    @lazy
    def several(self) -> bool:
        """Return whether it matters by which cell a queue stands."""
        return self.pending.has_several_arenas(self.cluster.tree)

    @lazy
    def is_strict(self) -> NDArray[np.bool_]:
        """Return by row whether a queue on its path is strict."""
        branches = self.cluster.tree.branches
        return np.array([branches[row.queue].strict is not None for row in self.pending.headroom.rows], np.bool_)

    def charge(self, charge: Charge) -> None:
        """Charge what this cycle grants to its queue, and count the grant."""
        self.grants += 1
        self.ledger.grant(charge)
        if self.without_returns is not self.ledger:
            self.without_returns.charge(charge)
        self.note_charged(charge)

    def charge_preemptor(self, mark: int, charge: Charge) -> None:
        """Note that, since the mark of the ledger, victims gave back their charges, and the preemptor was charged."""
        if self.without_returns is self.ledger:
            self.without_returns = self.ledger.copy_at(mark)
        self.without_returns.charge(charge)
        for each in self.ledger.since(mark):
            self.note_charged(each)

    def reopen(self) -> None:
        """Let everything come up again: pods that this cycle had placed are taken back, so capacity has grown; or a
        reservation may be made that could not be made before."""
        self.__dict__.pop("blocked", None)
        self.over = bytearray(len(self.over))

    def note_charged(self, charge: Charge) -> None:
        self.pending.headroom.charged(charge, self.without_returns.account)
        self.cluster.tree.note_charged(charge)

    def ledger_for(self, key: CellKey, record: JobRecord) -> QuotaLedger:
        """Return the accounts that bound such requests: what victims give back counts at once for requests that may
        preempt, and for others in the next cycle (rule R21)."""
        line = self.pending.lines.get(key)
        may_preempt = line is not None and line.cell in self.turn and key.kind != Kind.GROWTH
        delay_s = self.cluster.queues[key.queue].preemption.delay_s if may_preempt else 0.0
        if delay_s > 0:
            since_s = record.short_since_s
            may_preempt = since_s is not None and since_s + delay_s <= self.now_s
        return self.ledger if may_preempt else self.without_returns

    # Cells

    def within_limits(self, cls: NDArray[np.int32], row: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return whether the headroom of the row has what a request of the class costs at least."""
        found = np.ones(len(cls), np.bool_)
        headroom = self.pending.headroom
        if headroom.keys:
            for cost, left in zip(self.pending.cost_columns(), headroom.of_rows(), strict=True):
                found &= cost[cls] <= left[row]
        return found

    def is_within_limits(self, line: CellQueue) -> bool:
        if not self.pending.headroom.keys:
            return True
        return self.pending.headroom.allows(line.row, self.class_of(line).cost)

    def class_of(self, line: CellQueue) -> PendingClass:
        found = self.pending.classes[line.cls]
        assert found is not None  # it has this cell
        return found

    # What they ask

    def offers(self, key: CellKey, request: Request) -> list[FlavorAssignment]:
        """The ways in which it may start, best first. Replacements are within their queue's quota already."""
        if key.kind == Kind.REPLACEMENT:
            return [FlavorAssignment((), key.gang, NO_CHARGE)]
        record = self.cluster.jobs[request.job]
        given: tuple[str, ...] = ()
        if request.slot is not None and key.kind == Kind.GROWTH and record.flavors:
            given = tuple(
                record.flavors[role] for role in replacement.roles_together(self.cluster, record, request.slot)
            )
        return flavor_assignment.flavor_assignments(self.cluster, self.ledger_for(key, record), key, record.job, given)

    def class_of_offer(self, line: CellQueue, offer: FlavorAssignment) -> PendingClass | None:
        """The class of the offer's gang; None: no cell is of it."""
        if offer.gang is line.key.gang and not offer.flavors:
            return self.class_of(line)
        number = self.pending.number_of(Combination(offer.gang, counts=line.key.kind == Kind.JOB))
        return None if number is None else self.pending.classes[number]

    def is_whole(self, key: CellKey) -> bool:
        """Return whether the cell's gangs are placed at once, not pod by pod as these open."""
        return key.kind != Kind.JOB or (queue := self.cluster.queues.get(key.queue)) is None or queue.gang

    # Who waits

    def wants_nothing(self, line: CellQueue, entry: QueuedRequest) -> bool:
        """Return whether the job is told to stop; or whether it would grow, and misses pods to its minimum."""
        job, grows = entry.request.job, line.key.kind == Kind.GROWTH
        return job in self.stopped or (grows and is_incomplete(self.cluster.jobs[job], self.places.get(job, ())))

    def still_waits(self, request: Request) -> bool:
        """Return whether the request has not been granted what it asks in this cycle, and its job goes on."""
        return request not in self.won and request.job not in self.stopped

    def first_waiting(self, line: CellQueue) -> QueuedRequest | None:
        """Return the first request of the cell that still waits; None: none does."""
        if line not in self.rest and not self.stopped:
            return line.first()
        return next((entry for entry in line if self.still_waits(entry.request)), None)

    def next_waiting(self, line: CellQueue) -> QueuedRequest | None:
        """Return the next request of the cell that still waits, each once; None: there is none left."""
        return next((entry for entry in self.following(line) if self.still_waits(entry.request)), None)

    def following(self, line: CellQueue) -> Iterator[QueuedRequest]:
        """Yield who stands behind the first, in order; each is given out once."""
        rest = self.rest.get(line)
        if rest is None:
            if len(line) == 1:
                rest = NOBODY
            else:
                rest = iter(line)
                next(rest)  # the first is up already
            self.rest[line] = rest
        return rest
