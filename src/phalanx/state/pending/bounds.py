"""The bounds of the queue tree that may keep a request from starting, and the amount that each still admits.

A `Bound` is one bound of one queue: a limit, a guarantee beyond which the queue may not borrow, the limit of a user.
Its room is the allowed amount less the charged amount."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Key, QueueUsage


class Rule(StrEnum):
    LIMIT = "limit"  # the queue's ceiling
    GUARANTEE = "guarantee"  # the guarantee of a queue that may not borrow
    POOL = "pool"  # the amount that no queue keeps for itself
    KEEP = "keep"  # the amount that the queue keeps; beyond it, the queue uses the pool
    RUNNING = "running"
    USER = "user"
    USER_RUNNING = "user-running"
    GROUP = "group"
    GROUP_RUNNING = "group-running"
    JOB = "job"


class Bound(NamedTuple):
    """A bound of one queue that may keep requests from starting. `whose`: the user, group or job that the bound is for;
    empty: the whole queue."""

    queue: str
    rule: Rule
    key: Key = ("", "")
    whose: str = ""


def amount_left(branch: Branch, account: QueueUsage, bound: Bound, pool: Mapping[Key, int]) -> Amount:
    """Return the amount that the bound still admits. `account`: the charges of the branch."""
    queue, key = branch.queue, bound.key
    match bound.rule:
        case Rule.LIMIT:
            return branch.quota.limit.get(key, 0) - account.total.get(key, 0)
        case Rule.GUARANTEE:
            return branch.quota.guaranteed.get(key, 0) - account.total.get(key, 0)
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
