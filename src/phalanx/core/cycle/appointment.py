"""When to look again though nothing happens: of all that the book says will come at a time, the next of each kind."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable
from math import inf, nextafter
from operator import itemgetter

from phalanx.core.backfill import advance
from phalanx.model.job import DependencyType
from phalanx.model.plan import Start
from phalanx.state.cluster import Cluster
from phalanx.state.pending.line import Bid

WHEN = itemgetter(0)


def appointments(cluster: Cluster, now_s: float, starts: Iterable[Start], won: Container[Bid]) -> list[float]:
    """Seconds since the epoch, each later than `now_s`. `starts`, `won`: the jobs, and bids, that start now."""
    resting, alarms, times = cluster.waiting.resting, cluster.alarms.order, []
    if resting:
        at = bisect_right(resting, now_s, key=WHEN)
        times += [at_s for at_s, _ in resting[at : at + 1]]
    if alarms:
        at = bisect_right(alarms, now_s, key=WHEN)
        while at < len(alarms) and Bid(alarms[at][1]) in won:
            at += 1
        times += [at_s for at_s, _ in alarms[at : at + 1]]
    if cluster.dependencies.dependents and any(awaited(cluster, each.job) for each in starts):
        times.append(nextafter(now_s, inf))  # who waits for their start is looked at next
    if cluster.reservations:
        times += advance.boundaries_s(cluster, now_s)[:1]
    if cluster.waiting.dawns and (dawn_s := cluster.waiting.next_dawn_s(now_s)) is not None:
        times.append(dawn_s)
    return times


def idle_until_s(cluster: Cluster, now_s: float) -> float | None:
    """When to look again if nothing is decided now, seconds since the epoch; None: there is no need."""
    if cluster.waiting.hunters.due:
        return now_s
    return min(appointments(cluster, now_s, (), ()), default=None)


def awaited(cluster: Cluster, job: str) -> bool:
    """Whether anyone waits for the job to start."""
    others = (cluster.jobs[name].job for name in cluster.dependencies.dependents.get(job, ()))
    return any(each.job == job and each.after is DependencyType.START for other in others for each in other.after)


def stirs(cluster: Cluster, now_s: float) -> bool:
    """Whether there is anything to decide: if nobody is new, awake or done resting, everyone is asleep for a reason
    that holds. Sleeping lines take part where backfill holds some back, or a queue is strict, but start nothing by
    themselves."""
    waiting = cluster.waiting
    if waiting.fresh or waiting.awake or waiting.watches.roused or waiting.sleepers.held:
        return True
    if waiting.resting and waiting.resting[0][0] <= now_s:
        return True
    return bool(waiting.shaken and cluster.tree.stricts)
