"""From the middle: what becomes of a cluster's jobs from now on, if nobody submits anything more.

The world begins with a book as it is, not with an empty one, and plays it forward under the virtual clock; the very
scheduler decides. What is assumed:

- a job runs as long as its time limit allows, and one that has none as long as is said; what is beyond its limit
  already ends now. It starts at once when it is decided;
- whoever is told to leave is gone when its grace is over. What was preempted runs all over again later;
- an elastic job that starts with fewer pods than it could have, or gives some up, would have more: it grows as it will
  then, and runs no shorter for it;
- a started gang that lacks pods of its minimum goes back whole if they find no room in time;
- pods of others stay, and no node comes or goes.

So order, quotas, backfill, reservations, dependencies and preemption count as they will count then. It is a forecast
by time limits: jobs that end early make others start earlier. Nothing in it is drawn by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from phalanx.model.event import Event, Finished, Opened, Refused, Released, Started
from phalanx.model.job import GangSize, Job, Outcome, Phase, Slot
from phalanx.model.plan import Place, Plan, Preempt, Shrink, Start
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode
from phalanx.simulator.cluster.agenda import Agenda, Kind
from phalanx.simulator.run.play import Step
from phalanx.state.cluster import Cluster, JobRecord

Happening: TypeAlias = Callable[[], Sequence[Event]]

PASSES = 200_000  # of the scheduler; more are not played
LACKING = Reason(code=ReasonCode.BACKOFF, text="pods of its minimum found no node in time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """`limit_s`: how long a job may run, in seconds; None: it states no limit, and is taken to run `run_s`, those that
    run already from now on. `patience_s`: how long a started gang may lack pods of its minimum."""

    limit_s: Callable[[Job], float | None] = lambda job: job.limit_s
    run_s: float = 3600.0
    patience_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Eviction:
    """An eviction of a job: it was told to leave at `at_s` (seconds since the epoch) for the job `by`; empty: it lacked
    pods. It had run for `ran_s`, which is lost."""

    at_s: float
    by: str
    ran_s: float


@dataclass(slots=True, kw_only=True)
class Course:
    """The course of one job; times in seconds since the epoch. `ran`: it ran at the beginning. `starts_s`: when it
    starts, again after each eviction. `end_s`: when its last start ends, None: it waits to the last. `waited_s`: how
    long it waits in all, from the beginning. `reason`: why it waits still when all is played."""

    job: str
    queue: str
    ran: bool
    waits_since_s: float | None
    starts_s: list[float] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    end_s: float | None = None
    waited_s: float = 0.0
    reason: Reason | None = None

    @property
    def wait_s(self) -> float | None:
        """None: it waits to the last."""
        return self.waited_s if self.waits_since_s is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Future:
    """`courses`: of every job in the book, by its id. `until_s`: so far it was played (seconds since the epoch), which
    is earlier than was asked if there was too much to play. `unlimited`: jobs that state no limit and run."""

    courses: dict[str, Course]
    until_s: float
    unlimited: tuple[str, ...]


def forward(
    book: Cluster,
    policy: Policy,
    step: Step,
    *,
    now_s: float,
    until_s: float,
    assumptions: Assumptions | None = None,
    patient: Callable[[], bool] = lambda: True,
) -> Future:
    """Play the book forward, which is changed by it (`Cluster.copy`), from `now_s` to `until_s` (seconds since the
    epoch) at most, or until no job waits, or nobody is `patient` any more. `step`: `phalanx.loop.step`."""
    world = Ahead(book, now_s, assumptions or Assumptions())
    events: Sequence[Event] | None = world.beginning()
    passes = 0
    while events is not None and passes < PASSES and (patient() or not passes):
        step(book, events, policy, world.now_s, world)
        passes += 1
        events = world.next_events(until_s) if world.waiting else None
    return world.told(until_s if events is None else world.now_s)


class Ahead:
    """The world. `waiting`: jobs that wait, or will wait again."""

    def __init__(self, book: Cluster, now_s: float, assumptions: Assumptions) -> None:
        self.book, self.assumptions = book, assumptions
        self.agenda: Agenda[Happening] = Agenda([])
        self.agenda.now_s = now_s
        self.courses: dict[str, Course] = {}
        self.waiting: dict[str, None] = {}
        self.unlimited: dict[str, None] = {}
        self._number: dict[str, int] = {}  # job -> of its starts and evictions: what was due for an earlier one is not
        self._unheard: list[Event] = []
        self._wake_s: float | None = None

    @property
    def now_s(self) -> float:
        return self.agenda.now_s

    def beginning(self) -> Sequence[Event]:
        """Everybody is where the book says; the events that follow from that at once."""
        events: list[Event] = []
        for job, record in self.book.jobs.items():
            waits = record.phase in {Phase.QUEUED, Phase.STOPPING}
            waits |= record.phase is Phase.STARTING and not record.gang.enough(record.placed)
            queue = self.book.queue_of(record.job)
            since_s = self.now_s if waits else None
            self.courses[job] = Course(job=job, queue=queue, ran=not waits, waits_since_s=since_s)
            self._number[job] = 0
            events += self._resumed(job, record)
        return events

    def next_events(self, until_s: float) -> Sequence[Event] | None:
        """All that happens at the next instant at which anything does; None: nothing does until then."""
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
                    self._renew(job)
                    self._call_in(0.0, job, partial(self._open, job))
                case Start(job):
                    self._unheard += self._begin(job)
                case Place(job):
                    self._unheard += self._placed(job)
                case Preempt(job, attempt, by, reason, grace_s):
                    self._leave(job, by)
                    self._tell_in(grace_s or 0.0, job, Refused(job, attempt, reason))
                case Shrink(job, slots, _, _, grace_s):
                    self._call_in(grace_s or 0.0, job, partial(self._released, job, slots))
        at_s = plan.wake_s
        if at_s is not None and (at_s == self.now_s or (at_s > self.now_s and at_s != self._wake_s)):
            self._wake_s = at_s
            self.agenda.put(at_s, Kind.WAKE, tuple)

    def told(self, until_s: float) -> Future:
        for job in self.waiting:
            if job in self.book.jobs:
                self.courses[job].reason = self.book.reason(job)
        return Future(courses=self.courses, until_s=until_s, unlimited=tuple(self.unlimited))

    # The beginning

    def _resumed(self, job: str, record: JobRecord) -> Iterator[Event]:
        """A job that is under way goes on."""
        gone_s = max(0.0, self.book.leaving.get(job, 0.0) - self.now_s)
        lacks = not record.gang.enough(record.placed)
        if record.phase is Phase.QUEUED or record.phase is Phase.STOPPING or lacks:
            self.waiting[job] = None
        if record.phase is Phase.QUEUED:
            return
        if record.phase is Phase.STOPPING:
            self._tell_in(gone_s, job, Refused(job, record.attempt, record.reason or LACKING))
            return
        if record.leaving:
            self._tell_in(gone_s, job, Released(job, tuple(sorted(record.leaving))))
        if lacks and self._is_gang(record):
            self._call_in(self.assumptions.patience_s, job, partial(self._give_up, job))
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

    # Starts

    def _open(self, job: str) -> Sequence[Event]:
        """The job's pods exist and want nodes."""
        roles = self.book.jobs[job].job.roles
        return (Opened(job, tuple(Slot(at, n) for at, role in enumerate(roles) for n in range(role.count))),)

    def _placed(self, job: str) -> Sequence[Event]:
        """The job has more pods than before: perhaps all that it lacked."""
        record = self.book.jobs[job]
        if job not in self.waiting or not record.gang.enough(record.placed):
            return ()
        if record.phase is Phase.STARTING:
            return self._begin(job)
        del self.waiting[job]
        return ()

    def _begin(self, job: str) -> Sequence[Event]:
        """The job runs from now on."""
        record, course = self.book.jobs[job], self.courses[job]
        self._renew(job)
        self.waiting.pop(job, None)
        course.starts_s.append(self.now_s)
        if course.waits_since_s is not None:
            course.waited_s += self.now_s - course.waits_since_s
            course.waits_since_s = None
        limit_s = self.assumptions.limit_s(record.job)
        self._end_in(job, self.assumptions.run_s if limit_s is None else max(0.0, limit_s))
        return (Started(job, record.attempt), *self._missing(record))

    def _missing(self, record: JobRecord) -> Sequence[Event]:
        """The slots of an elastic job that have no node want one."""
        if record.job.size is not GangSize.ELASTIC:
            return ()
        every = (Slot(at, n) for at, role in enumerate(record.job.roles) for n in range(role.count))
        slots = tuple(slot for slot in every if slot not in record.placements and slot not in record.open)
        return (Opened(record.job.id, slots),) if slots else ()

    def _released(self, job: str, slots: tuple[Slot, ...]) -> Sequence[Event]:
        """The slots that the job gave up are free, and it would have it back one day."""
        return (Released(job, slots), Opened(job, slots))

    # Ends

    def _end_in(self, job: str, runs_s: float) -> None:
        self.courses[job].end_s = self.now_s + runs_s
        self._tell_in(runs_s, job, Finished(job, Outcome.SUCCEEDED), Kind.END)

    def _leave(self, job: str, by: str) -> None:
        course = self.courses[job]
        course.evictions.append(Eviction(self.now_s, by, self._ran_s(course)))
        course.end_s = None
        if course.waits_since_s is None:
            course.waits_since_s = self.now_s
        self.waiting[job] = None
        self._renew(job)

    def _give_up(self, job: str) -> Sequence[Event]:
        """The job has had its time to find nodes for the pods that it lacks."""
        record = self.book.jobs[job]
        if record.gang.enough(record.placed):
            return ()
        self._leave(job, "")
        return (Refused(job, record.attempt, LACKING),)

    def _ran_s(self, course: Course) -> float:
        """How long it has run since it was last started."""
        if course.waits_since_s is not None:
            return 0.0
        began_s = course.starts_s[-1] if course.starts_s else self.book.jobs[course.job].started_s
        return max(0.0, self.now_s - began_s) if began_s else 0.0

    def _is_gang(self, record: JobRecord) -> bool:
        queue = self.book.queues.get(self.book.queue_of(record.job))
        return queue is None or queue.gang

    # Time

    def _renew(self, job: str) -> None:
        """Nothing that was due for it is due any more."""
        self._number[job] += 1

    def _tell_in(self, after_s: float, job: str, event: Event, kind: Kind = Kind.POD) -> None:
        self._call_in(after_s, job, lambda: (event,), kind)

    def _call_in(self, after_s: float, job: str, what: Happening, kind: Kind = Kind.POD) -> None:
        """Unless it has started anew, or left, by then."""
        number = self._number[job]
        self.agenda.put(self.now_s + after_s, kind, lambda: what() if self._number[job] == number else ())
