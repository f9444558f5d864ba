"""The past usage of accounts and child queues. In a queue with `QueueOrder.USAGE`, the account or child queue with the
least usage comes first.

The usage of an account is its decayed usage (`state.usage`), divided by its shares. The usage of a child queue is the
sum of the usage of all accounts in this queue and in the queues below it, divided by the queue's weight. An account
with 0 shares comes last. When a job starts in a cycle, its account is charged at once, as if the job had run for a
fixed time (`UsageTerms.entry_s`). This charge is also stored in the cluster state (`core.fold.charging`). So if two
accounts have equal usage and many jobs, their jobs start alternately."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, inf

from phalanx.model.job import Job
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Cost


class AccountUsage:
    """The usage of all accounts at the time `now_s` (seconds since the epoch). `started`: (job, charged amounts) for
    each job that this cycle has started. The cycle appends to this list."""

    def __init__(self, cluster: Cluster, now_s: float, started: Sequence[tuple[Job, Cost]] = ()) -> None:
        self.cluster, self.now_s, self.started = cluster, now_s, started
        self._known = 0  # the number of entries of `started` whose usage is in `_entered`
        self._entered: dict[tuple[str, str], float] = {}
        self._shares: dict[str, dict[str, float]] = {}  # queue -> account -> the account's shares

    def of_account(self, queue: Queue, account: str) -> float:
        """Return the usage of an account in the queue, divided by its shares."""
        if (shares := self._shares.get(queue.name)) is None:
            shares = self._shares[queue.name] = dict(queue.accounts)
        return over(self._used(queue.name, account), shares.get(account, 1.0))

    def of_queue(self, branch: Branch) -> float:
        """Return the usage of all accounts in the queue and in the queues below it, divided by the queue's weight."""
        used = [self._used(each.name, account) for each in branch.below() for account in self._accounts(each.name)]
        return over(fsum(used), branch.queue.weight if branch.queue is not None else 1.0)

    def _accounts(self, queue: str) -> set[str]:
        known = self.cluster.usage.associations
        return {account for name in self._told_as(queue) for account in known.get(name, ())}

    def _used(self, queue: str, account: str) -> float:
        for job, cost in self.started[self._known :]:
            self._enter(job, cost)
        self._known = len(self.started)
        told = (self.cluster.usage.of(name, account, self.now_s) for name in self._told_as(queue))
        return sum(told, self._entered.get((queue, account), 0.0))

    def _enter(self, job: Job, cost: Cost) -> None:
        if entry_s := self.cluster.entry_s(job):
            price = self.cluster.usage.meter(job.queue, job.association).price
            held = {resource: amount for (flavor, resource), amount in cost if not flavor}
            key = self.cluster.queue_of(job), job.association
            self._entered[key] = self._entered.get(key, 0.0) + price.accrued(price.rate(held), entry_s)

    def _told_as(self, queue: str) -> tuple[str, ...]:
        """Return the names under which the usage of the queue may be stored. The usage of a job that names no queue is
        stored under an empty name, and belongs to the default queue."""
        return (queue, "") if queue == self.cluster.policy.default_queue else (queue,)


def over(used: float, shares: float) -> float:
    """Return the usage divided by the shares; infinity if `shares` is 0."""
    return used / shares if shares > 0 else inf
