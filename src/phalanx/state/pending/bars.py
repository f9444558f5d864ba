"""The numbers of the queue tree that may keep a request from starting: which, whose, and how much they still let in.

A `Bar` is one number of one branch: a limit, a guarantee beyond which it may not borrow, what a user may have. Its room
is what is allowed less what is charged."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.state.queue_tree import Branch, Key, QueueUsage


class Rule(StrEnum):
    LIMIT = "limit"  # the queue's ceiling
    GUARANTEE = "guarantee"  # it may not borrow
    POOL = "pool"  # what others do not keep is used up
    KEEP = "keep"  # the queue's own keep: beyond it the pool is asked
    RUNNING = "running"
    USER = "user"
    USER_RUNNING = "user-running"
    GROUP = "group"
    GROUP_RUNNING = "group-running"
    JOB = "job"


class Bar(NamedTuple):
    """A number of one queue that may keep requests from starting. `whose`: the user, group or job, if the rule is
    about one."""

    queue: str
    rule: Rule
    key: Key = ("", "")
    whose: str = ""


def room(branch: Branch, account: QueueUsage, bar: Bar, pool: Mapping[Key, int]) -> Amount:
    """Return how much more the bar lets in. `account`: what is charged to the branch."""
    queue, key = branch.queue, bar.key
    match bar.rule:
        case Rule.LIMIT:
            return branch.limit.get(key, 0) - account.total.get(key, 0)
        case Rule.GUARANTEE:
            return branch.guaranteed.get(key, 0) - account.total.get(key, 0)
        case Rule.POOL:
            return pool.get(key, 0) - account.claimed.get(key, 0)
        case Rule.KEEP:
            return branch.kept.get(key, 0) - account.claimed.get(key, 0)
    assert queue is not None  # the root limits nobody
    if bar.rule is Rule.RUNNING:
        return (queue.total.running or 0) - account.running
    limits, tallies = queue.per_user.of(bar.whose), account.users
    if bar.rule in {Rule.GROUP, Rule.GROUP_RUNNING}:
        limits, tallies = queue.per_group.of(bar.whose), account.groups
    if bar.rule is Rule.JOB:
        limits, tallies = queue.per_job, account.jobs
    tally = tallies.get(bar.whose)
    if bar.rule in {Rule.USER_RUNNING, Rule.GROUP_RUNNING}:
        return (limits.running or 0) - (tally.running if tally else 0)
    return dict(limits.resources).get(key[1], 0) - (tally.used.get(key[1], 0) if tally else 0)
