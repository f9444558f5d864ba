"""Cell compaction: the smallest part of the cluster into which the running jobs could have been packed.

Borg's authors compare schedulers in this way (Verma et al., EuroSys'15, section 5.1). All jobs that ran at the busiest
time of the schedule are packed again with the same policy, on fewer and fewer nodes, until they do not fit. The nodes
are removed in a random order; the result is the 90th percentile over several orders. Jobs are packed in the order of
their submission, each with its pods at that time, all in one open queue. The smallest number of nodes is found by
halving; this assumes that jobs that fit on some nodes also fit on more nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from phalanx.model.event import Event, NodeSeen, QueueSeen, Submitted
from phalanx.model.job import Job, Placement
from phalanx.model.node import Node
from phalanx.model.plan import Start
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import Queue
from phalanx.simulator.run.feasible import Nobody
from phalanx.simulator.run.inflate import shuffled
from phalanx.simulator.run.play import LoopStep
from phalanx.simulator.schedule.schedule import Schedule
from phalanx.simulator.schedule.statistic import percentile
from phalanx.simulator.schedule.sweep import spans
from phalanx.simulator.workload.workload import alone
from phalanx.state.cluster import Cluster

CELL = "cell"
PART = 0.9  # the percentile over the orders


def compaction(
    schedule: Schedule, policy: Policy, step: LoopStep, orders: int, stopped: Callable[[], bool] = lambda: False
) -> dict[str, float]:
    """Return the measures; empty for a cluster of one node, if no job ran, or if `stopped` returns True. `orders`: the
    number of random orders."""
    nodes, jobs = schedule.nodes, busiest(schedule)
    if len(nodes) < 2 or not jobs:
        return {}
    anew = replace(policy, backfill=Backfill.GREEDY, default_queue=CELL)
    parts = list[float]()
    for order in range(orders):
        left = shuffled(nodes, Random(f"{schedule.seed} compaction {order}"))
        needed = fewest(jobs, left, anew, step)
        parts.append(needed / len(left))
        if stopped():
            return {}
    return {"compacted_cell_ratio": percentile(sorted(parts), PART), "compacted_jobs": len(jobs)}


def fewest(jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy, step: LoopStep) -> int:
    """Return the smallest number of first nodes on which all jobs fit; all nodes if they do not fit even there."""
    return bisect_left(range(len(nodes)), True, key=lambda count: fits(jobs, nodes[:count], policy, step))


def busiest(schedule: Schedule) -> list[Job]:
    """Return the jobs that ran at the busiest time (the first one), each with the pods that it held then."""
    span = max(spans(schedule), key=lambda span: span.busy, default=None)
    if span is None:
        return []
    there = [stint for stint in schedule.stints if stint.start_s <= span.start_s < stint.end_s]
    there.sort(key=lambda stint: stint.task)
    jobs = ((schedule.fates[stint.task].task.job, stint.placements) for stint in there)
    return [held_by(job, placements, float(rank)) for rank, (job, placements) in enumerate(jobs)]


def held_by(job: Job, placements: Sequence[Placement], at_s: float) -> Job:
    """Return the job with requests equal to the pods that it held. If some role held no pods, the groups are
    dropped."""
    counts = Counter(placement.role for placement in placements)
    roles = tuple(replace(job.roles[at], count=count, minimum=count) for at, count in sorted(counts.items()))
    whole = len(roles) == len(job.roles)
    if not whole:
        roles = tuple(replace(role, group="") for role in roles)
    return replace(
        alone(job),
        queue="",
        roles=roles,
        groups=job.groups if whole else (),
        submitted_s=at_s,
        begin_s=None,
        deadline_s=None,
        limit_s=None,
    )


def fits(jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy, step: LoopStep) -> bool:
    """Return whether all jobs start on these nodes."""
    cluster, now_s, started = Cluster(), float(len(jobs)), 0
    events: Sequence[Event] = (*map(NodeSeen, nodes), QueueSeen(Queue(name=CELL)), *map(Submitted, jobs))
    plan = step(cluster, events, policy, now_s, Nobody())
    started += sum(isinstance(action, Start) for action in plan.actions)
    while plan.wake_s == now_s and plan.actions:
        plan = step(cluster, (), policy, now_s, Nobody())
        started += sum(isinstance(action, Start) for action in plan.actions)
    return started == len(jobs)
