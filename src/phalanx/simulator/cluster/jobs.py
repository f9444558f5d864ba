"""The jobs of the simulated cluster, from submission to end: their phases, their pods, and the events about them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any

from phalanx.model.event import Event, Finished, Opened, Refused, Released, Started, Submitted
from phalanx.model.job import Outcome, Phase, Placement, Slot
from phalanx.model.plan import Preempt, Shrink
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.arrivals import Arrivals, Estimator
from phalanx.simulator.cluster.disturbance import Disturbance, Messages
from phalanx.simulator.cluster.factory import Creation, PodController
from phalanx.simulator.cluster.listing import Live
from phalanx.simulator.cluster.work import JobWork
from phalanx.simulator.schedule import Fate

GIVEN_UP_AFTER = 1000  # after this many node failures in a row without saved work, the user deletes the job
NODE_LOST = Reason(code=ReasonCode.BACKOFF, text="a node that it ran on was lost")
GAVE_WAY = Reason(code=ReasonCode.PREEMPTED, text="it gave way to another job")
NO_NODE = Reason(code=ReasonCode.BACKOFF, text="a node that it was to run on is not there")


class SimulatedJobs:
    """The jobs of a run. `nodes`: the names of the present nodes. `live`: the submitted jobs that have not ended;
    `running`: the jobs that run. Both are by job id. `ended`: the number of ended jobs. `outcomes`: the outcomes of
    ended jobs, for a restarted scheduler. `cascades`: for each preemption, the length of the chain of preemptions up to
    it. `has_changed`: True if a job was submitted or has ended since the last round."""

    def __init__(
        self,
        agenda: Agenda[Any],
        nodes: Container[str],
        arrivals: Arrivals,
        messages: Messages,
        estimator: Estimator,
        *,
        disturbance: Disturbance | None,
        checkpoint_s: float | None,
        creation: Creation | None,
    ) -> None:
        self.live: dict[str, Live] = {}
        self.running: dict[str, Live] = {}
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
        self.live[job.id] = Live(job, fate)
        return self._tell(job.id, Submitted(job))

    # --- decisions ----------------------------------------------------------------------------------------------------

    def start(self, live: Live, attempt: int, placements: tuple[Placement, ...]) -> None:
        live.attempt, live.number = attempt, live.number + 1
        live.phase, live.placed, live.since_s = Phase.STARTING, placements, self._agenda.now_s
        if live.fate.task.active_s is not None:
            self._later(live.fate.task.active_s, partial(self._expire, live, live.number), AgendaKind.END)
        if self._pods.is_slow or not placements:
            self._pods.create(live)
        elif not all(placement.node in self._nodes for placement in placements):
            self._later(0.0, partial(self.go_back, live, live.number, NO_NODE))
        else:
            self._begin_soon(live)

    def place(self, live: Live, placements: tuple[Placement, ...]) -> None:
        if live.phase is Phase.QUEUED:
            return  # the job was stopped meanwhile, and that event has not reached the scheduler yet
        self.work.record(live)
        live.placed = (*live.placed, *placements)
        for placement in placements:
            live.open.pop(Slot(placement.role, placement.ordinal), None)
        if live.phase is Phase.RUNNING:
            self.work.go_on(live)
        elif live.phase is Phase.STARTING and live.has_minimum():
            self._begin_soon(live)

    def preempt(self, live: Live, action: Preempt) -> None:
        if live.phase is Phase.QUEUED or live.attempt != action.attempt:
            return
        if live.phase is not Phase.STOPPING:  # if its phase is STOPPING, it was already preempted for another job
            preemptor = self.live.get(action.by)
            live.fate.cascade = 1 + (preemptor.fate.cascade if preemptor is not None else 0)
            self.cascades.append(live.fate.cascade)
        live.phase = Phase.STOPPING
        self._later(action.grace_s or 0.0, partial(self.go_back, live, live.number, GAVE_WAY))

    def shrink(self, live: Live, action: Shrink) -> None:
        if live.phase is not Phase.QUEUED:
            self._later(action.grace_s or 0.0, partial(self._release, live, live.number, action.slots))

    def _later(self, after_s: float, what: Callable[[], Sequence[Event]], kind: AgendaKind = AgendaKind.POD) -> None:
        self._agenda.put(self._agenda.now_s + after_s, kind, what)

    # --- running ------------------------------------------------------------------------------------------------------

    def _begin_soon(self, live: Live) -> None:
        """Let the job's pods run now, or after their start delay."""
        delay_s = self._disturbance.start_delay_s(live.job.id) if self._disturbance is not None else 0.0
        if not delay_s:
            self._messages.keep(self._begin(live, live.number))
        else:
            self._later(delay_s, partial(self._begin, live, live.number))

    def _begin(self, live: Live, number: int) -> Sequence[Event]:
        """Begin the run of the job, because all of its required pods run now."""
        if live.number != number or live.phase is not Phase.STARTING:
            return ()
        now_s, fate = self._agenda.now_s, live.fate
        if live.since_s < now_s:
            self.work.record(live)
        live.phase, live.began_s, live.since_s = Phase.RUNNING, now_s, now_s
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

    def _open_missing(self, live: Live) -> Sequence[Event]:
        """Open the slots of the elastic job that have no node, which means that the scheduler may now place pods
        there."""
        if not (missing := live.missing()):
            return ()
        live.open.update(dict.fromkeys(missing))
        return self._tell(live.job.id, Opened(live.job.id, missing))

    def _release(self, live: Live, number: int, slots: tuple[Slot, ...]) -> Sequence[Event]:
        if live.number != number:
            return ()
        self.work.record(live)
        gone = set(slots)
        live.placed = tuple(placed for placed in live.placed if (placed.role, placed.ordinal) not in gone)
        if live.phase is Phase.RUNNING:
            self.work.go_on(live)
        return (*self._tell(live.job.id, Released(live.job.id, slots)), *self._open_missing(live))

    # --- back to the queue --------------------------------------------------------------------------------------------

    def go_back(self, live: Live, number: int, reason: Reason) -> Sequence[Event]:
        """Stop all pods of the job, so that the job waits in its queue again."""
        if live.number != number or live.phase is Phase.QUEUED:
            return ()
        if live.rate:
            self.work.lose(live)
        else:
            self.work.record(live)
        live.phase, live.number, live.plan = Phase.QUEUED, live.number + 1, live.plan + 1
        live.placed, live.rate = (), 0.0
        live.fate.preemptions += reason.code is ReasonCode.PREEMPTED
        live.open.clear()
        self.running.pop(live.job.id, None)
        return self._tell(live.job.id, Refused(live.job.id, live.attempt, reason, self._agenda.now_s))

    def lose_node(self, node: str) -> Sequence[Event]:
        """Stop each job with a pod on the lost node as a whole; it waits again. Delete a job that was stopped
        `GIVEN_UP_AFTER` times in this way without saving any work in between, as its user would do."""
        events: list[Event] = []
        for live in list(self.live.values()):
            if any(placed.node == node for placed in live.placed):
                saved_s = live.kept_s
                events += self.go_back(live, live.number, NODE_LOST)
                live.fruitless = live.fruitless + 1 if live.kept_s == saved_s else 0
                if live.fruitless >= GIVEN_UP_AFTER:
                    text = f"{live.fruitless} times a node of it failed before anything that it did was saved"
                    live.fate.reason = f"given up: {text}"
                    events += self._leave(live, Outcome.DELETED)
        return events

    # --- the end ------------------------------------------------------------------------------------------------------

    def _expire(self, live: Live, number: int) -> Sequence[Event]:
        """Fail the job at its `activeDeadlineSeconds`, whether or not all its pods ran."""
        if live.number != number or live.phase is Phase.QUEUED:
            return ()
        return self._over(live, Outcome.FAILED)

    def _over(self, live: Live, outcome: Outcome) -> Sequence[Event]:
        live.fate.end_s, live.fate.outcome = self._agenda.now_s, outcome
        self.work.finish(live)
        return self._leave(live, outcome)

    def _leave(self, live: Live, outcome: Outcome) -> Sequence[Event]:
        """Remove the job from the cluster and report its end."""
        del self.live[live.job.id]
        self.running.pop(live.job.id, None)
        if self._disturbance is not None:
            self.outcomes[live.job.id] = outcome
        live.number, live.plan = live.number + 1, live.plan + 1
        self._arrivals.expect_followers(live.job.id)
        self.has_changed = True
        self.ended += 1
        return self._tell(live.job.id, Finished(live.job.id, outcome))
