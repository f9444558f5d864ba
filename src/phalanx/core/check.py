"""What must be true of the book after every fold, as code. Tests and the simulation call it each time; it is slow on
purpose: everything is counted anew from the records."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.model.cluster import Cluster, Record
from phalanx.model.demand import charged
from phalanx.model.job import Phase
from phalanx.model.line import Bid


class Broken(AssertionError):
    """The book contradicts itself, or a decision broke a promise: a defect of ours."""


def check(cluster: Cluster) -> None:
    """Raises `Broken` with everything that is wrong."""
    wrong = [
        *cluster.breaches,
        *columns_add_up(cluster),
        *others_add_up(cluster),
        *jobs_are_whole(cluster),
        *waiting_is_true(cluster),
    ]
    if wrong:
        raise Broken("\n".join(wrong))


def columns_add_up(cluster: Cluster) -> Iterator[str]:
    """free = allocatable - what records and foreign pods hold, in every row and resource."""
    columns = cluster.columns
    expected = {resource: dict(enumerate(column.tolist())) for resource, column in columns.allocatable.items()}
    charges = [0] * columns.capacity
    for node, asks in holdings(cluster):
        row = columns.row_of.get(node)
        if row is None:
            yield f"a pod is charged to {node}, which has no row"
            continue
        charges[row] += 1
        for resource, amount in asks:
            expected[resource][row] -= amount
    for resource, column in columns.free.items():
        for row, free in enumerate(column.tolist()):
            if free != expected[resource][row]:
                name = columns.names[row] if row < len(columns.names) else "a row beyond the last"
                yield f"{name}: {resource} free is {free}, charges say {expected[resource][row]}"
    for row, node_seen in enumerate(columns.nodes):
        allocatable = dict(node_seen.allocatable) if node_seen else {}
        if columns.charges[row] != charges[row]:
            yield f"{columns.names[row]}: {columns.charges[row]} charges noted, there are {charges[row]}"
        for resource, column in columns.allocatable.items():
            if column[row] != allocatable.get(resource, 0):
                yield f"{columns.names[row]}: {resource} allocatable is {column[row]}"


def holdings(cluster: Cluster) -> Iterator[tuple[str, tuple[tuple[str, int], ...]]]:
    yield from cluster.foreign.values()
    for record in cluster.jobs.values():
        for slot, node in record.placements.items():
            yield node, charged(record.job.roles[slot.role].shape.requests)


def jobs_are_whole(cluster: Cluster) -> Iterator[str]:
    for job, record in cluster.jobs.items():
        if job != record.job.id or job not in cluster.jobs_of.get(record.job.queue, ()):
            yield f"{job} is not filed under its id and queue"
        if record.phase is Phase.QUEUED and (record.placements or record.open):
            yield f"{job} is queued and yet holds or wants nodes"
        if record.phase is not Phase.QUEUED and record.attempt < 1:
            yield f"{job} is {record.phase} after no start"
        if record.placements.keys() & record.open.keys():
            yield f"{job} has a slot that is both placed and open"
        held = {resource: jobs.get(job, 0) for resource, jobs in cluster.holders.held.items()}
        yield from (f"{job}: {text}" for text in held_truly(record, held))


def others_add_up(cluster: Cluster) -> Iterator[str]:
    held = dict.fromkeys(cluster.others, 0)
    for _, asks in cluster.foreign.values():
        for resource, amount in asks:
            held[resource] = held.get(resource, 0) + amount
    if held != cluster.others:
        yield f"pods of others hold {held}, noted is {cluster.others}"


def held_truly(record: Record, noted: dict[str, int]) -> Iterator[str]:
    held = dict.fromkeys(noted, 0)
    for slot in record.placements:
        for resource, amount in record.gang.demands[slot.role].asks:
            held[resource] += amount
    if held != noted:
        yield f"holds {held}, noted is {noted}"


def waiting_is_true(cluster: Cluster) -> Iterator[str]:
    """Every bid is fresh, resting, in one line, or parked; and nothing else is."""
    waiting = cluster.waiting
    bids = set(waiting.fresh) | {bid for _, bid in waiting.resting}
    for key, line in waiting.lines.items():
        if not line or line.key != key:
            yield f"a line of {len(line)} stands under a wrong key or empty"
        if bids & line.entries.keys():
            yield f"bids wait in two places: {sorted(bids & line.entries.keys())}"
        bids |= line.entries.keys()
    asked = {Bid(job) for job, record in cluster.jobs.items() if record.phase is Phase.QUEUED}
    asked |= {Bid(job, slot) for job, record in cluster.jobs.items() for slot in record.open}
    if strangers := bids - asked:
        yield f"what does not ask for room waits: {sorted(strangers)}"
