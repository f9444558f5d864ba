"""Which line sleeps on which limit of the quota tree, and how far that must fall before the line wakes.

A `Bar` is one number of one branch that keeps a line out: a limit, a guarantee beyond which it may not borrow, what a
user may have. Its room is what is allowed less what is charged. A line that asks more says what it needs; when the
branch is charged with less, the lines whose need is reached wake, smallest need first, and no others are looked at.

A line short of the root's pool may be helped in two ways: others claim less of the pool, or its own queue, or one
above, gets back within its keep, which asks nothing of the pool. So it watches all of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from phalanx.model.pod import Amount
from phalanx.state.pending.line import LineKey
from phalanx.state.queue_tree import ROOT, Branch, Key, QueueTree, QueueUsage


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
    """`whose`: the user, group or job, if the rule is about one."""

    queue: str
    rule: Rule
    key: Key = ("", "")
    whose: str = ""


class Toll(NamedTuple):
    """The line is looked at again when that bar's room has reached `need`."""

    bar: Bar
    need: Amount


class Bars:
    """The lines asleep on bars, by branch and bar, each in a heap by need; entries of lines that are not asleep any
    more are dropped when they come up. If one number alone kept a line out, it is known while the line is awake too, so
    that this can go back to sleep as it was."""

    def __init__(self) -> None:
        self.heaps: dict[str, dict[Bar, list[tuple[Amount, int, LineKey]]]] = {}
        self._asleep: dict[LineKey, int] = {}
        self._only: dict[LineKey, Toll] = {}
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._asleep)

    def sleep(self, line: LineKey, tolls: tuple[Toll, ...], *, alone: bool) -> None:
        """`alone`: it waits for nothing besides."""
        if alone and len(tolls) == 1:
            self._only[line] = tolls[0]
        self._tickets += 1
        self._asleep[line] = self._tickets
        for bar, need in tolls:
            heap = self.heaps.setdefault(bar.queue, {}).setdefault(bar, [])
            heappush(heap, (need, self._tickets, line))
            if len(heap) > 2 * len(self._asleep) + 64:
                heap[:] = [entry for entry in heap if self._asleep.get(entry[2]) == entry[1]]
                heapify(heap)

    def sleep_on(self, line: LineKey) -> None:
        """It woke, and lacks what it lacked."""
        if line not in self._asleep:
            self.sleep(line, (self._only[line],), alone=True)

    def only(self, line: LineKey) -> Toll | None:
        """What the line slept on last, if that was one bar and nothing besides."""
        return self._only.get(line)

    def forget(self, line: LineKey) -> None:
        self._asleep.pop(line, None)
        self._only.pop(line, None)

    def relieve(self, tree: QueueTree) -> Iterator[LineKey]:
        """The lines whose need the branches that were eased since the last time now meet; they sleep no more."""
        eased, tree.eased = tree.eased, {}
        if not self._asleep:
            self.heaps.clear()
            return
        for name in eased:
            heaps = self.heaps.get(name, {})
            for bar, heap in list(heaps.items()):
                branch = tree.branch(name)
                left = room(branch, branch.account, bar, tree.pool)
                while heap and heap[0][0] <= left:
                    _, ticket, line = heappop(heap)
                    if self._asleep.get(line) == ticket:
                        del self._asleep[line]
                        yield line
                if not heap:
                    del heaps[bar]

    def release_all(self) -> Iterator[LineKey]:
        """The tree is another: every line is looked at again."""
        yield from list(self._asleep)
        self._asleep.clear()
        self._only.clear()
        self.heaps.clear()

    def release_pool(self) -> Iterator[LineKey]:
        """The nodes have more in all, or less: the lines short of the root's pool are looked at again."""
        for bar, heap in list(self.heaps.get(ROOT, {}).items()):
            if bar.rule is Rule.POOL:
                del self.heaps[ROOT][bar]
                for _, ticket, line in heap:
                    if self._asleep.get(line) == ticket:
                        self.forget(line)
                        yield line

    def copy(self) -> Bars:
        other = Bars()
        other.heaps = {name: {bar: list(heap) for bar, heap in heaps.items()} for name, heaps in self.heaps.items()}
        other._asleep, other._only, other._tickets = dict(self._asleep), dict(self._only), self._tickets
        return other


def room(branch: Branch, account: QueueUsage, bar: Bar, pool: Mapping[Key, int]) -> Amount:
    """How much more the bar lets in. `account`: what is charged to the branch."""
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
    limits, tallies = queue.per_user, account.users
    if bar.rule in {Rule.GROUP, Rule.GROUP_RUNNING}:
        limits, tallies = queue.per_group, account.groups
    if bar.rule is Rule.JOB:
        limits, tallies = queue.per_job, account.jobs
    tally = tallies.get(bar.whose)
    if bar.rule in {Rule.USER_RUNNING, Rule.GROUP_RUNNING}:
        return (limits.running or 0) - (tally.running if tally else 0)
    return dict(limits.resources).get(key[1], 0) - (tally.used.get(key[1], 0) if tally else 0)
