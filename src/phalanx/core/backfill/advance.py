"""Advance reservations and maintenance: compute which nodes are closed to a job during its run.

Advance reservations work as in Slurm (scontrol(1), "reservation"). From the start to the end of a reservation, its
nodes are closed to every job that may not use it. Before the reservation starts, such a job may run on these nodes only
if its time limit ends by then. A reservation names the users, groups and queues whose jobs may use it; queues below a
named queue are included. A job requests the reservation by its name. A job with such a request runs only on the
reserved nodes, and only starts while the reservation lasts. If the reservation is *magnetic*, jobs of its users, groups
and queues need not request it, and may run both on the reserved nodes and on all other nodes. Several reservations may
overlap. A job may run on a node only if it may use every reservation that the node has during the run of the job.

A reservation may name nodes that do not exist yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft
from phalanx.model.job import Job
from phalanx.model.node import Reservation
from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.reason import NotEligible, Reason, ReasonCode, format_time
from phalanx.state.cluster import Cluster, time_limit_s

Rows = NDArray[np.bool_]


def reservation_not_eligible(cluster: Cluster, job: Job, now_s: float) -> NotEligible | None:
    """Return why a job cannot start now because of the reservation that it requests; None if the requested reservation
    does not prevent the start. The function does not check whether the nodes have free capacity."""
    if not job.reservation:
        return None
    named = cluster.reservations.get(job.reservation)
    if named is None:
        return NotEligible(reserved_reason(job, f"there is no reservation {job.reservation!r}"))
    if not is_named_in(cluster, named, job):
        return NotEligible(reserved_reason(job, f"the reservation {named.name} is for others: {reserved_for(named)}"))
    if now_s >= named.end_s:
        return NotEligible(
            reserved_reason(job, f"the reservation {named.name} ended at {format_time(named.end_s, now_s)}", named)
        )
    if now_s < named.start_s:
        text = f"the reservation {named.name} begins at {format_time(named.start_s, now_s)}"
        return NotEligible(reserved_reason(job, text, named), named.start_s)
    return None


def reserved_reason(job: Job, text: str, named: Reservation | None = None) -> Reason:
    """Return a reason with the code RESERVED and the text `text`. `named`: the reservation whose start and end are
    added to the reason's numbers; None if no times are added."""
    numbers: dict[str, object] = {"reservation": job.reservation}
    if named is not None:
        numbers |= {"start_s": named.start_s, "end_s": named.end_s}
    return Reason(code=ReasonCode.RESERVED, text=text, numbers=numbers)


def reserved_for(reservation: Reservation) -> str:
    """Return a text that lists the users, groups and queues of the reservation, for use in a message."""
    parts = (("users", reservation.users), ("groups", reservation.groups), ("queues", reservation.queues))
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in parts if names) or "nobody, it is maintenance"


def is_named_in(cluster: Cluster, reservation: Reservation, job: Job) -> bool:
    """Return whether the reservation names the job's user, its group, its queue, or a queue above it."""
    if job.user in reservation.users or (job.group and job.group in reservation.groups):
        return True
    path = cluster.tree.branch(cluster.queue_of(job)).path if reservation.queues else ()
    return any(branch.name in reservation.queues for branch in path)


def may_use(cluster: Cluster, reservation: Reservation, job: Job) -> bool:
    """Return whether the job may run on the reservation's nodes between the start and the end of the reservation."""
    return (job.reservation == reservation.name or reservation.magnetic) and is_named_in(cluster, reservation, job)


def closing_reservations(cluster: Cluster, job: Job, start_s: float, end_s: float) -> Iterator[Reservation]:
    """Yield the reservations that exclude the job if it runs from `start_s` to `end_s`."""
    for reservation in cluster.reservations.values():
        meets = start_s < reservation.end_s and reservation.start_s < end_s
        if meets and not may_use(cluster, reservation, job):
            yield reservation


def closed_rows(cluster: Cluster, job: Job, start_s: float, end_s: float) -> Rows | None:
    """Return the mask of nodes that are closed to the job from `start_s` to `end_s` (seconds since the epoch); None if
    no node is closed."""
    named = cluster.reservations.get(job.reservation) if job.reservation else None
    shut = [rows_of(cluster, each) for each in closing_reservations(cluster, job, start_s, end_s)]
    if named is not None:
        shut.append(~rows_of(cluster, named))
    return np.logical_or.reduce(shut) if shut else None


def rows_closed_now(cluster: Cluster, job: Job, now_s: float) -> Rows | None:
    """Return the mask of nodes that are closed to the job if it starts now and runs up to its limit; None if no node is
    closed."""
    if not cluster.reservations:
        return None
    limit_s = time_limit_s(cluster, job)
    return closed_rows(cluster, job, now_s, inf if limit_s is None else now_s + max(0.0, limit_s))


@contextmanager
def without_closed_nodes(draft: Draft, cluster: Cluster, job: Job, now_s: float) -> Iterator[None]:
    """While the `with` block runs, nodes that are closed to the job have no free capacity on the draft. Evictions of
    other jobs from these nodes do not change this."""
    rows = rows_closed_now(cluster, job, now_s)
    if rows is None:
        yield
        return
    shut = rows[draft.rows]
    for column in draft.free.values():
        column[shut] -= MAX_AMOUNT
    try:
        yield
    finally:
        for column in draft.free.values():
            column[shut] += MAX_AMOUNT
        draft.packing_order.filled.clear()


def rows_of(cluster: Cluster, reservation: Reservation) -> Rows:
    """Return the mask of the reservation's nodes."""
    columns = cluster.columns
    rows = np.zeros(columns.capacity, np.bool_)
    rows[[columns.row_of[node] for node in reservation.nodes if node in columns.row_of]] = True
    return rows


def boundaries_s(cluster: Cluster, now_s: float) -> list[float]:
    """Return the future times at which reservations begin or end, sorted. The set of closed nodes does not change
    between two of these times."""
    times = {at_s for each in cluster.reservations.values() for at_s in (each.start_s, each.end_s)}
    return sorted(at_s for at_s in times if now_s < at_s < float("inf"))
