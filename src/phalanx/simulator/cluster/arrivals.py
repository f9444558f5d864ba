"""The submissions of a simulated cluster: when each job is submitted, and with which estimate of its run time.

For each job, the scheduler gets an estimate of the run time. The option `--estimates` selects the kind of estimate:

- `user`: the limit that, according to the trace, the user requested. A job without a limit in the trace has no
  estimate.
- `exact`: the true run time, which no real scheduler knows. Results with this estimate show what perfect predictions
  could achieve.
- `last-two`: the mean of the last two run times of the user's ended jobs, but at most the requested limit (Tsafrir,
  Etsion, Feitelson: "Backfilling using system-generated predictions rather than user runtime estimates", TPDS 2007). A
  job that runs longer than predicted gets a new prediction: the first prediction plus one minute. The following
  predictions add 5, 15, 30 minutes, 1, 2, 5, 10, 20, 50 and 100 hours to the first prediction.
- `xF`, where F is a number as in `x2`: the requested limit, multiplied by F. `exact-xF`: the true run time, multiplied
  by F (the *f-model*).

No job is stopped because of an estimate. A job is only stopped at the limit that its user requested, or at the limit of
its queue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nextafter
from typing import Any

from phalanx.model.job import Job
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.readers.lines import TraceError
from phalanx.simulator.schedule import Fate
from phalanx.simulator.workload import Formula, Rounds, Task

LONGER_S = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
FACTOR = re.compile(r"(exact-)?x(\d+(?:\.\d+)?)")


class Estimator:
    """The estimator `user`, which returns the limit in the trace. The other estimators are subclasses of it."""

    def told(self, task: Task) -> Job:
        """Return the job in the form in which it is submitted to the scheduler, with its estimate."""
        return task.job

    def ended(self, task: Task, ran_s: float, now_s: float) -> None:
        """Record that a task ended after `ran_s` seconds of run time, for use in later estimates."""

    def outlived(self, task: Task, corrections: int) -> float | None:
        """Return a new estimate for a task that runs longer than its last estimate; None if the estimator makes no new
        estimate. `corrections`: how many new estimates the task has already got."""
        return None


class Scaled(Estimator):
    """Estimate the run time as `factor` times the user's limit or, if `exact` is True, as `factor` times the true run
    time."""

    def __init__(self, factor: float, *, exact: bool) -> None:
        self.factor, self.exact = factor, exact

    def told(self, task: Task) -> Job:
        asked_s = task.job.limit_s
        if self.exact:
            run_s = task.run_s if task.stop_s is None else min(task.run_s, task.stop_s)
            return replace(task.job, limit_s=run_s * self.factor)
        return task.job if asked_s is None else replace(task.job, limit_s=asked_s * self.factor)


class LastTwo(Estimator):
    """Estimate the run time as the mean of the user's last two run times. Submissions are handled before ends of the
    same time. So if a job ends at the moment when another job is submitted, its run time is not used for that
    submission."""

    def __init__(self) -> None:
        self._ran: dict[str, tuple[float, ...]] = {}  # user -> the last two run times
        # (start, user, run time) of each job that ended at the time `_ended_s`
        self._ended: list[tuple[float, str, float]] = []
        self._ended_s = 0.0
        self._predicted: dict[str, float] = {}

    def told(self, task: Task) -> Job:
        self._learn(task.job.submitted_s)
        ran, asked_s = self._ran.get(task.job.user, ()), task.job.limit_s
        if len(ran) < 2:
            return task.job
        predicted_s = float(max(1, int(sum(ran) / 2)))
        predicted_s = predicted_s if asked_s is None else min(predicted_s, asked_s)
        self._predicted[task.job.id] = predicted_s
        return replace(task.job, limit_s=predicted_s)

    def ended(self, task: Task, ran_s: float, now_s: float) -> None:
        self._learn(now_s)
        self._ended.append((now_s - ran_s, task.job.user, ran_s))
        self._ended_s = now_s
        self._predicted.pop(task.job.id, None)

    def _learn(self, now_s: float) -> None:
        """Add the run times of jobs that ended before `now_s`. Jobs that ended at the same time are added in the order
        of their starts."""
        if not self._ended or self._ended_s >= now_s:
            return
        for _, user, ran_s in sorted(self._ended, key=lambda each: each[0]):
            self._ran[user] = (*self._ran.get(user, ())[-1:], ran_s)
        self._ended.clear()

    def outlived(self, task: Task, corrections: int) -> float | None:
        predicted_s, asked_s = self._predicted.get(task.job.id), task.job.limit_s
        if predicted_s is None:
            return None
        if corrections >= len(LONGER_S):
            return asked_s
        longer_s = predicted_s + LONGER_S[corrections]
        return longer_s if asked_s is None else min(longer_s, asked_s)


def estimator(name: str) -> Estimator:
    """Return the estimator with this name. Raises `TraceError`, which lists the valid names."""
    if name == "user":
        return Estimator()
    if name == "exact":
        return Scaled(1.0, exact=True)
    if name == "last-two":
        return LastTwo()
    found = FACTOR.fullmatch(name)
    if found is None or not 0 < float(found[2]) <= 1e6:
        raise TraceError(f"--estimates {name}: not one of user, exact, last-two, xF or exact-xF (as in x2)")
    return Scaled(float(found[2]), exact=bool(found[1]))


class Arrivals:
    """The submissions of all jobs. `checkpoint_s`: the interval at which jobs save their work; None if jobs never save
    their work. `counted`: the counted resource and its unit, in which rounds and formulas measure the size of a job."""

    def __init__(
        self,
        fates: Sequence[Fate],
        agenda: Agenda[Any],
        estimator: Estimator,
        *,
        checkpoint_s: float | None,
        rounds: Rounds | None,
        formula: Formula | None,
        counted: tuple[str, int],
    ) -> None:
        self._agenda, self._estimator, self._checkpoint_s = agenda, estimator, checkpoint_s
        self._rounds, self._formula, self._counted = rounds, formula, counted
        self._latest_s = -inf
        self._followers: dict[str, list[Fate]] = {}  # job -> the jobs that the user submits after the end of this job
        for fate in fates:
            if fate.task.follows:
                self._followers.setdefault(fate.task.follows, []).append(fate)

    def job_of(self, fate: Fate) -> Job:
        """Return the job as it is submitted now, with its estimate. If the simulation
        sorts jobs in rounds or by a formula, the job also gets its priority here."""
        job = self._estimator.told(fate.task)
        # Jobs with equal submission times must keep the order of the trace, but the scheduler would sort them by name.
        # So the second job gets a slightly later submission time.
        if job.submitted_s <= self._latest_s:
            job = replace(job, submitted_s=nextafter(self._latest_s, inf))
        self._latest_s = job.submitted_s
        if self._checkpoint_s:
            job = replace(job, checkpoint_s=self._checkpoint_s)
        if self._rounds is not None:
            job = replace(job, priority=self._rounds.priority(fate.task, fate.work_s, *self._counted))
        if self._formula is not None:
            job = replace(job, priority=self._formula.priority(job, *self._counted))
        return job

    def expect_followers(self, job: str) -> None:
        """Schedule the submissions of the jobs that follow `job`, which has just ended. Each of these jobs is submitted
        when its think time has passed."""
        now_s = self._agenda.now_s
        for fate in self._followers.pop(job, ()):
            task = fate.task
            at_s = max(now_s, task.job.submitted_s) if task.think_s is None else now_s + task.think_s
            fate.task = replace(task, job=replace(task.job, submitted_s=at_s))
            self._agenda.put(at_s, AgendaKind.SUBMISSION, fate)
