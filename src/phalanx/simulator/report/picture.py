"""The data of a schedule that a page draws. The process that runs the simulation computes these data and sends them to
the process that draws the page, because the data are much smaller than the schedule.

Time is cut into `BINS` equal bins. The *parties* (queues or users, see `fairness.parties`) with the highest demand are
drawn with their names. Each of them has the same colour under every policy. All other parties are drawn as one party.
The Gantt chart is called the *closer look*. For a long schedule, the chart shows only the time around the longest
queue, with at most `LOOK_STINTS` bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, inf
from typing import NamedTuple

from phalanx.simulator.measures.fairness import Used, parties, spread
from phalanx.simulator.measures.measure import bounded_slowdown, jct_s, wait_s
from phalanx.simulator.schedule import Fate, Schedule, capacity, held, sizes, waits, window

BINS = 300
PARTIES = 8
OTHERS = "others"
QUANTILES = 200
WORST = 12
LOOK_STINTS = 1500
LOOK_NODES = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """A job with a high slowdown, or a job that never ran. `slowdown`: 0 if the job never ran. `submitted_s`: seconds
    since the first submission."""

    job: str
    party: str
    size: float
    submitted_s: float
    wait_s: float
    run_s: float
    slowdown: float
    starts: int
    reason: str


class Bar(NamedTuple):
    """A job on one node in the closer look. `low`, `high`: the lower and the upper edge of the bar, as fractions of the
    row's height."""

    row: int
    start_s: float
    end_s: float
    low: float
    high: float
    party: int
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The closer look: a part of the schedule, node by node. `nodes`: the names of the nodes, in the order of the rows.
    `bars`: the bars of the chart. `all_nodes`: the number of nodes that jobs used; the chart has a row for only some of
    them if there are many."""

    since_s: float
    until_s: float
    nodes: tuple[str, ...]
    bars: tuple[Bar, ...]
    all_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The data of one schedule. Amounts are in the workload's counted resource.

    `used[party][bin]`: the mean amount that the party used in the bin. `waiting[bin]`: the mean amount requested by
    waiting jobs. `queued[bin]`: the mean number of waiting jobs.
    `waits`: evenly spaced quantiles of the waits of all jobs that ended, in seconds.
    `parties`: the parties in the order of their colours.
    `worst`: the jobs with the highest slowdown. `never`: some of the jobs that never ran. `never_count`: the number of
    all jobs that never ran."""

    title: str
    trace: str
    counted: str
    capacity: float
    since_s: float
    until_s: float
    parties: tuple[str, ...]
    used: tuple[tuple[float, ...], ...]
    waiting: tuple[float, ...]
    queued: tuple[float, ...]
    waits: tuple[float, ...]
    worst: tuple[Worst, ...]
    never: tuple[Worst, ...]
    never_count: int
    look: Look


def picture(schedule: Schedule) -> Picture:
    since_s, until_s = window(schedule)
    of, _ = parties(schedule)
    names, used = used_by(schedule, of, since_s, until_s)
    waiting, queued = waiting_over_time(schedule, since_s, until_s)
    size = sizes(schedule)
    done = sorted(schedule.finished(), key=lambda fate: -bounded_slowdown(fate))
    never = [fate for fate in schedule.fates if fate.start_s is None]
    return Picture(
        title=f"{schedule.policy} ({schedule.estimates})",
        trace=schedule.workload.name,
        counted=schedule.workload.counted,
        capacity=capacity(schedule),
        since_s=since_s,
        until_s=until_s,
        parties=names,
        used=used,
        waiting=waiting,
        queued=queued,
        waits=quantiles(wait_s(fate) for fate in done),
        worst=tuple(treated(fate, of, size, since_s, until_s) for fate in done[:WORST] if bounded_slowdown(fate) > 1),
        never=tuple(treated(fate, of, size, since_s, until_s) for fate in never[:WORST]),
        never_count=len(never),
        look=look(schedule, of, names, queued),
    )


def used_by(
    schedule: Schedule, of: Sequence[str], since_s: float, until_s: float
) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
    """Return the parties with the highest demand, and the mean amount that each party used in each bin. If not all
    parties are returned, the last entry is the sum over the remaining parties."""
    bin_s = max(until_s - since_s, 1e-9) / BINS
    bins: list[Used] = [{} for _ in range(BINS)]
    for stint, amount in zip(schedule.stints, held(schedule), strict=True):
        spread(bins, of[stint.task], amount, stint.start_s - since_s, stint.end_s - since_s, bin_s)
    ranked = ranked_by_work(schedule, of)
    named = ranked[:PARTIES] if len(ranked) > PARTIES + 1 else ranked
    rows = [tuple(each.get(party, 0.0) / bin_s for each in bins) for party in named]
    if rest := ranked[len(named) :]:
        rows.append(tuple(fsum(each.get(party, 0.0) for party in rest) / bin_s for each in bins))
        named = [*named, OTHERS]
    return tuple(named), tuple(rows)


def ranked_by_work(schedule: Schedule, of: Sequence[str]) -> list[str]:
    """Return the parties, sorted by the total work of their tasks, the highest first. For a task that never ends, its
    size is used instead of its work."""
    total: Used = {}
    for fate, party, size in zip(schedule.fates, of, sizes(schedule), strict=True):
        run_s = min(fate.task.run_s, fate.task.stop_s or inf)
        total[party] = total.get(party, 0.0) + size * (run_s if run_s < inf else 1.0)
    return sorted(total, key=lambda party: (-total[party], party))


