"""Measures of fairness. The fairness between parties is measured by fair parts and dominant shares, and the fairness
between jobs by fair start times.

*Parties* are the queues of the trace, or its users if it names at most one queue. The time from the first submission to
the last end (the *window*) is divided into *rounds* of one day. A window of less than ten days is divided into ten
shorter rounds, and a window of more than ten thousand days into ten thousand longer rounds.

The first part of the module computes each party's max-min fair part of the cluster, using the weights of the queue
tree. The fair part of a queue is divided among its children in proportion to their weights. A child gets at most its
demand; the rest of its part is divided among its siblings. A party that is not a queue of the policy counts as a child
of the root with weight 1. (Such a party is a user, or a queue of the trace if the policy has only one queue.)
Guarantees and limits are ignored, because they are settings of the policy whose fairness is measured.

The second part of the module measures the amount that each party got, divided by its fair part. In a round, a party's
demand is the amount that its waiting and running jobs would use if they all ran. The function `due` computes the fair
part, which is at most the demand. The measures use the ratio `x = used / fair part`. If x is 1, the party got its fair
part; if x is greater than 1, the party got more, at the cost of other parties.

- `jain_fairness`: the mean, over all rounds, of Jain's index of x for the parties with a fair part.
  `worst_jain_fairness`: the index in the worst round.
- `share_gap`: the mean, over all rounds, of the difference between the largest and the smallest x.
- Finish-time fairness (Themis, NSDI'20): a job's completion time (end minus submission), divided by the completion time
  that it would have alone on its party's part of the cluster. With N parties, the party's part is 1/N or, if the
  parties have weights, proportional to its weight. The completion time alone is the run time of the job, multiplied by
  (size of the job / part) if the job is larger than the part.

The third part of the module measures dominant shares (Ghodsi et al., NSDI'11). A party's dominant share in a round is
the largest fraction that it used of any resource of the cluster. The *gap* is the difference between the largest and
the smallest dominant share, among the parties that used any resource or waited. The gap ignores demands: between
parties with very different demands it is wide even if both get their fair parts.

The fourth part of the module measures how much jobs were delayed by jobs that were submitted later. The *fair start
time* of a job is the time at which it would start if no job were submitted after it (Sabin, Kochhar, Sadayappan, "Job
fairness in non-preemptive job scheduling", ICPP'04). A job has *missed* its fair start time if it starts later. To find
the fair start time, the trace is cut off after the job and simulated again, under the same policy and with the same
faults. A simulation for each job would be expensive, so only a sample of the jobs, evenly spread over the trace, is
measured. A job that started at once cannot have missed its fair start time and needs no simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, fsum
from typing import TypeAlias, TypeVar

from phalanx.model.pod import PODS
from phalanx.model.queue import Queue
from phalanx.simulator.schedule import Fate, Schedule, capacity, held, jain, mean, sizes, waits, window
from phalanx.simulator.workload import Task, Workload

LEAST = 1e-9  # used instead of the weight 0, so that a queue of weight 0 only gets amounts that no other queue demands
ITSELF = ("", 1.0)  # in the list of a queue's children, the entry (name, weight) for the queue's own jobs

Child = TypeVar("Child", str, tuple[str, float])
# the path of a party: (queue, weight) for each queue from the root's child down to the party
Line: TypeAlias = tuple[tuple[str, float], ...]


def lines_of(parties: Iterable[str], queues: Sequence[Queue], default: str, counted: str) -> dict[str, Line]:
    """Return each party's path in the queue tree (a `Line`). `default`: the queue of jobs that name no queue.
    `counted`: the counted resource. If a queue has separate weights for resources, its weight for this resource is
    used."""
    known = {queue.name: queue for queue in queues}
    found: dict[str, Line] = {}
    for party in parties:
        line: list[tuple[str, float]] = []
        queue = known.get(party or default)
        while queue is not None and len(line) < len(known):
            line.append((queue.name, max(LEAST, dict(queue.weights).get(counted, queue.weight))))
            queue = known.get(queue.parent)
        found[party] = tuple(reversed(line)) or ((party, 1.0),)
    return found


def due(lines: Mapping[str, Line], demand: Mapping[str, float], has: float) -> dict[str, float]:
    """Divide the amount `has` among the parties, and return the fair part of each party with a demand."""
    children: dict[tuple[str, float], list[str]] = {}
    for party in sorted(demand):
        children.setdefault(lines[party][0] if lines[party] else ITSELF, []).append(party)
    wanted = {child: fsum(demand[party] for party in within) for child, within in children.items()}
    found: dict[str, float] = {}
    for child, part in fair_parts(wanted, {child: child[1] for child in children}, has).items():
        within = children[child]
        if len(within) == 1:
            found[within[0]] = part
        else:
            below = {party: lines[party][1:] for party in within}
            found |= due(below, {party: demand[party] for party in within}, part)
    return found


def fair_parts(demand: Mapping[Child, float], weights: Mapping[Child, float], has: float) -> dict[Child, float]:
    """Divide the amount `has` max-min fairly: in proportion to the weights, but no child gets more than its demand."""
    parts: dict[Child, float] = {}
    among = fsum(weights[child] for child in demand)
    for child in sorted(demand, key=lambda child: (demand[child] / weights[child], child)):
        parts[child] = min(demand[child], has * weights[child] / among) if among > 0 else 0.0
        has, among = has - parts[child], among - weights[child]
    return parts


def shares(lines: Mapping[str, Line]) -> dict[str, float]:
    """Return the fraction of the cluster that would be each party's fair part if every party demanded more than the
    whole cluster."""
    return due(lines, dict.fromkeys(lines, 2.0), 1.0)


# --- fairness ---------------------------------------------------------------------------------------------------------

DAY_S = 86_400.0
MIN_ROUNDS, MOST_ROUNDS = 10, 10_000
Used = dict[str, float]


def parties(schedule: Schedule) -> tuple[list[str], Sequence[Queue]]:
    """Return the party of each task, and the queues of the tree to which the parties belong. If the parties are users,
    there are no queues."""
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
    """Yield two mappings for each round: party -> the amount that it used, and party -> the amount that its waiting
    jobs requested."""
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
    """Divide the party's use of `amount` from `start_s` to `end_s` among the rounds. Each round gets the amount,
    multiplied by the number of seconds of this time that lie in the round."""
    at = min(int(start_s // round_s), len(into) - 1)
    while start_s < end_s:
        until_s = end_s if at == len(into) - 1 else min(end_s, (at + 1) * round_s)
        into[at][party] = into[at].get(party, 0.0) + amount * (until_s - start_s)
        start_s, at = until_s, min(at + 1, len(into) - 1)


# --- dominant shares --------------------------------------------------------------------------------------------------


def dominance(schedule: Schedule) -> dict[str, float]:
    gaps = [max(shares.values()) - min(shares.values()) for shares in dominant_shares(schedule) if shares]
    return {"dominant_share_gap": mean(gaps), "max_dominant_share_gap": max(gaps)} if gaps else {}


def dominant_shares(schedule: Schedule) -> Iterator[Used]:
    """Yield for each round the dominant share of each party that used any resource or waited."""
    (since_s, until_s), (of, _) = window(schedule), parties(schedule)
    if until_s <= since_s:
        return
    round_s = round_s_of(until_s - since_s)
    each = [counting(schedule, name) for name in asked(schedule)]
    has = [capacity(one) for one in each]
    for by_resource in zip(*(rounds(one, of, since_s, until_s, round_s) for one in each), strict=True):
        shares: Used = {}
        for (used, waited), there in zip(by_resource, has, strict=True):
            for party in (*used, *waited):
                shares[party] = max(shares.get(party, 0.0), used.get(party, 0.0) / (there * round_s))
        yield shares


def counting(schedule: Schedule, resource: str) -> Schedule:
    """Return the schedule with `resource` as the counted resource."""
    return replace(schedule, workload=replace(schedule.workload, counted=resource, unit=1))


def asked(schedule: Schedule) -> list[str]:
    """Return the resources that jobs request and nodes have, except `pods`."""
    # many tasks share one tuple of roles, which is then read only once
    every = {id(roles): roles for roles in (fate.task.job.roles for fate in schedule.fates)}
    shapes = {role.shape for roles in every.values() for role in roles}
    names = {name for shape in shapes for name, amount in shape.requests if amount}
    names |= {shape.share.resource for shape in shapes if shape.share is not None}
    there = {name for node in schedule.nodes for name, amount in node.allocatable if amount}
    return sorted((names & there) - {PODS})


# --- fair start times -------------------------------------------------------------------------------------------------

# delays of less than a microsecond are ignored (the hash of a schedule also rounds times to whole microseconds)
LEAST_S = 1e-6


def fair_starts(
    schedule: Schedule,
    again: Callable[[Workload], Schedule],
    count: int,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, float]:
    """Return the measures of a sample of at most `count` jobs. `again`: a function that simulates a workload under the
    policy and faults of `schedule`. `progress`: a function that is called with the number of jobs of the sample that
    were measured so far. If a simulation is interrupted, only jobs that were measured before the interruption count."""
    delays = list[float]()
    for done, fate in enumerate(sampled(schedule.fates, count), 1):
        missed_s = missed_by_s(schedule, fate, again)
        if missed_s is None:
            break  # stop here: to continue only with jobs that need no simulation would bias the result
        delays.append(missed_s)
        progress(done)
    if not delays:
        return {}
    return {
        "fair_start_jobs": len(delays),
        "fair_start_miss_ratio": mean([float(delay_s > LEAST_S) for delay_s in delays]),
        "mean_fair_start_miss_s": mean(delays),
        "max_fair_start_miss_s": max(delays),
    }


def sampled(fates: Sequence[Fate], count: int) -> Sequence[Fate]:
    """Return at most `count` started jobs, evenly spread over all started jobs."""
    started = [fate for fate in fates if fate.start_s is not None]
    count = min(count, len(started))
    return [started[(2 * at + 1) * len(started) // (2 * count)] for at in range(count)]


def missed_by_s(schedule: Schedule, fate: Fate, again: Callable[[Workload], Schedule]) -> float | None:
    """Return by how many seconds the job started after its fair start time; 0 if it started at or before that time.
    Return None if the simulation was interrupted."""
    assert fate.start_s is not None
    if fate.start_s <= fate.task.job.submitted_s:
        return 0.0
    alike = again(replace(schedule.workload, tasks=until(schedule, fate)))
    if alike.interrupted:
        return None
    fair_s = next(other.start_s for other in alike.fates if other.task.job.id == fate.task.job.id)
    return 0.0 if fair_s is None else max(0.0, fate.start_s - fair_s)


def until(schedule: Schedule, fate: Fate) -> list[Task]:
    """Return the tasks that were submitted before the job, and the job itself. Tasks with the same submission time are
    included if they come before the job in the trace."""
    last = fate.task.job.submitted_s, fate.index
    both = zip(schedule.workload.tasks, schedule.fates, strict=True)
    return [task for task, other in both if (other.task.job.submitted_s, other.index) <= last]
