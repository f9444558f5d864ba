"""The state that all parts of a cycle share: the cluster, the decisions so far, and their effect on request classes.

`core.cycle.candidates`, `core.cycle.reserve` and `core.cycle.report` work on this state. `core.cycle.steps` creates one
object of each of them, passes it to the others that need it, and is the only module that makes decisions. The name is
taken from the CycleState of kube-scheduler's framework."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from phalanx.core.cycle.known import KnownFailures, Placed
from phalanx.core.placement import replacement
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.packing_order import ordered_nodes
from phalanx.core.placement.scoring.score import BY_FRAGMENTATION, expected_pods
from phalanx.core.preemption.nomination import LeavingPods, with_overcommitted
from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.model.job import Job, Placement, Slot
from phalanx.model.plan import Action, Start
from phalanx.model.policy import Policy, ScoringStrategy
from phalanx.model.reason import Reason
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.pending.request_class import (
    Candidate,
    Kind,
    QueuedRequest,
    Request,
    RequestClass,
    RequestClassKey,
    Search,
)
from phalanx.state.queues.quota import Charge, Cost

NO_CHARGE = Charge("", "", "", (), 0)


class CycleState:
    """The state of one cycle. `now_s`: seconds since the epoch.

    `draft`, `ledger`: the free capacity of the nodes, and the charges of all queues, including the decisions of this
        cycle so far. Both have the methods `mark` and `rewind`, which restore an earlier state.
    `known`: the placement classes that cannot start, and the reasons.
    `without_returns`: the ledger as it would be if the charges of this cycle's victims were still counted. `places`:
    started job -> the further pods that this cycle has placed for it.
    `granted`: all requests that this cycle has granted.
    `stopped`, `withdrawn`: jobs that this cycle preempts whole, and jobs whose nominations it withdraws.
    `remaining`: request class with a grant -> an iterator over its further requests.
    `starts`: the starts of queued jobs. `started`: (job, charged amounts) for each start in `starts`, and for further
    pods of the started jobs.
    `placed`: the gang, the job and the placements of each grant.
    `actions`: the preemptions and nominations. `victims`: as in `PreemptionContext`.
    `kept_nominations`: jobs whose nominations remain valid.
    `searched`: request class -> its search for victims that failed in this cycle. `has_postponed`: whether the next
    cycle must follow at once, because it has to make searches for victims or starts that this cycle could not make.
    `is_over`: whether this cycle must end before all requests are tried. In that case the next cycle must first preempt
    pods that this cycle has placed above minimums, or must first start a job that has taken over a nomination (rule
    R23).
    `waits`: waiting job -> the reason why it waits.
    `cleared`: job array -> the number of its jobs that may start, but do not count as active yet (`job_dependencies`).
    `denied`: request classes of which this cycle has denied a request.
    `received`, `waiting_for_event`, `waiting_until`, `exceeding`: as in `Memory`.

    Attributes that `Candidates.refresh` sets when the cycle begins:

    `search_classes`: the numbers of the request classes whose queues may preempt jobs. `left_at_first`: the value
    of `Headroom.left` at the beginning of the cycle."""

    search_classes: frozenset[int]
    left_at_first: Sequence[float]

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self.pending = cluster.pending
        self.ledger = QuotaLedger(cluster.tree)
        self.without_returns = self.ledger
        self.places: dict[str, list[Placement]] = {}
        self.granted: set[Request] = set()
        self.grants = 0
        self.stopped: set[str] = set()
        self.withdrawn: dict[str, None] = {}
        self.remaining: dict[RequestClass, Iterator[QueuedRequest]] = {}
        self.exceeding: dict[str, float] = {}
        self.starts: list[Start] = []
        self.placed: list[Placed] = []
        self.actions: list[Action] = []
        self.victims: dict[str, tuple[Slot, ...]] = {}
        self.kept_nominations: list[str] = []
        self.searched: dict[RequestClassKey, Search] = {}
        self.has_postponed = self.is_over = False
        self.waits: dict[str, Reason] = {}
        self.cleared: dict[tuple[str, str], int] = {}
        self.denied: set[RequestClass] = set()
        self.started: list[tuple[Job, Cost]] = []
        self.received: list[Request] = []
        self.waiting_for_event: dict[Request, None] = {}
        self.waiting_until: list[tuple[Request, float]] = []
        expected = policy.typical or (expected_pods(cluster) if policy.score in BY_FRAGMENTATION else ())
        order = ordered_nodes(cluster.columns, packed=policy.score is ScoringStrategy.PACK)
        topologies = policy.topologies + cluster.declared_topologies
        self.draft = Draft(cluster.columns, topologies, policy.score, expected, order)
        if cluster.nominated and cluster.leaving:
            wider = with_overcommitted(cluster, self.draft, self.leaving)
            if wider is not None:
                # The new draft replaces the old one. No pod was placed on the old draft yet, so its packing order is
                # still correct, and the next cycle can use it.
                cluster.columns.packing_order = self.draft.packing_order
                self.draft = wider
        self.known = KnownFailures(cluster, self.draft, self.ledger, self.placed)

    @cached_property
    def leaving(self) -> LeavingPods:
        return LeavingPods(self.cluster)

    def start(
        self,
        record: JobRecord,
        limit_s: float | None,
        placements: tuple[Placement, ...] = (),
        flavors: tuple[str, ...] = (),
    ) -> None:
        """Add the start of the job to the plan. `limit_s`: the time limit of the job in seconds; None if the job has no
        limit."""
        self.starts.append(Start(record.job.id, record.attempt + 1, placements, self.now_s, flavors, limit_s))

    def place_slots(self, request: Request, slot: Slot, placements: Sequence[Placement]) -> None:
        """Add the placements of an open slot, and of all slots that are placed together with it, to the plan."""
        record = self.cluster.jobs[request.job]
        placed = replacement.placements_of_slots(self.cluster, record, slot, placements)
        self.places.setdefault(request.job, []).extend(placed)
        for beside in replacement.slots_together(self.cluster, record, slot)[1:]:
            self.waiting_for_event.pop(Request(request.job, beside), None)

    def charge(self, charge: Charge, job: Job | None) -> None:
        """Charge a request that this cycle has granted to its queue, and count the grant. `job`: the job that the grant
        starts or gives pods to, if its usage must count from now on (`core.order.account_usage`); otherwise None."""
        self.grants += 1
        self.ledger.grant(charge)
        if self.without_returns is not self.ledger:
            self.without_returns.charge(charge)
        self.note_charged(charge)
        if job is not None:
            self.started.append((job, charge.cost))

    def charge_preemptor(self, mark: int, charge: Charge) -> None:
        """Add the charge of the preemptor to `without_returns`, the ledger in which the charges of victims still count.
        `mark`: identifies the state of the ledger before the victims were evicted."""
        if self.without_returns is self.ledger:
            self.without_returns = self.ledger.copy_at(mark)
        self.without_returns.charge(charge)
        for each in self.ledger.since(mark):
            self.note_charged(each)

    def note_charged(self, charge: Charge) -> None:
        """If there are limits, subtract the charge from the headroom of queues and users. The next cycle computes the
        headroom from the state again."""
        if self.pending.headroom.keys:
            self.pending.headroom.charged(charge, self.without_returns.account)
            self.cluster.tree.note_charged(charge)

    # Request classes

    def within_limits(
        self, placement_class: NDArray[np.int32], row: NDArray[np.int32], left: Sequence[float] | None = None
    ) -> NDArray[np.bool_]:
        """Return a mask of request classes: True if the headroom of the class's row is enough for the smallest request
        of its placement class. `placement_class`, `row`: the number of the placement class and of the headroom row of
        each request class. `left`: the headroom at an earlier time (a value of `Headroom.left`); None for the present
        headroom."""
        found = np.ones(len(placement_class), np.bool_)
        headroom = self.pending.headroom
        if headroom.keys:
            costs = self.pending.placement_classes.costs(headroom.keys)
            for cost, of_row in zip(costs, headroom.of_rows(left), strict=True):
                found &= cost[placement_class] <= of_row[row]
        return found

    def is_within_limits(self, request_class: RequestClass) -> bool:
        if not self.pending.headroom.keys:
            return True
        return self.pending.headroom.allows(request_class.row, request_class.placement_class.cost)

    # Offers

    def offers(self, candidate: Candidate) -> list[FlavorAssignment]:
        """Return the offers for the request, the best first. An offer assigns flavors to the roles of the gang. If
        quota does not allow this assignment, the offer has the shortfall. A replacement for a lost pod has a single
        offer without a charge, because its queue is still charged for the lost pod."""
        key, request = candidate.request_class.key, candidate.entry.request
        if key.kind == Kind.REPLACEMENT:
            return [FlavorAssignment((), key.gang, NO_CHARGE)]
        record = self.cluster.jobs[request.job]
        given: tuple[str, ...] = ()
        if request.slot is not None and key.kind == Kind.GROWTH and record.flavors:
            given = tuple(
                record.flavors[role] for role in replacement.roles_together(self.cluster, record, request.slot)
            )
        # Requests that may preempt can at once use the quota that victims return. All other requests can use it from
        # the next cycle on (rule R21).
        may_preempt = candidate.request_class.number in self.search_classes and key.kind != Kind.GROWTH
        if may_preempt and (delay_s := self.cluster.queues[key.queue].preemption.delay_s) > 0:
            may_preempt = record.short_since_s is not None and record.short_since_s + delay_s <= self.now_s
        ledger = self.ledger if may_preempt else self.without_returns
        return flavor_assignment.flavor_assignments(self.cluster, ledger, key, record, given)

    # Waiting requests

    def still_waits(self, request: Request) -> bool:
        """Return True unless this cycle has granted the request or preempted its job."""
        return request not in self.granted and request.job not in self.stopped

    def all_waiting(self, request_class: RequestClass) -> Iterator[QueuedRequest]:
        """Yield the requests of the request class that still wait."""
        granted, stopped = self.granted, self.stopped
        return (each for each in request_class if each.request not in granted and each.request.job not in stopped)

    def first_waiting(self, request_class: RequestClass) -> QueuedRequest | None:
        """Return the first request of the class that still waits; None if no request waits."""
        if request_class not in self.remaining and not self.stopped:
            return request_class.first
        return next(self.all_waiting(request_class), None)
