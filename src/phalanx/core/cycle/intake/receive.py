"""Receive a request that is in no request class: report a reason at once, or add it to its request class.

A nominated job starts when its victims have left. If they will not leave, the job is received again. A request that is
not eligible (`core.cycle.intake.eligible`) waits for an event or a time. All other requests are candidates from this
cycle on."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.cycle.intake.eligible import not_eligible
from phalanx.core.cycle.messages.report import ReasonReporter
from phalanx.core.cycle.preempt.search import CyclePreemption
from phalanx.core.cycle.state import CycleState
from phalanx.core.fold import job_dependencies
from phalanx.core.order.request_class import request_class_of
from phalanx.core.placement import replacement
from phalanx.core.preemption import nomination
from phalanx.core.preemption.nomination import NominationState
from phalanx.core.reasons import explain, preempted
from phalanx.model.job import Phase, Placement, Slot
from phalanx.model.plan import Start
from phalanx.state.cluster import JobRecord, nominated_placements, time_limit_s
from phalanx.state.dependencies import JobFamily
from phalanx.state.pending.request_class import Request


class Intake:
    """The new requests of one cycle. `cleared`: array, or family of singleton jobs -> the number of its jobs that this
    cycle admitted."""

    def __init__(self, state: CycleState, reporter: ReasonReporter, preempting: CyclePreemption) -> None:
        self.state, self.reporter, self.preempting = state, reporter, preempting
        self.cluster, self.pending, self.now_s = state.cluster, state.pending, state.now_s
        self.cleared: dict[JobFamily, int] = {}

    def start_nominated(self) -> None:
        """Start nominated jobs whose nodes are free. If a nomination has to be withdrawn, or moves to other nodes, do
        only that."""
        found = [*self.preempting.nominations()]
        for record, state in found:
            if state is NominationState.BROKEN or self.is_hindered(record):
                self.preempting.withdraw(record)
            elif state is NominationState.KEPT and self.now_s >= record.nominated_until_s:
                self.preempting.move(record)
        for record, state in found if not self.preempting.withdrawn else ():
            request, waits = Request(record.job.id), record.phase is Phase.QUEUED
            self.state.waiting_for_event |= dict.fromkeys(
                [request] if waits else [Request(request.job, slot) for slot in record.nominated]
            )
            if state is NominationState.FREE:
                placements = nominated_placements(record)
                if waits:
                    self.start(record, placements, record.flavors)
                else:
                    self.state.places[request.job] = list(placements)
                self.reporter.known.placed.append((record.gang, request.job, placements))
            else:
                leavers = nomination.leavers(record, self.state.leaving)
                self.reporter.report_job(record, preempted.nominated_reason(self.cluster, record, leavers, self.now_s))

    def is_hindered(self, record: JobRecord) -> bool:
        """Return whether the nominated job is queued and no longer eligible."""
        waits = record.phase is Phase.QUEUED
        return waits and not_eligible(self.cluster, record, self.now_s, self.cleared) is not None

    def newcomers(self) -> list[Request]:
        """Return the requests that are in no request class and may be eligible."""
        for item in self.pending.timers.due(self.now_s):
            self.pending.ring(item)
        if self.cluster.dependencies.arrays:
            self.cleared = job_dependencies.cleared(self.cluster)
        return list(self.pending.fresh)

    def receive(self, request: Request) -> None:
        """Report why the request cannot be a candidate, or add it to its request class."""
        record = self.cluster.jobs[request.job]
        branch = self.cluster.tree.branches[self.cluster.queue_of(record.job)]
        if record.nominated and (request.slot is None or request.slot in record.nominated):
            return  # `start_nominated` has handled the job
        if request.slot is not None:
            self.enter(record, request)
        elif found := not_eligible(self.cluster, record, self.now_s, self.cleared):
            if found.again_s is None:
                self.state.waiting_for_event[request] = None
            else:
                self.state.waiting_until.append((request, found.again_s))
            self.reporter.report_job(record, found.reason)
        elif record.not_before_s > self.now_s:
            self.state.waiting_until.append((request, record.not_before_s))
            self.reporter.report_job(record, explain.backoff(record, self.now_s))
        elif branch.unbounded and branch.queue is not None and not branch.queue.gang:
            # The job starts without pods: each pod is placed when its slot opens.
            self.start(record)
        else:
            self.enter(record, request)

    def enter(self, record: JobRecord, request: Request) -> None:
        slots = None
        if request.slot is not None:
            if request.slot != replacement.slots_together(self.cluster, record, request.slot)[0]:
                # The first slot of its group is the request for all of them.
                self.state.waiting_for_event[request] = None
                return
            topologies = self.cluster.topologies(self.state.policy)
            slots = replacement.replacement_gang(self.cluster, topologies, record, request.slot)
        key, entry = request_class_of(self.cluster, record, request, slots)
        found = self.pending.enter(key, entry, self.cluster.tree)
        if key in self.pending.searched and record.preempted < self.cluster.jobs[found.first.request.job].preempted:
            # Its job was preempted less often, so its search may succeed although that of the first request failed.
            del self.pending.searched[key]
        self.state.received.append(request)

    def start(self, record: JobRecord, placements: tuple[Placement, ...] = (), flavors: tuple[str, ...] = ()) -> None:
        """Add the start of the job to the plan."""
        limit_s = time_limit_s(self.cluster, record.job)
        self.state.starts.append(Start(record.job.id, record.attempt + 1, placements, self.now_s, flavors, limit_s))

    def place_slots(self, request: Request, slot: Slot, placements: Sequence[Placement]) -> None:
        """Place the open slot, and the slots that are placed together with it."""
        record = self.cluster.jobs[request.job]
        self.state.places.setdefault(request.job, []).extend(
            replacement.placements_of_slots(self.cluster, record, slot, placements)
        )
        for beside in replacement.slots_together(self.cluster, record, slot)[1:]:
            self.state.waiting_for_event.pop(Request(request.job, beside), None)
