"""The jobs of the simulated cluster, from submission to end: their phases, their pods, and the events about them.

The methods of `UnfinishedJob` change the state of one job. `SimulatedJobs` decides when each change happens, and which
events report it. Each start and stop of a job increases the job's number. A change that is planned for later (a start,
an end, the end of a grace period) stores the present number of the job. If the job has another number when the planned
change is due, the change is outdated and has no effect."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from phalanx.model.event import Event, Finished, Opened, Refused, Released, Started, Submitted
from phalanx.model.job import Outcome, Phase, Placement, Slot
from phalanx.model.plan import Place, Preempt, Shrink, Start, Wait
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.arrivals import Arrivals, Estimator
from phalanx.simulator.cluster.disturbance import Disturbance, UndeliveredEvents
from phalanx.simulator.cluster.factory import Creation, PodController
from phalanx.simulator.cluster.listing import UnfinishedJob
from phalanx.simulator.cluster.work import JobWork
from phalanx.simulator.schedule import Fate

# a job is deleted, as if by its user, after this many node failures without any saved work in between
GIVEN_UP_AFTER = 1000
NODE_LOST = Reason(code=ReasonCode.BACKOFF, text="a node that it ran on was lost")
GAVE_WAY = Reason(code=ReasonCode.PREEMPTED, text="it gave way to another job")
NO_NODE = Reason(code=ReasonCode.BACKOFF, text="a node that it was to run on is not there")
ROUND_OVER = Reason(code=ReasonCode.PREEMPTED, text="the round is over: all that ran stands in line again")


class SimulatedJobs:
    """The jobs of a run. `nodes`: the names of the present nodes. `live`: job id -> submitted job that has not ended.
    `running`: job id -> job that runs. `ended`: the number of ended jobs. `outcomes`: the outcomes of ended jobs, which
    a restarted scheduler needs. `cascades`: for each preemption, the length of the chain of preemptions that ends with
    it. `has_changed`: whether a job was submitted or has ended since the last round."""

    def __init__(
        self,
        agenda: Agenda[Any],
        nodes: Container[str],
        arrivals: Arrivals,
        messages: UndeliveredEvents,
        estimator: Estimator,
        *,
        disturbance: Disturbance | None,
        checkpoint_s: float | None,
        creation: Creation | None,
    ) -> None:
        self.live: dict[str, UnfinishedJob] = {}
        self.running: dict[str, UnfinishedJob] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.cascades: list[int] = []
        self.ended, self.has_changed = 0, False
        self.work = JobWork(agenda, estimator, checkpoint_s, messages.send, self._over)
        self._agenda, self._nodes, self._arrivals, self._messages = agenda, nodes, arrivals, messages
        self._disturbance, self._tell = disturbance, messages.send
        self._pods = PodController(creation, agenda, self.live, messages.send, self._begin_soon)

    def submit(self, fate: Fate) -> Sequence[Event]:
        self.has_changed = True
        job = self._arrivals.job_of(fate)
        self.live[job.id] = UnfinishedJob(job, fate)
        return self._tell(job.id, Submitted(job))

    # --- decisions ----------------------------------------------------------------------------------------------------

    def apply(self, action: Start | Place | Wait | Preempt | Shrink) -> None:
        """Carry out a decision about a job. If the job has ended, the decision has no effect. (The scheduler may not
        know yet that the job has ended.)"""
        live = self.live.get(action.job)
        if live is None:
            return
        match action:
            case Start():
                live.limit_s = action.limit_s
                self.start(live, action.attempt, action.placements)
            case Place():
                self._place(live, action.placements)
            case Wait():
                live.fate.told = action.reason
            case Preempt():
                self._preempt(live, action)
            case Shrink():
                self._shrink(live, action)

    def start(self, live: UnfinishedJob, attempt: int, placements: tuple[Placement, ...]) -> None:
        live.start(attempt, placements, self._agenda.now_s)
        if live.fate.task.active_s is not None:
            self._later(live.fate.task.active_s, partial(self._expire, live, live.number), AgendaKind.END)
        if self._pods.is_slow or not placements:
            self._pods.create(live)
        elif not all(placement.node in self._nodes for placement in placements):
            self._later(0.0, partial(self._go_back, live, live.number, NO_NODE))
        else:
            self._begin_soon(live)

    def _place(self, live: UnfinishedJob, placements: tuple[Placement, ...]) -> None:
        if live.phase is Phase.QUEUED:
            return  # when the scheduler made the decision, it did not know yet that the job had been stopped
        self.work.record(live)
        live.add(placements)
        if live.phase is Phase.RUNNING:
            self.work.go_on(live)
        elif live.phase is Phase.STARTING and live.has_minimum():
            self._begin_soon(live)

    def _preempt(self, live: UnfinishedJob, action: Preempt) -> None:
        if live.phase is Phase.QUEUED or live.attempt != action.attempt:
            return
        # if the job is already in the phase STOPPING, the preemption was counted for an earlier preemptor
        if live.phase is not Phase.STOPPING:
            preemptor = self.live.get(action.by)
            live.fate.cascade = 1 + (preemptor.fate.cascade if preemptor is not None else 0)
            self.cascades.append(live.fate.cascade)
        live.phase = Phase.STOPPING
        self._later(action.grace_s or 0.0, partial(self._go_back, live, live.number, GAVE_WAY))

    def _shrink(self, live: UnfinishedJob, action: Shrink) -> None:
        if live.phase is not Phase.QUEUED:
            self._later(action.grace_s or 0.0, partial(self._release, live, live.number, action.slots))

    def _later(self, after_s: float, what: Callable[[], Sequence[Event]], kind: AgendaKind = AgendaKind.POD) -> None:
        self._agenda.put(self._agenda.now_s + after_s, kind, what)

    # --- running ------------------------------------------------------------------------------------------------------

    def _begin_soon(self, live: UnfinishedJob) -> None:
        """Begin the run of the job at once or, if its pods have a start delay, after this delay."""
        delay_s = self._disturbance.start_delay_s(live.job.id) if self._disturbance is not None else 0.0
        if not delay_s:
            self._messages.keep(self._begin(live, live.number))
        else:
            self._later(delay_s, partial(self._begin, live, live.number))

    def _begin(self, live: UnfinishedJob, number: int) -> Sequence[Event]:
        """Begin the run of the job. The caller has checked that all required pods run."""
        if live.number != number or live.phase is not Phase.STARTING:
            return ()
        now_s, fate = self._agenda.now_s, live.fate
        if live.since_s < now_s:
            self.work.record(live)
        live.run(now_s)
        self.running[live.job.id] = live
        fate.starts += 1
        if fate.start_s is None:
            fate.start_s = now_s
            if self._disturbance is not None:
                fate.work_s *= self._disturbance.stretch(live.job.id)
        self.work.go_on(live)
        if live.job is not fate.task.job:
            self.work.expect_outliving(live)
        return (*self._tell(live.job.id, Started(live.job.id, live.attempt)), *self._open_missing(live))

    def _open_missing(self, live: UnfinishedJob) -> Sequence[Event]:
        opened = live.open_missing()
        return self._tell(live.job.id, Opened(live.job.id, opened)) if opened else ()

    def _release(self, live: UnfinishedJob, number: int, slots: tuple[Slot, ...]) -> Sequence[Event]:
        if live.number != number:
            return ()
        self.work.record(live)
        live.release(slots)
        if live.phase is Phase.RUNNING:
            self.work.go_on(live)
        return (*self._tell(live.job.id, Released(live.job.id, slots)), *self._open_missing(live))

    # --- back to the queue --------------------------------------------------------------------------------------------

    def _go_back(self, live: UnfinishedJob, number: int, reason: Reason) -> Sequence[Event]:
        """Stop all pods of the job, and put the job back into its queue."""
        if live.number != number or live.phase is Phase.QUEUED:
            return ()
        if live.rate:
            self.work.lose(live)
        else:
            self.work.record(live)
        live.stop()
        live.fate.preemptions += reason.code is ReasonCode.PREEMPTED
        self.running.pop(live.job.id, None)
        return self._tell(live.job.id, Refused(live.job.id, live.attempt, reason, self._agenda.now_s))

    def end_round(self, priority: Callable[[UnfinishedJob], int]) -> Sequence[Event]:
        """Save the work of all running jobs, stop them, and submit them again. `priority`: a function that returns the
        new priority of a job."""
        self.has_changed = False
        events: list[Event] = []
        for live in list(self.running.values()):
            self.work.save(live)
            events += self._go_back(live, live.number, ROUND_OVER)
            live.job = replace(live.job, priority=priority(live))
            events.append(Submitted(live.job))
        return events

    def lose_node(self, node: str) -> Sequence[Event]:
        """Stop each job that has a pod on the lost node: all pods of the job are stopped, and the job waits again. If
        failures of nodes have stopped a job `GIVEN_UP_AFTER` times, and the job saved no work in between, the job is
        deleted, as if by its user."""
        events: list[Event] = []
        for live in list(self.live.values()):
            if any(placed.node == node for placed in live.placed):
                saved_s = live.kept_s
                events += self._go_back(live, live.number, NODE_LOST)
                live.fruitless = live.fruitless + 1 if live.kept_s == saved_s else 0
                if live.fruitless >= GIVEN_UP_AFTER:
                    text = f"{live.fruitless} times a node of it failed before anything that it did was saved"
                    live.fate.reason = f"given up: {text}"
                    events += self._leave(live, Outcome.DELETED)
        return events

    def forget_attempts(self) -> None:
        """Set the number of starts of each pending job to 0, because a new scheduler process counts starts from 0."""
        for live in self.live.values():
            if live.phase is Phase.QUEUED:
                live.attempt = 0

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Record the work that all jobs have done up to now."""
        for live in self.live.values():
            self.work.record(live)

    def _expire(self, live: UnfinishedJob, number: int) -> Sequence[Event]:
        """Let the job fail, because its `activeDeadlineSeconds` have passed. It fails even if not all its pods ran."""
        if live.number != number or live.phase is Phase.QUEUED:
            return ()
        return self._over(live, Outcome.FAILED)

    def _over(self, live: UnfinishedJob, outcome: Outcome) -> Sequence[Event]:
        live.fate.end_s, live.fate.outcome = self._agenda.now_s, outcome
        self.work.finish(live)
        return self._leave(live, outcome)

    def _leave(self, live: UnfinishedJob, outcome: Outcome) -> Sequence[Event]:
        """Remove the job from the cluster and report its end."""
        del self.live[live.job.id]
        self.running.pop(live.job.id, None)
        if self._disturbance is not None:
            self.outcomes[live.job.id] = outcome
        live.outdate()
        self._arrivals.expect_followers(live.job.id)
        self.has_changed = True
        self.ended += 1
        return self._tell(live.job.id, Finished(live.job.id, outcome))
