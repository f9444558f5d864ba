"""Simulate how the jobs of a live cluster continue from now on if no further jobs are submitted.

The simulation begins with a given cluster state and advances it with a virtual clock. All decisions are made by the
code of the real scheduler. The simulation assumes:

- A job runs until its time limit. A job without a limit runs for a given time (`Assumptions.run_s`). A job that has
  already run longer than its limit ends now. A job begins to run at the moment at which the scheduler decides to start
  it.
- Evicted pods are gone when their grace period is over. A preempted job runs again later, from the beginning.
- An elastic job with fewer pods than it can use grows when capacity is free. Its run time does not change.
- A started gang with fewer pods than its minimum is stopped as a whole if its missing pods get no nodes
  within `Assumptions.patience_s`.
- Pods of other schedulers stay, and the nodes do not change, except for nodes that node groups add or remove.

Job order, quota, backfill, reservations, dependencies and preemption have the same effect as in the real cluster. If
jobs end before their time limits, other jobs start earlier than this simulation forecasts. The simulation uses no
random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from phalanx.model.event import Event, Finished, NodeGone, NodeSeen, Opened, Refused, Released, Started
from phalanx.model.job import Job, Outcome, Phase, Slot
from phalanx.model.plan import Place, Plan, Preempt, ReleaseNodes, RequestNodes, Shrink, Start
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.run.play import LoopStep
from phalanx.state.cluster import Cluster, JobRecord

Happening: TypeAlias = Callable[[], Sequence[Event]]

PASSES = 200_000  # a simulation ends after at most this many scheduling passes
LACKING = Reason(code=ReasonCode.BACKOFF, text="pods of its minimum found no node in time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The assumptions of a simulation. `limit_s`: a function that returns a job's time limit in seconds, or None.
    `run_s`: the run time of a job without a limit; for a job that already runs, the time counts from now. `patience_s`:
    for how many seconds a started gang may be below its minimum."""

    limit_s: Callable[[Job], float | None] = lambda job: job.limit_s
    run_s: float = 3600.0
    patience_s: float = 300.0


@dataclass(frozen=True, slots=True)
class ForwardEviction:
    """An eviction of a job at `at_s` (seconds since the epoch). `by`: the preemptor; empty if the job was stopped
    because it was below its minimum for too long. `ran_s`: the run time that the job loses."""

    at_s: float
    by: str
    ran_s: float


@dataclass(slots=True, kw_only=True)
class Course:
    """The simulated course of one job. Times are in seconds since the epoch.

    `ran`: whether the job was running at the beginning of the simulation.
    `waits_since_s`: when its present wait began; None if it does not wait.
    `starts_s`: the times of its starts; there may be several, because an evicted job starts again.
    `end_s`: the end of its last run; None if the job still waits.
    `waited_s`: its total wait since the beginning of the simulation. `reason`: why it still waits at the end of the
    simulation."""

    job: str
    queue: str
    ran: bool
    waits_since_s: float | None
    starts_s: list[float] = field(default_factory=list)
    evictions: list[ForwardEviction] = field(default_factory=list)
    end_s: float | None = None
    waited_s: float = 0.0
    reason: Reason | None = None

    @property
    def wait_s(self) -> float | None:
        """Return the total wait; None if the job still waits at the end of the simulation."""
        return self.waited_s if self.waits_since_s is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Future:
    """The result of a simulation. `courses`: the course of every job, by id. `until_s`: the end of the simulated time
    (seconds since the epoch), which may be earlier than requested. `unlimited`: running jobs without a time limit."""

    courses: dict[str, Course]
    until_s: float
    unlimited: tuple[str, ...]


def forward(
    book: Cluster,
    policy: Policy,
    step: LoopStep,
    *,
    now_s: float,
    until_s: float,
    assumptions: Assumptions | None = None,
    patient: Callable[[], bool] = lambda: True,
) -> Future:
    """Simulate from `now_s` to `until_s` (seconds since the epoch), or until no job waits or `patient` returns False.
    `book`: the cluster state, which is changed; pass a copy. `step`: `phalanx.loop.step`."""
    world = Ahead(book, now_s, assumptions or Assumptions())
    events: Sequence[Event] | None = world.beginning()
    passes = 0
    while events is not None and passes < PASSES and (patient() or not passes):
        step(book, events, policy, world.now_s, world)
        passes += 1
        events = world.next_events(until_s) if world.waiting else None
    return world.told(until_s if events is None else world.now_s)


