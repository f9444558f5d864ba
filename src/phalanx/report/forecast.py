"""When pending jobs are expected to start: the cycle, played forward on a copy of the state.

Every running job is taken to run as long as its time limit allows, and not a second longer; a pod that is told to go is
gone at once; nothing new is submitted. So the order of the queues, quotas, backfill, reservations, dependencies and
preemption count for the forecast exactly as they will count for the decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import inf

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Event, Finished, Opened, Refused, Released, Ticked
from phalanx.model.job import Outcome, Phase, Slot
from phalanx.model.plan import Action, Plan, Preempt, Shrink, Start
from phalanx.model.policy import Policy
from phalanx.model.reason import StartForecast
from phalanx.state.cluster import Cluster

STEPS = 2_000  # cycles played for one forecast


def forecast(cluster: Cluster, policy: Policy, now_s: float, jobs: Collection[str]) -> dict[str, StartForecast]:
    """Return job -> when it is expected to start, at the earliest `now_s` (seconds since the epoch), and the job whose
    end it waits for, if it is one. A job without an expected start is not in it."""
    return ForecastRun(cluster.copy(), policy, now_s, jobs).run()


class ForecastRun:
    """One forecast. `ended`: the job that ended last, at the time that is being played."""

    def __init__(self, book: Cluster, policy: Policy, now_s: float, jobs: Iterable[str]) -> None:
        self.book, self.policy, self.now_s = book, policy, now_s
        self.asked = {job for job in jobs if job in book.jobs and book.jobs[job].phase is Phase.QUEUED}
        self.found: dict[str, StartForecast] = {}
        self.ended = ""

    def run(self) -> dict[str, StartForecast]:
        """Play forward until all jobs asked about have started, or nothing changes any more; return what was found."""
        events: list[Event] = [*self.leaving()]
        for _ in range(STEPS):
            plan = self.step(events)
            events = [event for action in plan.actions for event in world_answers(self.book, action)]
            if len(self.found) == len(self.asked):
                break
            if not events and not self.go_on(plan):
                break
        return self.found

    def leaving(self) -> Iterator[Event]:
        """Yield the events by which pods that are leaving are gone at once."""
        for job, record in self.book.jobs.items():
            if record.phase is Phase.STOPPING and record.reason is not None:
                yield Refused(job, record.attempt, record.reason)

    def step(self, events: list[Event]) -> Plan:
        """Play one cycle; return its plan."""
        fold(self.book, (Ticked(self.now_s), *events, *self.ends()))
        plan = decide(self.book, self.policy, self.now_s)
        fold_plan(self.book, plan)
        for action in plan.actions:
            if isinstance(action, Start) and action.job in self.asked and action.job not in self.found:
                self.found[action.job] = StartForecast(start_s=self.now_s, after=self.ended)
        return plan

    def ends(self) -> Iterator[Event]:
        """Yield the ends of jobs whose limit is over."""
        over = []
        for end_s, job in self.book.ends.order:
            if end_s > self.now_s:
                break
            over.append(job)
        self.ended = over[-1] if over else self.ended
        for job in over:
            yield Finished(job, Outcome.SUCCEEDED)

    def go_on(self, plan: Plan) -> bool:
        """Go on to the next time at which anything changes, which may be now; return whether there is one."""
        if plan.wake_s is not None and plan.wake_s <= self.now_s:
            return True
        times = [end_s for end_s, _ in self.book.ends.order[:1]]
        if plan.wake_s is not None:
            times.append(plan.wake_s)
        later = [at_s for at_s in times if self.now_s < at_s < inf]
        if not later:
            return False
        self.now_s, self.ended = min(later), ""
        return True


def world_answers(book: Cluster, action: Action) -> Iterator[Event]:
    """Yield what the most obliging world answers to the action, at once."""
    match action:
        case Start(job, _, ()):
            roles = book.jobs[job].job.roles
            yield Opened(job, tuple(Slot(at, n) for at, role in enumerate(roles) for n in range(role.count)))
        case Preempt(job, attempt, _, reason):
            yield Refused(job, attempt, reason)
        case Shrink(job, slots):
            yield Released(job, slots)
        case _:
            pass
