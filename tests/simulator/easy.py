"""EASY backfilling on a machine of processors, by the rules alone: what the simulated scheduler is held against.

Written for being right at a glance; it knows nothing of the code under test. Rules: Mu'alem and Feitelson (TPDS 2001);
at equal times submissions come before ends, but a job whose estimate is over counts as gone."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class Run(NamedTuple):
    job: str
    submit_s: float
    run_s: float
    processors: int
    estimate_s: float


def easy(runs: Sequence[Run], machine: int, *, shortest_first: bool = False) -> dict[str, float]:
    """When each starts."""
    events = [(run.submit_s, 0, at) for at, run in enumerate(runs)]
    heapify(events)
    starts: dict[str, float] = {}
    queue: list[int] = []
    running: dict[int, float] = {}  # -> when its estimate is over
    while events:
        now_s, ends, at = heappop(events)
        if ends:
            del running[at]
        else:
            queue.append(at)
        for chosen in choose(runs, queue, running, machine, now_s, shortest_first):
            queue.remove(chosen)
            starts[runs[chosen].job] = now_s
            running[chosen] = now_s + runs[chosen].estimate_s
            heappush(events, (now_s + runs[chosen].run_s, 1, chosen))
    return starts


def choose(
    runs: Sequence[Run],
    queue: Sequence[int],
    running: dict[int, float],
    machine: int,
    now_s: float,
    shortest_first: bool,
) -> list[int]:
    """What starts now."""
    held = sorted((end_s, runs[at].processors) for at, end_s in running.items() if end_s > now_s)
    free = machine - sum(processors for _, processors in held)
    chosen = []
    for at in queue:
        if runs[at].processors > free:
            break
        chosen.append(at)
        free -= runs[at].processors
        held.append((now_s + runs[at].estimate_s, runs[at].processors))
    waiting = queue[len(chosen) :]
    if not waiting:
        return chosen
    head = runs[waiting[0]].processors
    times = sorted({end_s for end_s, _ in held})
    shadow_s = next(t for t in times if free + sum(p for end_s, p in held if end_s <= t) >= head)
    beside = free + sum(p for end_s, p in held if end_s <= shadow_s) - head
    others = list(waiting[1:])
    if shortest_first:
        others.sort(key=lambda at: runs[at].estimate_s)
    for at in others:
        run = runs[at]
        if run.processors > free:
            continue
        if now_s + run.estimate_s > shadow_s:
            if run.processors > beside:
                continue
            beside -= run.processors
        free -= run.processors
        chosen.append(at)
    return chosen
