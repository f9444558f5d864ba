"""Decide whether a queued job is *eligible*, that is, whether a cycle may try to start it. Eligibility does not depend
on the free capacity. It changes only by an event or with time.

The reasons are checked in this order: the cluster blocks the job; the gang is invalid; the queue is unknown,
misconfigured, held or closed; the requests exceed a limit of the queue or a limit for each job; too many jobs are
submitted; the job must wait for its begin time, for another job, or for other jobs of its array
(`core.fold.job_dependencies`)."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.backfill import advance
from phalanx.core.fold import job_dependencies
from phalanx.core.quota import flavor_assignment, partial
from phalanx.core.reasons import explain, never, no_quota
from phalanx.core.reasons.no_quota import amount, whose
from phalanx.model.pod import json_number
from phalanx.model.queue import QueueState
from phalanx.model.reason import NotEligible, Reason, ReasonCode
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.dependencies import JobFamily
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Cost, gang_cost


def not_eligible(
    cluster: Cluster, branch: Branch, record: JobRecord, now_s: float, cleared: dict[JobFamily, int]
) -> NotEligible | None:
    """Return why a queued job of the branch is not eligible; None if it is eligible. `cleared`: array -> the number of
    its jobs that were admitted, as in `job_dependencies.not_eligible`."""
    job = record.job
    if job.blocked is not None:
        return NotEligible(job.blocked)
    if record.gang.error:
        return NotEligible(never.invalid(record.gang))
    if branch.queue is None:
        return NotEligible(explain.queue_unknown(cluster, record, cluster.policy.default_queue))
    if (branch.fault or branch.rules.states) and (reason := queue_state_reason(branch, record, now_s)):
        return NotEligible(reason)
    if branch.rules.flavors and (reason := no_suitable_flavor(cluster, branch, record)):
        return NotEligible(reason)
    if reason := beyond_limits(cluster, branch, record):
        return NotEligible(reason)
    if branch.rules.limits.submissions and (gate := cluster.tree.submitted.kept_out(branch, job)):
        return NotEligible(no_quota.too_many(gate, branch.name))
    if job.reservation and (reserved := advance.reservation_not_eligible(cluster, job, now_s)):
        return reserved
    return job_dependencies.not_eligible(cluster, record, now_s, cleared)


def queue_state_reason(branch: Branch, record: JobRecord, now_s: float) -> Reason | None:
    """Return the reason why the queue, or a queue above it, starts no jobs now; None if the queue and all queues above
    it start jobs."""
    if branch.fault:
        return no_quota.misconfigured(branch)
    for queue in branch.rules.states:
        if queue.state is not QueueState.HELD and record.job.submitted_s > queue.state_since_s:
            return no_quota.closed(queue, branch.name, now_s)
    for queue in branch.rules.states:
        if queue.state is not QueueState.DRAINING:
            return no_quota.held(queue, branch.name)
    return None


def beyond_limits(cluster: Cluster, branch: Branch, record: JobRecord) -> Reason | None:
    """Return the reason if the limits of the job's queue, or of a queue above it, would not allow the job even if no
    other job ran; None if they would allow it."""
    longest_s, limit_s = branch.rules.limits.longest_s, record.job.limit_s
    if longest_s is not None and limit_s is not None and limit_s > longest_s:
        return no_quota.never(
            f"a time limit of {limit_s:.15g} s asked, but queue {branch.name!r} allows {longest_s:.15g} s",
            asked_s=limit_s,
            allowed_s=longest_s,
            queue=branch.name,
        )
    if branch.unbounded and not branch.rules.limits.by_job:
        return None
    if not branch.rules.starts_whole:
        roles = range(len(record.gang.roles))
        found = (beyond_ceiling(cluster, branch, record, [int(role == each) for each in roles]) for role in roles)
        return next((reason for reason in found if reason), None)
    gang = record.gang
    if not gang.optional:
        return beyond_ceiling(cluster, branch, record, gang.minimums)
    way = partial.minimum_admission(gang, lambda way: beyond_ceiling(cluster, branch, record, way.pods) is None)
    return beyond_ceiling(cluster, branch, record, way.pods)


def beyond_ceiling(cluster: Cluster, branch: Branch, record: JobRecord, pods: Sequence[int]) -> Reason | None:
    """Return the reason that names the first ceiling (a limit of a queue) that the pods exceed with every choice of
    flavors; None if, with some choice of flavors, the pods exceed no ceiling. `pods[role]`: the number of pods of each
    role."""
    if not branch.rules.flavors:
        return ceiling_reason(branch, record, gang_cost(record.gang, pods))
    found = None
    for flavors in flavor_assignment.combinations(cluster.flavors, branch.rules.flavors, record.gang):
        cost = gang_cost(record.gang, pods, flavors, branch.rules.flavors)
        found = ceiling_reason(branch, record, cost)
        if found is None:
            return None
    return found


def no_suitable_flavor(cluster: Cluster, branch: Branch, record: JobRecord) -> Reason | None:
    """Return the reason if some role has no suitable flavor in some resource group; None if each role has a suitable
    flavor in each group."""
    for demand in record.gang.demands:
        for group in flavor_assignment.groups_asked(branch.rules.flavors, demand):
            found = [
                flavor_assignment.why_unsuitable(cluster.flavors.get(name), demand.shape) for name in group.flavors
            ]
            if all(found):
                said = "; ".join(f"flavor {name} {why}" for name, why in zip(group.flavors, found, strict=True))
                text = f"its pods can be given no flavor of queue {branch.name!r}: {said}"
                return Reason(code=ReasonCode.NO_NODE_MATCHES, text=text)
    return None


def ceiling_reason(branch: Branch, record: JobRecord, cost: Cost) -> Reason | None:
    """Return the reason that names the first ceiling that is below `cost`, in the order from the queue up to the root;
    None if no ceiling is below `cost`."""
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
