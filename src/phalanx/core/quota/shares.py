"""Compute the weighted dominant shares of queues. A share is the usage of a queue beyond its guarantee, divided by the
amounts that its parent queue can distribute among its children.

The share of a queue among its siblings, including the charge of its next job (`extra`), is

    share = max over resources (per flavor) of   max(0, used + extra - guaranteed) / lendable / weight

where `lendable` is the amount that the parent can distribute: the parent's guarantee if it has one, otherwise the
capacity of the cluster. The maximum is over the resources for which at least one child of the parent has a guarantee.
If no child has a guarantee, it is over all resources. (An admin who sets guarantees only for GPUs wants GPUs to be
shared fairly. If CPUs were compared too, every queue would exceed its guarantee, because jobs with GPUs also use CPUs.)
Without guarantees, this definition is dominant resource fairness (Ghodsi et al., NSDI'11), with weights per resource.
With guarantees, it is Kueue's fair sharing (KEP-1714), which also includes the next job in the share. A queue of weight
0 should only use amounts that no other queue requests. So if it exceeds its guarantee, its share counts as higher than
the share of every queue with a positive weight.

Shares decide which queue is next (`QueueOrder.FAIR`), and which queue may preempt by the rule *fair-share*. The
preemptor's queue and the victim's queue have a lowest common ancestor; its children that contain the two queues are
called the two *sides*. For a preemption, the share of the preemptor's side, with the job, must be below the share of
the victim's side before the eviction.

Preemptions by the rule *fair-share* among siblings cannot go round in a circle: they never lead back to an earlier
state. To prove this, assume such a circle, and let h be the highest share that any queue has when it loses a victim.
Every queue that preempts stays below h. So the queue with the share h cannot reach h again by preempting. (If there are
several resources, the loss of a job may leave the dominant share of its queue unchanged. The proof is valid in this
case, too.)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.model.queue import Queue
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Cost, Key, QueueUsage


class DominantShare(NamedTuple):
    """A dominant share. The queue with the lower share is served first. `weightless`: 1 for a queue of weight 0 that
    exceeds its guarantee, otherwise 0. `ratio`: the share; with `weightless` 1, it is not divided by a weight."""

    weightless: int
    ratio: float


NOTHING = DominantShare(0, 0.0)


def dominant_share(branch: Branch, account: QueueUsage, pool: Mapping[Key, int], extra: Cost = ()) -> DominantShare:
    """Return the share of the branch among its siblings.

    `account`: the usage of the branch, in the state or in a cycle's ledger.
    `pool`: the capacity of the cluster.
    `extra`: a further charge."""
    if branch.queue is None or branch.parent is None:
        return NOTHING
    above, guaranteed = branch.parent, branch.quota.guaranteed
    used = added(account.total, extra)
    most = NOTHING
    for key in above.quota.contested or used:
        beyond = used.get(key, 0) - guaranteed.get(key, 0)
        if beyond > 0:
            most = max(most, weighted(ratio(beyond, above, key, pool), branch.queue, key[1]))
    return most


def fill(branch: Branch, used: Mapping[Key, Amount], pool: Mapping[Key, int], *, own: bool = False) -> float:
    """Return how full the branch is. For each resource, the usage is divided by the branch's guarantee; the result is
    the largest of these quotients. For a resource without a guarantee, the usage is divided by the limit of the branch,
    or of the nearest queue above it that has a limit. If no queue has a limit, it is divided by the capacity of the
    cluster. `own`: True if `used` is the usage of jobs directly in a queue with children; these jobs have no guarantee
    of their own."""
    most = 0.0
    for key, amount in used.items():
        if amount <= 0:
            continue
        if not own and key in branch.quota.stated:
            whole: Amount = branch.quota.guaranteed[key] or amount
        else:
            whole = next((each.quota.limit[key] for each in branch.path if key in each.quota.limit), pool.get(key, 0))
        most = max(most, float(amount / whole) if whole else inf)
    return most


def own_share(branch: Branch, used: Mapping[Key, Amount], pool: Mapping[Key, int], extra: Cost = ()) -> DominantShare:
    """Return the share of the jobs that are directly in a queue with children. These jobs compete with the child queues
    as if they were one more child, without a guarantee and with the weight 1. `used`: the usage of these jobs."""
    together = added(used, extra)
    ratios = [ratio(together.get(key, 0), branch, key, pool) for key in branch.quota.contested or together]
    return DominantShare(0, max(ratios, default=0.0))


def added(used: Mapping[Key, Amount], extra: Cost) -> Mapping[Key, Amount]:
    """Return the usage with `extra` added."""
    if not extra:
        return used
    together = {**used}
    for key, amount in extra:
        together[key] = together.get(key, 0) + amount
    return together


def ratio(beyond: Amount, above: Branch, key: Key, pool: Mapping[Key, int]) -> float:
    """Return `beyond`, the usage beyond the guarantee, divided by the lendable amount: the amount that the parent
    (`above`) can distribute among its children."""
    lendable = above.quota.guaranteed[key] if key in above.quota.stated else pool.get(key, 0)
    if beyond <= 0:
        return 0.0
    return float(beyond / lendable) if lendable > 0 else inf


def weighted(ratio: float, queue: Queue, resource: str) -> DominantShare:
    """Divide the ratio by the queue's weight for the resource, and return the share."""
    weight = dict(queue.weights).get(resource, queue.weight) if queue.weights else queue.weight
    return DominantShare(0, ratio / weight) if weight > 0 else DominantShare(1, ratio)


def scaled_share(share: DominantShare, factor: float) -> DominantShare:
    """Return the share multiplied by the factor."""
    return DominantShare(share.weightless, share.ratio * factor)


def seen_priority(queue: Branch, child: Branch, priority: int) -> int:
    """Return the priority with which a job of the queue competes against the siblings of `child`. `child`: the queue
    itself or a queue above it. The result is the priority of the job plus the priorities of the queues from the job's
    queue up to `child`. If one of these queues is fenced, its own priority replaces the sum so far (YuniKorn's offset
    and fence)."""
    for branch in queue.path:
        if branch.queue is not None:
            priority = branch.queue.priority + (0 if branch.queue.fenced else priority)
        if branch is child:
            break
    return priority
