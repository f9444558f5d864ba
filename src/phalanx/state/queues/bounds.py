"""A `Bound` is an upper bound on charges to one queue: for example a limit, a guarantee beyond which the queue may not
borrow, or the limit of a user. The amount that a bound still admits is the allowed amount minus the charged amount."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Key, QueueUsage


class Rule(StrEnum):
    LIMIT = "limit"  # the limit of the queue
    GUARANTEE = "guarantee"  # the guarantee of a queue that may not borrow
    POOL = "pool"  # the capacity of the cluster; the claims of all queues together may not exceed it
    KEEP = "keep"  # the part of its guarantee that the queue does not lend; usage beyond it is charged to the pool
    RUNNING = "running"
    USER = "user"
    USER_RUNNING = "user-running"
    GROUP = "group"
    GROUP_RUNNING = "group-running"
    JOB = "job"


class Bound(NamedTuple):
    """An upper bound on the charges to one queue. `whose`: the user, group or job to which the bound applies; empty if
    it applies to the whole queue."""

    queue: str
    rule: Rule
    key: Key = ("", "")
    whose: str = ""


def amount_left(branch: Branch, account: QueueUsage, bound: Bound, pool: Mapping[Key, int]) -> Amount:
    """Return the amount that the bound still admits. `account`: the usage that is charged to the branch. `pool`: the
    capacity of the cluster."""
    queue, key = branch.queue, bound.key
    match bound.rule:
        case Rule.LIMIT:
            return branch.quota.limit.get(key, 0) - account.total.get(key, 0)
        case Rule.GUARANTEE:
            return branch.quota.guaranteed.get(key, 0) - branch.usage_within_guarantee(account).get(key, 0)
        case Rule.POOL:
            return pool.get(key, 0) - account.claimed.get(key, 0)
        case Rule.KEEP:
            return branch.quota.kept.get(key, 0) - account.claimed.get(key, 0)
    assert queue is not None  # the root has no limits
    if bound.rule is Rule.RUNNING:
        return (queue.total.running or 0) - account.running
    limits, tallies = queue.per_user.of(bound.whose), account.users
    if bound.rule in {Rule.GROUP, Rule.GROUP_RUNNING}:
        limits, tallies = queue.per_group.of(bound.whose), account.groups
    if bound.rule is Rule.JOB:
        limits, tallies = queue.per_job, account.jobs
    tally = tallies.get(bound.whose)
    if bound.rule in {Rule.USER_RUNNING, Rule.GROUP_RUNNING}:
        return (limits.running or 0) - (tally.running if tally else 0)
    return dict(limits.resources).get(key[1], 0) - (tally.used.get(key[1], 0) if tally else 0)
