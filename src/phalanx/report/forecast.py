"""Forecast when pending jobs start, by simulating the next scheduling cycles on copies of the cluster state.

A *play* is one such simulation. In a play, evicted pods end at once, and the run time of each job is set in advance.
The simulated scheduler knows only the time limits of jobs, like the real scheduler. So job order, quota, backfill,
reservations, dependencies and preemption affect the forecast exactly as they will affect the real decisions.

- In the first play every job runs until its time limit, and no job is submitted. The result is the latest start of each
  job, unless jobs that are submitted later start before it.
- In each further play a job runs for a time drawn from the learned run times (`state.run_times`). For each user, each
  of the n plays uses a different one of n quantiles. In one play all jobs of a user use the same quantile, because the
  jobs of a user resemble each other; the quantiles of different users are independent (Latin hypercube sampling: McKay,
  Beckman, Conover, Technometrics 21, 1979).
- In each further play new jobs are submitted as time passes, similar to the jobs that were submitted recently
  (`later_jobs`). The policy decides which of the new jobs start before waiting jobs.
- The starts of a job in these n plays are a sample of its start. The forecast consists of quantiles of this sample; it
  uses no fitted constant. With many live jobs there are fewer plays, and the 90 % interval is widened (`nearly_sure`).
  docs/decisions/0025-expected-starts.md has the accuracy.

`later_jobs` copies the jobs that were submitted recently, to simulate future submissions. The copies are called *later
jobs*.

Later jobs can delay a waiting job. How much they delay it depends on the policy: hardly at all if jobs start in the
order of submission, and a lot if short jobs come first. So each play of a forecast submits later jobs, and the policy
itself decides which of them start before the waiting job. The later jobs copy the jobs of the latest span in which
every submission is known (`state.run_times`), in the same order and with the same gaps. After the last job of the span,
the first job follows again. Each play begins at another point of that span. (This is a circular block bootstrap with a
single block: Politis, Romano, 1992. Bursts stay together.)"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from heapq import heappop, heappush
from math import ceil, inf, log
from typing import TypeAlias

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Event, Finished, NodeSeen, Opened, Refused, Released, Submitted, Ticked
from phalanx.model.job import Job, Outcome, Phase, Slot
from phalanx.model.plan import Action, Plan, Preempt, Shrink, Start
from phalanx.model.policy import Policy
from phalanx.model.reason import NEVER, ReasonCode, StartForecast
from phalanx.state.cluster import Cluster, time_limit_s
from phalanx.state.run_times import Window

MOST_LATER = 256  # the maximum number of jobs that are submitted during one play (simulation)


def later_jobs(cluster: Cluster, now_s: float, plays: int) -> Iterator[Iterator[Job]]:
    """Yield, for each play (simulation), the jobs that are submitted in the play after `now_s` (seconds since the
    epoch), the earliest first."""
    window = cluster.ends.run_times.recent.window((record.job for record in cluster.jobs.values()), now_s)
    for play in range(plays):
        yield iter(()) if window is None else once_more(window, play / plays)


def once_more(window: Window, part: float) -> Iterator[Job]:
    """Yield copies of the jobs of the window. The copies are submitted after the end of the window. `part`: the point
    of the window at which the copies begin, as a fraction of the window's length."""
    since_s, until_s, jobs = window
    length_s = until_s - since_s
    begin_s = since_s + part * length_s
    at = bisect_left(jobs, begin_s, key=lambda job: job.submitted_s)
    later_s = until_s - begin_s
    for number in range(MOST_LATER):
        if at == len(jobs):
            at, later_s = 0, later_s + length_s
        yield resubmitted(jobs[at], number, jobs[at].submitted_s + later_s)
        at += 1


def resubmitted(job: Job, number: int, at_s: float) -> Job:
    """Return a copy of the job that is submitted at `at_s` and has no dependency, hold or begin time. The id of the
    copy differs from the ids of all live jobs, but `name_of_kind` returns the same name for the copy and the job."""
    return replace(
        job,
        id=f"{job.id}-00{number}",
        submitted_s=at_s,
        blocked=None,
        begin_s=None,
        deadline_s=None,
        after=(),
        requires_any=False,
        singleton="",
        array="",
        array_cap=None,
        reservation="",
        preempted=0,
    )


