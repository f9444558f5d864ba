"""Quota preemption: if the limit of a queue was lowered below its usage, evict pods of the queue.

Quota preemption applies to queues with the setting `excess_delay_s`, a number of seconds. If the usage of such a queue
has been above its limit for this time, pods of the queue are evicted until its usage is within the limit. No eviction
may lower the usage of a queue below the queue's guarantee. No more pods are evicted than necessary: a pod that is
larger than the remaining *excess* (the usage above the limit) stays. If a queue has children, its excess is divided
among them in proportion to their usage above their guarantees. Each child's part may be smaller than any of its pods.
Then pods of only one child are evicted.

Pods above the minimums of jobs are evicted first, then whole jobs. In both steps, jobs with the lowest priority are
evicted first, and of jobs with equal priority the one that was submitted last.

Source: pkg/scheduler/objects/quota_preemptor.go and queue.go of apache/yunikorn-core (1.9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from phalanx.model.job import Phase, Slot, pods_by_role
from phalanx.model.pod import Amount
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster, JobRecord, spare_pods
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Cost, Key, gang_cost

Excess: TypeAlias = dict[Key, Amount]


def exceeding(cluster: Cluster, now_s: float) -> dict[str, float]:
    """Return a mapping: queue -> the time at which its usage rose above its limit (seconds since the epoch). Only
    queues with the setting `excess_delay_s` are in the mapping."""
    branches, since = cluster.tree.branches, cluster.exceeding
    return {name: since.get(name, now_s) for name in sorted(cluster.tree.trimmed) if above_limit(branches[name])}


def due_queues(cluster: Cluster, since_s: Mapping[str, float], now_s: float) -> Iterator[Branch]:
    """Yield the queues whose usage has been above the limit for longer than `excess_delay_s`. If such a queue is below
    another such queue, only the upper one is yielded, because its excess is divided among the queues below
    it. `since_s`: the result of `exceeding`."""
    due = {name for name, each_s in since_s.items() if due_s(cluster, name, each_s) <= now_s}
    branches = (cluster.tree.branches[name] for name in sorted(due))
    yield from (branch for branch in branches if all(above.name not in due for above in branch.path[1:]))


def is_noted(cluster: Cluster, now_s: float) -> bool:
    """Return True if the cycle has nothing to do: no eviction is due, and `Cluster.exceeding` in the state already has
    exactly the queues whose usage is above their limit."""
    found = exceeding(cluster, now_s) if cluster.tree.trimmed else {}
    return found == cluster.exceeding and not any(due_s(cluster, *each) <= now_s for each in found.items())


def due_s(cluster: Cluster, queue: str, since_s: float) -> float:
    """Return the time at which excess pods of the queue are evicted (seconds since the epoch). `since_s`: the time at
    which the usage of the queue rose above its limit."""
    return since_s + (cluster.queues[queue].preemption.excess_delay_s or 0.0)


def above_limit(branch: Branch) -> Excess:
    """Return the amounts by which the queue's usage exceeds its limit: (flavor, resource) -> amount."""
    total = branch.account.total
    return {key: total[key] - limit for key, limit in branch.quota.limit.items() if total.get(key, 0) > limit}


def victims(cluster: Cluster, branch: Branch) -> Iterator[tuple[JobRecord, tuple[Slot, ...]]]:
    """Yield (job, slots to evict) for each victim. If the whole job is evicted, the tuple of slots is empty."""
    excess = above_limit(branch)
    for each in branch.path:
        total = each.account.total
        for key in excess.keys() & each.quota.guaranteed.keys():
            excess[key] = min(excess[key], max(0, total[key] - each.quota.guaranteed[key]))
    found = [each for name, part in divided(branch, excess) for each in victims_of_queue(cluster, name, part)]
    whole = (list(victims_of_queue(cluster, name, part)) for name, part in divided(branch, excess, whole=True))
    yield from found or next(filter(None, whole), [])


