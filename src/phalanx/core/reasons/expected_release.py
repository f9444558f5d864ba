"""The time at which enough of a missing amount is expected to be released.

The time is found by counting alone: running jobs are taken in the order of their expected ends until they release the
missing amount. At that time there is enough in total, but not always on one node. `report.forecast` computes the
expected start of a job. A job without a time limit has no expected end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from itertools import islice
from math import inf

from phalanx.model.pod import Amount, format_amount
from phalanx.model.reason import DAY_S, format_time_of_day
from phalanx.state.cluster import Cluster, time_limit_s
from phalanx.state.running import LEAVING_S

LOOKED_AT = 256  # the largest number of expected ends that are examined; a later release is unknown


def consumers_text(held: Sequence[tuple[str, Amount, str]], resource: str) -> str:
    """Return the consumers as a part of a sentence: `queue a by x (6), y (2) and in queue b by z (4)`, the queue with
    the largest consumer first."""
    by_queue: dict[str, list[str]] = {}
    for job, amount, queue in held:
        by_queue.setdefault(queue, []).append(f"{job} ({format_amount(resource, amount)})")
    return " and in ".join(f"queue {queue} by {', '.join(jobs)}" for queue, jobs in by_queue.items())


def expected_release_s(
    cluster: Cluster,
    missing: Amount,
    gives: Callable[[str], Amount],
    granted: Iterable[str] = (),
    looked_at: int = LOOKED_AT,
) -> float | None:
    """Return the time at which the missing amount is expected to be released (seconds since the epoch); None: unknown,
    or nothing is missing.

    `gives`: job -> the amount that its end releases.
    `granted`: jobs that this cycle starts."""
    if missing <= 0:
        return None
    starting = [(cluster.now_s + limit_s, job) for job in granted if (limit_s := limit_of(cluster, job)) is not None]
    ends = merge(cluster.ends.order, sorted(starting)) if starting else cluster.ends.order
    for end_s, job in islice(ends, looked_at):
        missing -= gives(job)
        if missing <= 0:
            return end_s if end_s < inf else None
    return None


def limit_of(cluster: Cluster, job: str) -> float | None:
    """Return the time limit of the job, in seconds; None: it has none."""
    return time_limit_s(cluster, cluster.jobs[job].job)


def days(cluster: Cluster, end_s: float) -> int:
    """Return the number of whole days from now until `end_s`; -1: the time is past."""
    return -1 if end_s <= cluster.now_s else int((end_s - cluster.now_s) // DAY_S)


def release_text(end_s: float, days: int) -> str:
    """Return the part of a sentence with the expected release."""
    if end_s == LEAVING_S:
        return "enough is on its way back"
    if days < 0:
        return "enough is overdue to come back"
    if days:
        return f"enough is expected back in about {days} {'day' if days == 1 else 'days'}"
    return f"enough is expected back by {format_time_of_day(end_s)}"