STEPS = 2_000  # the maximum number of scheduling cycles in one play (simulation)
PLAYS, FEWEST_PLAYS = 15, 5
FEW_JOBS = 1000  # with more live jobs, a forecast makes fewer simulations
# Reasons that never change in a simulation, because its queues and nodes do not change.
LASTING = NEVER | {
    ReasonCode.QUEUE_UNKNOWN,
    ReasonCode.QUEUE_HELD,
    ReasonCode.QUEUE_CLOSED,
    ReasonCode.QUEUE_MISCONFIGURED,
    ReasonCode.DEPENDENCY_NEVER,
    ReasonCode.DEADLINE,
}

# (job, seconds that it has run so far) -> its whole run time in seconds
RunTime: TypeAlias = Callable[[Job, float], float]


def forecast(
    cluster: Cluster, policy: Policy, now_s: float, jobs: Collection[str], plays: int | None = None
) -> dict[str, StartForecast]:
    """Return job -> the forecast of its start. No start is before `now_s` (seconds since the epoch). A job without a
    known start is left out.

    `plays`: how many simulations with drawn run times follow the first simulation, in which jobs run up to their time
    limits. None: fewer simulations if there are more jobs. Without known run times there is only the first
    simulation."""
    asked = [job for job in jobs if job in cluster.jobs and cluster.jobs[job].phase is Phase.QUEUED]
    if not asked:
        return {}
    if plays is None:
        plays = max(FEWEST_PLAYS, min(PLAYS, PLAYS * FEW_JOBS // len(cluster.jobs)))
    latest = ForecastRun(cluster.copy(), policy, now_s, asked, up_to_limits(cluster)).run()
    plays = plays if cluster.ends.run_times else 0
    likely = [
        ForecastRun(cluster.copy(), policy, now_s, asked, run_time, later).run()
        for run_time, later in zip(drawn_run_times(cluster, plays), later_jobs(cluster, now_s, plays), strict=True)
    ]
    found = {}
    for job in asked:
        starts = sorted(play[job][0] for play in likely if job in play)
        latest_s, after = latest.get(job, (inf, ""))
        # If a simulation stopped before the job started, the other simulations are a biased sample, because the job
        # started early in them.
        sample = starts if starts and len(starts) == plays and starts[0] < inf else [latest_s]
        if sample[0] < inf:
            found[job] = of_plays(sample, latest_s, after, now_s)
    return found


def typical_starts(cluster: Cluster, policy: Policy, now_s: float, jobs: Collection[str]) -> dict[str, float]:
    """Return job -> its start (seconds since the epoch) if every job runs for its median run time, or up to its limit
    if no run times are known. The function needs only one simulation. A job without a known start is left out."""
    [run_time] = drawn_run_times(cluster, 1) if cluster.ends.run_times else [up_to_limits(cluster)]
    asked = [job for job in jobs if job in cluster.jobs and cluster.jobs[job].phase is Phase.QUEUED]
    found = ForecastRun(cluster.copy(), policy, now_s, asked, run_time).run()
    return {job: start_s for job, (start_s, _) in found.items() if start_s < inf}


def of_plays(starts: Sequence[float], latest_s: float, after: str, now_s: float) -> StartForecast:
    """Return the forecast of a job's start. `starts`: the starts of the job in the simulations, sorted. `latest_s`,
    `after`: the job's start in the first simulation, and the job whose end made this start possible. `now_s`: the time
    of the forecast (seconds since the epoch)."""
    earliest_s, last_s = nearly_sure(starts, now_s)
    if starts[-1] <= latest_s:  # in no simulation does a job that is submitted later delay this job
        last_s = min(last_s, latest_s)
    return StartForecast(
        start_s=quantile(starts, 0.5),
        likely_s=(quantile(starts, 0.25), quantile(starts, 0.75)),
        nearly_sure_s=(earliest_s, last_s),
        latest_s=latest_s,
        after=after,
    )


def nearly_sure(starts: Sequence[float], now_s: float) -> tuple[float, float]:
    """Return the interval that contains the start with a probability of about 90 %: from the first to the last of the
    sorted `starts`. If n values are drawn from one distribution, a further value is between their minimum and their
    maximum with the probability (n - 1) / (n + 1). This is 88 % for `PLAYS` plays (simulations), but only 67 % for
    `FEWEST_PLAYS`. So with fewer than `PLAYS` plays, the interval is widened to the size that it would have with
    `PLAYS` plays. For this, the logarithm of the wait is assumed to have a logistic distribution. The minimum of n
    values is expected at the quantile of the level 1 / (n + 1), whose logit is -log(n)."""
    wait_s = quantile(starts, 0.5) - now_s
    if not 1 < len(starts) < PLAYS or not 0.0 < wait_s < inf:
        return starts[0], starts[-1]
    stretch = log(PLAYS) / log(len(starts))
    first_s, last_s = (now_s + wait_s * ((at_s - now_s) / wait_s) ** stretch for at_s in (starts[0], starts[-1]))
    return first_s, last_s


def quantile(sample: Sequence[float], level: float) -> float:
    """Estimate a quantile of a distribution from a sorted sample. The estimate is about median-unbiased for every
    distribution (Hyndman, Fan, "Sample quantiles in statistical packages", The American Statistician 50, 1996,
    definition 8)."""
    at = min(max(level * (len(sample) + 1 / 3) - 2 / 3, 0.0), len(sample) - 1.0)
    below, above = sample[int(at)], sample[ceil(at)]
    return below if below == above else below + (at - int(at)) * (above - below)


def up_to_limits(cluster: Cluster) -> RunTime:
    """Return run times equal to the time limits; a job without a limit runs for ever."""

    def run_time_s(job: Job, elapsed_s: float) -> float:
        limit_s = time_limit_s(cluster, job)
        return inf if limit_s is None else limit_s

    return run_time_s


def drawn_run_times(cluster: Cluster, plays: int) -> Iterator[RunTime]:
    """Yield the run times for each of `plays` plays, drawn from the learned run times."""
    levels = [(number + 0.5) / plays for number in range(plays)]
    order_of_user: dict[str, list[int]] = {}
    known: dict[str, list[float]] = {}

    def run_times_s(job: Job, elapsed_s: float) -> list[float]:
        """Return the job's run time in each play. The run times are drawn at the first call, given that the job has
        already run for `elapsed_s` seconds. Later calls return the same run times."""
        found = known.get(job.id)
        if found is None:
            user = job.user or job.id
            order = order_of_user.get(user)
            if order is None:
                order = order_of_user[user] = sorted(range(plays), key=partial(drawn, user))
            expected_s = cluster.ends.run_times.expected_s(job, time_limit_s(cluster, job), elapsed_s, levels)
            found = known[job.id] = [expected_s[at] for at in order]
        return found

    def of_play(number: int) -> RunTime:
        return lambda job, elapsed_s: run_times_s(job, elapsed_s)[number]

    return map(of_play, range(plays))


def drawn(user: str, number: int) -> bytes:
    """Return a pseudo-random value that is always the same for the same user and number."""
    return blake2b(f"{number} {user}".encode(errors="replace"), digest_size=8).digest()


class ForecastRun:
    """A single play. `found`: job -> its start, and the job whose end made the start possible. `ended`: the job that
    ended last at the simulated time `now_s`; "" if no job ended then. `later`: the jobs that are submitted during the
    simulation, soonest first."""

    def __init__(
        self,
        book: Cluster,
        policy: Policy,
        now_s: float,
        jobs: Iterable[str],
        run_time_s: RunTime,
        later: Iterable[Job] = (),
    ) -> None:
        self.book, self.policy, self.now_s, self.run_time_s = book, policy, now_s, run_time_s
        self.later = iter(later)
        self.coming = next(self.later, None)
        self.asked = set(jobs)
        self.found: dict[str, tuple[float, str]] = {}
        self.ended = ""
        self.ends: list[tuple[float, str, int]] = []  # a heap of (end time, job, the job's attempt)

    def run(self) -> Mapping[str, tuple[float, str]]:
        """Simulate until all requested jobs have started or nothing changes any more. Return job -> its start (infinity
        if it never starts), and the job whose end made the start possible ("" if no end did). A job that has not
        started after `STEPS` cycles is left out."""
        events: list[Event] = [*self.leaving()]
        for job, record in self.book.jobs.items():
            if record.phase in {Phase.STARTING, Phase.RUNNING}:
                self.expect_end(job, record.started_s)
        for number in range(STEPS):
            plan = self.step(events)
            events = [event for action in plan.actions for event in world_answers(self.book, action)]
            if not number:  # only in the first cycle: later, the reasons in the state are those of the simulation
                self.asked -= {job for job in self.asked if self.never_starts(job)}
            if len(self.found) == len(self.asked):
                break
            if not events and not self.go_on(plan):
                self.found |= {job: (inf, "") for job in self.asked if job not in self.found}
                break
        return self.found

    def never_starts(self, job: str) -> bool:
        """Return True if the job cannot start in any simulation, so that no simulation needs to go on for this job. In
        a simulation only jobs change, unless requested nodes are expected or an advance reservation closes nodes for
        some time."""
        record = self.book.jobs[job]
        if record.phase is not Phase.QUEUED or self.book.columns.groups.coming or self.book.reservations:
            return False
        reason = self.book.reason(job)
        return record.job.blocked is not None or (reason is not None and reason.code in LASTING)

    def leaving(self) -> Iterator[Event]:
        """Yield the events that end all stopping jobs immediately."""
        for job, record in self.book.jobs.items():
            if record.phase is Phase.STOPPING and record.reason is not None:
                yield Refused(job, record.attempt, record.reason)

    def expect_end(self, job: str, started_s: float) -> None:
        """Add the end of a job that started at `started_s` to the heap of future ends."""
        record = self.book.jobs[job]
        end_s = started_s + max(0.0, self.run_time_s(record.job, max(0.0, self.now_s - started_s)))
        if end_s < inf:
            heappush(self.ends, (end_s, job, record.attempt))

    def step(self, events: list[Event]) -> Plan:
        """Simulate one cycle; return its plan."""
        fold(self.book, (Ticked(self.now_s), *self.arrived(), *events, *self.submitted(), *self.over()))
        decision = decide(self.book, self.policy, self.now_s)
        fold_plan(self.book, decision)
        for action in decision.actions:
            if isinstance(action, Start):
                self.expect_end(action.job, self.now_s)
                if action.job in self.asked and action.job not in self.found:
                    self.found[action.job] = self.now_s, self.ended
        return decision.plan

    def arrived(self) -> Iterator[Event]:
        """Yield the arrivals of requested nodes that are expected by `now_s`. Nodes on demand (of a
        ProvisioningRequest) have no expected arrival before the autoscaler has promised them."""
        groups = self.book.columns.groups
        for name, coming in list(groups.coming.items()):
            node, group = self.book.columns.node(name), groups.known.get(coming.group)
            is_known = group is None or group.on_demand is None or name.removeprefix(f"{group.name}/") in groups.granted
            if is_known and coming.expected_s <= self.now_s and node is not None:
                yield NodeSeen(replace(node, ready=True, unschedulable=False))

    def submitted(self) -> Iterator[Event]:
        """Yield the later jobs whose submission is due at `now_s`."""
        while self.coming is not None and self.coming.submitted_s <= self.now_s:
            yield Submitted(self.coming)
            self.coming = next(self.later, None)

    def over(self) -> Iterator[Event]:
        """Yield the end of each job whose run time has ended by `now_s`."""
        while self.ends and self.ends[0][0] <= self.now_s:
            _, job, attempt = heappop(self.ends)
            record = self.book.jobs.get(job)
            if record is not None and record.attempt == attempt and record.phase is not Phase.QUEUED:
                self.ended = job
                yield Finished(job, Outcome.SUCCEEDED)

    def go_on(self, plan: Plan) -> bool:
        """Advance `now_s` to the time of the next change, which may be the present time. Return False if there is no
        further change."""
        if plan.wake_s is not None and plan.wake_s <= self.now_s:
            return True
        times = [self.ends[0][0]] if self.ends else []
        if plan.wake_s is not None:
            times.append(plan.wake_s)
        if self.coming is not None:
            times.append(self.coming.submitted_s)
        times += [node.expected_s for node in self.book.columns.groups.coming.values()]
        later = [at_s for at_s in times if self.now_s < at_s < inf]
        if not later:
            return False
        self.now_s, self.ended = min(later), ""
        return True


def world_answers(book: Cluster, action: Action) -> Iterator[Event]:
    """Yield the events that a world would report if it executed the action at once and without errors."""
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
