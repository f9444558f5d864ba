"""The next job: a tournament over the queue tree.

Slots that replace lost pods of started gangs come first, by priority, then arrival. Then each queue with a request
class that may start is a *runner*. Its head is the first request of the best request class in it and below it. An inner
queue chooses among its children; its own jobs compete like a child:

- by PRIORITY, FIFO or MULTIFACTOR: the child whose head ranks best, but those whose head leaves them within their
  guarantee come before those that would borrow for it;
- by USAGE: the child that has used least in the past, then rank, with the same exception. The queue's own jobs compete
  account by account;
- FAIR: the child with the lowest weighted dominant share, its head included; then higher queue priority; then rank;
- TIERED: those that stay within their guarantee; then higher queue priority; then as FAIR;
- FILL: the highest priority that the queue sees (`seen_priority`); then the child that is least full; then rank.

The winner's request is tried. The result changes the rank of the runners on its path to the root only, so the next
choice costs the depth of the tree times the logarithm of the children. Queues between which one order alone decides are
one *arena* (`state.queue_tree`) and one runner. So a thousand queues by priority need no ranking. A runner draws its
request classes one at a time and in order (`core.cycle.candidates`), because most are never tried.

A `strict` queue whose head cannot start leaves the contest, and all jobs behind the head wait. A head that can never
start does not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace, nsmallest
from itertools import chain
from math import inf
from typing import NamedTuple, TypeAlias

from phalanx.core.order.account_usage import AccountUsage
from phalanx.core.order.rank import rank
from phalanx.core.quota import shares
from phalanx.core.quota.ledger import QuotaLedger, within_guarantee
from phalanx.model.queue import QueueOrder
from phalanx.state.pending.cell_queue import CellKey, CellQueue, Kind, QueuedRequest
from phalanx.state.queue_tree import Branch, Cost, Key, QueueTree

Head: TypeAlias = tuple[CellQueue, QueuedRequest]
SortKey: TypeAlias = tuple[object, ...]
Draws: TypeAlias = Iterator[tuple[SortKey, CellQueue]]


class Arena(NamedTuple):
    """A set of request classes that are ordered together: those of an arena (`state.queue_tree.Branch.arena`), or of
    one account in it if the order is USAGE."""

    queue: str
    account: str = ""


MOST_LEFT = 8  # request classes behind a head that are remembered
NOBODY: Draws = iter(())


class QueueCursor:
    """An arena in the contest, or the own jobs of an arena with children or accounts.

    `own`: the account whose jobs these are; empty: all own jobs; None: the arena itself.
    `lines`, `children`: heaps of its request classes and of the cursors below it.
    `draws`: further request classes, in order; `drawn`: the one of them that contends now.
    `ranked`: the rank of its head in the order of its parent, as last computed."""

    __slots__ = ("branch", "children", "drawn", "draws", "lines", "own", "parent", "ranked")

    def __init__(self, branch: Branch, parent: QueueCursor | None, *, own: str | None = None) -> None:
        self.branch, self.parent, self.own = branch, parent, own
        self.lines: list[tuple[SortKey, CellQueue, QueuedRequest]] = []
        self.children: list[tuple[SortKey, str, QueueCursor]] = []
        self.draws = NOBODY
        self.drawn: CellQueue | None = None
        self.ranked: SortKey = ()

    def last(self) -> QueueCursor:
        """Return the cursor, this one or one below, whose first request class has the head."""
        runner = self
        while runner.children:
            runner = runner.children[0][-1]
        return runner


class Tournament:
    """The tournament of one cycle.

    `priority_of`: returns the priority of a request in MULTIFACTOR order.
    `may_come_up`: returns whether a request class may still be tried.
    `first_of`: returns the request that contends for a request class.
    `usage`: the past usage, for USAGE order."""

    def __init__(
        self,
        tree: QueueTree,
        ledger: QuotaLedger,
        priority_of: Callable[[QueuedRequest], float],
        may_come_up: Callable[[CellQueue], bool],
        first_of: Callable[[CellQueue], QueuedRequest | None],
        usage: AccountUsage,
    ) -> None:
        self.tree, self.ledger, self.usage = tree, ledger, usage
        self.priority_of, self.may_come_up, self.first_of = priority_of, may_come_up, first_of
        self.by_estimate = False
        self.fresh: CellQueue | None = None  # the last drawn request class, until its result is known
        self.out_of_turn = False  # the head that is tried now is not the best of all
        self.closed: dict[str, Head] = {}  # strict queue -> its head that cannot start
        self.left: dict[str, Draws] = {}  # strict queue -> its request classes behind that head

    def clear(self) -> None:
        """Remove all runners."""
        self.urgent = QueueCursor(self.tree.root, None)  # replacements
        self.root = QueueCursor(self.tree.root, None)
        self.at = self.root  # the cursor of the head that is tried now
        self.runners: dict[str, QueueCursor] = {self.tree.root.name: self.root}
        self.owns: dict[Arena, QueueCursor] = {}

    def is_closed(self, branch: Branch) -> bool:
        """Return whether a strict queue on the path has left the contest."""
        return bool(self.closed) and any(each.name in self.closed for each in branch.path)

    def leaf(self, key: Arena) -> QueueCursor:
        """Return the cursor with the request classes of an arena's own jobs, or of one account in it."""
        arena = self.tree.branches[key.queue]
        runner = self.runners.get(arena.name) or self.runner(arena)
        if not arena.split and arena.order is not QueueOrder.USAGE:
            return runner
        return self.owns.get(key) or self.owns.setdefault(key, QueueCursor(arena, runner, own=key.account))

    def draw_from(self, arena: Arena | None, draws: Draws) -> None:
        """Let these request classes contend, one after the other. `arena`: None for replacements. Call `begin` when all
        arenas have their draws."""
        if arena is None:
            self.urgent.draws = draws
        elif not self.is_closed(self.tree.branches[arena.queue]):
            self.leaf(arena).draws = draws

    def runner(self, arena: Branch) -> QueueCursor:
        missing = []
        while (runner := self.runners.get(arena.name)) is None:
            missing.append(arena)
            assert arena.parent is not None  # the root has a runner
            arena = arena.parent.arena
        for each in reversed(missing):
            runner = self.runners[each.name] = QueueCursor(each, runner)
        return runner

    def begin(self) -> None:
        """Rank every cursor by its best request class that may be tried, the deepest cursors first."""
        for runner in (self.urgent, *self.owns.values(), *reversed(self.runners.values())):  # made parents first
            self.thin(runner)
            heapify(runner.children)
            if runner.parent is not None and (runner.lines or runner.children):
                runner.parent.children.append(self.ranking(runner))

    def renew(self) -> None:
        """Rank all cursors again, because fewer request classes may be tried."""
        self.out_of_turn = False
        for runner in self.runners.values():
            runner.children.clear()
        self.begin()

    def head(self) -> Head | None:
        """Return the best request. Before the next call, report the result of this one with `won` or `lost`."""
        runner = self.urgent if self.urgent.lines else self.root
        self.at = runner = runner.last() if runner.children else runner
        return runner.lines[0][1:] if runner.lines else None

    def cursors(self) -> list[QueueCursor]:
        """Return the cursors with request classes of their own."""
        return [each for each in (*self.runners.values(), *self.owns.values()) if each.lines]

    def head_of(self, runner: QueueCursor) -> Head:
        """Return the best request of one cursor, to be tried out of turn. Call `renew` before the next `head`."""
        self.at, self.out_of_turn = runner, True
        return runner.lines[0][1:]

    def won(self, following: QueuedRequest | None) -> None:
        """Report that the head has started. `following`: the next request of its request class."""
        runner, self.fresh = self.at, None
        if following is None:
            _, line, _ = heappop(runner.lines)
        else:
            line = runner.lines[0][1]
            heapreplace(runner.lines, (self.rank(runner.branch, line.key, following), line, following))
        if line is runner.drawn:
            runner.drawn = None
        self.rerank(runner)

    def lost(self, *, holds_up: bool = True) -> None:
        """Report that the head, and so its request class, cannot start. `holds_up`: it may start later, so the jobs
        behind it in a strict queue wait, unless it only grows a job."""
        runner, self.fresh = self.at, None
        _, line, entry = heappop(runner.lines)
        strict = self.tree.strict_above(runner.branch.name) if holds_up and line.strict else None
        if strict is not None and line.key.kind != Kind.GROWTH and runner is not self.urgent:
            lines = nsmallest(MOST_LEFT, runner.lines)
            self.left[strict.name] = chain([(ranked, line) for ranked, line, _ in lines], runner.draws)
            runner = self.close(self.runners[strict.name], (line, entry))
        elif line is runner.drawn:
            runner.drawn = None
        self.rerank(runner)

    def close(self, runner: QueueCursor, head: Head) -> QueueCursor:
        """Close the cursor: all its requests, and those below it, wait behind the head."""
        self.closed[runner.branch.name] = head
        left = [runner]
        while left:
            each = left.pop()
            left += [child for _, _, child in each.children]
            each.lines, each.children, each.draws, each.drawn = [], [], NOBODY, None
        return runner

    def rerank(self, runner: QueueCursor) -> None:
        """Rank the runner and the runners above it again, because its head or its charge changed. Each of them is the
        first child of the one above."""
        self.thin(runner)
        while runner.parent is not None and not self.out_of_turn:
            if runner.lines or runner.children:
                heapreplace(runner.parent.children, self.ranking(runner))
            else:
                heappop(runner.parent.children)
            runner = runner.parent

    def thin(self, runner: QueueCursor) -> None:
        """Drop request classes that may not be tried from the top of the runner, and draw the next one."""
        while True:
            if runner.drawn is None:
                for ranked, line in runner.draws:
                    if self.may_come_up(line) and (first := self.first_of(line)) is not None:
                        runner.drawn = self.fresh = line
                        heappush(runner.lines, (ranked, line, first))
                        break
            if not runner.lines:
                return
            best = runner.lines[0][1]
            if best is self.fresh or self.may_come_up(best):
                return
            heappop(runner.lines)
            if best is runner.drawn:
                runner.drawn = None

    def ranking(self, runner: QueueCursor) -> tuple[SortKey, str, QueueCursor]:
        return self.standing(runner), runner.branch.name, runner  # no two are equal: ranks end with a tie

    def standing(self, runner: QueueCursor) -> SortKey:
        """Return the key by which the parent compares its children; lower is sooner."""
        assert runner.parent is not None
        parent, (_, line, entry) = runner.parent.branch, runner.last().lines[0]
        key = line.key
        if parent.order is runner.branch.order:  # the rank within the branch is also the rank in its parent
            ranked = runner.children[0][-1].ranked if runner.children else runner.lines[0][0]
        else:
            ranked = self.rank(parent, key, entry)
        runner.ranked = ranked
        if self.by_estimate:
            return ranked
        if parent.order is QueueOrder.FILL:
            return -self.seen(runner, key.priority), self.fill(runner), ranked
        if parent.order in (QueueOrder.FAIR, QueueOrder.TIERED):
            priority = runner.branch.queue.priority if runner.branch.queue is not None and runner.own is None else 0
            share = self.share(runner, cost_of(key))
            if parent.order is QueueOrder.TIERED:
                return share > shares.NOTHING, -priority, share, ranked
            return share, -priority, ranked
        if parent.order is QueueOrder.USAGE:
            ranked = (self.used(runner), *ranked)
        if not parent.contested:
            return ranked
        return self.borrows(runner, parent.contested, cost_of(key)), ranked

    def used(self, runner: QueueCursor) -> float:
        if runner.own is None or runner.branch.queue is None:
            return self.usage.of_queue(runner.branch)
        return self.usage.of_account(runner.branch.queue, runner.own)

    def share(self, runner: QueueCursor, extra: Cost) -> shares.DominantShare:
        branch = runner.branch
        if runner.own is not None:
            return shares.own_share(branch, self.ledger.account(branch).own, self.tree.pool, extra)
        return self.ledger.share(branch, extra)

    def seen(self, runner: QueueCursor, priority: int) -> int:
        if runner.own is not None:
            return priority
        return seen_priority(runner.last().branch, runner.branch, priority)

    def fill(self, runner: QueueCursor) -> float:
        account, own = self.ledger.account(runner.branch), runner.own is not None
        return shares.fill(runner.branch, account.own if own else account.total, self.tree.pool, own=own)

    def borrows(self, runner: QueueCursor, contested: set[Key], extra: Cost) -> bool:
        """Return whether the head would borrow. The own jobs of an inner queue have only the part of its guarantee that
        its children leave."""
        if runner.own is not None:
            return any(key in contested for key, _ in extra)
        return not within_guarantee(self.ledger, runner.branch, contested, extra)

    def rank(self, branch: Branch, key: CellKey, entry: QueuedRequest) -> SortKey:
        factors = self.priority_of(entry) if branch.order is QueueOrder.MULTIFACTOR else None
        ranked = rank(key, entry, branch.order, factors)
        return (estimate(key), *ranked) if self.by_estimate else ranked


def seen_priority(queue: Branch, child: Branch, priority: int) -> int:
    """Return the priority of a job of the queue as it is seen beside the child (the queue, or one above it): each queue
    on the way adds its own priority, and of a fenced queue only that is seen (YuniKorn's offset and fence)."""
    for branch in queue.path:
        if branch.queue is not None:
            priority = branch.queue.priority + (0 if branch.queue.fenced else priority)
        if branch is child:
            break
    return priority


def estimate(key: CellKey) -> float:
    """Return the expected run time of its jobs (seconds): the estimate, else the limit, else infinity."""
    terms = key.terms
    expected_s = terms.limit_s if terms.estimate_s is None else terms.estimate_s
    return inf if expected_s is None else expected_s


def cost_of(key: CellKey) -> Cost:
    """Return the request of the first request of the class, without flavors."""
    return key.gang.due()