def divided(branch: Branch, excess: Excess, *, whole: bool = False) -> Iterator[tuple[str, Excess]]:
    """For the queue and all queues below it, yield (name of the queue, amounts by which the usage of the jobs directly
    in it must fall). The excess of a queue is divided among its children and the jobs directly in it, in proportion to
    their usage above their guarantees, rounded down. `whole`: True if each of them gets the whole excess instead of a
    part, but at most its usage above its guarantee."""
    if not branch.children:
        yield branch.name, excess
        return
    spare: dict[str, Excess] = {child.name: above_guarantee(child) for child in branch.children.values()}
    spare[branch.name] = {key: amount for key, amount in branch.account.own.items() if amount}
    total = {key: sum(each.get(key, 0) for each in spare.values()) for key in excess}
    for name, held in spare.items():
        own = held if whole else {key: excess[key] * held[key] // total[key] for key in excess.keys() & held.keys()}
        part = {key: min(excess[key], own[key]) for key in excess.keys() & own.keys()}
        yield from divided(branch.children[name], part, whole=whole) if name in branch.children else [(name, part)]


def above_guarantee(branch: Branch) -> Excess:
    """Return the amounts by which the queue's usage exceeds its guarantee: (flavor, resource) -> amount."""
    found = {key: used - branch.quota.guaranteed.get(key, 0) for key, used in branch.account.total.items()}
    return {key: amount for key, amount in found.items() if amount > 0}


def victims_of_queue(cluster: Cluster, queue: str, excess: Excess) -> Iterator[tuple[JobRecord, tuple[Slot, ...]]]:
    """Yield (job, slots to evict) for each victim among the jobs directly in the queue, as `victims` does."""
    records = [cluster.jobs[job] for job in cluster.jobs_of.get(queue, ())]
    running = [each for each in records if each.phase not in (Phase.QUEUED, Phase.STOPPING) and each.job.preemptible]
    running.sort(key=lambda each: (each.job.last_victim, each.job.priority, -each.job.submitted_s, each.job.id))
    branch, left = cluster.tree.branch(queue), dict(excess)
    chosen = {each.job.id: surplus_victims(each, branch, left) for each in running}
    for each in running:
        slots = chosen[each.job.id]
        kept = sorted(each.placements.keys() - each.leaving - {*slots})
        if kept and fits(cost := cost_of(each, branch, kept), left):
            take(cost, left)
            yield each, ()
        elif slots:
            yield each, tuple(slots)


def surplus_victims(record: JobRecord, branch: Branch, left: Excess) -> list[Slot]:
    """Choose slots above the job's minimum to evict, the highest ordinals first, and return them. Subtract their cost
    from the remaining excess `left`."""
    spare, chosen = spare_pods(record), list[Slot]()
    for slot in sorted(record.placements.keys() - record.leaving, key=lambda slot: (slot.role, -slot.ordinal)):
        if spare[slot.role] > 0 and fits(cost := cost_of(record, branch, [slot]), left):
            spare[slot.role] -= 1
            take(cost, left)
            chosen.append(slot)
    return chosen


def cost_of(record: JobRecord, branch: Branch, slots: Sequence[Slot]) -> Cost:
    """Return the amounts that the queue is charged for the slots `slots`."""
    return gang_cost(record.gang, pods_by_role(slots, len(record.job.roles)), record.flavors, branch.rules.flavors)


def fits(cost: Cost, left: Excess) -> bool:
    """Return whether pods with this cost may be evicted: their eviction reduces the remaining excess `left`, and does
    not free more of a resource than its remaining excess."""
    return any(amount and left.get(key, 0) for key, amount in cost) and all(
        amount <= left[key] for key, amount in cost if key in left
    )


def take(cost: Cost, left: Excess) -> None:
    """Subtract the cost from `left`, the remaining excess."""
    for key, amount in cost:
        if key in left:
            left[key] -= amount


def reason(branch: Branch, record: JobRecord, slots: Sequence[Slot]) -> Reason:
    """Return the reason for a job whose slots `slots` are evicted because the usage of its queue is above the limit.
    If `slots` is empty, the whole job is evicted."""
    resources = sorted({resource for _, resource in above_limit(branch)})
    what = "is stopped" if not slots else f"gives up {len(slots)} of its pods"
    return Reason(
        code=ReasonCode.PREEMPTED,
        text=f"{what}: {branch.name} uses more {' and '.join(resources)} than its limit, which was lowered",
        numbers={"rule": "limit", "by": "", "queue": branch.name, "pods": len(slots or record.placements)},
    )
