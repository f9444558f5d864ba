"""When waiting jobs are expected to start, and on which nodes: the cycle, played forward.

The page shows two things. The expected start of each job is a forecast with its uncertainty (`report.forecast`). The
picture of coming runs is one play. In it every job runs for its median run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from phalanx.model.event import Event
from phalanx.model.job import Phase
from phalanx.model.plan import Plan, Start
from phalanx.model.reason import StartForecast
from phalanx.report.forecast import ForecastRun, drawn_run_times, forecast, up_to_limits
from phalanx.report.status import queue_positions
from phalanx.state.cluster import Cluster, time_limit_s

FIRST_OF_QUEUE = 200  # the first jobs of each queue that are played forward
_LONGEST_S = 366 * 86_400.0  # the longest run that is drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRun:
    """The expected run of a job: its start and end (seconds since the epoch), the number of pods on each node, and
    whether its start is a backfill."""

    start_s: float
    end_s: float
    pods: Mapping[str, int]
    backfilled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The future as it was expected at `at_s`. `ends_s`: the expected ends of running jobs, by their median run
    time."""

    at_s: float
    starts: Mapping[str, StartForecast] = field(default_factory=dict)
    runs: Mapping[str, PlayedRun] = field(default_factory=dict)
    ends_s: Mapping[str, float] = field(default_factory=dict)


class MedianPlay(ForecastRun):
    """A play that remembers on which nodes each job starts."""

    def __init__(self, cluster: Cluster, now_s: float, jobs: Sequence[str]) -> None:
        [median] = drawn_run_times(cluster, 1) if cluster.ends.run_times else [up_to_limits(cluster)]
        super().__init__(cluster.copy(), cluster.policy, now_s, jobs, median)
        self.runs: dict[str, PlayedRun] = {}

    def step(self, events: list[Event]) -> Plan:
        plan = super().step(events)
        for action in plan.actions:
            if isinstance(action, Start) and action.job in self.asked and action.job not in self.runs:
                lasts_s = min(_LONGEST_S, self.run_time_s(self.book.jobs[action.job].job, 0.0))
                pods = Counter(placement.node for placement in action.placements)
                self.runs[action.job] = PlayedRun(
                    start_s=self.now_s, end_s=self.now_s + lasts_s, pods=pods, backfilled=action.backfilled
                )
        return plan


def outlook(cluster: Cluster, now_s: float) -> Outlook:
    """Return the expected future of the first jobs of each queue. It takes playing the cluster forward many times."""
    asked = [
        place.job
        for queue in cluster.tree.branches
        for place in queue_positions(cluster, queue, FIRST_OF_QUEUE)
        if place.job in cluster.jobs and cluster.jobs[place.job].phase is Phase.QUEUED
    ]
    asked = list(dict.fromkeys(asked))
    play = MedianPlay(cluster, now_s, asked)
    if asked:
        play.run()
    starts = forecast(cluster, cluster.policy, now_s, asked)
    return Outlook(at_s=now_s, starts=starts, runs=play.runs, ends_s=expected_ends(cluster, now_s))


def expected_ends(cluster: Cluster, now_s: float) -> dict[str, float]:
    """Return job -> expected end (seconds since the epoch) for the running jobs with known run times or time limits."""
    found = {}
    for name, record in cluster.jobs.items():
        if record.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            ran_s = max(0.0, now_s - record.started_s)
            [lasts_s] = cluster.ends.run_times.expected_s(record.job, _limit_s(cluster, name), ran_s, (0.5,))
            if lasts_s < inf:
                found[name] = record.started_s + lasts_s
    return found


def _limit_s(cluster: Cluster, job: str) -> float | None:
    record = cluster.jobs[job]
    known = cluster.queue_of(record.job) in cluster.tree.branches
    return time_limit_s(cluster, record.job) if known else record.job.limit_s
