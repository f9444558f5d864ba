"""Store the jobs that ended last and their run times, and estimate the run times of similar jobs from them.

The first part stores the last `KEPT_SUBMISSIONS` jobs that ended. Forecasts assume that similar jobs will be submitted
in the future. When more jobs end, those that ended first are dropped. All jobs that were submitted after the dropped
jobs are known, because each of them is either live, or has ended and is still stored.

The second part stores run times. Users state time limits that are several times as long as their jobs run, but the jobs
of one user are often similar. So the mean of the user's last two run times predicts the next run time better than the
limit does (Tsafrir, Etsion, Feitelson, "Backfilling using system-generated predictions rather than user runtime
estimates", TPDS 2007). But a forecast that states an interval needs a distribution, not a mean. So the module stores
the last run times. They are stored as fractions of the time limit (in seconds for jobs without a limit), for

- each *kind* of job: jobs with the same user, name, pods and limit. A number at the end of a name, and the five letters
  and digits that Kubernetes appends (`generateName`), are ignored;
- each user;
- all users.

For a job that already runs, only run times that are longer than its run time so far are used. A run time of the job's
kind has the weight 1. The run times of its user and the run times of all users together have the weight `ENOUGH`. If
there are n run times of the user, they get the fraction n / (n + `ENOUGH`) of this weight, and the run times of all
users get the rest. So many run times of the kind determine the estimate almost alone, but two or three of them have
little influence (shrinkage, as in hierarchical models).

Take n run times x(1) <= ... <= x(n) of equal weight. If they are exchangeable, they divide the possible run times into
n + 1 gaps, and the next run time is in each gap with the same probability: Hill's assumption A(n) ("Posterior
distribution of percentiles: Bayes' theorem for sampling from a population", JASA 63, 1968). If the run times have
weights, the probability of a gap is proportional to the weight of the value at its upper end; the last gap has the
weight 1. The first gap begins at the time x(0) that the job has already run, and the last gap ends at its limit x(n +
1). Within a gap all values are equally likely. So with few observations, the forecast intervals are wide.

The memory is bounded. Run times are stored only under the `KINDS` most recently used keys. These are the last `KEPT`
run times for each kind and each user, and the last `KEPT_OF_ALL` for all users together. Neither part is stored on
disk. A scheduler that has just started receives the event `RunTold` for each run that is still recorded in an object of
the cluster or in the ledger.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf, log2
from typing import NamedTuple, TypeAlias

from phalanx.model.job import Job

KEPT_SUBMISSIONS = 256
FEWEST = 16  # a window has at least this number of submissions


class Window(NamedTuple):
    """A span of time (seconds since the epoch) for which all submissions are known. `jobs`: the jobs that were
    submitted in this span, in the order of their submission."""

    since_s: float
    until_s: float
    jobs: Sequence[Job]


class RecentJobs:
    """The jobs that ended last. `dropped_s`: the latest submission time of all dropped jobs (seconds since the
    epoch)."""

    __slots__ = ("_ended", "dropped_s")

    def __init__(self) -> None:
        self._ended: dict[str, Job] = {}
        self.dropped_s = -inf

    def __len__(self) -> int:
        return len(self._ended)

    def add(self, job: Job) -> None:
        """Add a job that has ended. A job without a known submission time (0) is ignored."""
        if job.submitted_s <= 0:
            return
        self._ended.pop(job.id, None)
        self._ended[job.id] = job
        if len(self._ended) > KEPT_SUBMISSIONS:
            first = self._ended.pop(next(iter(self._ended)))
            self.dropped_s = max(self.dropped_s, first.submitted_s)

    def window(self, live: Iterable[Job], now_s: float) -> Window | None:
        """Return the longest span up to now for which all submissions are known; None if it has fewer than `FEWEST`
        submissions. `live`: the live jobs."""
        first_s = min((job.submitted_s for job in self._ended.values()), default=inf)
        since_s = max(self.dropped_s, first_s)
        known = {job.id: job for job in live} | self._ended
        jobs = [job for job in known.values() if since_s < job.submitted_s <= now_s]
        if len(jobs) < FEWEST:
            return None
        return Window(since_s, now_s, sorted(jobs, key=lambda job: (job.submitted_s, job.id)))

    def copy(self) -> RecentJobs:
        other = RecentJobs()
        other._ended, other.dropped_s = dict(self._ended), self.dropped_s
        return other


# --- run times --------------------------------------------------------------------------------------------------------

KEPT = 32
KEPT_OF_ALL = 256
KINDS = 4096
# the weight of the run times of the user and of all users together; a single run time of the kind has the weight 1
ENOUGH = 4.0
# the longest run time that is expected, as a fraction of the time limit; a job beyond its limit is expected to end now
LONGEST_PART = 1.0
SERIAL = re.compile(r"(-[bcdfghjklmnpqrstvwxz2456789]{5}|[-_.]?\d+)+$")

Parts: TypeAlias = tuple[float, ...]
Weighed: TypeAlias = tuple[float, float]  # a value and its weight


class RunTimes:
    """The last run times by kind of job, by user, and for all users together, in the order in which the jobs ended.
    `recent`: the jobs that ended last."""

    __slots__ = ("_of", "recent")

    def __init__(self) -> None:
        self._of: dict[Hashable, Parts] = {}
        self.recent = RecentJobs()

    def __bool__(self) -> bool:
        return bool(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def learn(self, job: Job, limit_s: float | None, run_s: float) -> None:
        """Store the run time of a finished job (seconds). `limit_s`: the job's time limit; None if it has none."""
        if run_s <= 0 or limit_s == 0:
            return
        self.recent.add(job)
        part = run_s if limit_s is None else min(run_s / limit_s, LONGEST_PART)
        *own, everybody = kinds(job, limit_s)
        for kind in own:
            self._of[kind] = (*self._of.pop(kind, ())[1 - KEPT :], part)
        self._of[everybody] = (*self._of.pop(everybody, ())[1 - KEPT_OF_ALL :], part)
        while len(self._of) > KINDS:
            del self._of[next(iter(self._of))]

    def expected_s(self, job: Job, limit_s: float | None, elapsed_s: float, levels: Sequence[float]) -> Sequence[float]:
        """Return for each level (a probability) the run time in seconds within which the job ends with this
        probability. `elapsed_s`: how long the job has already run. If no suitable run time is known, return the job's
        limit for each level (infinity if the job has no limit)."""
        unit_s = 1.0 if limit_s is None else limit_s
        if unit_s <= elapsed_s and limit_s is not None:
            return [elapsed_s] * len(levels)
        low = elapsed_s / unit_s
        if longer := sorted(self._longer(job, limit_s, low)):
            high = LONGEST_PART if limit_s is not None else 2 * longer[-1][0]
            return [unit_s * part for part in next_value(longer, low, high, levels)]
        if limit_s is None and elapsed_s and self:
            return [2 * elapsed_s] * len(levels)  # the job has run longer than all known run times
        return [inf if limit_s is None else limit_s] * len(levels)

    def _longer(self, job: Job, limit_s: float | None, low: float) -> Iterator[Weighed]:
        """Yield (run time, weight) for each stored run time above `low`: first those of the job's kind, then those of
        its user, then those of all users."""
        left = ENOUGH
        for number, kind in enumerate(kinds(job, limit_s)):
            parts = [part for part in self._of.get(kind, ()) if part > low]
            match number:
                case 0:
                    weight = 1.0
                case 1:
                    weight = left / (len(parts) + ENOUGH)
                    left -= weight * len(parts)
                case _:
                    weight = left / max(1, len(parts))
            yield from ((part, weight) for part in parts)

    def estimate_s(self, job: Job, limit_s: float | None) -> float | None:
        """Return the estimated run time of the job (seconds): the median, rounded to a power of 2^(1/4), so that
        similar jobs get equal estimates. None if no run time is known."""
        [median_s] = self.expected_s(job, limit_s, 0.0, (0.5,)) if self else [inf]
        if not 0.0 < median_s < inf:
            return None
        rounded_s = float(2.0 ** (round(4 * log2(median_s)) / 4))
        return rounded_s if limit_s is None else min(rounded_s, limit_s)

    def copy(self) -> RunTimes:
        other = RunTimes()
        other._of, other.recent = dict(self._of), self.recent.copy()
        return other