class JobTimers:
    """The virtual clock, and the planned events of jobs. When a job starts or is evicted, all events that were planned
    for it before are cancelled."""

    def __init__(self, now_s: float) -> None:
        self.agenda: Agenda[Happening] = Agenda([])
        self.agenda.now_s = now_s
        # Job -> the number of its starts and evictions so far. A planned event is outdated if the number of its job has
        # changed since it was planned.
        self._number: dict[str, int] = {}

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    def add(self, job: str) -> None:
        """Add a job, for which no event is planned yet."""
        self._number[job] = 0

    def cancel(self, job: str) -> None:
        """Cancel all events that are planned for the job."""
        self._number[job] += 1

    def report_in(self, after_s: float, job: str, event: Event, kind: AgendaKind = AgendaKind.POD) -> None:
        """Plan that the event is reported after `after_s` seconds."""
        self.call_in(after_s, job, lambda: (event,), kind)

    def call_in(self, after_s: float, job: str, what: Happening, kind: AgendaKind = AgendaKind.POD) -> None:
        """Plan that `what` is called after `after_s` seconds. The call is cancelled if the job starts again or is
        evicted before that time."""
        number = self._number[job]
        self.agenda.put(self.now_s + after_s, kind, lambda: what() if self._number[job] == number else ())


