"""Compute weighted dominant resource shares: the usage of a queue beyond its guarantee, divided by the amounts that its
parent can share out.

The share of a queue among its siblings, including the charge of its next job (`extra`), is

    share = max over resources (per flavor) of   max(0, used + extra - guaranteed) / lendable / weight

where `lendable` is the amount that the parent can share out: the parent's guarantee if it has one, otherwise the
capacity of the cluster. Only resources for which at least one child of the parent has a guarantee are compared; if no
child has a guarantee, all resources are compared. (An admin who sets guarantees only for GPUs wants GPUs to be shared
fairly. If CPUs were compared too, every queue would exceed its guarantee, because jobs with GPUs also use CPUs.)
Without guarantees, the shares are those of dominant resource fairness (Ghodsi et al., NSDI'11), weighted per resource.
With guarantees, they are those of Kueue's fair sharing (KEP-1714), in which the compared shares include the next job. A
queue of weight 0 should only use amounts that no other queue requests. So as soon as it exceeds its guarantee, its
share is higher than the share of every queue with a positive weight.

Shares decide which queue is next (`QueueOrder.FAIR`), and which queue may preempt for fairness. For a preemption, the
share of the preemptor's side, including the job, must be below the share of the victim's side before the eviction. The
two sides are those children of the lowest common ancestor that contain the two queues.

Preemptions for fairness among siblings cannot go round in a circle, that is, they never lead back to an earlier state.
To prove this, assume such a circle, and let h be the highest share that any queue has when it loses a victim. Every
queue that preempts stays below h. So the queue with the share h cannot reach h again by preempting. (If there are
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
    """A dominant share; the queue with the lower share is served first. `weightless`: 1 for a queue of weight 0 that
    exceeds its guarantee; its `ratio` is not divided by a weight."""

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
    """For each resource, divide the usage of the branch by its guarantee; return the largest quotient. For a resource
    without a guarantee, divide by the limit of the nearest queue on the path that has a limit; if no queue has one,
    divide by the capacity of the cluster. `own`: True for the own jobs of an inner queue, which have no guarantee."""
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
    """Return the share of a queue's own jobs. A queue's own jobs compete with its child queues as if they were one more
    child, without a guarantee and with the weight 1. `used`: the usage of the queue's own jobs."""
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
    """Return `beyond` divided by the lendable amount, which is the amount that the parent (`above`) can share out among
    its children. `beyond`: the usage beyond the guarantee."""
    lendable = above.quota.guaranteed[key] if key in above.quota.stated else pool.get(key, 0)
    if beyond <= 0:
        return 0.0
    return float(beyond / lendable) if lendable > 0 else inf


def weighted(ratio: float, queue: Queue, resource: str) -> DominantShare:
    """Return the share: the ratio divided by the queue's weight for the resource."""
    weight = dict(queue.weights).get(resource, queue.weight) if queue.weights else queue.weight
    return DominantShare(0, ratio / weight) if weight > 0 else DominantShare(1, ratio)


def scaled_share(share: DominantShare, factor: float) -> DominantShare:
    """Return the share multiplied by the factor."""
    return DominantShare(share.weightless, share.ratio * factor)


def seen_priority(queue: Branch, child: Branch, priority: int) -> int:
    """Return the priority with which a job of the queue competes against siblings of `child`, which is the queue itself
    or a queue above it. The priorities of the queues from the job's queue up to `child` are added to the priority of
    the job; a fenced queue replaces the sum by its own priority (YuniKorn's offset and fence)."""
    for branch in queue.path:
        if branch.queue is not None:
            priority = branch.queue.priority + (0 if branch.queue.fenced else priority)
        if branch is child:
            break
    return priority
