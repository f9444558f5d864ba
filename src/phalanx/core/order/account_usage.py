"""Who has used least: the past usage by which a queue in USAGE order picks among its accounts, and its children.

An account's usage is its decayed one (`state.history.usage`), a child queue's that of all accounts in it and below,
each over its shares, or weight; who has none is last. What starts in a cycle counts at once as if it had run for some
time (`UsageTerms.entry_s`), as it does from then on (`core.fold.charging`): so of two accounts with many jobs each,
which have used as much, both get their turns."""

from __future__ import annotations

from math import fsum, inf

from phalanx.model.job import Job
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster
from phalanx.state.queue_tree import Branch, Cost


class AccountUsage:
    """The usage of all accounts at one time, `now_s` (seconds since the epoch), with what was started since then."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self.cluster, self.now_s = cluster, now_s
        self._entered: dict[tuple[str, str], float] = {}
        self._shares: dict[str, dict[str, float]] = {}  # by queue

    def start(self, job: Job, cost: Cost) -> None:
        """Enter a job that starts, and what its queue is charged with for it."""
        if entry_s := self.cluster.entry_s(job):
            price = self.cluster.usage.meter(job.queue, job.association).price
            held = {resource: amount for (flavor, resource), amount in cost if not flavor}
            key = self.cluster.queue_of(job), job.association
            self._entered[key] = self._entered.get(key, 0.0) + price.accrued(price.rate(held), entry_s)

    def of_account(self, queue: Queue, account: str) -> float:
        """Return the usage of an account in the queue, over its shares."""
        if (shares := self._shares.get(queue.name)) is None:
            shares = self._shares[queue.name] = dict(queue.accounts)
        return over(self._used(queue.name, account), shares.get(account, 1.0))

    def of_queue(self, branch: Branch) -> float:
        """Return the usage of all accounts in the queue and below, over its weight."""
        used = [self._used(each.name, account) for each in branch.below() for account in self._accounts(each.name)]
        return over(fsum(used), branch.queue.weight if branch.queue is not None else 1.0)

    def _accounts(self, queue: str) -> set[str]:
        known = self.cluster.usage.associations
        return {account for name in self._told_as(queue) for account in known.get(name, ())}

    def _used(self, queue: str, account: str) -> float:
        told = (self.cluster.usage.of(name, account, self.now_s) for name in self._told_as(queue))
        return sum(told, self._entered.get((queue, account), 0.0))

    def _told_as(self, queue: str) -> tuple[str, ...]:
        """Return how jobs of the queue name it: those of the default queue need not."""
        return (queue, "") if queue == self.cluster.policy.default_queue else (queue,)


def over(used: float, shares: float) -> float:
    """Return a usage by the shares; without shares it is more than any."""
    return used / shares if shares > 0 else inf
