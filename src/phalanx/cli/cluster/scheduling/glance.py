"""The statuses of queues that were computed last, for Queue objects and metrics, and the numbers that users may
read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from phalanx.cli.cluster.numbers import answering
from phalanx.cli.cluster.numbers.answering import NumbersSource
from phalanx.model.reason import Reason
from phalanx.model.status import ClusterStatus, QueueStatus
from phalanx.report.status import cluster_status, queue_statuses, with_expected_starts
from phalanx.state.cluster import Cluster

_NUMBERS_S = 1.0  # numbers that users may read are computed again after this time, or later if the computation is slow
FORESEEN_JOBS = 200  # with more live jobs, queue statuses have no expected starts


class Glance:
    """The statuses of queues that were computed last, for Queue objects and for metrics. The time to compute them is
    proportional to the number of jobs. So only the writer of statuses (`queue_status`) calls `look`, which computes
    them. A scrape of the metrics reads the last computed statuses."""

    def __init__(self, cluster: Cluster, now_s: Callable[[], float]) -> None:
        self.cluster, self._now_s = cluster, now_s
        self.standings: Sequence[QueueStatus] = ()
        self.overview = ClusterStatus()
        self._numbers: NumbersSource | None = None
        self._numbers_until_s = 0.0  # on the monotonic clock

    def numbers(self) -> NumbersSource:
        """Return the numbers that users may read about queues and jobs. A request computes them again, but such
        computations take at most a twentieth of the process's time."""
        began_s = time.monotonic()
        if self._numbers is None or began_s >= self._numbers_until_s:
            self._numbers = answering.source_of(self.cluster, self.standings, self._reason)
            self._numbers_until_s = began_s + max(_NUMBERS_S, 20 * (time.monotonic() - began_s))
        return self._numbers

    def starts(self) -> Mapping[str, float]:
        """Return job id -> expected start (seconds since the epoch), for jobs with a known expected start."""
        places = (place for standing in self.standings for place in standing.first)
        return {place.job: place.start_s for place in places if place.start_s is not None}

    def _reason(self, job: str) -> Reason | None:
        return self.cluster.reason(job) if job in self.cluster.jobs else None

    def look(self) -> Sequence[QueueStatus]:
        self.overview = cluster_status(self.cluster)
        self.standings = with_expected_starts(
            self.cluster, list(queue_statuses(self.cluster)), self._now_s(), FORESEEN_JOBS
        )
        return self.standings
