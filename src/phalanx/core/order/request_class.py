"""The request class of a request: requests of one class get the same answer
(`state.pending.request_class.RequestClassKey`)."""

from __future__ import annotations

from operator import attrgetter

from phalanx.model.job import GangSize, Job
from phalanx.model.queue import QueueOrder
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, is_growth
from phalanx.state.pending.request_class import (
    BEHIND_ALL_S,
    PLAIN,
    Kind,
    QueuedRequest,
    Request,
    RequestClassKey,
    Terms,
)
from phalanx.state.queues.branch import Branch

# Further fields of a job that the answer depends on, and their values for most jobs.
DETAILS = attrgetter("limit_s", "estimate_s", "deadline_s", "preemptible", "preempts", "reservation")
PLAIN_DETAILS = DETAILS(PLAIN)


def request_class_of(
    cluster: Cluster, record: JobRecord, request: Request, slots: Gang | None
) -> tuple[RequestClassKey, QueuedRequest]:
    """Return the key of the request class, and the entry of the request in it.

    `slots`: the gang of the open slots that are placed together; None for a queued job."""
    job, slot = record.job, request.slot
    queue = cluster.queue_of(job)
    branch = cluster.tree.branches[queue]
    whole = branch.queue is None or branch.queue.gang
    if slot is not None and slots is not None and whole and not is_growth(record, slot):
        limit_s = branch.limits.time_limit_s(job)
        # The pods end when their job ends, so each job has its own class.
        terms = PLAIN if limit_s is None else Terms(limit_s=limit_s, job=job.id)
        return RequestClassKey(int(Kind.REPLACEMENT), job.priority, slots, "", terms), QueuedRequest(
            *record.open[slot], request
        )
    terms = terms_of(job, branch, by_person=bool(cluster.reservations))
    if branch.by_factors and cluster.policy.priority_function is not None:
        terms = terms._replace(job=job.id)  # a priority function may give any two jobs different priorities
    # With reservations the class needs the exact queue, because a reservation may be for one queue.
    if not cluster.reservations:
        queue = branch.request_class_queue
    if slot is None or slots is None:
        return RequestClassKey(int(Kind.JOB), job.priority, record.gang, queue, terms), QueuedRequest(
            job.submitted_s, job.id, request
        )
    if branch.limits.by_job or terms.limit_s is not None:
        terms = terms._replace(job=job.id)
    if not whole:
        entry = QueuedRequest(*record.open[slot], request)
        return RequestClassKey(int(Kind.POD), job.priority, slots, queue, terms), entry
    arrival_s = job.submitted_s if job.size is GangSize.IN_TURN else BEHIND_ALL_S
    entry = QueuedRequest(arrival_s, (job.submitted_s, job.id, record.open[slot][1]), request)
    return RequestClassKey(int(Kind.GROWTH), job.priority, slots, queue, terms), entry


def terms_of(job: Job, branch: Branch, *, by_person: bool) -> Terms:
    """Return the terms of the job's request. `by_person`: True if users and groups matter, because there are
    reservations."""
    factors, by_usage = branch.by_factors, branch.order is QueueOrder.USAGE
    plain = DETAILS(job) == PLAIN_DETAILS and branch.limits.longest_s is None
    if plain and not (by_person or branch.limits.by_user or branch.limits.by_group or factors or by_usage):
        return PLAIN  # most jobs have these terms
    user = job.user if by_person or branch.limits.by_user or factors else ""
    group = job.group if by_person or branch.limits.by_group else ""
    terms = Terms(
        user,
        group,
        branch.limits.time_limit_s(job),
        job.estimate_s,
        job.deadline_s,
        job.preemptible,
        job.preempts,
        job.reservation,
        job.nice if factors else 0,
        job.qos if factors else "",
        job.association if by_usage else "",
    )
    return PLAIN if terms == PLAIN else terms
