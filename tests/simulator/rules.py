"""Backfilling on a machine of processors, by the rules alone. The simulated scheduler must give the same results.

The code is written so that its correctness is easy to see. It does not use the code under test.

- The rules are from Mu'alem and Feitelson (TPDS 2001). `conservative` makes all reservations again after every event.
  At equal times, submissions come before ends, and ends come in the order of the starts. A running job whose estimate
  has passed counts as ended.
- The predictions are from Tsafrir, Etsion and Feitelson (TPDS 2007): the mean run time of the user's last two jobs. A
  prediction that was too short is corrected before all other events of that time, without a scheduling pass of its
  own."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

LONGER_S = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)


class Kind(IntEnum):
    OUTLIVED = 0
    SUBMITTED = 1
    ENDED = 2


class Run(NamedTuple):
    job: str
    submit_s: float
    run_s: float
    processors: int
    estimate_s: float
    user: str = ""


def backfill(runs: Sequence[Run], machine: int, policy: str, *, last_two: bool = False) -> dict[str, float]:
    """Return the start of each job under `easy`, `easy-sjbf` or `conservative`."""
    known = list(runs)  # with the present estimates
    events = [(run.submit_s, Kind.SUBMITTED, at, at) for at, run in enumerate(runs)]
    heapify(events)
    starts: dict[str, float] = {}
    queue: list[int] = []
    running: dict[int, float] = {}  # job -> the time at which its estimate ends
    ran: dict[str, list[float]] = {}
    longer = dict.fromkeys(range(len(runs)), 0)
    predicted: dict[int, float] = {}
    while events:
        now_s, kind, nth, at = heappop(events)
        run = runs[at]
        match kind:
            case Kind.OUTLIVED:
                running[at] = starts[run.job] + min(run.estimate_s, predicted[at] + LONGER_S[longer[at]])
                longer[at] += 1
                if running[at] < starts[run.job] + run.run_s:
                    heappush(events, (running[at], Kind.OUTLIVED, nth, at))
                continue
            case Kind.SUBMITTED:
                if last_two and len(ran.get(run.user, ())) > 1:
                    predicted[at] = min(run.estimate_s, sum(ran[run.user][-2:]) // 2)
                    known[at] = run._replace(estimate_s=predicted[at])
                queue.append(at)
            case Kind.ENDED:
                del running[at]
                ran.setdefault(run.user, []).append(run.run_s)
        for chosen in choose(policy, known, queue, running, machine, now_s):
            queue.remove(chosen)
            running[chosen] = now_s + known[chosen].estimate_s
            heappush(events, (now_s + known[chosen].run_s, Kind.ENDED, len(starts), chosen))
            if known[chosen].estimate_s < known[chosen].run_s:
                heappush(events, (running[chosen], Kind.OUTLIVED, len(starts), chosen))
            starts[known[chosen].job] = now_s
    return starts


def choose(
    policy: str, runs: Sequence[Run], queue: Sequence[int], running: dict[int, float], machine: int, now_s: float
) -> list[int]:
    """Return the jobs that start now."""
    if policy == "conservative":
        return beside_all_before(runs, queue, running, machine, now_s)
    return beside_the_first(runs, queue, running, machine, now_s, shortest_first=policy == "easy-sjbf")


def beside_the_first(
    runs: Sequence[Run],
    queue: Sequence[int],
    running: dict[int, float],
    machine: int,
    now_s: float,
    *,
    shortest_first: bool,
) -> list[int]:
    """Return the jobs that start now, if the first pending job has a reservation at its earliest start."""
    held = [(end_s, runs[at].processors) for at, end_s in running.items() if end_s > now_s]
    free = machine - sum(processors for _, processors in held)
    waiting, chosen = list(queue), list[int]()
    while waiting and runs[waiting[0]].processors <= free:
        chosen.append(waiting.pop(0))
        free -= runs[chosen[-1]].processors
        held.append((now_s + runs[chosen[-1]].estimate_s, runs[chosen[-1]].processors))
    if not waiting:
        return chosen
    head = runs[waiting.pop(0)].processors
    times = sorted({end_s for end_s, _ in held})
    shadow_s = next(t for t in times if free + sum(p for end_s, p in held if end_s <= t) >= head)
    beside = free + sum(p for end_s, p in held if end_s <= shadow_s) - head
    if shortest_first:
        waiting.sort(key=lambda at: runs[at].estimate_s)
    for at in waiting:
        run = runs[at]
        late = now_s + run.estimate_s > shadow_s
        if run.processors <= free and not (late and run.processors > beside):
            chosen.append(at)
            free -= run.processors
            beside -= run.processors if late else 0
    return chosen


def beside_all_before(
    runs: Sequence[Run], queue: Sequence[int], running: dict[int, float], machine: int, now_s: float
) -> list[int]:
    """Return the jobs that start now. Each job has a reservation at the earliest time at which it fits together with
    all earlier jobs."""
    taken = [(now_s, end_s, runs[at].processors) for at, end_s in running.items() if end_s > now_s]
    chosen = list[int]()
    for at in queue:
        run = runs[at]
        for start_s in sorted({now_s, *(end_s for _, end_s, _ in taken)} - {inf}):
            end_s = start_s + run.estimate_s
            moments = {start_s, *(since_s for since_s, _, _ in taken if start_s < since_s < end_s)}
            busiest = max(sum(p for since_s, until_s, p in taken if since_s <= t < until_s) for t in moments)
            if busiest + run.processors <= machine:
                taken.append((start_s, end_s, run.processors))
                chosen += [at] if start_s == now_s else []
                break
    return chosen
