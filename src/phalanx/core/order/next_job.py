"""Who is next: a tournament over the queue tree.

Slots that replace lost pods of started gangs come before all else, by priority, then arrival. Then every queue with a
cell that may start is a *runner*; its head is the first request of the best cell in it and below it. An inner queue
picks among its children, and its own jobs compete like a child:

- by PRIORITY, FIFO or MULTIFACTOR: the child whose head ranks best, but those whose head leaves them within their
  guarantee come before those that would borrow for it;
- by USAGE: the child that has used least in the past, then rank, with the same exception. The queue's own jobs compete
  account by account;
- FAIR: the child with the lowest weighted dominant share, its head included; then higher queue priority; then rank;
- TIERED: those that stay within their guarantee; then higher queue priority; then as FAIR;
- FILL: the highest priority that the queue sees (`seen_priority`); then the child that is least full; then rank.

The winner's request is tried. Whatever comes of it, only the runners on its way to the root stand differently
afterwards, so the next pick costs the depth of the tree times the logarithm of the children. Queues among which nothing
but one order decides are one *arena* (`state.queue_tree`), and one runner: with a thousand queues by priority there is
nothing to rank. A runner draws its cells one at a time and in order (`core.cycle.candidates`), since most never come
up.

A `strict` queue whose head cannot start leaves the contest, and everything behind the head waits. A head that can never
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
    """Whose cells are put in order together: those of the arena of that name (`state.queue_tree.Branch.arena`), or of
    one account there, where past usage orders these."""

    queue: str
    account: str = ""


MOST_LEFT = 8  # cells behind a head that anybody asks for
NOBODY: Draws = iter(())


class QueueCursor:
    """An arena in the contest, or of one that has children, or accounts, its own jobs (`own`: whose; empty: all).
    `lines` and `children` are heaps. `draws`: cells that are to come, in order; of these `drawn` contends, if any does.
    `ranked`: the rank of its head in its parent's order, since it was last ranked."""

    __slots__ = ("branch", "children", "drawn", "draws", "lines", "own", "parent", "ranked")

    def __init__(self, branch: Branch, parent: QueueCursor | None, *, own: str | None = None) -> None:
        self.branch, self.parent, self.own = branch, parent, own
        self.lines: list[tuple[SortKey, CellQueue, QueuedRequest]] = []
        self.children: list[tuple[SortKey, str, QueueCursor]] = []
        self.draws = NOBODY
        self.drawn: CellQueue | None = None
        self.ranked: SortKey = ()

    def last(self) -> QueueCursor:
        """The runner, it or one below, in which the head is the first of the lines."""
        runner = self
        while runner.children:
            runner = runner.children[0][-1]
        return runner


