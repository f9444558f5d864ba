"""Receive a request that is in no request class: report a reason at once, or add it to its request class.

A request that is not eligible may not be tried, whatever capacity is free; it waits for an event about the job, or for
a time. The reasons are checked in this order: a block by the world; an invalid gang; its queue (unknown, misconfigured,
held, closed); requests above the queue's ceilings or the limits per job; limits on submitted jobs; a begin time,
dependencies and arrays (`core.fold.job_dependencies`). All other requests are candidates from this cycle on. Requests
of one request class get the same answer (`state.pending.request_class.RequestClassKey`)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from phalanx.core.backfill import advance
from phalanx.core.cycle.state import CycleState
from phalanx.core.fold import job_dependencies
from phalanx.core.placement import replacement
from phalanx.core.quota import flavor_assignment, partial
from phalanx.core.reasons import explain, never, no_quota
from phalanx.core.reasons.no_quota import amount, whose
from phalanx.model.job import GangSize, Job
from phalanx.model.pod import json_number
from phalanx.model.queue import QueueOrder, QueueState
from phalanx.model.reason import NotEligible, Reason, ReasonCode
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
from phalanx.state.queues.quota import Cost, gang_cost

# Further fields of a job that the answer depends on, and their values for most jobs.
DETAILS = attrgetter("limit_s", "estimate_s", "deadline_s", "preemptible", "preempts", "reservation")
PLAIN_DETAILS = DETAILS(PLAIN)


def newcomers(state: CycleState) -> list[Request]:
    """Return the requests that are in no request class and may be eligible."""
    pending, cluster = state.pending, state.cluster
    for item in pending.timers.due(state.now_s):
        pending.ring(item)
    if cluster.dependencies.arrays:
        state.cleared = job_dependencies.cleared(cluster)
    return list(pending.fresh)


def receive(state: CycleState, request: Request) -> None:
    """Report why the request cannot be a candidate, or add it to its request class."""
    cluster, now_s = state.cluster, state.now_s
    record = cluster.jobs[request.job]
    branch = cluster.tree.branches[cluster.queue_of(record.job)]
    if record.nominated and (request.slot is None or request.slot in record.nominated):
        return  # `core.cycle.intake.nominated` has handled the job
    if request.slot is not None:
        enter(state, branch, record, request)
    elif found := not_eligible(cluster, branch, record, now_s, state.cleared):
        if found.again_s is None:
            state.waiting_for_event[request] = None
        else:
            state.waiting_until.append((request, found.again_s))
        state.report(record, found.reason)
    elif record.not_before_s > now_s:
        state.waiting_until.append((request, record.not_before_s))
        state.report(record, explain.backoff(record, now_s))
    elif branch.unbounded and not branch.starts_whole:
        state.start(record)  # without pods: each pod is placed when its slot opens
    else:
        enter(state, branch, record, request)


def enter(state: CycleState, branch: Branch, record: JobRecord, request: Request) -> None:
    """Add the request to its request class."""
    cluster, pending, slots = state.cluster, state.pending, None
    if request.slot is not None:
        if request.slot != replacement.slots_together(cluster, record, request.slot)[0]:
            # The first slot of its group is the request for all of them.
            state.waiting_for_event[request] = None
            return
        slots = replacement.replacement_gang(cluster, cluster.topologies(state.policy), record, request.slot)
    key, entry = request_class_of(cluster, branch, record, request, slots)
    found = pending.enter(key, entry, cluster.tree)
    if key in pending.searched and record.preempted < cluster.jobs[found.first.request.job].preempted:
        # Its job was preempted less often, so its search may succeed although that of the first request failed.
        del pending.searched[key]
    state.received.append(request)


def not_eligible(
    cluster: Cluster, branch: Branch, record: JobRecord, now_s: float, cleared: dict[JobFamily, int]
) -> NotEligible | None:
    """Return why the queued job of this branch may not be tried; None if it may. `cleared`: see
    `job_dependencies.not_eligible`."""
    job = record.job
    if job.blocked is not None:
        return NotEligible(job.blocked)
    if record.gang.error:
        return NotEligible(never.invalid(record.gang))
    if branch.queue is None:
        return NotEligible(explain.queue_unknown(cluster, record, cluster.policy.default_queue))
    if (branch.fault or branch.states) and (reason := queue_state_reason(branch, record, now_s)):
        return NotEligible(reason)
    if branch.flavors and (reason := no_suitable_flavor(cluster, branch, record)):
        return NotEligible(reason)
    if reason := beyond_limits(cluster, branch, record):
        return NotEligible(reason)
    if branch.limits.submissions and (gate := cluster.tree.submitted.kept_out(branch, job)):
        return NotEligible(no_quota.too_many(gate, branch.name))
    if job.reservation and (reserved := advance.reservation_not_eligible(cluster, job, now_s)):
        return reserved
    return job_dependencies.not_eligible(cluster, record, now_s, cleared)


def queue_state_reason(branch: Branch, record: JobRecord, now_s: float) -> Reason | None:
    """Return the reason for which the queue, or a queue above it, starts no jobs now; None if all start jobs."""
    if branch.fault:
        return no_quota.misconfigured(branch)
    for queue in branch.states:
        if queue.state is not QueueState.HELD and record.job.submitted_s > queue.state_since_s:
            return no_quota.closed(queue, branch.name, now_s)
    for queue in branch.states:
        if queue.state is not QueueState.DRAINING:
            return no_quota.held(queue, branch.name)
    return None


def beyond_limits(cluster: Cluster, branch: Branch, record: JobRecord) -> Reason | None:
    """Return why the job could not start even if no other job ran."""
    longest_s, limit_s = branch.limits.longest_s, record.job.limit_s
    if longest_s is not None and limit_s is not None and limit_s > longest_s:
        return no_quota.never(
            f"a time limit of {limit_s:.15g} s asked, but queue {branch.name!r} allows {longest_s:.15g} s",
            asked_s=limit_s,
            allowed_s=longest_s,
            queue=branch.name,
        )
    if branch.unbounded and not branch.limits.by_job:
        return None
    if not branch.starts_whole:
        roles = range(len(record.gang.roles))
        found = (beyond_ceiling(cluster, branch, record, [int(role == each) for each in roles]) for role in roles)
        return next((reason for reason in found if reason), None)
    gang = record.gang
    if not gang.optional:
        return beyond_ceiling(cluster, branch, record, gang.minimums)
    way = partial.minimum_admission(gang, lambda way: beyond_ceiling(cluster, branch, record, way.pods) is None)
    return beyond_ceiling(cluster, branch, record, way.pods)


def beyond_ceiling(cluster: Cluster, branch: Branch, record: JobRecord, pods: Sequence[int]) -> Reason | None:
    """Return the reason for the first ceiling that `pods` pods of each role exceed, whatever flavors they get."""
    if not branch.flavors:
        return ceiling_reason(branch, record, gang_cost(record.gang, pods))
    found = None
    for flavors in flavor_assignment.combinations(cluster.flavors, branch.flavors, record.gang):
        cost = gang_cost(record.gang, pods, flavors, branch.flavors)
        found = ceiling_reason(branch, record, cost)
        if found is None:
            return None
    return found


def no_suitable_flavor(cluster: Cluster, branch: Branch, record: JobRecord) -> Reason | None:
    """Return why no flavor of some resource group suits a role; None if each role has a suitable one."""
    for demand in record.gang.demands:
        for group in flavor_assignment.groups_asked(branch.flavors, demand):
            found = [
                flavor_assignment.why_unsuitable(cluster.flavors.get(name), demand.shape) for name in group.flavors
            ]
            if all(found):
                said = "; ".join(f"flavor {name} {why}" for name, why in zip(group.flavors, found, strict=True))
                text = f"its pods can be given no flavor of queue {branch.name!r}: {said}"
                return Reason(code=ReasonCode.NO_NODE_MATCHES, text=text)
    return None


def ceiling_reason(branch: Branch, record: JobRecord, cost: Cost) -> Reason | None:
    """Return the reason for the first ceiling on the path to the root that is below `cost`."""
    for each in branch.path:
        if each.queue is None:
            continue
        per_job, per_user = dict(each.queue.per_job.resources), dict(each.queue.per_user.of(record.job.user).resources)
        per_group = dict(each.queue.per_group.of(record.job.group).resources)
        for key, asked in cost:
            ceilings = [(each.quota.limit.get(key), "limit", "in all")]
            if not key[0]:
                ceilings += [(per_job.get(key[1]), "job", "a job"), (per_user.get(key[1]), "user", "a user")]
                ceilings.append((per_group.get(key[1]), "group", "a group"))
            for allowed, rule, what in ceilings:
                if allowed is not None and asked > allowed:
                    return no_quota.never(
                        f"{amount(key, asked)} asked, but queue {whose(each.name, branch.name)} allows "
                        f"{amount(key, allowed)} {what}",
                        queue=each.name,
                        rule=rule,
                        flavor=key[0],
                        resource=key[1],
                        asked=json_number(asked),
                        allowed=allowed,
                    )
    return None


def request_class_of(
    cluster: Cluster, branch: Branch, record: JobRecord, request: Request, slots: Gang | None
) -> tuple[RequestClassKey, QueuedRequest]:
    """Return the key of the request class, and the entry of the request in it.

    `branch`: that of its queue. `slots`: the gang of the open slots that are placed together; None for a queued job."""
    job, slot = record.job, request.slot
    whole = branch.starts_whole
    if slot is not None and slots is not None and whole and not is_growth(record, slot):
        limit_s = branch.limits.time_limit_s(job)
        # The pods end when their job ends, so each job has its own class.
        terms = PLAIN if limit_s is None else Terms(limit_s=limit_s, job=job.id)
        entry = QueuedRequest(*record.open[slot], request)
        return RequestClassKey(int(Kind.REPLACEMENT), job.priority, slots, "", terms), entry
    terms = terms_of(job, branch, by_person=bool(cluster.reservations))
    if branch.by_factors and cluster.policy.priority_function is not None:
        terms = terms._replace(job=job.id)  # a priority function may give any two jobs different priorities
    # With reservations the class needs the exact queue, because a reservation may be for one queue.
    queue = branch.name if cluster.reservations else branch.request_class_queue
    if slot is None or slots is None:
        entry = QueuedRequest(job.submitted_s, job.id, request)
        return RequestClassKey(int(Kind.JOB), job.priority, record.gang, queue, terms), entry
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
