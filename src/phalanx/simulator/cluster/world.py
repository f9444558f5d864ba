"""The simulated cluster: it executes plans with a virtual clock and reports events, as any world does.

In a run without faults:

- A `Start` with placements takes effect at once, and `Started` is reported with the next event. The job ends after the
  trace's run time, or at the limit of its user (otherwise its queue), whichever is first. An end at the limit is a
  failure.
- In a queue that schedules pod by pod, a `Start` opens the job's slots. The job runs when its minimum is placed.
- A preempted job stops when its grace period is over and waits again. Its work since its start (or since its last
  checkpoint) is lost. A shrunk job releases the named pods in the same way.
- An elastic job works at a rate equal to the fraction of its pods that it has. Its missing slots are open while it
  runs; released slots open again when they are free.
- With `rounds`, every running job is saved, stopped and queued again whenever a job is submitted or ends.
- Nodes of node groups come and go as the plans ask for them; `provider` has their faults and the bill.
- With a `formula`, the formula computes a job's priority when the job is submitted.

Each happening is one scheduling pass; `agenda` has their order. `disturbance` has the faults, `messages` the late
events, `arrivals` the submissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TypeAlias

from phalanx.model.event import (
    Event,
    Finished,
    NodeGone,
    Opened,
    Refused,
    Released,
    Started,
    Submitted,
)
from phalanx.model.job import Outcome, Phase, Placement, Slot
from phalanx.model.node import Node, Reservation
from phalanx.model.plan import Place, Plan, Preempt, ReleaseNodes, RequestNodes, Shrink, Start, Wait
from phalanx.model.pod import CPU
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.arrivals import Arrivals, Estimator
from phalanx.simulator.cluster.disturbance import Disturbance, Faults, Messages, NodeFaults
from phalanx.simulator.cluster.factory import Creation, Factory
from phalanx.simulator.cluster.listing import Live, everything
from phalanx.simulator.cluster.provider import NodeProvider
from phalanx.simulator.schedule import Fate, Stint
from phalanx.simulator.workload.policies import Formula, Rounds
from phalanx.simulator.workload.workload import MILLI_CPU, SimulatedGroup

Happening: TypeAlias = Callable[[], Sequence[Event]]

GIVEN_UP_AFTER = 1000  # node failures of a job in a row without saved work, after which its user deletes it
NODE_LOST = Reason(code=ReasonCode.BACKOFF, text="a node that it ran on was lost")
GAVE_WAY = Reason(code=ReasonCode.PREEMPTED, text="it gave way to another job")
ROUND_OVER = Reason(code=ReasonCode.PREEMPTED, text="the round is over: all that ran stands in line again")
NO_NODE = Reason(code=ReasonCode.BACKOFF, text="a node that it was to run on is not there")


class SimulatedWorld:
    """The simulated cluster. `disturbance`: the faults; None: there are none. `checkpoint_s`: the interval at which
    jobs save their work; None: never."""

    def __init__(
        self,
        fates: Sequence[Fate],
        nodes: Sequence[Node],
        queues: Sequence[Queue],
        *,
        estimator: Estimator,
        disturbance: Disturbance | None = None,
        checkpoint_s: float | None = None,
        rounds: Rounds | None = None,
        formula: Formula | None = None,
        counted: tuple[str, int] = (CPU, MILLI_CPU),
        creation: Creation | None = None,
        reservations: Sequence[Reservation] = (),
        groups: Sequence[SimulatedGroup] = (),
        seed: int = 0,
    ) -> None:
        self.nodes, self.queues, self.reservations = {node.name: node for node in nodes}, queues, reservations
        self.estimator, self.disturbance, self.checkpoint_s = estimator, disturbance, checkpoint_s
        self.rounds, self.counted = rounds, counted
        self.factory = None if creation is None else Factory(creation)
        self.agenda: Agenda[Fate | Happening] = Agenda(
            [(fate.task.job.submitted_s, fate) for fate in fates if not fate.task.follows]
        )
        self.arrivals = Arrivals(
            *(fates, self.agenda, estimator),
            checkpoint_s=checkpoint_s,
            rounds=rounds,
            formula=formula,
            counted=counted,
        )
        self.messages = Messages(self.agenda, disturbance)
        self.live: dict[str, Live] = {}
        self.running: dict[str, Live] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.stints: list[Stint] = []
        self.cascades: list[int] = []  # for each preemption: the length of the chain of preemptions up to it
        self.ended = 0
        self._round_over = False
        self._wake_s = inf
        self._left = len(fates)
        self._tell = self.messages.send
        self.node_faults = None
        if disturbance is not None:
            self.node_faults = NodeFaults(disturbance, self.nodes, self.agenda, self._tell, self._lose)
            self.node_faults.expect(self._restart)
        chance = Disturbance(Faults(), seed)
        self.provider = NodeProvider(groups, self.nodes, self.agenda, chance, self._tell, self._lose)

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    def happenings(self) -> Iterator[Sequence[Event]]:
        """Yield the events of each scheduling pass in order; first the events that describe nodes and queues."""
        yield everything(self.nodes.values(), self.queues, self.reservations, (), {}, self.provider.listing())
        agenda, rounds = self.agenda, self.rounds
        while (taken := agenda.take()) is not None:
            kind, what = taken
            if kind == AgendaKind.SUBMISSION:
                assert isinstance(what, Fate)
                events = self.submit(what)
            else:
                assert not isinstance(what, Fate)
                events = what()
            if agenda.next_s() == agenda.now_s if rounds is not None else kind < 0 and agenda.joins_next(kind):
                self.messages.keep(events)
            elif rounds is not None and self._round_over:
                yield self.messages.with_kept((*events, *self._end_round(rounds)))
            elif events or (kind == AgendaKind.WAKE and self._is_awaited()):
                yield self.messages.with_kept(events)
            if not self._left or self.provider.is_hopeless or self._is_over():
                return
        if self.messages.has_kept:
            yield self.messages.with_kept(())

    def _is_over(self) -> bool:
        """Return whether only future faults are left, so that no pending job can ever run."""
        faults = self.node_faults
        return faults is not None and self.agenda.left() == faults.coming and not self.messages.has_kept

    def apply(self, plan: Plan) -> None:
        """Apply the plan. An action for a job whose end is not yet reported to the scheduler has no effect."""
        for action in plan.actions:
            if isinstance(action, RequestNodes | ReleaseNodes):
                self.provider.apply(action)
                continue
            live = self.live.get(action.job)
            if live is None:
                continue
            match action:
                case Start():
                    live.limit_s = action.limit_s
                    self.start(live, action.attempt, action.placements)
                case Place():
                    self.place(live, action.placements)
                case Wait():
                    live.fate.told = action.reason
                case Preempt():
                    self.preempt(live, action)
                case Shrink():
                    self.shrink(live, action)
        wake_s = inf if plan.wake_s is None else plan.wake_s
        if wake_s != self._wake_s:
            self._wake_s = wake_s
            if self.now_s <= wake_s < inf:
                self.agenda.put(wake_s, AgendaKind.WAKE, tuple)

    def close(self) -> None:
        """End the run: record the allocations of running jobs, and the bill, up to now."""
        self.provider.close()
        for live in self.live.values():
            self._rework(live)

    # Jobs

    def submit(self, fate: Fate) -> Sequence[Event]:
        self._round_over = True
        job = self.arrivals.job_of(fate)
        self.live[job.id] = Live(job, fate)
        return self._tell(job.id, Submitted(job))

    def start(self, live: Live, attempt: int, placements: tuple[Placement, ...]) -> None:
        live.attempt, live.number = attempt, live.number + 1
        live.phase, live.placed, live.since_s = Phase.STARTING, placements, self.now_s
        if live.fate.task.active_s is not None:
            self.agenda.put(
                self.now_s + live.fate.task.active_s, AgendaKind.END, partial(self._expire, live, live.number)
            )
        if self.factory is not None:
            self._order_pods(self.factory, live)
        elif not placements:
            self.agenda.put(self.now_s, AgendaKind.POD, partial(self._create_pods, live, live.number))
        elif not self.nodes.keys() >= {placement.node for placement in placements}:
            self.agenda.put(self.now_s, AgendaKind.POD, partial(self._go_back, live, live.number, NO_NODE))
        else:
            self._begin_soon(live)

    def place(self, live: Live, placements: tuple[Placement, ...]) -> None:
        if live.phase is Phase.QUEUED:
            return  # the start was undone meanwhile, and its event has not arrived yet
        self._rework(live)
        live.placed = (*live.placed, *placements)
        for placement in placements:
            live.open.pop(Slot(placement.role, placement.ordinal), None)
        if live.phase is Phase.RUNNING:
            self._work(live)
        elif live.phase is Phase.STARTING and live.has_minimum():
            self._begin_soon(live)

    def preempt(self, live: Live, action: Preempt) -> None:
        if live.phase is Phase.QUEUED or live.attempt != action.attempt:
            return
        if live.phase is not Phase.STOPPING:
            self._cascade(live.fate, action.by)
        live.phase = Phase.STOPPING
        gone_s = self.now_s + (action.grace_s or 0.0)
        self.agenda.put(gone_s, AgendaKind.POD, partial(self._go_back, live, live.number, GAVE_WAY))

    def _cascade(self, fate: Fate, by: str) -> None:
        """Record the length of the chain of preemptions: the preemptor `by` may itself be a job that was preempted
        before."""
        winner = self.live.get(by)
        fate.cascade = 1 + (winner.fate.cascade if winner is not None else 0)
        self.cascades.append(fate.cascade)

    def shrink(self, live: Live, action: Shrink) -> None:
        if live.phase is not Phase.QUEUED:
            gone_s = self.now_s + (action.grace_s or 0.0)
            self.agenda.put(gone_s, AgendaKind.POD, partial(self._release, live, live.number, action.slots))

    def _create_pods(self, live: Live, number: int) -> Sequence[Event]:
        if live.number != number:
            return ()
        live.open = dict.fromkeys(
            Slot(at, ordinal) for at, role in enumerate(live.job.roles) for ordinal in range(role.count)
        )
        return self._tell(live.job.id, Opened(live.job.id, tuple(live.open)))

    def _order_pods(self, factory: Factory, live: Live) -> None:
        """Order the job's pods from the controllers, which create them at a limited rate."""
        if not factory.orders:
            self.agenda.put(self.now_s + factory.creation.every_s, AgendaKind.POD, self._create_some)
        slots = [Slot(placed.role, placed.ordinal) for placed in live.placed] or [
            Slot(at, ordinal) for at, role in enumerate(live.job.roles) for ordinal in range(role.count)
        ]
        factory.order(live.job.id, live.number, slots)

    def _create_some(self) -> Sequence[Event]:
        assert self.factory is not None
        events: list[Event] = []
        for job, number, slot, last in self.factory.make():
            live = self.live.get(job)
            if live is None or live.number != number:
                continue  # the job has ended
            if not live.placed or slot not in {(placed.role, placed.ordinal) for placed in live.placed}:
                live.open[slot] = None
                events += self._tell(job, Opened(job, (slot,)))
            elif last and live.has_minimum():
                self._begin_soon(live)
        if self.factory.orders:
            self.agenda.put(self.now_s + self.factory.creation.every_s, AgendaKind.POD, self._create_some)
        return events

    def _expire(self, live: Live, number: int) -> Sequence[Event]:
        """Fail the job at its `activeDeadlineSeconds`, whether or not all its pods ran."""
        if live.number != number or live.phase is Phase.QUEUED:
            return ()
        return self._over(live, Outcome.FAILED)

    def _begin_soon(self, live: Live) -> None:
        """Let the job's pods run now, or after their start delay."""
        delay_s = self.disturbance.start_delay_s(live.job.id) if self.disturbance is not None else 0.0
        if not delay_s:
            self.messages.keep(self._begin(live, live.number))
        else:
            self.agenda.put(self.now_s + delay_s, AgendaKind.POD, partial(self._begin, live, live.number))

    def _begin(self, live: Live, number: int) -> Sequence[Event]:
        """Begin the job's run: all required pods run."""
        if live.number != number or live.phase is not Phase.STARTING:
            return ()
        now_s, fate = self.agenda.now_s, live.fate
        if live.since_s < now_s:
            self._rework(live)
        live.phase, live.began_s, live.since_s = Phase.RUNNING, now_s, now_s
        self.running[live.job.id] = live
        fate.starts += 1
        if fate.start_s is None:
            fate.start_s = now_s
            if self.disturbance is not None:
                fate.work_s *= self.disturbance.stretch(live.job.id)
        self._work(live)
        if live.job is not fate.task.job:
            self._expect_outliving(live)
        return (*self._tell(live.job.id, Started(live.job.id, live.attempt)), *self._open_missing(live))

    def _open_missing(self, live: Live) -> Sequence[Event]:
        """Open the slots by which the elastic job could grow."""
        if not (missing := live.missing()):
            return ()
        live.open.update(dict.fromkeys(missing))
        return self._tell(live.job.id, Opened(live.job.id, missing))

    def _work(self, live: Live) -> None:
        """Set the job's rate of work from its present pods, and plan its end accordingly."""
        live.plan += 1
        live.rate, live.since_s = live.pace(), self.agenda.now_s
        end_s = inf if live.rate <= 0 else live.since_s + (live.fate.work_s - live.worked_s) / live.rate
        limit_s, told_s = live.stop_s(), live.limit_s
        if limit_s is not None and live.began_s + limit_s < end_s:
            end_s = live.began_s + limit_s
        live.ends_s = end_s
        if end_s < inf:
            foreseen = told_s is not None and end_s == live.began_s + told_s
            kind = AgendaKind.FORESEEN if foreseen else AgendaKind.END
            live.ticket = self.agenda.put(end_s, kind, partial(self._end, live, live.plan))

    def _rework(self, live: Live) -> None:
        """Record the work done so far. Call it before the job's pods or its rate change."""
        if live.phase is Phase.QUEUED:
            return
        live.worked_s += (self.now_s - live.since_s) * live.rate
        if self.now_s > live.since_s and live.placed:
            self.stints.append(Stint(live.fate.index, live.since_s, self.now_s, live.placed, live.rate > 0))
        live.since_s = self.now_s

    def _end(self, live: Live, plan: int) -> Sequence[Event]:
        if live.plan != plan:
            return ()  # this end was planned for other pods
        fate, now_s = live.fate, self.agenda.now_s
        done = live.rate > 0 and now_s >= live.since_s + (fate.work_s - live.worked_s) / live.rate
        fate.ran_s = fate.work_s if done else live.worked_s + (now_s - live.since_s) * live.rate
        return self._over(live, Outcome.SUCCEEDED if done else Outcome.FAILED)

    def _over(self, live: Live, outcome: Outcome) -> Sequence[Event]:
        fate, now_s = live.fate, self.agenda.now_s
        fate.end_s, fate.outcome = now_s, outcome
        if live.placed:
            self.stints.append(Stint(fate.index, live.since_s, now_s, live.placed, live.rate > 0))
        self.estimator.ended(fate.task, fate.ran_s, now_s)
        return self._leave(live, outcome)

    def _give_up(self, live: Live) -> Sequence[Event]:
        """Delete the job for its user, because it would start again for ever."""
        live.fate.reason = f"given up: {live.fruitless} times a node of it failed before anything that it did was saved"
        return self._leave(live, Outcome.DELETED)

    def _leave(self, live: Live, outcome: Outcome) -> Sequence[Event]:
        """Remove the job from the cluster and report its end."""
        del self.live[live.job.id]
        self.running.pop(live.job.id, None)
        if self.disturbance is not None:
            self.outcomes[live.job.id] = outcome  # for a restarted scheduler
        live.number, live.plan = live.number + 1, live.plan + 1
        self.arrivals.expect_followers(live.job.id)
        self._round_over = True
        self.ended += 1
        self._left -= 1
        return self._tell(live.job.id, Finished(live.job.id, outcome))

    def _go_back(self, live: Live, number: int, reason: Reason) -> Sequence[Event]:
        """Stop all pods of the job; it waits again."""
        if live.number != number or live.phase is Phase.QUEUED:
            return ()
        if live.rate:
            self._lose_work(live)
        else:
            self._rework(live)
        live.phase, live.number, live.plan = Phase.QUEUED, live.number + 1, live.plan + 1
        live.placed, live.rate = (), 0.0
        live.fate.preemptions += reason.code is ReasonCode.PREEMPTED
        live.open.clear()
        self.running.pop(live.job.id, None)
        return self._tell(live.job.id, Refused(live.job.id, live.attempt, reason, self.now_s))

    def _lose_work(self, live: Live) -> None:
        worked_s = live.worked_s + (self.now_s - live.since_s) * live.rate
        kept_s = 0.0 if not self.checkpoint_s else worked_s // self.checkpoint_s * self.checkpoint_s
        kept_s = max(kept_s, live.kept_s)
        live.fate.lost_s += worked_s - kept_s
        self.stints.append(Stint(live.fate.index, live.since_s, self.now_s, live.placed, True))
        live.worked_s = live.kept_s = kept_s

    def _end_round(self, rounds: Rounds) -> Sequence[Event]:
        """Save and stop all running jobs, and queue them again with a priority by their remaining work."""
        self._round_over = False
        events: list[Event] = []
        for live in list(self.running.values()):
            task, live.kept_s = live.fate.task, live.worked_s + self._saved(live)
            events += self._go_back(live, live.number, ROUND_OVER)
            left_s = live.fate.work_s - live.worked_s
            live.job = replace(live.job, priority=rounds.priority(task, left_s, *self.counted))
            events.append(Submitted(live.job))
        return events

    def _saved(self, live: Live) -> float:
        """Return the work since the job's start, minus the cost of saving and restarting."""
        return max(0.0, (self.now_s - live.since_s) * live.rate - live.fate.task.restart_s)

    def _release(self, live: Live, number: int, slots: tuple[Slot, ...]) -> Sequence[Event]:
        if live.number != number:
            return ()
        self._rework(live)
        gone = set(slots)
        live.placed = tuple(placed for placed in live.placed if (placed.role, placed.ordinal) not in gone)
        if live.phase is Phase.RUNNING:
            self._work(live)
        return (*self._tell(live.job.id, Released(live.job.id, slots)), *self._open_missing(live))

    def _expect_outliving(self, live: Live) -> None:
        """Schedule a new estimate for the time at which the present estimate is over."""
        told_s = live.job.limit_s
        if told_s is not None and self.estimator.outlived(live.fate.task, live.corrections) is not None:
            at_s = live.began_s + told_s
            self.agenda.put(at_s, AgendaKind.OUTLIVED, partial(self._outlived, live, live.number))

    def _outlived(self, live: Live, number: int) -> Sequence[Event]:
        if live.number != number or live.ends_s <= self.now_s:
            return ()
        longer_s = self.estimator.outlived(live.fate.task, live.corrections)
        live.corrections += 1
        if longer_s is None or longer_s == live.job.limit_s:
            return ()
        live.expect(longer_s)
        self._expect_outliving(live)
        if live.ends_s == live.began_s + longer_s:  # with the new estimate the end is foreseen
            live.plan += 1
            self.agenda.put(live.ends_s, AgendaKind.FORESEEN, partial(self._end, live, live.plan), live.ticket)
        return self._tell(live.job.id, live.adoption())

    # Nodes, time

    def _lose(self, node: str) -> Sequence[Event]:
        """Remove the node. Each job with a pod on it stops as a whole and waits again."""
        del self.nodes[node]
        events = [*self._tell(node, NodeGone(node))]
        for live in list(self.live.values()):
            if any(placed.node == node for placed in live.placed):
                saved_s = live.kept_s
                events += self._go_back(live, live.number, NODE_LOST)
                live.fruitless = live.fruitless + 1 if live.kept_s == saved_s else 0
                if live.fruitless >= GIVEN_UP_AFTER:
                    events += self._give_up(live)
        return events

    def _restart(self) -> Sequence[Event]:
        """Restart the scheduler with a full list; delayed events for the old one are dropped."""
        assert self.disturbance is not None
        self.agenda.put(self.now_s + self.disturbance.restart_after_s(), AgendaKind.RESTART, self._restart)
        self.messages.restart()
        for live in self.live.values():
            if live.phase is Phase.QUEUED:
                live.attempt = 0  # the new scheduler counts starts from 0
        return everything(
            *(self.nodes.values(), self.queues, self.reservations, self.live.values(), self.outcomes),
            self.provider.listing(),
        )

    def _is_awaited(self) -> bool:
        """Return whether the last plan asked for a pass at this time. Requests of earlier plans do not count."""
        awaited = self._wake_s == self.now_s
        if awaited:
            self._wake_s = inf
        return awaited
