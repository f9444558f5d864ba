"""The state that the parts of a cycle share: the cluster, the decisions so far, and their consequences for request
classes.

`core.cycle.candidates`, `core.cycle.reserve` and `core.cycle.messages` work on this state. They use each other only
through arguments with a name. `core.cycle.steps` has all parts, and only that module decides. (kube-scheduler's
framework has a CycleState for the same purpose.)"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phalanx.core.cycle.blocked import Blocked
from phalanx.core.order.account_usage import AccountUsage
from phalanx.core.placement import replacement
from phalanx.core.placement.draft import Draft
from phalanx.core.preemption.nomination import LeavingPods, cycle_draft
from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.lazy import lazy
from phalanx.model.job import Job, Placement
from phalanx.model.plan import Start
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster, JobRecord, is_incomplete
from phalanx.state.pending.pending import PlacementClass, PlacementClassKey
from phalanx.state.pending.request_class import Candidate, Kind, QueuedRequest, Request, RequestClass, RequestClassKey
from phalanx.state.queue_tree import Charge

FEW = 64  # up to this number, to examine request classes one by one is faster than by columns
NO_CHARGE = Charge("", "", "", (), 0)
NOBODY: Iterator[QueuedRequest] = iter(())


class CycleState:
    """The state of one cycle. `now_s`: seconds since the epoch.

    `draft`, `ledger`: the free capacity, and the accounts of the queue tree, with the decisions so far. Both have
        marks, and can be rewound.
    `without_returns`: the accounts without the charges that victims returned in this cycle.
    `places`: started job -> the pods that are placed now.
    `granted`: all requests that start.
    `stopped`, `withdrawn`: jobs that this cycle preempts whole, and jobs whose nominations it withdraws.
    `remaining`: request class with a grant -> an iterator over its further requests.
    `failed`: placement classes that a trial closed although counting found capacity.
    `starts`: the starts of queued jobs.
    `received`, `waiting_for_event`, `waiting_until`, `exceeding`: as in `Memory`.

    `has_several_arenas`: more than one arena has waiting requests, so the choice of the request class that represents a
        queue matters.

    Set by `begin`:

    `blocked`: the open and closed placement classes.
    `is_done`: a byte for each request class: it is not tried again in this cycle.
    `search_classes`: request classes that may search for victims.
    `is_small`: True if there are few request classes.
    `within_at_first`: a byte for each request class: its limits allowed it when the cycle began."""

    blocked: Blocked
    is_done: bytearray
    search_classes: frozenset[int]
    is_small: bool
    within_at_first: bytes

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self.pending = cluster.pending
        self.has_several_arenas = False
        self.ledger = QuotaLedger(cluster.tree)
        self.without_returns = self.ledger
        self.usage = AccountUsage(cluster, now_s)
        self.places: dict[str, list[Placement]] = {}
        self.granted: set[Request] = set()
        self.grants = 0
        self.stopped: set[str] = set()
        self.withdrawn: dict[str, None] = {}
        self.remaining: dict[RequestClass, Iterator[QueuedRequest]] = {}
        self.exceeding: dict[str, float] = {}
        self.failed: list[int] = []
        self._drafts: list[Draft] = []  # the draft, once it is made
        self.starts: list[Start] = []
        self.received: list[Request] = []
        self.waiting_for_event: dict[Request, None] = {}
        self.waiting_until: list[tuple[Request, float]] = []

    def begin(self, *, search_classes: frozenset[int]) -> None:
        """Begin the cycle, after all pending requests have entered their request classes."""
        columns, request_classes = self.pending.columns, self.pending.request_classes
        self.is_done, self.search_classes = bytearray(len(columns)), search_classes
        self.is_small = len(request_classes) <= FEW
        self.blocked = self._blocked()
        self.within_at_first = self.within_limits(columns.placement_class, columns.row).tobytes()

    def _blocked(self) -> Blocked:
        return Blocked(self.cluster, self.failed, is_small=self.is_small, has_several_arenas=self.has_several_arenas)

    def close(self) -> None:
        """End the cycle. The layout of the draft is stored for the next cycle."""
        for draft in self._drafts:
            if draft.columns is self.cluster.columns:
                draft.leave()

    @lazy
    def draft(self) -> Draft:
        # Made when first needed: most cycles have nothing to place.
        self._drafts.append(cycle_draft(self.cluster, self.policy, self.leaving))
        return self._drafts[0]

    @lazy
    def leaving(self) -> LeavingPods:
        return LeavingPods(self.cluster)

    @lazy
    def is_strict(self) -> NDArray[np.bool_]:
        """Return, by headroom row, whether a queue on its path is strict."""
        branches = self.cluster.tree.branches
        return np.array([branches[row.queue].strict is not None for row in self.pending.headroom.rows], np.bool_)

    def charge(self, charge: Charge, job: Job | None) -> None:
        """Charge a grant of this cycle to its queue, and count the grant. `job`: its usage grows, too."""
        self.grants += 1
        self.ledger.grant(charge)
        if self.without_returns is not self.ledger:
            self.without_returns.charge(charge)
        self.note_charged(charge)
        if job is not None:
            self.usage.start(job, charge.cost)

    def charge_preemptor(self, mark: int, charge: Charge) -> None:
        """Charge the preemptor, and note the charges that its victims have returned since the mark of the ledger."""
        if self.without_returns is self.ledger:
            self.without_returns = self.ledger.copy_at(mark)
        self.without_returns.charge(charge)
        for each in self.ledger.since(mark):
            self.note_charged(each)

    def reopen(self) -> None:
        """Let every request class be tried again. Either pods that this cycle had placed are taken back, so capacity
        has grown, or a reservation has become possible."""
        self.blocked = self._blocked()
        self.is_done = bytearray(len(self.is_done))

    def note_charged(self, charge: Charge) -> None:
        if self.pending.headroom.keys:
            self.pending.headroom.charged(charge, self.without_returns.account)
        self.cluster.tree.note_charged(charge)

    def ledger_for(self, key: RequestClassKey, record: JobRecord) -> QuotaLedger:
        """Return the accounts that limit this request. Charges that victims return count at once for requests that may
        preempt, and for other requests in the next cycle (rule R21)."""
        request_class = self.pending.request_classes.get(key)
        may_preempt = (
            request_class is not None and request_class.number in self.search_classes and key.kind != Kind.GROWTH
        )
        delay_s = self.cluster.queues[key.queue].preemption.delay_s if may_preempt else 0.0
        if delay_s > 0:
            since_s = record.short_since_s
            may_preempt = since_s is not None and since_s + delay_s <= self.now_s
        return self.ledger if may_preempt else self.without_returns

    # Request classes

    def within_limits(self, placement_class: NDArray[np.int32], row: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return whether the headroom of the row covers the least cost of a request of the placement class."""
        found = np.ones(len(placement_class), np.bool_)
        headroom = self.pending.headroom
        if headroom.keys:
            for cost, left in zip(self.pending.cost_columns(), headroom.of_rows(), strict=True):
                found &= cost[placement_class] <= left[row]
        return found

    def is_within_limits(self, request_class: RequestClass) -> bool:
        if not self.pending.headroom.keys:
            return True
        return self.pending.headroom.allows(request_class.row, self.placement_class_of(request_class).cost)

    def placement_class_of(self, request_class: RequestClass) -> PlacementClass:
        found = self.pending.placement_classes[request_class.placement_class]
        assert found is not None  # this request class refers to it
        return found

    # Their offers

    def offers(self, key: RequestClassKey, request: Request) -> list[FlavorAssignment]:
        """Return the ways in which the request may start, best first. Replacements are within the quota of their queue
        already."""
        if key.kind == Kind.REPLACEMENT:
            return [FlavorAssignment((), key.gang, NO_CHARGE)]
        record = self.cluster.jobs[request.job]
        given: tuple[str, ...] = ()
        if request.slot is not None and key.kind == Kind.GROWTH and record.flavors:
            given = tuple(
                record.flavors[role] for role in replacement.roles_together(self.cluster, record, request.slot)
            )
        return flavor_assignment.flavor_assignments(self.cluster, self.ledger_for(key, record), key, record.job, given)

    def placement_class_of_offer(self, request_class: RequestClass, offer: FlavorAssignment) -> PlacementClass | None:
        """Return the placement class of the offer's gang; None if no request class refers to it."""
        if offer.gang is request_class.key.gang and not offer.flavors:
            return self.placement_class_of(request_class)
        number = self.pending.placement_class_number(
            PlacementClassKey(offer.gang, counts=request_class.key.kind == Kind.JOB)
        )
        return None if number is None else self.pending.placement_classes[number]

    def is_whole(self, key: RequestClassKey) -> bool:
        """Return whether the gangs of the request class are placed at once, and not pod by pod as their slots open."""
        return key.kind != Kind.JOB or (queue := self.cluster.queues.get(key.queue)) is None or queue.gang

    # Who waits

    def wants_nothing(self, candidate: Candidate) -> bool:
        """Return whether the job needs nothing now: it is being stopped, or it would grow although pods of its minimum
        are missing."""
        job, grows = candidate.entry.request.job, candidate.request_class.key.kind == Kind.GROWTH
        return job in self.stopped or (grows and is_incomplete(self.cluster.jobs[job], self.places.get(job, ())))

    def still_waits(self, request: Request) -> bool:
        """Return whether the request has not been granted in this cycle, and its job is not stopped."""
        return request not in self.granted and request.job not in self.stopped

    def all_waiting(self, request_class: RequestClass) -> Iterator[QueuedRequest]:
        """Yield the requests of the request class that still wait."""
        return (entry for entry in request_class if self.still_waits(entry.request))

    def first_waiting(self, request_class: RequestClass) -> QueuedRequest | None:
        """Return the first request of the class that still waits; None if none waits."""
        if request_class not in self.remaining and not self.stopped:
            return request_class.first()
        return next((entry for entry in request_class if self.still_waits(entry.request)), None)

    def next_waiting(self, request_class: RequestClass) -> QueuedRequest | None:
        """Return the next request of the class that still waits, each request once; None if none is left."""
        return next((entry for entry in self.following(request_class) if self.still_waits(entry.request)), None)

    def following(self, request_class: RequestClass) -> Iterator[QueuedRequest]:
        """Yield the requests behind the first, in order, each once in a cycle."""
        rest = self.remaining.get(request_class)
        if rest is None:
            if len(request_class) == 1:
                rest = NOBODY
            else:
                rest = iter(request_class)
                next(rest)  # the first is being tried already
            self.remaining[request_class] = rest
        return rest
