"""What keeps a job from contending whatever room there is; only an event about it, or time, mends it.

In this order: what the world says; a gang that cannot be; its queue (unknown, misconfigured, held, closed); what is
more than its queue's ceilings, or the limits per job, ever allow; limits on submitted jobs; a begin time,
dependencies and arrays (`core.dependency`).
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core import denial, dependency, explain, fewer, misfit, quota, reserve, room
from phalanx.core.dependency import Obstacle
from phalanx.core.shortage import amount, whose
from phalanx.model.amount import number
from phalanx.model.cluster import Cluster, Record
from phalanx.model.demand import Gang
from phalanx.model.queue import State
from phalanx.model.reason import Reason
from phalanx.model.relations import Kin
from phalanx.model.tree import Branch, Cost


def obstacle(cluster: Cluster, record: Record, now_s: float, cleared: dict[Kin, int]) -> Obstacle | None:
    """Why the queued job may not contend; None if it may. `cleared`: see `dependency.obstacle`."""
    job = record.job
    name = cluster.queue_of(job)
    if job.blocked is not None:
        return Obstacle(job.blocked)
    if record.gang.wrong:
        return Obstacle(misfit.invalid(record.gang))
    if name not in cluster.queues:
        return Obstacle(explain.queue_unknown(cluster, record, cluster.policy.default_queue))
    branch = cluster.tree.branches[name]
    if (branch.fault or branch.states) and (reason := of_queue(branch, record, now_s)):
        return Obstacle(reason)
    if reason := beyond_limits(branch, record):
        return Obstacle(reason)
    if branch.gated and (gate := cluster.entrants.kept_out(branch, job)):
        return Obstacle(denial.too_many(gate, name))
    return reserve.obstacle(cluster, job, now_s) or dependency.obstacle(cluster, record, now_s, cleared)


def of_queue(branch: Branch, record: Record, now_s: float) -> Reason | None:
    """What the queue's state, or that of one above, says."""
    if branch.fault:
        return denial.misconfigured(branch)
    for queue in branch.states:
        if queue.state is not State.HELD and record.job.submitted_s > queue.state_since_s:
            return denial.closed(queue, branch.name, now_s)
    for queue in branch.states:
        if queue.state is not State.DRAINING:
            return denial.held(queue, branch.name)
    return None


def beyond_limits(branch: Branch, record: Record) -> Reason | None:
    """What could not start even if nothing else ran."""
    longest_s, limit_s = branch.longest_s, record.job.limit_s
    if longest_s is not None and limit_s is not None and limit_s > longest_s:
        return denial.never(
            f"a time limit of {limit_s:.15g} s asked, but queue {branch.name!r} allows {longest_s:.15g} s",
            asked_s=limit_s,
            allowed_s=longest_s,
            queue=branch.name,
        )
    if branch.unbounded and not branch.caps_jobs:
        return None
    if branch.queue is not None and not branch.queue.gang:
        roles = range(len(record.gang.roles))
        found = (within(branch, record.gang, [int(role == each) for each in roles]) for role in roles)
        return next((reason for reason in found if reason), None)
    gang = record.gang
    if not gang.optional:
        return within(branch, gang, gang.minimums)
    return within(branch, gang, fewer.least(gang, lambda way: within(branch, gang, way.pods) is None).pods)


def within(branch: Branch, gang: Gang, pods: Sequence[int]) -> Reason | None:
    """The ceiling that so many pods of each role exceed, whatever flavors they are given."""
    if not branch.flavors:
        return of_amounts(branch, room.cost(gang, pods))
    found = None
    for flavors in quota.combinations(branch, len(pods)):
        found = of_amounts(branch, room.cost(gang, pods, flavors))
        if found is None:
            return None
    return found


def of_amounts(branch: Branch, cost: Cost) -> Reason | None:
    """The first ceiling on the way up that is below what is asked."""
    for each in branch.path:
        if each.queue is None:
            continue
        per_job, per_user = dict(each.queue.per_job.resources), dict(each.queue.per_user.resources)
        per_group = dict(each.queue.per_group.resources)
        for key, asked in cost:
            ceilings = [(each.limit.get(key), "limit", "in all")]
            if not key[0]:
                ceilings += [(per_job.get(key[1]), "job", "a job"), (per_user.get(key[1]), "user", "a user")]
                ceilings.append((per_group.get(key[1]), "group", "a group"))
            for allowed, rule, what in ceilings:
                if allowed is not None and asked > allowed:
                    return denial.never(
                        f"{amount(key, asked)} asked, but queue {whose(each.name, branch.name)} allows "
                        f"{amount(key, allowed)} {what}",
                        queue=each.name,
                        rule=rule,
                        flavor=key[0],
                        resource=key[1],
                        asked=number(asked),
                        allowed=allowed,
                    )
    return None
