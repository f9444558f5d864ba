"""Recent submissions, from which forecasts derive later ones.

The last `KEPT` jobs that ended are kept. Consider a job that was submitted after every job that was dropped from this
memory: it is live, or it ended and is still kept. So after the latest submission of a dropped job every submission is
known. The memory is not stored: after a restart the scheduler receives past runs from the objects and the ledger
(`RunTold`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from phalanx.model.job import Job

KEPT = 256
FEWEST = 16  # with fewer known submissions than this, there is no window


class Window(NamedTuple):
    """A span of time (seconds since the epoch) in which every submission is known. `jobs`: in order of submission."""

    since_s: float
    until_s: float
    jobs: Sequence[Job]


class RecentJobs:
    """The jobs that ended last. `dropped_s`: the latest submission of a job that was dropped (seconds since the
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
        if len(self._ended) > KEPT:
            first = self._ended.pop(next(iter(self._ended)))
            self.dropped_s = max(self.dropped_s, first.submitted_s)

    def window(self, live: Iterable[Job], now_s: float) -> Window | None:
        """Return the longest span until now in which every submission is known; None: there are fewer than `FEWEST`
        submissions in it. `live`: the live jobs."""
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
