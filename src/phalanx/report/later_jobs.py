"""Jobs that may be submitted later: the recent submissions, repeated.

Later jobs delay a waiting job. The policy decides by how much: hardly at all in the order of submission, a lot where
short jobs come first. So each play of a forecast submits later jobs, and the policy itself decides which of them
overtake. The plays repeat the jobs of the latest span in which every submission is known
(`state.history.recent_jobs`), in the same order and with the same gaps, cyclically. Each play begins at another point
of that span. (This is a circular block bootstrap with a single block: Politis, Romano, 1992. Bursts stay together.)"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from phalanx.model.job import Job
from phalanx.state.cluster import Cluster
from phalanx.state.history.recent_jobs import Window

MOST_LATER = 256  # the most later jobs in one simulated future (play)


def later_jobs(cluster: Cluster, now_s: float, plays: int) -> Iterator[Iterator[Job]]:
    """Yield for each play the jobs that are submitted in it after `now_s` (seconds since the epoch), soonest first."""
    window = cluster.ends.run_times.recent.window((record.job for record in cluster.jobs.values()), now_s)
    for play in range(plays):
        yield iter(()) if window is None else once_more(window, play / plays)


def once_more(window: Window, part: float) -> Iterator[Job]:
    """Yield the jobs of the window again, after its end. `part`: the part of the window at which they begin."""
    since_s, until_s, jobs = window
    length_s = until_s - since_s
    begin_s = since_s + part * length_s
    at = bisect_left(jobs, begin_s, key=lambda job: job.submitted_s)
    later_s = until_s - begin_s
    for number in range(MOST_LATER):
        if at == len(jobs):
            at, later_s = 0, later_s + length_s
        yield anew(jobs[at], number, jobs[at].submitted_s + later_s)
        at += 1


def anew(job: Job, number: int, at_s: float) -> Job:
    """Return a copy of the job that is submitted at `at_s` and has no dependency, hold or begin time. Its id is that of
    no live job, and has the same kind (`name_of_kind`)."""
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
