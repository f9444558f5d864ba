"""Fairness: who got how much of what was due to it.

*Parties* are the queues of the trace, or its users where it names one queue at most. The window of the run is cut into
*rounds* of a day (a tenth of the window, if that is shorter; a ten-thousandth, if that is longer). In a round a
party's demand is what its jobs that wait or run would use if they all ran; what is due to it is its max-min fair part
of the capacity, never more than its demand. `x = used / due`: 1 is what it is due, more is at the cost of others.

- `jain_fairness`: Jain's index of x over the parties with anything due, mean over the rounds; `worst_...`: the lowest.
- `share_gap`: the largest x less the smallest, mean over the rounds.
- finish-time fairness (Themis, NSDI'20): how long a job took, from submission to end, by how long it would have taken
  alone on 1/N of the cluster (N parties): its run time, longer in proportion if it asks more than that part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from phalanx.simulator.schedule import Schedule
from phalanx.simulator.statistic import jain, mean
from phalanx.simulator.sweep import capacity, held, sizes, waits, window

DAY_S = 86_400.0
MIN_ROUNDS, MOST_ROUNDS = 10, 10_000
Used = dict[str, float]


def parties(schedule: Schedule) -> list[str]:
    """The party of each task."""
    tasks = [fate.task for fate in schedule.fates]
    by_queue = len({task.queue for task in tasks}) > 1
    return [task.queue if by_queue else task.job.user for task in tasks]


def fairness(schedule: Schedule) -> dict[str, float]:
    has, (since_s, until_s) = capacity(schedule), window(schedule)
    if has <= 0 or until_s <= since_s:
        return {}
    of = parties(schedule)
    span_s = until_s - since_s
    round_s = max(min(DAY_S, span_s / MIN_ROUNDS), span_s / MOST_ROUNDS)
    indices, gaps = [], []
    for used, waited in rounds(schedule, of, since_s, until_s, round_s):
        demand = {party: used.get(party, 0.0) + waited.get(party, 0.0) for party in (*used, *waited)}
        due = fair_parts(demand, has * round_s)
        ratios = [used.get(party, 0.0) / due[party] for party in sorted(due) if due[party] > 0]
        if ratios:
            indices.append(jain(ratios))
            gaps.append(max(ratios) - min(ratios))
    return {
        "jain_fairness": mean(indices) if indices else 1.0,
        "worst_jain_fairness": min(indices, default=1.0),
        "share_gap": mean(gaps),
        **finish_times(schedule, of, has),
    }


def finish_times(schedule: Schedule, of: list[str], has: float) -> dict[str, float]:
    part = has / max(1, len(set(of)))
    ratios = []
    for fate, size in zip(schedule.fates, sizes(schedule), strict=True):
        if fate.end_s is not None and fate.ran_s > 0:
            alone_s = fate.ran_s * max(1.0, size / part)
            ratios.append((fate.end_s - fate.task.job.submitted_s) / alone_s)
    return {
        "mean_finish_time_fairness": mean(ratios),
        "max_finish_time_fairness": max(ratios, default=0.0),
        "unfairly_late_ratio": mean([float(ratio > 1.0 + 1e-9) for ratio in ratios]),
    }


def rounds(
    schedule: Schedule, of: list[str], since_s: float, until_s: float, round_s: float
) -> Iterator[tuple[Used, Used]]:
    """Per round: what each party used, and what its waiting jobs would have used."""
    count = max(1, ceil((until_s - since_s) / round_s - 1e-9))
    used: list[Used] = [{} for _ in range(count)]
    waited: list[Used] = [{} for _ in range(count)]
    for stint, amount in zip(schedule.stints, held(schedule), strict=True):
        spread(used, of[stint.task], amount, stint.start_s - since_s, stint.end_s - since_s, round_s)
    size = sizes(schedule)
    for wait in waits(schedule):
        spread(waited, of[wait.task], size[wait.task], wait.start_s - since_s, wait.end_s - since_s, round_s)
    return zip(used, waited, strict=True)


def spread(into: list[Used], party: str, amount: float, start_s: float, end_s: float, round_s: float) -> None:
    """Add `amount` over that time to the rounds in which it lies."""
    at = min(int(start_s // round_s), len(into) - 1)
    while start_s < end_s:
        until_s = end_s if at == len(into) - 1 else min(end_s, (at + 1) * round_s)
        into[at][party] = into[at].get(party, 0.0) + amount * (until_s - start_s)
        start_s, at = until_s, min(at + 1, len(into) - 1)


def fair_parts(demand: Mapping[str, float], has: float) -> dict[str, float]:
    """Max-min: everybody gets the same, nobody more than it demands, and what is over goes to the others."""
    parts: dict[str, float] = {}
    left = sorted(demand, key=lambda party: (demand[party], party))
    for at, party in enumerate(left):
        parts[party] = min(demand[party], has / (len(left) - at))
        has -= parts[party]
    return parts