def kinds(job: Job, limit_s: float | None) -> tuple[Hashable, ...]:
    """Return the keys under which the job's run time is stored: the key of its kind, the key of its user (if the job
    names a user), and the key of all users."""
    limited = limit_s is not None
    pods = tuple((role.count, role.shape.requests) for role in job.roles)
    of_kind = job.user, name_of_kind(job.id), pods, limit_s
    return (of_kind, (job.user, limited), limited) if job.user else (of_kind, (of_kind[1], limited), limited)


def name_of_kind(job: str) -> str:
    """Return the job's name without its number or generated suffix."""
    return SERIAL.sub("", job)


def next_value(values: Sequence[Weighed], low: float, high: float, levels: Sequence[float]) -> Sequence[float]:
    """Return the quantiles of the next value at these levels (probabilities), by the rule in the module docstring.
    `values`: sorted pairs (value, weight); all values are between `low` and `high`. The gap that ends at a value has
    the weight of this value; the gap after the last value has the weight 1."""
    upto = [*accumulate((weight for _, weight in values), initial=0.0)]
    upto.append(upto[-1] + 1.0)
    ends = [low, *(value for value, _ in values), max(high, values[-1][0])]
    found = []
    for level in levels:
        reached = level * upto[-1]
        gap = bisect_left(upto, reached, 1, len(upto) - 1)
        part = (reached - upto[gap - 1]) / (upto[gap] - upto[gap - 1])
        found.append(ends[gap - 1] + part * (ends[gap] - ends[gap - 1]))
    return found
