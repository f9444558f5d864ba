"""Fairness: the amount that each party got, relative to its fair part.

*Parties* are the queues of the trace, or its users if it names at most one queue. The window of the run is cut into
*rounds* of a day (a tenth of the window if that is shorter; a ten-thousandth if that is longer). In a round, a party's
demand is the amount that its waiting and running jobs would use if they all ran. Its fair part is its max-min fair part
of the capacity, at most its demand (`due`). `x = used / fair part`: 1 is fair, more is at the cost of other parties.

- `jain_fairness`: Jain's index of x over the parties with a fair part, mean over the rounds; `worst_...`: the lowest.
- `share_gap`: the difference between the largest and the smallest x, mean over the rounds.
- Finish-time fairness (Themis, NSDI'20): a job's time from submission to end, relative to the time that it would need
  alone on its party's part of the cluster (1/N for N parties, or by their weights). The latter is its run time, longer
  in proportion if it requests more than that part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from phalanx.model.queue import Queue
from phalanx.simulator.measures.due import due, lines_of, shares
from phalanx.simulator.schedule.schedule import Schedule
from phalanx.simulator.schedule.statistic import jain, mean
from phalanx.simulator.schedule.sweep import capacity, held, sizes, waits, window

DAY_S = 86_400.0
MIN_ROUNDS, MOST_ROUNDS = 10, 10_000
Used = dict[str, float]


def parties(schedule: Schedule) -> tuple[list[str], Sequence[Queue]]:
    """Return the party of each task, and the queues whose tree contains the parties (none if the parties are users)."""
    tasks = [fate.task for fate in schedule.fates]
    if len({task.queue for task in tasks}) > 1:
        return [task.queue for task in tasks], schedule.queues
    return [task.job.user for task in tasks], ()


def fairness(schedule: Schedule) -> dict[str, float]:
    has, (since_s, until_s) = capacity(schedule), window(schedule)
    if has <= 0 or until_s <= since_s:
        return {}
    of, queues = parties(schedule)
    lines = lines_of(dict.fromkeys(of), queues, schedule.default_queue, schedule.workload.counted)
    round_s = round_s_of(until_s - since_s)
    indices, gaps = [], []
    for used, waited in rounds(schedule, of, since_s, until_s, round_s):
        demand = {party: used.get(party, 0.0) + waited.get(party, 0.0) for party in (*used, *waited)}
        parts = due(lines, demand, has * round_s)
        ratios = [used.get(party, 0.0) / parts[party] for party in sorted(parts) if parts[party] > 0]
        if ratios:
            indices.append(jain(ratios))
            gaps.append(max(ratios) - min(ratios))
    return {
        "jain_fairness": mean(indices) if indices else 1.0,
        "worst_jain_fairness": min(indices, default=1.0),
        "share_gap": mean(gaps),
        **finish_times(schedule, of, {party: part * has for party, part in shares(lines).items()}),
    }


def round_s_of(span_s: float) -> float:
    return max(min(DAY_S, span_s / MIN_ROUNDS), span_s / MOST_ROUNDS)


def finish_times(schedule: Schedule, of: list[str], parts: Mapping[str, float]) -> dict[str, float]:
    ratios = []
    for fate, party, size in zip(schedule.fates, of, sizes(schedule), strict=True):
        if fate.end_s is not None and fate.ran_s > 0:
            alone_s = fate.ran_s * max(1.0, size / parts[party])
            ratios.append((fate.end_s - fate.task.job.submitted_s) / alone_s)
    return {
        "mean_finish_time_fairness": mean(ratios),
        "max_finish_time_fairness": max(ratios, default=0.0),
        "unfairly_late_ratio": mean([float(ratio > 1.0 + 1e-9) for ratio in ratios]),
    }


def rounds(
    schedule: Schedule, of: list[str], since_s: float, until_s: float, round_s: float
) -> Iterator[tuple[Used, Used]]:
    """Yield for each round the amount that each party used, and the amount that its waiting jobs would have used."""
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
    """Add `amount` times its seconds to each round between `start_s` and `end_s`."""
    at = min(int(start_s // round_s), len(into) - 1)
    while start_s < end_s:
        until_s = end_s if at == len(into) - 1 else min(end_s, (at + 1) * round_s)
        into[at][party] = into[at].get(party, 0.0) + amount * (until_s - start_s)
        start_s, at = until_s, min(at + 1, len(into) - 1)
