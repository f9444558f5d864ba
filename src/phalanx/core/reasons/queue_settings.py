"""Compute the reason of a job that the settings of its queue, or of a queue above it, exclude. No cycle tries to start
such a job, no matter which other jobs run.

The reasons are checked in this order: the queue is misconfigured, held or closed; no flavor of the queue suits the
pods; the job's time limit or requests exceed a limit; too many jobs are submitted."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.core.quota import flavor_assignment, partial
from phalanx.core.reasons.no_quota import amount, never, whose
from phalanx.core.reasons.stated import stated_cost
from phalanx.model.pod import json_number
from phalanx.model.queue import Queue, QueueState
from phalanx.model.reason import Reason, ReasonCode, format_time
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Cost, gang_cost
from phalanx.state.queues.submitted import SubmitLimit


def why_excluded(cluster: Cluster, branch: Branch, record: JobRecord, now_s: float) -> Reason | None:
    """Return the reason why the settings of the branch exclude the job; None if they do not. Callers need not ask
    if `Branch.restricts` is False, because then the settings exclude no job."""
    if reason := (
        queue_state_reason(branch, record, now_s)
        or no_suitable_flavor(cluster, branch, record)
        or beyond_limits(cluster, branch, record)
    ):
        return reason
    limit = cluster.tree.submitted.kept_out(branch, record.job)
    return None if limit is None else too_many(limit, branch.name)


def queue_state_reason(branch: Branch, record: JobRecord, now_s: float) -> Reason | None:
    """Return the reason if the queue, or a queue above it, starts no jobs now or does not accept this job; otherwise
    return None."""
    if branch.fault:
        return misconfigured(branch)
    for queue in branch.rules.states:
        if queue.state is not QueueState.HELD and record.job.submitted_s > queue.state_since_s:
            return closed(queue, branch.name, now_s)
    for queue in branch.rules.states:
        if queue.state is not QueueState.DRAINING:
            return held(queue, branch.name)
    return None


def beyond_limits(cluster: Cluster, branch: Branch, record: JobRecord) -> Reason | None:
    """Return the reason if the job exceeds the limits of its queue, or of a queue above it, even if no other job runs;
    otherwise return None."""
    longest_s, limit_s = branch.rules.limits.longest_s, record.job.limit_s
    if longest_s is not None and limit_s is not None and limit_s > longest_s:
        return never(
            f"a time limit of {limit_s:.15g} s asked, but queue {branch.name!r} allows {longest_s:.15g} s",
            asked_s=limit_s,
            allowed_s=longest_s,
            queue=branch.name,
        )
    if branch.unbounded:
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
    """Return the reason if the pods exceed a ceiling (a limit of a queue) with every choice of flavors; None if there
    is a choice with which they exceed no ceiling. The reason names the first ceiling. `pods[role]`: the number of pods
    of each role."""
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
    """Return the reason if a role needs a flavor of a resource group, but no flavor of the group suits the role;
    otherwise return None."""
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
    """Return the reason if `cost` exceeds a ceiling of the queue or of a queue above it; otherwise return None. The
    reason names the first such ceiling, from the queue up to the root."""
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
                    stated = stated_cost(record.gang, key[1], asked)
                    return never(
                        f"{amount(key, stated)} asked, but queue {whose(each.name, branch.name)} allows "
                        f"{amount(key, allowed)} {what}",
                        queue=each.name,
                        rule=rule,
                        flavor=key[0],
                        resource=key[1],
                        asked=json_number(stated),
                        allowed=allowed,
                    )
    return None


def misconfigured(branch: Branch) -> Reason:
    return Reason(code=ReasonCode.QUEUE_MISCONFIGURED, text=branch.fault, numbers={"queue": branch.name})


def held(queue: Queue, own: str) -> Reason:
    """Return the reason of a job that waits because `queue` is held. `own`: the job's queue, which is `queue` or a
    queue below it."""
    what = "held" if queue.state is QueueState.HELD else "closed"
    return Reason(
        code=ReasonCode.QUEUE_HELD,
        text=f"queue {whose(queue.name, own)} is {what}: it starts nothing",
        numbers={"queue": queue.name, "state": str(queue.state)},
    )


def closed(queue: Queue, own: str, now_s: float) -> Reason:
    return Reason(
        code=ReasonCode.QUEUE_CLOSED,
        text=f"queue {whose(queue.name, own)} is {queue.state} since {format_time(queue.state_since_s, now_s)}: "
        "it takes no job submitted later",
        numbers={"queue": queue.name, "state": str(queue.state), "since_s": queue.state_since_s},
    )


def too_many(gate: SubmitLimit, own: str) -> Reason:
    """Return the reason of a job that exceeds a limit on submitted jobs."""
    owner = f"{gate.kind} {gate.whose!r}" if gate.whose else f"whoever names no {gate.kind}"
    queue = f"queue {whose(gate.queue, own)}"
    text = f"{queue} has" if gate.kind == "queue" else f"{owner} has in {queue}"
    return Reason(
        code=ReasonCode.QUEUE_LIMIT if gate.kind == "queue" else ReasonCode.USER_LIMIT,
        text=f"{text} as many earlier submitted jobs as may be there at a time ({gate.allowed})",
        numbers={"queue": gate.queue, "rule": f"submitted-{gate.kind}", "whose": gate.whose, "allowed": gate.allowed},
    )
