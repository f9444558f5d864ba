"""Build Slurm's tree of associations from the queues and their past usage, and compute the fair-share factors.

`core.order.multifactor` calls `fair_shares` for the factor of each user. Each queue is an account, and its `weight` is
the number of its shares. `phalanx.fair_tree` has the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.fair_tree import (
    AccountAssociation,
    AssociationShare,
    Key,
    UserAssociation,
    account_tree,
    classic_fair_share,
    rank_fair_tree,
)
from phalanx.model.policy import FairShareFormula, Policy
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster
from phalanx.state.usage import DecayedUsage


def fair_shares(cluster: Cluster, policy: Policy, now_s: float) -> dict[Key, AssociationShare]:
    """Return the shares of every user and queue, by the policy's formula."""
    formula = classic_fair_share if policy.fair_share == FairShareFormula.CLASSIC else rank_fair_tree
    return formula(associations(cluster.queues, cluster.usage, policy, now_s))


def associations(queues: Mapping[str, Queue], usage: DecayedUsage, policy: Policy, now_s: float) -> AccountAssociation:
    """Return the queue tree as a tree of accounts. Each account has the users with shares or usage in its queue. A
    queue without a path to the root is left out."""
    accounts = {queue.name: (queue.parent, queue.weight) for queue in queues.values()}
    return account_tree(
        accounts, lambda name: user_associations(queues[name], usage, policy, now_s) if name else iter(())
    )


def user_associations(queue: Queue, usage: DecayedUsage, policy: Policy, now_s: float) -> Iterator[UserAssociation]:
    """Yield the users with shares or usage in the queue, with their decayed usage."""
    shares = dict(queue.accounts)
    used = {user: usage.at(meter, now_s) for user, meter in usage.associations.get(queue.name, {}).items()}
    if queue.name == policy.default_queue:
        for user, meter in usage.associations.get("", {}).items():
            used[user] = used.get(user, 0.0) + usage.at(meter, now_s)
    for user in sorted({**shares, **used}):
        yield UserAssociation((queue.name, user), shares.get(user, 1.0), used.get(user, 0.0))