class Tournament:
    """The tournament of one cycle. `priority_of` is asked for the factors' sum in MULTIFACTOR order, `may_come_up`
    of cells that contend, and `first_of` for the request that contends for one. `usage`: for USAGE order."""

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
        self.fresh: CellQueue | None = None  # the last cell drawn, until anything is decided
        self.out_of_turn = False  # the head that is being tried is not the best of all
        self.closed: dict[str, Head] = {}  # strict queues whose head cannot start -> it
        self.left: dict[str, Draws] = {}  # of these, the cells that would have come up next

    def clear(self) -> None:
        """Empty the tournament: nobody contends."""
        self.urgent = QueueCursor(self.tree.root, None)  # replacements
        self.root = QueueCursor(self.tree.root, None)
        self.at = self.root  # in whose lines the head stands that is being tried
        self.runners: dict[str, QueueCursor] = {self.tree.root.name: self.root}
        self.owns: dict[Arena, QueueCursor] = {}

    def is_closed(self, branch: Branch) -> bool:
        """Return whether a strict queue on the path has left the contest."""
        return bool(self.closed) and any(each.name in self.closed for each in branch.path)

    def leaf(self, key: Arena) -> QueueCursor:
        """Return the cursor in which the own cells of an arena are, or those of one account there."""
        arena = self.tree.branches[key.queue]
        runner = self.runners.get(arena.name) or self.runner(arena)
        if not arena.split and arena.order is not QueueOrder.USAGE:
            return runner
        return self.owns.get(key) or self.owns.setdefault(key, QueueCursor(arena, runner, own=key.account))

    def draw_from(self, arena: Arena | None, draws: Draws) -> None:
        """The first of these cells contends; when it is done, the next. `arena` None: they are replacements. Call
        `begin` when all arenas draw."""
        if arena is None:
            self.urgent.draws = draws
        elif not self.is_closed(self.tree.branches[arena.queue]):
            self.leaf(arena).draws = draws

    def runner(self, arena: Branch) -> QueueCursor:
        missing = []
        while (runner := self.runners.get(arena.name)) is None:
            missing.append(arena)
            assert arena.parent is not None  # the root's is there
            arena = arena.parent.arena
        for each in reversed(missing):
            runner = self.runners[each.name] = QueueCursor(each, runner)
        return runner

    def begin(self) -> None:
        """Rank every cursor by the best of its cells that may come up, those deepest in the tree first."""
        for runner in (self.urgent, *self.owns.values(), *reversed(self.runners.values())):  # made parents first
            self.thin(runner)
            heapify(runner.children)
            if runner.parent is not None and (runner.lines or runner.children):
                runner.parent.children.append(self.ranking(runner))

    def renew(self) -> None:
        """Rank all cursors anew: fewer cells may come up than before."""
        self.out_of_turn = False
        for runner in self.runners.values():
            runner.children.clear()
        self.begin()

    def head(self) -> Head | None:
        """The best. Who asks for the next must have said what became of the last: `won` or `lost`."""
        runner = self.urgent if self.urgent.lines else self.root
        self.at = runner = runner.last() if runner.children else runner
        return runner.lines[0][1:] if runner.lines else None

    def cursors(self) -> list[QueueCursor]:
        """Return the cursors that have cells of their own."""
        return [each for each in (*self.runners.values(), *self.owns.values()) if each.lines]

    def head_of(self, runner: QueueCursor) -> Head:
        """Return the best of one cursor, to be tried out of turn. Call `renew` before `head` is asked again."""
        self.at, self.out_of_turn = runner, True
        return runner.lines[0][1:]

    def won(self, following: QueuedRequest | None) -> None:
        """The head has started; `following` is the next of its cell."""
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
        """The head cannot start, nor can the others of its cell. `holds_up`: it might later; so in a strict queue those
        behind it wait, unless it would but grow a job."""
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
        """Close the cursor: everything that is left in it, and below it, is behind that head."""
        self.closed[runner.branch.name] = head
        left = [runner]
        while left:
            each = left.pop()
            left += [child for _, _, child in each.children]
            each.lines, each.children, each.draws, each.drawn = [], [], NOBODY, None
        return runner

    def rerank(self, runner: QueueCursor) -> None:
        """The head of that runner has changed, and what is charged to it perhaps: so it stands differently, and so do
        those above it. It is the first child all the way up."""
        self.thin(runner)
        while runner.parent is not None and not self.out_of_turn:
            if runner.lines or runner.children:
                heapreplace(runner.parent.children, self.ranking(runner))
            else:
                heappop(runner.parent.children)
            runner = runner.parent

    def thin(self, runner: QueueCursor) -> None:
        """The runner stands by the best of its cells that may still come up; of those to come, the next contends."""
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
        return self.standing(runner), runner.branch.name, runner  # no two stand alike: ranks have a tie of their own

    def standing(self, runner: QueueCursor) -> SortKey:
        """Return what the parent compares its children by: lower is sooner."""
        assert runner.parent is not None
        parent, (_, line, entry) = runner.parent.branch, runner.last().lines[0]
        key = line.key
        if parent.order is runner.branch.order:  # what was found below holds here
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
        """Return whether the head would borrow. Own jobs of an inner queue have no guarantee but what the queue's
        children leave of its own."""
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
    """Return how long its jobs are expected to run, s; without an estimate or a limit for ever."""
    terms = key.terms
    expected_s = terms.limit_s if terms.estimate_s is None else terms.estimate_s
    return inf if expected_s is None else expected_s


def cost_of(key: CellKey) -> Cost:
    """Return what the cell's first asks, whatever the flavor."""
    return key.gang.due()
