"""Cell compaction: into how small a part of the cluster could what ran have been packed?

As Borg's authors judge a scheduler (Verma et al., EuroSys'15, section 5.1): all that ran at the busiest moment of the
schedule is taken, nodes are taken away in an order by chance, and everything is packed anew on those that are left, by
the same policy, until it does not fit any more; the result is the 90th percentile over several such orders. Jobs are
packed in the order of their submission, each with the pods that it had then, all in one open queue; that what fits on
some nodes fits on more of them is taken for granted (the number is found by halving)."""

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
from phalanx.simulator.run.play import Step
from phalanx.simulator.schedule.schedule import Schedule
from phalanx.simulator.schedule.statistic import percentile
from phalanx.simulator.schedule.sweep import spans
from phalanx.simulator.workload.workload import alone
from phalanx.state.cluster import Cluster

CELL = "cell"
PART = 0.9  # the percentile over the orders


def compaction(
    schedule: Schedule, policy: Policy, step: Step, orders: int, stopped: Callable[[], bool] = lambda: False
) -> dict[str, float]:
    """`orders`: in how many nodes are taken away. Nothing of a cluster of one node, where nothing ran, or when it is
    `stopped`."""
    nodes, jobs = schedule.workload.nodes, busiest(schedule)
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


def fewest(jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy, step: Step) -> int:
    """How many of the first nodes hold them all; all of them, if packed anew they do not fit even there."""
    return bisect_left(range(len(nodes)), True, key=lambda count: fits(jobs, nodes[:count], policy, step))


def busiest(schedule: Schedule) -> list[Job]:
    """Return who ran at the first moment at which most was held, with what each held."""
    span = max(spans(schedule), key=lambda span: span.busy, default=None)
    if span is None:
        return []
    there = [stint for stint in schedule.stints if stint.start_s <= span.start_s < stint.end_s]
    there.sort(key=lambda stint: stint.task)
    jobs = ((schedule.fates[stint.task].task.job, stint.placements) for stint in there)
    return [held_by(job, placements, float(rank)) for rank, (job, placements) in enumerate(jobs)]


def held_by(job: Job, placements: Sequence[Placement], at_s: float) -> Job:
    """The job as if it asked what it held; groups of which a role had nothing are none."""
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


def fits(jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy, step: Step) -> bool:
    """Return whether all of them find their places there."""
    cluster, now_s, started = Cluster(), float(len(jobs)), 0
    events: Sequence[Event] = (*map(NodeSeen, nodes), QueueSeen(Queue(name=CELL)), *map(Submitted, jobs))
    plan = step(cluster, events, policy, now_s, Nobody())
    started += sum(isinstance(action, Start) for action in plan.actions)
    while plan.wake_s == now_s and plan.actions:
        plan = step(cluster, (), policy, now_s, Nobody())
        started += sum(isinstance(action, Start) for action in plan.actions)
    return started == len(jobs)
