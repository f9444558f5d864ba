"""Weighted dominant resource share: how much of what can be shared out a queue takes beyond its guarantee.

For a queue among its siblings, with what the next job would add,

    share = max over resources (per flavor) of   max(0, used + extra - guaranteed) / lendable / weight

where lendable is what its parent has to share out: the parent's guarantee if it states one, else all that the cluster
has. The resources are those that some child of the parent is guaranteed; if none is, all. (Whoever guarantees gpus
wants gpus to be shared fairly; the cpus that come with them would make every queue a borrower.) Without guarantees this
is dominant resource fairness (Ghodsi et al., NSDI'11), weighted per resource; with them it is Kueue's fair sharing
(KEP-1714), which compares the share *with* the candidate included. A queue of weight 0 may take what nobody else wants:
as soon as it uses anything beyond its guarantee its share is above every share with weight.

Shares decide who is next (`QueueOrder.FAIR`), and who may preempt whom for fairness: the preemptor's share, with the
job, must stay below the victim's before it loses that job, at the two queues below their lowest common ancestor. Among
siblings no sequence of such preemptions leads back to where it began: a queue that takes stays below the highest share
that any queue had who lost, so the one that had it cannot come back to it by taking. (With several resources a loss
need not lower the dominant share; the argument does not need that.)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.model.queue import Queue
from phalanx.state.queue_tree import Branch, Cost, Key, QueueUsage


class DominantShare(NamedTuple):
    """A dominant share; lower is poorer. `weightless`: 1 if a queue of weight 0 has more than its guarantee; `ratio` is
    unweighted then."""

    weightless: int
    ratio: float


NOTHING = DominantShare(0, 0.0)


def dominant_share(branch: Branch, account: QueueUsage, pool: Mapping[Key, int], extra: Cost = ()) -> DominantShare:
    """Return the share of the branch among its siblings.

    `account`: what is charged to the branch, in the state or in a cycle's ledger.
    `pool`: what the cluster has.
    `extra`: what the branch would use besides."""
    if branch.queue is None or branch.parent is None:
        return NOTHING
    above, guaranteed = branch.parent, branch.guaranteed
    used = added(account.total, extra)
    most = NOTHING
    for key in above.contested or used:
        beyond = used.get(key, 0) - guaranteed.get(key, 0)
        if beyond > 0:
            most = max(most, weighted(ratio(beyond, above, key, pool), branch.queue, key[1]))
    return most


def fill(branch: Branch, used: Mapping[Key, Amount], pool: Mapping[Key, int], *, own: bool = False) -> float:
    """Return how full the branch is: the largest part, over the resources, of its guarantee that it uses; of a resource
    that it is guaranteed nothing of, of the limit of the nearest queue that has one, else of all that the cluster has.
    `own`: of an inner queue's own jobs, which have no guarantee."""
    most = 0.0
    for key, amount in used.items():
        if amount <= 0:
            continue
        if not own and key in branch.stated:
            whole: Amount = branch.guaranteed[key] or amount
        else:
            whole = next((each.limit[key] for each in branch.path if key in each.limit), pool.get(key, 0))
        most = max(most, float(amount / whole) if whole else inf)
    return most


def own_share(branch: Branch, used: Mapping[Key, Amount], pool: Mapping[Key, int], extra: Cost = ()) -> DominantShare:
    """Return the share of a queue's own jobs among its children: they are guaranteed nothing and weigh 1. `used`: by
    them alone."""
    together = added(used, extra)
    ratios = [ratio(together.get(key, 0), branch, key, pool) for key in branch.contested or together]
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
    """Return `beyond` as a part of what the branch above has to share out."""
    lendable = above.guaranteed[key] if key in above.stated else pool.get(key, 0)
    if beyond <= 0:
        return 0.0
    return float(beyond / lendable) if lendable > 0 else inf


def weighted(ratio: float, queue: Queue, resource: str) -> DominantShare:
    """Return the ratio as a share, by the queue's weight for the resource."""
    weight = dict(queue.weights).get(resource, queue.weight) if queue.weights else queue.weight
    return DominantShare(0, ratio / weight) if weight > 0 else DominantShare(1, ratio)


def scaled_share(share: DominantShare, factor: float) -> DominantShare:
    """Return the share as if it were that many times as much."""
    return DominantShare(share.weightless, share.ratio * factor)
