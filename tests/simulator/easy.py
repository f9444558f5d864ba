"""EASY backfilling on a machine of processors, by the rules alone: what the simulated scheduler is held against.

Written for being right at a glance; it knows nothing of the code under test. Rules: Mu'alem and Feitelson (TPDS 2001);
at equal times submissions come before ends, and ends in the order of the starts; but a job whose estimate is over
counts as gone."""

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
    events = [(run.submit_s, 0, at, at) for at, run in enumerate(runs)]
    heapify(events)
    starts: dict[str, float] = {}
    queue: list[int] = []
    running: dict[int, float] = {}  # -> when its estimate is over
    while events:
        now_s, ends, _, at = heappop(events)
        if ends:
            del running[at]
        else:
            queue.append(at)
        for chosen in choose(runs, queue, running, machine, now_s, shortest_first):
            queue.remove(chosen)
            running[chosen] = now_s + runs[chosen].estimate_s
            heappush(events, (now_s + runs[chosen].run_s, 1, len(starts), chosen))
            starts[runs[chosen].job] = now_s
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
