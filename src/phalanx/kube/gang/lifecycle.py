"""The life cycle of one gang on the API: waiting, starting, running, leaving (`stages`).

A gang receives the changes of its members (`see_*`, `lose_*`) and the decisions about it (`start`, `place`, `preempt`,
`shrink`). It does no I/O: it emits events and requests writes through its `Effects`, whose answers come back to the
requesting parts. To receive a change is cheap. `advance` reconciles the gang, once for all changes that came together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from phalanx.kube.gang.departure import Departure, PreemptionRequest
from phalanx.kube.gang.effects import Effects, WriteOutcome
from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seat_table import GangSeats
from phalanx.kube.gang.spec.gang_spec import GangDefaults, GangSpec, allows, claim_on, gang_spec
from phalanx.kube.gang.stages import NEXT, Leaving, Running, Stage, StartedParts, StartHistory, Starting, State, Waiting
from phalanx.kube.gang.timeouts import (
    barrier_timeout_reason,
    binding_timeout_reason,
    member_went_reason,
    staleness_reason,
    start_timeout_reason,
)
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import Finished, NodesNoted, Refused, Released, Started, Submitted
from phalanx.model.job import Phase, Placement, Slot
from phalanx.model.plan import Preempt, Shrink, Start
from phalanx.model.reason import Reason, ReasonCode


class GangLifecycle:
    """A gang, from its first member to its last pod. `wake_s`: `advance` is to be called again then, though nothing
    changes (0: no need). `departure`: how it left, or leaves, its nodes the last time; it may be over within one
    `advance`."""

    def __init__(self, id: str, effects: Effects) -> None:
        self.id, self.effects = id, effects
        self.objects = GangObjects(id)
        self._state: State = Waiting()
        self.history = StartHistory()
        self.departure: Departure | None = None
        self.resized: Reason | None = None  # set if its running Job was resized: it is queued again
        self.wake_s = 0.0

    # --- questions ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        assert type(state) in NEXT[type(self._state)], f"{self.id}: from {self._state} to {state}"
        self._state = state

    @property
    def jobs(self) -> dict[str, BatchJob]:
        return self.objects.jobs

    @property
    def pods(self) -> dict[str, Pod]:
        return self.objects.pods

    @property
    def stage(self) -> Stage:
        match self.state:
            case Waiting():
                return Stage.WAITING
            case Starting():
                return Stage.STARTING
            case Running():
                return Stage.RUNNING
            case Leaving():
                return Stage.LEAVING

    @property
    def waits(self) -> bool:
        return isinstance(self._state, Waiting)

    @property
    def done(self) -> bool:
        """Return whether nothing of it is left."""
        return isinstance(self.state, Waiting) and self.objects.empty

    @property
    def parts(self) -> StartedParts | None:
        """Return the parts of its start; None while it waits."""
        return None if isinstance(self.state, Waiting) else self.state.parts

    @property
    def spec(self) -> GangSpec | None:
        """Return the spec that the core knows; None if the core does not know the gang."""
        return self.state.spec if isinstance(self.state, Waiting) else self.state.parts.start.spec

    @property
    def record(self) -> StartRecord | None:
        return self.parts.start.record if self.parts is not None else None

    @property
    def queue(self) -> str:
        return self.spec.job.queue if self.spec is not None else ""

    def excess(self, pod: Pod) -> tuple[tuple[str, int], ...] | None:
        """Return the amounts by which the pod exceeds the core's charge on its node; None if the core charges
        nothing."""
        return self.parts.seating.excess(pod) if self.parts is not None else None

    # --- members change -------------------------------------------------------------------------------------------

    def see_job(self, job: BatchJob) -> None:
        if self.parts is not None and (known := self.jobs.get(job.uid)) is not None:
            self.resized = self.parts.elastic.see_job(known, job) or self.resized
        self.objects.see_job(job)

    def lose_job(self, uid: str) -> None:
        self.jobs.pop(uid, None)
        if self.parts is not None:
            self.parts.start.resuming.discard(uid)
            self.parts.elastic.lose_job(uid)
        if isinstance(self.state, Leaving):
            self.state.departure.lose_job(uid)

    def see_pod(self, pod: Pod) -> None:
        if pod.over:
            self.lose_pod(pod)
            return
        self.pods[pod.uid] = pod
        if self.parts is not None:
            self.parts.seating.see(pod.uid)

    def lose_pod(self, pod: Pod, *, gone: bool = False) -> None:
        self.objects.end_pod(pod, gone=gone)
        if pod.rejected:
            self._rejected(pod)
        if self.parts is not None:
            self.parts.seating.vacate(pod)
        if isinstance(self.state, Running):
            self.state.unready.pop(pod.uid, None)

    def _rejected(self, pod: Pod) -> None:
        """Note that a kubelet refused the pod. The Job's reason says so, even if the refusal makes the Job fail
        (backoffLimit 0). For `avoid_s` seconds, the gang's pods prefer other nodes."""
        now_s, avoid_s = self.effects.now_s(), self.effects.timeouts.avoid_s
        if pod.node:
            self.history.avoided[pod.node] = max(now_s + avoid_s, self.history.avoided.get(pod.node, 0.0))
            if self.parts is not None:
                self.parts.start.prefer_nodes(self.history.preference(now_s))
        said = f": {pod.message}" if pod.message else ""
        text = f"the kubelet of {pod.node} refused pod {pod.name} ({pod.reason}{said}); other nodes are preferred"
        job = self.objects.job_of(pod)
        self.effects.report(job or pod, "Rejected", text, warning=True)
        if job is not None:
            self.effects.jobs.explain(job, f"{ReasonCode.REJECTED}: {text}")

    # --- decided --------------------------------------------------------------------------------------------------

    def start(self, decided: Start, gang: bool) -> None:
        """Take up a start: the record goes to the Jobs first, then their pods come, then the barrier."""
        now_s, spec = self.effects.now_s(), self.state.spec if isinstance(self.state, Waiting) else None
        if spec is None or spec.job.blocked is not None:
            text = "it changed while it was planned"
            self.effects.emit_event(
                Refused(self.id, decided.attempt, Reason(code=ReasonCode.BACKOFF, text=text), now_s + 1.0)
            )
            return
        seats = GangSeats(spec.job.roles, spec.sources)
        if gang:
            seats.leave_out({placement.role for placement in decided.placements})
        record = StartRecord(
            attempt=decided.attempt,
            queue=spec.job.queue,
            count=seats.least,
            priority=spec.job.priority,
            at_s=decided.at_s or now_s,
            gang=gang,
            flavors=decided.flavors,
            limit_s=decided.limit_s,
            placed=len(decided.placements),
            cluster=spec.cluster_of(decided.placements),
        )
        seats.plan(decided.placements)
        parts = self.new_parts(spec, record, seats)
        self.effects.drop_wait_reason(self.id)  # now, because reasons during the start are about pods that still wait
        self.state = Starting(parts=parts, held=spec.gated)
        if gang:
            parts.elastic.grant([len(row.seats) for row in seats.rows])
        if not spec.gated:
            parts.seating.update(spec.updates)
            self.resume_jobs(parts)

    def new_parts(self, spec: GangSpec, record: StartRecord, seats: GangSeats) -> StartedParts:
        start = GangStart(self.effects, self.objects, spec, record, seats)
        return StartedParts.of(start, lambda request: self._preempted(start, request))

    def resume_jobs(self, parts: StartedParts) -> None:
        def resumed(answer: WriteOutcome, text: str) -> None:
            if self.parts is not parts or not isinstance(self.state, Starting):
                return
            parts.start.since_s = self.effects.now_s()
            if answer is WriteOutcome.REFUSED:
                self.take_back_start(
                    parts, Reason(code=ReasonCode.BACKOFF, text=f"its Job could not be resumed: {text}")
                )
            elif answer is WriteOutcome.CHANGED:
                self.take_back_start(
                    parts, Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text="it changed while it was started")
                )

        parts.resume_jobs(resumed)

    def place(self, placements: Sequence[Placement]) -> None:
        """Give these nodes to open seats, and give back the placements of seats that no longer exist."""
        if self.parts is None:
            for placement in placements:
                self.effects.emit_event(Released(self.id, (Slot(placement.role, placement.ordinal),)))
            return
        self.parts.seating.place(placements)
        self.parts.elastic.fill(Slot(role, ordinal) for role, ordinal, _, _ in placements)

    def preempt(self, decided: Preempt) -> None:
        """Carry out a preemption. A late decision is ignored: a gang that is leaving or has ended reports that to the
        core anyway."""
        if isinstance(self.state, Starting | Running):
            self.state.parts.preemption.preempt(decided)

    def shrink(self, decided: Shrink) -> None:
        if isinstance(self.state, Starting | Running):
            self.state.parts.elastic.shrink(decided)

    # --- drawing conclusions --------------------------------------------------------------------------------------

    def advance(self, defaults: GangDefaults) -> None:
        self.wake_s = 0.0
        match self.state:
            case Starting(held=True) as starting:
                self._await_gate(starting, defaults)
            case Starting(parts=parts) | Running(parts=parts):
                self._reconcile_start(parts, defaults)
            case Leaving() as leaving:
                self._leave(leaving)
            case Waiting():
                pass
        if isinstance(self.state, Waiting):  # a gang that has just been requeued may be held by now
            self._declare(self.state, defaults)

    def _declare(self, waiting: Waiting, defaults: GangDefaults) -> None:
        members = self.objects.waiting()
        if not members.jobs and not members.pods:
            if waiting.spec is not None:
                self.effects.emit_event(Finished(self.id, self.objects.outcome))
            waiting.spec = None
            return
        spec = self.history.avoiding(gang_spec(members, defaults), self.effects.now_s())
        if waiting.spec is None or spec.job != waiting.spec.job:
            self.effects.emit_event(Submitted(spec.job))
        if spec.note != (waiting.spec.note if waiting.spec is not None else ("", False)):
            self.effects.emit_event(NodesNoted(self.id, *spec.note))
        waiting.spec = spec
        self._wake(*self.history.left_out.values())

    def _await_gate(self, starting: Starting, defaults: GangDefaults) -> None:
        """Resume the gang, whose nodes and quota are granted, once its dialect opens the gate."""
        if self.objects.idle:
            self._finish()
            return
        members = self.objects.waiting()
        claim = claim_on(members, defaults) if members.jobs or members.pods else None
        if claim is not None and claim.drained and claim.blocked is not None:
            self.take_back_start(starting.parts, claim.blocked)
        elif self._lost_a_member(starting.parts) or (claim is not None and claim.gate is not None):
            return
        elif claim is not None and not allows(claim, starting.parts.start.elsewhere):
            text = f"cluster {starting.parts.start.elsewhere} was not nominated for it"
            self.take_back_start(starting.parts, Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text))
        else:
            starting.held = False
            starting.parts.start.since_s = self.effects.now_s()
            if claim is not None:
                starting.parts.seating.update(claim.updates)
            self.resume_jobs(starting.parts)
            self._reconcile_start(starting.parts, defaults)

    def _reconcile_start(self, parts: StartedParts, defaults: GangDefaults) -> None:
        if self.objects.idle:
            self._finish()
            return
        if self._suspended_by_others(parts):
            self.take_back_start(
                parts, Reason(code=ReasonCode.HELD, text="suspended by somebody else after it was admitted")
            )
            return
        if (why := self.resized or self._drained(parts, defaults)) is not None:
            self.take_back_start(parts, why, evicts=bool(parts.start.bare_pods()))
            return
        if self._lost_a_member(parts):
            return
        for pod in parts.seating.fresh():
            if parts.start.elsewhere:  # pods that run in another cluster get no seat in this one
                continue
            parts.seating.look_at(pod)
            if pod.ready and isinstance(self.state, Running) and self.state.unready:
                self._ready(self.state, pod)
        parts.seating.fit(parts.elastic.seats_of)
        if isinstance(self.state, Running):
            for pod in parts.start.unsent_pods():  # a pod that was created after the others were sent
                parts.send_pod(pod, lambda answer, text: None)
        if parts.elastic.leaving:
            parts.elastic.end_shrinking()
        parts.barrier.advance()
        if isinstance(self.state, Starting) and self._is_bound(parts):
            self._run(parts, defaults)
        wake_s = parts.elastic.offer(), parts.elastic.withdraw()
        parts.elastic.resize()
        self._check_time(parts, defaults)
        self._wake(*wake_s)

    def _drained(self, parts: StartedParts, defaults: GangDefaults) -> Reason | None:
        """Return the reason for which a dialect stops the running gang. Bare pods are stopped only if the dialect has a
        condition for it."""
        if not defaults.dialects or "/" not in self.queue:
            return None  # the queue is one of Phalanx, not of a dialect
        members = self.objects.waiting() if parts.start.spec.evicted_as is None else self.objects.unfinished()
        claim = claim_on(members, defaults) if members.everyone else None
        return claim.blocked if claim is not None and claim.drained else None

    def _finish(self) -> None:
        """Remove the gang from the core, because none of its pods runs or will run. Terminating pods stay charged until
        they are gone."""
        self.effects.emit_event(Finished(self.id, self.objects.outcome))
        if self.parts is not None:
            self.parts.preemption.cancel()
        self.state, self.history = Waiting(), StartHistory()

    def _lost_a_member(self, parts: StartedParts) -> bool:
        """Take the start back if a needed member was deleted before all pods are bound. A start with bound bare pods
        goes on."""
        starting = isinstance(self.state, Starting) and parts.start.record.gang
        gone = parts.start.short_member() if starting else ""
        if not gone:
            return False
        self.take_back_start(parts, member_went_reason(gone))
        return self.stage is not Stage.STARTING

    def _suspended_by_others(self, parts: StartedParts) -> bool:
        resuming = parts.start.resuming
        return any(job.suspended and not job.finished and job.uid not in resuming for job in self.jobs.values())

    def _is_bound(self, parts: StartedParts) -> bool:
        bound = parts.start.elsewhere or (parts.barrier.gate_open and parts.start.seats.started())
        return bool(bound) and not parts.start.resuming

    def _run(self, parts: StartedParts, defaults: GangDefaults) -> None:
        """All are bound: from now on they have so long to become ready, if their queue says how long."""
        running = Running(parts=parts, bound_s=self.effects.now_s())
        self.state = running
        parts.start.phase, self.history.failures = Phase.RUNNING, 0
        self.effects.emit_event(Started(self.id, parts.start.record.attempt))
        self._tell_started(parts)
        timed = defaults.start_timeout_s(self.queue) is not None and parts.start.record.gang
        if timed and not parts.start.elsewhere:
            running.unready = {uid: None for uid, pod in self.pods.items() if not pod.ready}

    def _tell_started(self, parts: StartedParts) -> None:
        first = next(iter(self.jobs.values()), None) or next(iter(self.pods.values()), None)
        if first is not None and (cluster := parts.start.elsewhere):
            self.effects.report(first, "Scheduled", f"Sent to cluster {cluster}")
            return
        nodes = [seat.machine for _, seat in parts.start.seats.all() if seat.bound]
        where = nodes[0] if len(set(nodes)) == 1 else f"{len(set(nodes))} nodes"
        what = "its pod" if len(nodes) == 1 else f"its {len(nodes)} pods, together,"
        if first is not None:
            self.effects.report(first, "Scheduled", f"Bound {what} to {where}")

    # --- time -----------------------------------------------------------------------------------------------------

    def _wake(self, *times_s: float) -> None:
        self.wake_s = min((at_s for at_s in (self.wake_s, *times_s) if at_s), default=0.0)

    def _check_time(self, parts: StartedParts, defaults: GangDefaults) -> None:
        start, now_s = parts.start, self.effects.now_s()
        if self._is_stale_too_long(parts, defaults, now_s):
            return
        deadline_s = self._deadline_s(parts)
        if deadline_s and now_s >= deadline_s:
            self.take_back_start(parts, self._timeout_reason(parts, now_s - start.since_s))
            if not start.going_on:
                return
            deadline_s = 0.0  # the gang has bare pods on nodes
        if isinstance(self.state, Running) and self._is_unready_too_long(self.state, defaults, now_s):
            return
        self._end_holds(parts, now_s)
        if start.guarded_s and now_s >= start.guarded_s:
            start.guarded_s = 0.0
            start.emit_full_state()
        self._wake(deadline_s, start.guarded_s, *parts.barrier.resting.values())

    def _deadline_s(self, parts: StartedParts) -> float:
        """Return the time at which the start is taken back unless its pods are bound (seconds since the epoch); 0:
        never."""
        start, timeouts = parts.start, self.effects.timeouts
        if not start.record.gang or start.elsewhere:
            return 0.0
        if isinstance(self.state, Starting):
            return start.since_s + timeouts.barrier_s(start.seats.least)
        return start.since_s + timeouts.place_s if start.seats.lacks_members() else 0.0

    def _timeout_reason(self, parts: StartedParts, waited_s: float) -> Reason:
        seats = parts.start.seats
        others = " and ".join(sorted({job.scheduler for job in self.jobs.values() if job.pinned}))
        if others and parts.barrier.gate_open:
            bound = seats.minimum_bound
            return binding_timeout_reason(
                schedulers=others, bound=bound, needed=seats.least, exist=seats.taken, waited_s=waited_s
            )
        return barrier_timeout_reason(
            ready=seats.minimum_ready, needed=seats.least, exist=seats.taken, waited_s=waited_s
        )

    def _is_unready_too_long(self, running: Running, defaults: GangDefaults, now_s: float) -> bool:
        limit_s = defaults.start_timeout_s(self.queue) if running.unready else None
        if limit_s is None:
            return False
        if now_s >= running.bound_s + limit_s:
            self._time_out(running, now_s)
            return True
        self._wake(running.bound_s + limit_s)
        return False

    def _is_stale_too_long(self, parts: StartedParts, defaults: GangDefaults, now_s: float) -> bool:
        said_s, seats = parts.start.spec.staleness_grace_s, parts.start.seats
        grace_s = defaults.staleness_grace_s(self.queue) if said_s is None else said_s
        end_s = parts.staleness.ends_s(grace_s)
        if not end_s or now_s < end_s:
            self._wake(end_s)
            return False
        waited_s = now_s - end_s + grace_s
        why = staleness_reason(bound=seats.minimum_bound, needed=seats.least, waited_s=waited_s)
        self.take_back_start(parts, why, evicts=True)
        return True

    def _time_out(self, running: Running, now_s: float) -> None:
        """Handle pods that did not become ready in time: avoid their nodes at the next attempt, and hold the gang after
        `start_attempts`."""
        late, running.unready = [self.pods[uid] for uid in running.unready], {}
        history, hold = self.history, ""
        history.avoided |= {pod.node: inf for pod in late if pod.node}
        history.timeouts += 1
        history.failures = history.timeouts - 1
        if history.timeouts >= self.effects.timeouts.start_attempts:
            hold, history.timeouts = f"{history.timeouts} starts in a row came to nothing", 0
        self.take_back_start(running.parts, start_timeout_reason(late, now_s - running.bound_s), hold)

    def _ready(self, running: Running, pod: Pod) -> None:
        running.unready.pop(pod.uid, None)
        if not running.unready:
            self.history.forgive()

    def _end_holds(self, parts: StartedParts, now_s: float) -> None:
        """Release the capacity that was reserved for pods that were not created in time, or not replaced in time after
        their loss; bound pods go on. A start with bound pods that lost another pod has holds too: bare pods are never
        taken back, so it may last for ever."""
        seats = parts.start.seats
        vacant = seats.vacant_of_pods()
        if not parts.barrier.gate_open or not vacant or not parts.start.record.gang or parts.start.elsewhere:
            return
        hold_s = self.effects.timeouts.hold_s
        ends = {slot: max(parts.start.record.at_s, seats[slot].lost_s) + hold_s for slot in vacant}
        parts.barrier.release(slot for slot, end_s in ends.items() if end_s <= now_s)
        self._wake(*(end_s for end_s in ends.values() if end_s > now_s))

    # --- going back -----------------------------------------------------------------------------------------------

    @property
    def elsewhere(self) -> StartRecord | None:
        """Return the record of the start that another cluster is to run; None: there is none."""
        running = self.state if isinstance(self.state, Running) else None
        return running.parts.start.record if running is not None and running.parts.start.elsewhere else None

    def give_back(self, attempt: int, why: Reason, avoid_s: float = 0.0) -> None:
        """Take back the start with this number, which another cluster cannot run. `avoid_s`: how long the gang is not
        sent to that cluster."""
        record = self.elsewhere
        if record is None or record.attempt != attempt or not isinstance(self.state, Running):
            return
        if avoid_s:
            self.history.left_out[record.cluster] = self.effects.now_s() + avoid_s
        parts = self.state.parts
        self.take_back_start(parts, why, evicts=bool(parts.start.bare_pods()))

    def take_back_start(self, parts: StartedParts, why: Reason, hold: str = "", *, evicts: bool = False) -> None:
        """Take the start back whole: suspend what was resumed, then wait until no pod of it is left. Bare pods that are
        bound cannot be taken back, only evicted: without `evicts` such a gang goes on as it is."""
        if parts.start.bare_pods() and not evicts:
            parts.start.since_s = self.effects.now_s()
            return
        parts.preemption.cancel()
        departure = Departure(parts.start, why, evicts=evicts, hold=hold)
        if evicts:
            departure.report()
        self._leave(self._depart(parts, departure))

    def _preempted(self, start: GangStart, request: PreemptionRequest) -> None:
        """Begin the departure of the gang, which is marked as preempted now."""
        if not isinstance(self.state, Starting | Running) or self.state.parts.start is not start:
            return
        departure = Departure(start, request.why, mark=request.mark, grace_s=request.grace_s)
        departure.report()
        self._depart(self.state.parts, departure)

    def _depart(self, parts: StartedParts, departure: Departure) -> Leaving:
        leaving = Leaving(parts=parts, departure=departure)
        self.departure, self.resized = departure, None
        self.state = leaving
        parts.start.phase = Phase.STOPPING
        parts.barrier.close()
        departure.begin()
        return leaving

    def _leave(self, leaving: Leaving) -> None:
        departure, start = leaving.departure, leaving.parts.start
        departure.evict_bare()
        if not departure.left:
            return
        departure.end()
        failed = not departure.preempted and departure.why.code is ReasonCode.BACKOFF
        self.history.failures += failed
        requeued_s = self._requeue_time_s() if failed else 0.0  # a preempted gang may start again at once
        self.effects.emit_event(Refused(self.id, start.record.attempt, departure.why, requeued_s))
        self.state = Waiting(spec=start.spec)

    def _requeue_time_s(self) -> float:
        """Return the time before which a gang whose start failed does not start again (seconds since the epoch)."""
        return self.effects.now_s() + self.effects.timeouts.rest_s(self.history.failures)
