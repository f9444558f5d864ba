"""Receive a request that is in no request class: report why it must wait, or add it to its request class.

A job is *eligible* if a cycle may try to start it. Eligibility does not depend on the free capacity. Only an event or
the passage of time can change it. A request that is not eligible waits for an event or for a certain time. An eligible
request is a candidate from this cycle on. Equal requests of one queue are in the same request
class (`state.pending.request_class.RequestClassKey`), and a decision about one request of a class applies to all of its
requests."""

from __future__ import annotations

from operator import attrgetter

from phalanx.core.backfill import advance
from phalanx.core.cycle.state import CycleState
from phalanx.core.fold import job_dependencies
from phalanx.core.placement import replacement
from phalanx.core.reasons import explain, never, queue_settings
from phalanx.model.job import GangSize, Job
from phalanx.model.queue import QueueOrder
from phalanx.model.reason import NotEligible
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, is_growth
from phalanx.state.dependencies import JobFamily
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

# Returns the fields of a job that are part of the terms of its request (`Terms`); most jobs have the default values.
DETAILS = attrgetter("limit_s", "estimate_s", "deadline_s", "preemptible", "preempts", "reservation")
PLAIN_DETAILS = DETAILS(PLAIN)
# Returns the conditions of a job that `core.fold.job_dependencies` checks; most jobs have none.
CONDITIONS = attrgetter("deadline_s", "after", "begin_s", "singleton", "array_cap")
NO_CONDITIONS = (None, (), None, "", None)


def newcomers(state: CycleState) -> list[Request]:
    """Return the requests that are in no request class and may be eligible now."""
    pending, cluster = state.pending, state.cluster
    for item in pending.timers.due(state.now_s):
        pending.ring(item)
    if cluster.dependencies.arrays:
        state.cleared = job_dependencies.cleared(cluster)
    return list(pending.fresh)


def receive(state: CycleState, request: Request) -> None:
    """Add an eligible request to its request class. For a request that is not eligible, report the reason."""
    cluster, pending, now_s, slots = state.cluster, state.pending, state.now_s, None
    record = cluster.jobs[request.job]
    branch = cluster.tree.branches[record.queue]
    if record.nominated and (request.slot is None or request.slot in record.nominated):
        return  # `core.cycle.intake.nominated` has already handled the nominated job
    if request.slot is not None:
        if request.slot != replacement.slots_together(cluster, record, request.slot)[0]:
            # Slots that are placed together are tried as one request: the request for the first of these slots.
            state.waiting_for_event[request] = None
            return
        slots = replacement.replacement_gang(cluster, state.draft.topologies, record, request.slot)
    elif waits := not_eligible(cluster, branch, record, now_s, state.cleared):
        if waits.again_s is None:
            state.waiting_for_event[request] = None
        else:
            state.waiting_until.append((request, waits.again_s))
        state.waits[request.job] = waits.reason
        return
    elif record.not_before_s > now_s:
        state.waiting_until.append((request, record.not_before_s))
        state.waits[request.job] = explain.backoff(record, now_s)
        return
    elif branch.unbounded and not branch.rules.starts_whole:
        # the job starts without pods; each pod is placed when its slot opens
        state.start(record, branch.rules.limits.time_limit_s(record.job))
        return
    key, entry = request_class_of(cluster, branch, record, request, slots)
    request_class = pending.enter(key, entry)
    if key in pending.searched and record.preempted < cluster.jobs[request_class.first.request.job].preempted:
        # The new job was preempted less often than the first job of the class. So it may find victims, although the
        # first job has found none.
        del pending.searched[key]
    state.received.append(request)


def not_eligible(
    cluster: Cluster, branch: Branch, record: JobRecord, now_s: float, cleared: dict[JobFamily, int]
) -> NotEligible | None:
    """Return why a queued job of the branch is not eligible; None if it is eligible. `cleared`: job array -> the number
    of its jobs that passed this check but are not active yet, as in `job_dependencies.not_eligible`."""
    job = record.job
    if job.blocked is not None:
        return NotEligible(job.blocked)
    if record.gang.error:
        return NotEligible(never.invalid(record.gang))
    if branch.queue is None:
        return NotEligible(explain.queue_unknown(cluster, record, cluster.policy.default_queue))
    if branch.restricts and (reason := queue_settings.why_excluded(cluster, branch, record, now_s)):
        return NotEligible(reason)
    if job.reservation and (reserved := advance.reservation_not_eligible(cluster, job, now_s)):
        return reserved
    has_conditions = CONDITIONS(job) != NO_CONDITIONS
    return job_dependencies.not_eligible(cluster, record, now_s, cleared) if has_conditions else None


def request_class_of(
    cluster: Cluster, branch: Branch, record: JobRecord, request: Request, slots: Gang | None
) -> tuple[RequestClassKey, QueuedRequest]:
    """Return the key of the request's class, and the entry of the request in this class.

    `branch`: the branch of the request's queue. `slots`: the gang of the open slots that are placed together; None for
        a queued job."""
    job, slot = record.job, request.slot
    whole = branch.rules.starts_whole
    if slot is not None and slots is not None and whole and not is_growth(record, slot):
        limit_s = branch.rules.limits.time_limit_s(job)
        # A pod of a started job ends with its job at the latest. Jobs end at different times, so each job has a class
        # of its own.
        terms = PLAIN if limit_s is None else Terms(limit_s=limit_s, job=job.id)
        entry = QueuedRequest(*record.open[slot], request)
        return RequestClassKey(int(Kind.REPLACEMENT), job.priority, slots, "", terms), entry
    terms = terms_of(job, branch, by_person=bool(cluster.reservations))
    if branch.rules.by_factors and cluster.policy.priority_function is not None:
        terms = terms._replace(job=job.id)  # with a priority function, any two jobs may have different priorities
    # An advance reservation may name a single queue. So if there are advance reservations, the key has the exact queue.
    queue = branch.name if cluster.reservations else branch.request_class_queue
    if slot is None or slots is None:
        entry = QueuedRequest(job.submitted_s, job.id, request)
        return RequestClassKey(int(Kind.JOB), job.priority, record.gang, queue, terms), entry
    if branch.rules.limits.by_job or terms.limit_s is not None:
        terms = terms._replace(job=job.id)
    if not whole:
        entry = QueuedRequest(*record.open[slot], request)
        return RequestClassKey(int(Kind.POD), job.priority, slots, queue, terms), entry
    arrival_s = job.submitted_s if job.size is GangSize.IN_TURN else BEHIND_ALL_S
    entry = QueuedRequest(arrival_s, (job.submitted_s, job.id, record.open[slot][1]), request)
    return RequestClassKey(int(Kind.GROWTH), job.priority, slots, queue, terms), entry


def terms_of(job: Job, branch: Branch, *, by_person: bool) -> Terms:
    """Return the terms of the job's request, that is, the fields of the job that influence the decision, without its
    gang and its priority. `by_person`: whether the user and the group influence the decision, because there are advance
    reservations."""
    factors, by_usage = branch.rules.by_factors, branch.order is QueueOrder.USAGE
    plain = DETAILS(job) == PLAIN_DETAILS and branch.rules.limits.longest_s is None
    if plain and not (by_person or branch.rules.limits.by_user or branch.rules.limits.by_group or factors or by_usage):
        return PLAIN  # most jobs have the terms `PLAIN`
    user = job.user if by_person or branch.rules.limits.by_user or factors else ""
    group = job.group if by_person or branch.rules.limits.by_group else ""
    terms = Terms(
        user,
        group,
        branch.rules.limits.time_limit_s(job),
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
