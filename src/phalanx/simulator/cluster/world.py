"""The simulated cluster. Like a real cluster, it carries out plans and reports events; its clock is virtual.

In a run without faults:

- A `Start` with placements takes effect at once, and `Started` is reported with the next event. The job ends after its
  run time in the trace, or at its limit, whichever is first. The limit is the user's requested limit or, if the user
  requested no limit, the limit of the queue. A job that ends at its limit has failed.
- In a queue that schedules pod by pod, a `Start` opens the job's slots. The job begins to run when the pods of its
  minimum are placed.
- A preempted job stops when its grace period is over, and waits again. The work of the job since its start (or since
  its last checkpoint) is lost. If a plan shrinks a job, the pods named in the plan stop when their grace period is
  over.
- The rate at which an elastic job works is the fraction of its pods that are placed. While an elastic job runs, the
  slots of its missing pods are open, which means that they wait for nodes. Slots that the job has released are opened
  again when their pods are gone.
- If `rounds` is set, a round ends whenever a job is submitted or ends: all running jobs save their work, are stopped,
  and are queued again.
- Nodes of node groups are added and removed as the plans request; the module `provider` simulates the faults of node
  groups, and records which nodes must be paid for.
- If `formula` is set, a job gets the priority that the formula computes when the job is submitted.

A *happening* is a change in the simulated cluster at some time, for example a submission or an end. Usually each
happening leads to one scheduling pass. The module `agenda` orders the happenings, `disturbance` creates faults and
delays events, `arrivals` creates the submissions, and `jobs` changes the state of each job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TypeAlias

from phalanx.model.event import Event, NodeGone
from phalanx.model.node import Node, Reservation
from phalanx.model.plan import Place, Plan, Preempt, ReleaseNodes, RequestNodes, Shrink, Start, Wait
from phalanx.model.pod import CPU
from phalanx.model.queue import Queue
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.arrivals import Arrivals, Estimator
from phalanx.simulator.cluster.disturbance import Disturbance, Faults, NodeFaults, UndeliveredEvents
from phalanx.simulator.cluster.factory import Creation
from phalanx.simulator.cluster.jobs import SimulatedJobs
from phalanx.simulator.cluster.listing import everything
from phalanx.simulator.cluster.provider import NodeProvider
from phalanx.simulator.schedule import Fate
from phalanx.simulator.workload import MILLI_CPU, Formula, Rounds, SimulatedGroup

Happening: TypeAlias = Callable[[], Sequence[Event]]


class SimulatedWorld:
    """The simulated cluster. `disturbance`: the faults; None if there are no faults. `checkpoint_s`: the interval at
    which jobs save their work; None if jobs never save their work. `counted`: the counted resource and its unit, in
    which rounds and formulas measure the size of a job."""

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
        self.disturbance, self.rounds = disturbance, rounds
        self.agenda: Agenda[Fate | Happening] = Agenda(
            [(fate.task.job.submitted_s, fate) for fate in fates if not fate.task.follows]
        )
        arrivals = Arrivals(
            *(fates, self.agenda, estimator),
            checkpoint_s=checkpoint_s,
            rounds=rounds,
            formula=formula,
            counted=counted,
        )
        self.messages = UndeliveredEvents(self.agenda, disturbance)
        self.jobs = SimulatedJobs(
            *(self.agenda, self.nodes, arrivals, self.messages, estimator),
            disturbance=disturbance,
            checkpoint_s=checkpoint_s,
            creation=creation,
        )
        self._counted, self._wake_s, self._total = counted, inf, len(fates)
        self.node_faults = None
        if disturbance is not None:
            self.node_faults = NodeFaults(disturbance, self.nodes, self.agenda, self.messages.send, self._lose)
            self.node_faults.expect(self._restart)
        chance = Disturbance(Faults(), seed)
        self.provider = NodeProvider(groups, self.nodes, self.agenda, chance, self.messages.send, self._lose)

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    def happenings(self) -> Iterator[Sequence[Event]]:
        """Yield the events for each scheduling pass, one pass after the other. The first events describe the nodes and
        queues."""
        yield everything(self.nodes.values(), self.queues, self.reservations, (), {}, self.provider.listing())
        agenda, rounds = self.agenda, self.rounds
        while (taken := agenda.take()) is not None:
            kind, what = taken
            if kind == AgendaKind.SUBMISSION:
                assert isinstance(what, Fate)
                events = self.jobs.submit(what)
            else:
                assert not isinstance(what, Fate)
                events = what()
            if agenda.next_s() == agenda.now_s if rounds is not None else kind < 0 and agenda.joins_next(kind):
                self.messages.keep(events)
            elif rounds is not None and self.jobs.has_changed:
                yield self.messages.with_kept((*events, *self._end_round(rounds)))
            elif events or (kind == AgendaKind.WAKE and self._is_awaited()):
                yield self.messages.with_kept(events)
            if self.jobs.ended == self._total or self.provider.is_hopeless or self._is_over():
                return
        if self.messages.has_kept:
            yield self.messages.with_kept(())

    def _is_over(self) -> bool:
        """Return whether all happenings on the agenda are faults. In this case no pending job can ever run."""
        faults = self.node_faults
        return faults is not None and self.agenda.left() == faults.coming and not self.messages.has_kept

    def apply(self, plan: Plan) -> None:
        for action in plan.actions:
            match action:
                case RequestNodes() | ReleaseNodes():
                    self.provider.apply(action)
                case Start() | Place() | Wait() | Preempt() | Shrink():
                    self.jobs.apply(action)
        wake_s = inf if plan.wake_s is None else plan.wake_s
        if wake_s != self._wake_s:
            self._wake_s = wake_s
            if self.now_s <= wake_s < inf:
                self.agenda.put(wake_s, AgendaKind.WAKE, tuple)

    def close(self) -> None:
        """End the run. Record the work of the running jobs, and the bill for the nodes, up to the present time."""
        self.provider.close()
        self.jobs.close()

    # --- happenings ---------------------------------------------------------------------------------------------------

    def _end_round(self, rounds: Rounds) -> Sequence[Event]:
        """End the round: queue all running jobs again, with priorities that depend on their remaining work."""
        counted = self._counted
        return self.jobs.end_round(lambda live: rounds.priority(live.fate.task, live.left_s(), *counted))

    def _lose(self, node: str) -> Sequence[Event]:
        """Remove the node and the pods on it."""
        del self.nodes[node]
        return [*self.messages.send(node, NodeGone(node)), *self.jobs.lose_node(node)]

    def _restart(self) -> Sequence[Event]:
        """Restart the scheduler: the new scheduler process gets a full list of all objects. Delayed events for the old
        process are dropped."""
        assert self.disturbance is not None
        self.agenda.put(self.now_s + self.disturbance.restart_after_s(), AgendaKind.RESTART, self._restart)
        self.messages.restart()
        self.jobs.forget_attempts()
        return everything(
            *(self.nodes.values(), self.queues, self.reservations, self.jobs.live.values(), self.jobs.outcomes),
            self.provider.listing(),
        )

    def _is_awaited(self) -> bool:
        """Return whether the last plan requested a scheduling pass at this time. Requests of earlier plans are
        ignored."""
        awaited = self._wake_s == self.now_s
        if awaited:
            self._wake_s = inf
        return awaited
