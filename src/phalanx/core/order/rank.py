"""In which line a bid stands, and how bids compare.

Replacements of started gangs come before all else, by priority, then arrival. All other bids contend in their queue, by
the queue's order (`core.order.next_job`), and by `rank` where that asks for one: higher priority, then earlier arrival,
then id; in FIFO order arrival alone; in MULTIFACTOR order Slurm's sum of factors.

A started gang that has less than its minimum of a role gets what it lost before anybody gets anything. Above that a
pod is growth: it comes behind every job of its priority that waits, whenever that was submitted.

A pod of a job that is started pod by pod arrives when its slot opens (so later than the jobs known by then), not when
its job was submitted: this is kube-scheduler's order, and with it a second pod of an early job waits behind a late
job's first."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TypeAlias

from phalanx.core.placement.replacement import is_growth, replacement_gang
from phalanx.core.quota import flavor_assignment
from phalanx.model.job import Job
from phalanx.model.queue import QueueOrder
from phalanx.model.topology import Topology
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.pending.line import BEHIND_ALL_S, PLAIN, Bid, Entry, Kind, LineKey, Terms
from phalanx.state.queue_tree import Branch

# What tells a job from others beside whose it is, and how long it may run; and what it is of most.
DETAILS = attrgetter("limit_s", "estimate_s", "deadline_s", "preemptible", "preempts", "reservation")
PLAIN_DETAILS = DETAILS(PLAIN)

# (what the order counts most, lower first; arrival; kind; tie): `kind` is before `tie` so that ties are of one type.
Rank: TypeAlias = tuple[float, float, int, str | int]


def rank(key: LineKey, entry: Entry, order: QueueOrder = QueueOrder.PRIORITY, priority: float | None = None) -> Rank:
    """Compares bids of all lines: lower is sooner. `priority`: what the factors come to, where they decide."""
    if order is QueueOrder.FIFO:
        first = 0.0
    elif order is QueueOrder.MULTIFACTOR and priority is not None:
        first = -priority
    else:
        first = -key.priority
    return (first, entry.arrival_s, key.kind, entry.tie)


def place_in_line(
    cluster: Cluster, topologies: Sequence[Topology], record: JobRecord, bid: Bid, *, whole: bool
) -> tuple[LineKey, Entry]:
    """The line in which a bid belongs, and its place there. `whole`: its queue starts jobs as gangs."""
    job, slot = record.job, bid.slot
    if slot is not None and whole and not is_growth(record, slot):
        one = replacement_gang(cluster, topologies, record, slot)
        return LineKey(int(Kind.REPLACEMENT), job.priority, one), Entry(*record.open[slot], bid)
    queue = cluster.queue_of(job)
    terms = terms_of(job, cluster.tree.branches[queue], by_person=bool(cluster.reservations))
    if slot is None:
        return LineKey(int(Kind.JOB), job.priority, record.gang, queue, terms), Entry(job.submitted_s, job.id, bid)
    if cluster.tree.branches[queue].caps_jobs:
        terms = terms._replace(job=job.id)
    one, kind = replacement_gang(cluster, topologies, record, slot), Kind.GROWTH if whole else Kind.POD
    arrival_s, number = record.open[slot]
    entry = Entry(BEHIND_ALL_S if kind is Kind.GROWTH else arrival_s, number, bid)
    return LineKey(int(kind), job.priority, one, queue, terms), entry


def terms_of(job: Job, branch: Branch, *, by_person: bool) -> Terms:
    """What tells the job from others that ask the same. `by_person`: reservations are for some users or groups only."""
    factors = branch.by_factors
    plain = DETAILS(job) == PLAIN_DETAILS and branch.longest_s is None
    if plain and not (by_person or branch.by_user or branch.by_group or factors):
        return PLAIN  # as most are
    user = job.user if by_person or branch.by_user or factors else ""
    group = job.group if by_person or branch.by_group else ""
    terms = Terms(
        user,
        group,
        flavor_assignment.queue_time_limit_s(job, branch),
        job.estimate_s,
        job.deadline_s,
        job.preemptible,
        job.preempts,
        job.reservation,
        job.nice if factors else 0,
        job.qos if factors else "",
    )
    return PLAIN if terms == PLAIN else terms