def waiting_over_time(
    schedule: Schedule, since_s: float, until_s: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return for each bin the mean amount requested by waiting jobs, and the mean number of waiting jobs."""
    bin_s = max(until_s - since_s, 1e-9) / BINS
    amounts: list[Used] = [{} for _ in range(BINS)]
    counts: list[Used] = [{} for _ in range(BINS)]
    size = sizes(schedule)
    for wait in waits(schedule):
        start_s, end_s = wait.start_s - since_s, wait.end_s - since_s
        spread(amounts, "", size[wait.task], start_s, end_s, bin_s)
        spread(counts, "", 1.0, start_s, end_s, bin_s)
    return per_bin(amounts, bin_s), per_bin(counts, bin_s)


def per_bin(bins: Sequence[Used], bin_s: float) -> tuple[float, ...]:
    return tuple(each.get("", 0.0) / bin_s for each in bins)


def quantiles(values: Iterable[float]) -> tuple[float, ...]:
    ordered = sorted(values)
    if not ordered:
        return ()
    last = len(ordered) - 1
    return tuple(ordered[round(at * last / QUANTILES)] for at in range(QUANTILES + 1))


def treated(fate: Fate, of: Sequence[str], size: Sequence[float], since_s: float, until_s: float) -> Worst:
    ran = fate.end_s is not None
    return Worst(
        job=fate.task.job.id,
        party=of[fate.index],
        size=size[fate.index],
        submitted_s=fate.task.job.submitted_s - since_s,
        wait_s=jct_s(fate) - fate.ran_s if ran else until_s - fate.task.job.submitted_s,
        run_s=fate.ran_s if ran else fate.task.run_s,
        slowdown=bounded_slowdown(fate) if ran else 0.0,
        starts=fate.starts,
        reason=fate.reason or (fate.told.text if fate.told is not None else ""),
    )


def look(schedule: Schedule, of: Sequence[str], names: Sequence[str], queued: Sequence[float]) -> Look:
    """Return the closer look: the time around the longest queue, on the first `LOOK_NODES` used nodes."""
    since_s, until_s = stretch(schedule, queued)
    chosen = [stint for stint in schedule.stints if stint.end_s > since_s and stint.start_s < until_s]
    rooms = {node.name: dict(node.allocatable) for node in schedule.nodes}
    used = sorted({placement.node for stint in chosen for placement in stint.placements})
    nodes = used[:LOOK_NODES]
    row_of = {node: row for row, node in enumerate(nodes)}
    colour = {party: at for at, party in enumerate(names)}
    # for each row, (end, low, high) of the bars drawn so far
    stacks: list[list[tuple[float, float, float]]] = [[] for _ in nodes]
    bars: list[Bar] = []
    for stint in sorted(chosen, key=lambda each: (each.start_s, each.task)):
        job = schedule.fates[stint.task].task.job
        parts: dict[str, float] = {}
        for placement in stint.placements:
            asks = dict(job.roles[placement.role].shape.requests)
            room = rooms.get(placement.node, {})
            part = max((asks.get(name, 0) / room[name] for name in asks if room.get(name)), default=0.0)
            parts[placement.node] = parts.get(placement.node, 0.0) + part
        for node, part in parts.items():
            if node in row_of and part > 0:
                low = lowest(stacks[row_of[node]], stint.start_s, stint.end_s, part)
                party = colour.get(of[stint.task], len(names) - 1)
                span = (max(stint.start_s, since_s), min(stint.end_s, until_s))
                bars.append(Bar(row_of[node], *span, low, min(1.0, low + part), party, job.id))
    return Look(since_s=since_s, until_s=until_s, nodes=tuple(nodes), bars=tuple(bars), all_nodes=len(used))


def stretch(schedule: Schedule, queued: Sequence[float]) -> tuple[float, float]:
    """Return a span of time around the longest queue in which at most `LOOK_STINTS` stints start."""
    since_s, until_s = window(schedule)
    if len(schedule.stints) <= LOOK_STINTS:
        return since_s, until_s
    starts = sorted(stint.start_s for stint in schedule.stints)
    peak = max(range(BINS), key=lambda at: (queued[at], -at))
    centre_s = since_s + (peak + 0.5) * (until_s - since_s) / BINS
    middle = sum(start_s < centre_s for start_s in starts)
    first = max(0, min(middle - LOOK_STINTS // 2, len(starts) - LOOK_STINTS))
    return starts[first], starts[min(first + LOOK_STINTS, len(starts)) - 1]


def lowest(taken: list[tuple[float, float, float]], start_s: float, end_s: float, part: float) -> float:
    """Find the lowest gap of height `part` between the bars at `start_s`, mark it as used until `end_s`, and return its
    lower edge. A bar may be drawn in any gap, because it is not known which processors of the node a job used. If no
    gap is high enough, the new bar overlaps other bars."""
    taken[:] = [each for each in taken if each[0] > start_s]
    low = 0.0
    for _, other_low, other_high in sorted(taken, key=lambda each: each[1]):
        if other_low - low >= part - 1e-9:
            break
        low = max(low, other_high)
    if low + part > 1 + 1e-9:
        low = max(0.0, 1 - part)
    taken.append((end_s, low, low + part))
    return low