class Ahead:
    """The simulated cluster. `waiting`: the jobs that wait, or that will wait again because they are being stopped."""

    def __init__(self, book: Cluster, now_s: float, assumptions: Assumptions) -> None:
        self.book, self.assumptions = book, assumptions
        self.timers = JobTimers(now_s)
        self.agenda = self.timers.agenda
        self.courses: dict[str, Course] = {}
        self.waiting: dict[str, None] = {}
        self.unlimited: dict[str, None] = {}
        self._unheard: list[Event] = []
        self._wake_s: float | None = None

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    def beginning(self) -> Sequence[Event]:
        """Create the course of every job in the cluster state. Return the events that happen at the beginning of the
        simulation."""
        events: list[Event] = []
        for name, coming in self.book.columns.groups.coming.items():
            self._expect_node(name, coming.expected_s)
        for job, record in self.book.jobs.items():
            waits = record.phase in {Phase.QUEUED, Phase.STOPPING}
            waits |= record.phase is Phase.STARTING and not record.gang.enough(record.placed)
            queue = record.queue
            since_s = self.now_s if waits else None
            self.courses[job] = Course(job=job, queue=queue, ran=not waits, waits_since_s=since_s)
            self.timers.add(job)
            events += self._resumed(job, record)
        return events

    def next_events(self, until_s: float) -> Sequence[Event] | None:
        """Advance the clock to the time of the next event, and return all events of this time; None if there is no
        event until `until_s`."""
        at_s = self.agenda.next_s()
        if at_s > until_s:
            return None
        events, self._unheard = self._unheard, []
        while self.agenda.next_s() == at_s and (taken := self.agenda.take()) is not None:
            events += taken[1]()
        return events

    def apply(self, plan: Plan) -> None:
        for action in plan.actions:
            match action:
                case Start(job, _, ()):
                    self.timers.cancel(job)
                    self.timers.call_in(0.0, job, partial(self._open, job))
                case Start(job):
                    self._unheard += self._begin(job)
                case Place(job):
                    self._unheard += self._placed(job)
                case Preempt(job, attempt, by, reason, grace_s):
                    self._leave(job, by)
                    self.timers.report_in(grace_s or 0.0, job, Refused(job, attempt, reason))
                case Shrink(job, slots, _, _, grace_s):
                    self.timers.call_in(grace_s or 0.0, job, partial(self._released, job, slots))
                case RequestNodes(nodes=nodes, expected_s=expected_s):
                    for name in nodes:
                        self._expect_node(name, expected_s)
                case ReleaseNodes(nodes=nodes):
                    self._unheard += [NodeGone(name) for name in nodes if self.book.columns.node(name) is not None]
        at_s = plan.wake_s
        if at_s is not None and (at_s == self.now_s or (at_s > self.now_s and at_s != self._wake_s)):
            self._wake_s = at_s
            self.agenda.put(at_s, AgendaKind.WAKE, tuple)

    def told(self, until_s: float) -> Future:
        for job in self.waiting:
            if job in self.book.jobs:
                self.courses[job].reason = self.book.reason(job)
        return Future(courses=self.courses, until_s=until_s, unlimited=tuple(self.unlimited))

    # Nodes of node groups

    def _expect_node(self, name: str, expected_s: float) -> None:
        """Schedule the arrival of a requested node for the time at which it is expected."""
        self.agenda.put(expected_s, AgendaKind.NODE, partial(self._arrive, name))

    def _arrive(self, name: str) -> Sequence[Event]:
        node = self.book.columns.node(name)
        if node is None or name not in self.book.columns.groups.coming:
            return ()
        return (NodeSeen(replace(node, ready=True, unschedulable=False)),)

    # The jobs at the beginning of the simulation

    def _resumed(self, job: str, record: JobRecord) -> Iterator[Event]:
        """Plan the events of a job in the initial state: its end, or the time at which its terminating pods are gone.
        Yield the events that happen at the beginning of the simulation."""
        gone_s = max(0.0, self.book.leaving.get(job, 0.0) - self.now_s)
        lacks = not record.gang.enough(record.placed)
        if record.phase is Phase.QUEUED or record.phase is Phase.STOPPING or lacks:
            self.waiting[job] = None
        if record.phase is Phase.QUEUED:
            return
        if record.phase is Phase.STOPPING:
            self.timers.report_in(gone_s, job, Refused(job, record.attempt, record.reason or LACKING))
            return
        if record.leaving:
            self.timers.report_in(gone_s, job, Released(job, tuple(sorted(record.leaving))))
        if lacks and self._is_gang(record):
            self.timers.call_in(self.assumptions.patience_s, job, partial(self._give_up, job))
        if record.phase is Phase.STARTING and not lacks:
            yield Started(job, record.attempt)
        if record.phase is Phase.RUNNING or not lacks:
            self._expect_end(job, record)

    def _expect_end(self, job: str, record: JobRecord) -> None:
        limit_s = self.assumptions.limit_s(record.job)
        if limit_s is None:
            self.unlimited[job] = None
        runs_s = self.assumptions.run_s if limit_s is None else record.started_s + limit_s - self.now_s
        self._end_in(job, max(0.0, runs_s))

    # Starts of jobs

    def _open(self, job: str) -> Sequence[Event]:
        """Open all slots of a job that starts pod by pod: its pods are created, and each pod needs a node."""
        roles = self.book.jobs[job].job.roles
        return (Opened(job, tuple(Slot(at, n) for at, role in enumerate(roles) for n in range(role.count))),)

    def _placed(self, job: str) -> Sequence[Event]:
        """Begin the run of the job if all pods of its minimum now have nodes."""
        record = self.book.jobs[job]
        if job not in self.waiting or not record.gang.enough(record.placed):
            return ()
        if record.phase is Phase.STARTING:
            return self._begin(job)
        del self.waiting[job]
        return ()

    def _begin(self, job: str) -> Sequence[Event]:
        """Begin the job's run and plan its end."""
        record, course = self.book.jobs[job], self.courses[job]
        self.timers.cancel(job)
        self.waiting.pop(job, None)
        course.starts_s.append(self.now_s)
        if course.waits_since_s is not None:
            course.waited_s += self.now_s - course.waits_since_s
            course.waits_since_s = None
        limit_s = self.assumptions.limit_s(record.job)
        self._end_in(job, self.assumptions.run_s if limit_s is None else max(0.0, limit_s))
        return (Started(job, record.attempt), *self._missing(record))

    def _missing(self, record: JobRecord) -> Sequence[Event]:
        """Open the slots that have no node, if the job is elastic."""
        if not record.job.size.grows:
            return ()
        every = (Slot(at, n) for at, role in enumerate(record.job.roles) for n in range(role.count))
        slots = tuple(slot for slot in every if slot not in record.placements and slot not in record.open)
        return (Opened(record.job.id, slots),) if slots else ()

    def _released(self, job: str, slots: tuple[Slot, ...]) -> Sequence[Event]:
        """Release the evicted slots of a shrunk job, and open them again, so that the job can grow later."""
        return (Released(job, slots), Opened(job, slots))

    # Ends of jobs

    def _end_in(self, job: str, runs_s: float) -> None:
        self.courses[job].end_s = self.now_s + runs_s
        self.timers.report_in(runs_s, job, Finished(job, Outcome.SUCCEEDED), AgendaKind.END)

    def _leave(self, job: str, by: str) -> None:
        course = self.courses[job]
        course.evictions.append(ForwardEviction(self.now_s, by, self._ran_s(course)))
        course.end_s = None
        if course.waits_since_s is None:
            course.waits_since_s = self.now_s
        self.waiting[job] = None
        self.timers.cancel(job)

    def _give_up(self, job: str) -> Sequence[Event]:
        """Stop a gang that has been below its minimum for too long."""
        record = self.book.jobs[job]
        if record.gang.enough(record.placed):
            return ()
        self._leave(job, "")
        return (Refused(job, record.attempt, LACKING),)

    def _ran_s(self, course: Course) -> float:
        """Return the seconds for which the job has run since its last start."""
        if course.waits_since_s is not None:
            return 0.0
        began_s = course.starts_s[-1] if course.starts_s else self.book.jobs[course.job].started_s
        return max(0.0, self.now_s - began_s) if began_s else 0.0

    def _is_gang(self, record: JobRecord) -> bool:
        queue = self.book.queues.get(record.queue)
        return queue is None or queue.gang
