"""Who comes first: replacements of started gangs, then higher priority, then earlier arrival, then id.

A started gang that has less than its minimum of a role gets what it lost before anybody gets anything. Above that a
pod is growth: it comes behind every job of its priority that waits, whenever that was submitted.

A pod of a job that is started pod by pod arrives when its slot opens (so later than the jobs known by then), not when
its job was submitted: this is kube-scheduler's order, and with it a second pod of an early job waits behind a late
job's first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TypeAlias

from phalanx.core.replacement import gang_of_one
from phalanx.model.cluster import Cluster, Record
from phalanx.model.job import Slot
from phalanx.model.line import BEHIND_ALL_S, Bid, Entry, Kind, LineKey
from phalanx.model.topology import Topology

Rank: TypeAlias = tuple[bool, int, float, int, str | int]


def rank(key: LineKey, entry: Entry) -> Rank:
    """Compares bids of all lines: lower is sooner. `kind` is before `tie` so that ties are of one type."""
    return (key.kind != Kind.REPLACEMENT, -key.priority, entry.arrival_s, key.kind, entry.tie)


def place_in_line(
    cluster: Cluster, topologies: Sequence[Topology], record: Record, bid: Bid, *, whole: bool
) -> tuple[LineKey, Entry]:
    """The line in which a bid belongs, and its place there. `whole`: its queue starts jobs as gangs."""
    job = record.job
    if bid.slot is None:
        return LineKey(int(Kind.JOB), job.priority, record.gang), Entry(job.submitted_s, job.id, bid)
    one = gang_of_one(cluster, topologies, record, bid.slot)
    arrival_s, number = record.open[bid.slot]
    kind = Kind.POD
    if whole:
        kind = Kind.GROWTH if grows(record, bid.slot) else Kind.REPLACEMENT
    return LineKey(int(kind), job.priority, one), Entry(BEHIND_ALL_S if kind is Kind.GROWTH else arrival_s, number, bid)


def grows(record: Record, slot: Slot) -> bool:
    """Whether the slot's role has its minimum without it, or the gang can do without the role and does. Of what is open
    below the minimum, the slots opened last count as those that were lost."""
    asked = record.job.roles[slot.role]
    if slot.role in record.gang.needed() and asked.minimum == asked.count:
        return False
    placed = sum(
        1 for _ in islice((each for each in record.placements if each.role == slot.role), max(1, asked.minimum))
    )
    if not placed and slot.role not in record.gang.needed():
        return True
    if placed < asked.minimum:
        number = record.open[slot][1]
        placed += sum(each.role == slot.role and later > number for each, (_, later) in record.open.items())
    return placed >= asked.minimum
