"""The life cycle of one gang on the API: waiting, starting, running, leaving (`stages`).

A gang receives the changes of its members (`see_*`, `lose_*`) and the decisions about it (`start`, `place`, `preempt`,
`shrink`). It does no I/O: it emits events and requests writes through its `Effects`, whose answers come back to the
requesting parts. To receive a change is cheap. `advance` reconciles the gang, once for all changes that came together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.kube.gang.departure import Departure, PreemptionRequest
from phalanx.kube.gang.effects import Effects, WriteOutcome, report_rejection
from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.gang.seats.bind_barrier import Readiness
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.spec.gang_spec import GangDefaults, GangSpec, allows, claim_on, gang_spec
from phalanx.kube.gang.stages import (
    NEXT,
    Leaving,
    Running,
    Stage,
    StartDeadlines,
    StartedParts,
    StartHistory,
    Starting,
    State,
    Waiting,
    member_went_reason,
)
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import Finished, NodesNoted, Refused, Released, Started, Submitted
from phalanx.model.job import Phase, Placement, Slot
from phalanx.model.plan import Preempt, Shrink, Start
from phalanx.model.reason import Reason, ReasonCode


class GangLifecycle:
    """A gang, from its first member to its last pod. `wake_s`: the time at which `advance` must be called again even if
    nothing changes (seconds since the epoch; 0: never). `departure`: the latest departure from the nodes, which may
    begin and end within one call of `advance`."""

    def __init__(self, id: str, effects: Effects) -> None:
        self.id, self.effects = id, effects
        self.objects = GangObjects(id)
        self._state: State = Waiting()
        self.history = StartHistory()
        self.departure: Departure | None = None
        self.resized: Reason | None = None  # why a change of the running Job's size queues the gang again
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
        """Return whether the gang waits and has no object left."""
        return isinstance(self.state, Waiting) and self.objects.empty

    @property
    def parts(self) -> StartedParts | None:
        """Return the parts of the gang's start; None while the gang waits."""
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
            self.state.readiness.lose(pod.uid)

    def _rejected(self, pod: Pod) -> None:
        """Note that a kubelet refused the pod. For `avoid_s` seconds, the gang's pods prefer other nodes."""
        if pod.node:
            now_s = self.effects.now_s()
            self.history.avoid(pod.node, now_s + self.effects.timeouts.avoid_s)
            if self.parts is not None:
                self.parts.start.prefer_nodes(self.history.preference(now_s))
        report_rejection(self.effects, pod, self.objects.job_of(pod))

    # --- decided --------------------------------------------------------------------------------------------------

    def start(self, decided: Start, gang: bool) -> None:
        """Carry out a start: write its record on the Jobs; their controllers create the pods, which wait at the bind
        barrier."""
        spec = self.state.spec if isinstance(self.state, Waiting) else None
        if spec is None or spec.job.blocked is not None:
            text = "it changed while it was planned"
            self.effects.emit_event(
                Refused(
                    self.id, decided.attempt, Reason(code=ReasonCode.BACKOFF, text=text), self.effects.now_s() + 1.0
                )
            )
            return
        parts = self.parts_of(GangStart.planned(self.effects, self.objects, spec, decided, gang=gang))
        self.effects.drop_wait_reason(self.id)  # before the start: later reasons are about pods that still wait
        self.state = Starting(parts=parts, held=spec.gated)
        if gang:
            parts.elastic.grant([len(row.seats) for row in parts.start.seats.rows])
        if not spec.gated:
            parts.seating.update(spec.updates)
            self.resume_jobs(parts)

    def parts_of(self, start: GangStart) -> StartedParts:
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
        """Resume the gang's Jobs once its dialect opens the gate. The nodes and the quota of the gang are granted
        already."""
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
            if isinstance(self.state, Running) and self.state.readiness.see(pod):
                self.history.forgive()
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
        if isinstance(self.state, Starting | Running):
            self._check_time(self.state, defaults)
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
        """Note that all pods are bound. If the queue limits the time until they are ready, that time begins now."""
        timed = defaults.start_timeout_s(self.queue) is not None and parts.start.record.gang
        is_watched = timed and not parts.start.elsewhere
        unready = [uid for uid, pod in self.pods.items() if not pod.ready] if is_watched else ()
        self.state = Running(parts=parts, readiness=Readiness(self.effects.now_s(), unready))
        parts.start.phase, self.history.failures = Phase.RUNNING, 0
        self.effects.emit_event(Started(self.id, parts.start.record.attempt))
        parts.start.report_bound()

    # --- time -----------------------------------------------------------------------------------------------------

    def _wake(self, *times_s: float) -> None:
        self.wake_s = min((at_s for at_s in (self.wake_s, *times_s) if at_s), default=0.0)

    def _check_time(self, started: Starting | Running, defaults: GangDefaults) -> None:
        """Take the start back if a deadline has passed."""
        deadlines = StartDeadlines(started, self.history, defaults)
        for overdue in deadlines.overdue():
            self.take_back_start(started.parts, overdue.why, overdue.hold, evicts=overdue.evicts)
            if not started.parts.start.going_on:
                break
        self._wake(deadlines.wake_s)

    # --- going back -----------------------------------------------------------------------------------------------

    @property
    def elsewhere(self) -> StartRecord | None:
        """Return the record of a start that another cluster runs; None for a start in this cluster."""
        running = self.state if isinstance(self.state, Running) else None
        return running.parts.start.record if running is not None and running.parts.start.elsewhere else None

    def give_back(self, attempt: int, why: Reason, avoid_s: Mapping[str, float]) -> None:
        """Take back the start with this number, which another cluster cannot run. `avoid_s`: cluster -> how long the
        gang is not sent to it."""
        record = self.elsewhere
        if record is None or record.attempt != attempt or not isinstance(self.state, Running):
            return
        self.history.left_out |= {cluster: self.effects.now_s() + for_s for cluster, for_s in avoid_s.items()}
        parts = self.state.parts
        self.take_back_start(parts, why, evicts=bool(parts.start.bare_pods()))

    def take_back_start(self, parts: StartedParts, why: Reason, hold: str = "", *, evicts: bool = False) -> None:
        """Take the whole start back: suspend the resumed Jobs, then wait until no pod of the gang is left. Bound bare
        pods can only be evicted. So without `evicts` a gang with bound bare pods continues unchanged."""
        if parts.start.bare_pods() and not evicts:
            parts.start.since_s = self.effects.now_s()
            return
        parts.preemption.cancel()
        departure = Departure(parts.start, why, evicts=evicts, hold=hold)
        if evicts:
            departure.report()
        self._leave(self._depart(parts, departure))

    def _preempted(self, start: GangStart, request: PreemptionRequest) -> None:
        """Begin the departure of the gang, after all marks of its preemption are written."""
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
        requeued_s = 0.0  # a preempted gang may start again at once
        if not departure.preempted and departure.why.code is ReasonCode.BACKOFF:
            self.history.failures += 1
            requeued_s = self.effects.now_s() + self.effects.timeouts.rest_s(self.history.failures)
        self.effects.emit_event(Refused(self.id, start.record.attempt, departure.why, requeued_s))
        self.state = Waiting(spec=start.spec)
