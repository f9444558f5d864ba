"""Who is next: a tournament over the queue tree.

Slots that replace lost pods of started gangs come before all else, by priority, then arrival. Then every queue with a
bid that may start is a *runner*; its head is the best bid in it and below it. An inner queue picks
among its children, and its own jobs compete like a child:

- by PRIORITY, FIFO or MULTIFACTOR: the child whose head ranks best, but those whose head leaves them within their
  guarantee come before those that would borrow for it;
- FAIR: the child with the lowest weighted dominant share, its head included; then higher queue priority; then rank.

The winner's bid is tried. Whatever comes of it, only the runners on its way to the root stand differently afterwards,
so the next pick costs the depth of the tree times the logarithm of the children. Queues among which nothing but one
order decides are one *arena* (`state.queue_tree`), and one runner: with a thousand queues by priority there is nothing
to seat. Queues in which nothing is awake take no part and cost nothing.

Besides the lines that enter, a runner may *draw* others, that sleep, one at a time and in order: those of crowds for
which there may be room, and those of a strict queue, of which only the head counts.

A `strict` queue whose head cannot start leaves the contest, and everything behind the head waits (`behind`). A head
that can never start does not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import TypeAlias

from phalanx.core.order.rank import rank
from phalanx.core.quota import shares
from phalanx.core.quota.ledger import QuotaLedger, within_guarantee
from phalanx.model.queue import QueueOrder
from phalanx.state.pending.line import Entry, Kind, LineKey
from phalanx.state.pending.turns import Turn
from phalanx.state.queue_tree import Branch, Cost, Key, QueueTree

Head: TypeAlias = tuple[LineKey, Entry]
SortKey: TypeAlias = tuple[object, ...]
NOBODY: Iterator[Turn] = iter(())


class QueueCursor:
    """An arena in the contest, or the own jobs of one below which others are (`own`). `lines` and `children` are heaps.
    `draws`: lines that it may draw, in order; of these `drawn` contends, if any does; `in_crowd`: they sleep in crowds.
    `ranked`: the rank of its head in its parent's order, since it was last seated."""

    __slots__ = ("branch", "children", "drawn", "draws", "in_crowd", "lines", "own", "parent", "ranked")

    def __init__(self, branch: Branch, parent: QueueCursor | None, *, own: bool = False) -> None:
        self.branch, self.parent, self.own = branch, parent, own
        self.lines: list[tuple[SortKey, LineKey, Entry]] = []
        self.children: list[tuple[SortKey, str, bool, QueueCursor]] = []
        self.draws = NOBODY
        self.drawn: LineKey | None = None
        self.in_crowd = False
        self.ranked: SortKey = ()

    def last(self) -> QueueCursor:
        """The runner, it or one below, in which the head is the first of the lines."""
        runner = self
        while runner.children:
            runner = runner.children[0][3]
        return runner


class Tournament:
    """`priority_of` is asked for the factors' sum in MULTIFACTOR order, `first_of` for the first bid of a line that is
    drawn."""

    def __init__(
        self,
        tree: QueueTree,
        ledger: QuotaLedger,
        priority_of: Callable[[Entry], float],
        first_of: Callable[[LineKey], Entry],
    ) -> None:
        self.tree, self.ledger, self.priority_of, self.first_of = tree, ledger, priority_of, first_of
        self.urgent = QueueCursor(tree.root, None)  # replacements
        self.root = QueueCursor(tree.root, None)
        self.at = self.root  # in whose lines the head stands that is being tried
        self.runners: dict[str, QueueCursor] = {tree.root.name: self.root}
        self.owns: dict[str, QueueCursor] = {}
        self.entered: set[LineKey] = set()
        self.by_estimate = False
        self.closed: dict[str, Head] = {}  # strict queues whose head cannot start -> it
        self.behind: dict[LineKey, Head] = {}  # lines that a strict queue's head holds up -> that head

    def enter(self, key: LineKey, entry: Entry) -> None:
        """That bid contends for its line. Call `begin` when all have entered."""
        branch = self.tree.branches[key.queue]
        self.entered.add(key)
        if self.closed and any(each.name in self.closed for each in branch.path):
            return  # it sleeps behind a head already
        runner = self.urgent if key.kind == Kind.REPLACEMENT else self.leaf(branch)
        runner.lines.append((self.rank(branch, key, entry), key, entry))

    def leaf(self, branch: Branch) -> QueueCursor:
        """That in which the queue's own lines are."""
        arena = branch.arena
        runner = self.runners.get(arena.name) or self.runner(arena)
        if not arena.split:
            return runner
        return self.owns.get(arena.name) or self.owns.setdefault(arena.name, QueueCursor(arena, runner, own=True))

    def draw_from(self, arena: str, draws: Iterator[Turn], *, in_crowd: bool) -> None:
        """Besides those that enter, the first of these contends; when it is done, the next. Call it before `begin`,
        when all have entered."""
        runner = self.leaf(self.tree.branches[arena])
        runner.draws, runner.in_crowd = draws, in_crowd
        self.draw(runner)

    def draw(self, runner: QueueCursor) -> None:
        """The runner's next line takes its place among the others."""
        runner.drawn = None
        for place, key in runner.draws:
            if key not in self.entered:
                runner.drawn = key
                self.entered.add(key)
                entry = self.first_of(key)
                ranked = self.rank(runner.branch, key, entry) if self.by_estimate else place
                heappush(runner.lines, (ranked, key, entry))
                return

    def draw_no_more(self) -> None:
        """No crowd is live: what was drawn cannot start."""
        for runner in [*self.runners.values(), *self.owns.values()]:
            runner.children.clear()
            if runner.in_crowd:
                if runner.drawn is not None:
                    runner.lines = [each for each in runner.lines if each[1] is not runner.drawn]
                runner.draws, runner.drawn = NOBODY, None
        self.begin()

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
        """Everybody takes their place, those deepest in the tree first."""
        for runner in (self.urgent, *self.owns.values(), *reversed(self.runners.values())):  # made parents first
            heapify(runner.lines)
            heapify(runner.children)
            if runner.parent is not None and (runner.lines or runner.children):
                runner.parent.children.append(self.seat(runner))

    def rejoin(self, heads: Sequence[Head], *, by_estimate: bool) -> None:
        """Those contend from now on too. `by_estimate`: what is expected to run shortest comes first (if it says
        nothing, by its time limit), equal ones as before."""
        self.by_estimate = by_estimate
        for runner in [self.urgent, *self.runners.values(), *self.owns.values()]:
            runner.children.clear()
            runner.lines = [(self.rank(runner.branch, key, entry), key, entry) for _, key, entry in runner.lines]
        for key, entry in heads:
            self.enter(key, entry)
        self.begin()

    def head(self) -> Head | None:
        """The best. Who asks for the next must have said what became of the last: `won` or `lost`."""
        runner = self.urgent if self.urgent.lines else self.root
        self.at = runner = runner.last() if runner.children else runner
        return runner.lines[0][1:] if runner.lines else None

    def won(self, following: Entry | None) -> None:
        """The head has started; `following` is the next of its line."""
        runner = self.at
        if following is None:
            _, key, _ = heappop(runner.lines)
        else:
            key = runner.lines[0][1]
            heapreplace(runner.lines, (self.rank(runner.branch, key, following), key, following))
        if key is runner.drawn:
            self.draw(runner)
        self.reseat(runner)

    def lost(self, *, holds_up: bool = True) -> None:
        """The head cannot start, nor can the others of its line. `holds_up`: it might later; so in a strict queue those
        behind it wait, unless it would but grow a job."""
        runner = self.at
        _, key, entry = heappop(runner.lines)
        if key is runner.drawn:
            self.draw(runner)
        strict = self.tree.strict_above(runner.branch.name) if holds_up and key.kind != Kind.GROWTH else None
        if strict is not None and runner is not self.urgent:
            runner = self.close(self.runners[strict.name], (key, entry))
        self.reseat(runner)

    def close(self, runner: QueueCursor, head: Head) -> QueueCursor:
        """Everything that is left in it, and below it, is behind that head."""
        self.closed[runner.branch.name] = head
        left = [runner]
        while left:
            each = left.pop()
            # What was drawn, or would have been, sleeps behind a head already.
            self.behind.update(dict.fromkeys((key for _, key, _ in each.lines if key is not each.drawn), head))
            left += [child for _, _, _, child in each.children]
            each.lines, each.children, each.draws, each.drawn = [], [], NOBODY, None
        return runner

    def reseat(self, runner: QueueCursor) -> None:
        """The head of that runner has changed, and what is charged to it perhaps: so it stands differently, and so do
        those above it. It is the first child all the way up."""
        while runner.parent is not None:
            if runner.lines or runner.children:
                heapreplace(runner.parent.children, self.seat(runner))
            else:
                heappop(runner.parent.children)
            runner = runner.parent

    def seat(self, runner: QueueCursor) -> tuple[SortKey, str, bool, QueueCursor]:
        return self.standing(runner), runner.branch.name, runner.own, runner

    def standing(self, runner: QueueCursor) -> SortKey:
        """What the parent compares its children by: lower is sooner."""
        assert runner.parent is not None
        parent, (_, key, entry) = runner.parent.branch, runner.last().lines[0]
        if parent.order is runner.branch.order:  # what was found below holds here
            ranked = runner.children[0][3].ranked if runner.children else runner.lines[0][0]
        else:
            ranked = self.rank(parent, key, entry)
        runner.ranked = ranked
        if self.by_estimate:
            return ranked
        if parent.order is QueueOrder.FAIR:
            priority = runner.branch.queue.priority if runner.branch.queue is not None and not runner.own else 0
            return self.share(runner, cost_of(key)), -priority, ranked
        if not parent.contested:
            return ranked
        return self.borrows(runner, parent.contested, cost_of(key)), ranked

    def share(self, runner: QueueCursor, extra: Cost) -> shares.DominantShare:
        branch = runner.branch
        if runner.own:
            return shares.own_share(branch, self.ledger.account(branch).own, self.tree.pool, extra)
        return self.ledger.share(branch, extra)

    def borrows(self, runner: QueueCursor, contested: set[Key], extra: Cost) -> bool:
        """Own jobs of an inner queue have no guarantee but what the queue's children leave of its own."""
        if runner.own:
            return any(key in contested for key, _ in extra)
        return not within_guarantee(self.ledger, runner.branch, contested, extra)

    def rank(self, branch: Branch, key: LineKey, entry: Entry) -> SortKey:
        factors = self.priority_of(entry) if branch.order is QueueOrder.MULTIFACTOR else None
        ranked = rank(key, entry, branch.order, factors)
        return (estimate(key), *ranked) if self.by_estimate else ranked

    def factors(self, branch: Branch, entry: Entry) -> float | None:
        return self.priority_of(entry) if branch.order is QueueOrder.MULTIFACTOR else None


def estimate(key: LineKey) -> float:
    """How long its jobs are expected to run, s; without an estimate or a limit for ever."""
    terms = key.terms
    expected_s = terms.limit_s if terms.estimate_s is None else terms.estimate_s
    return inf if expected_s is None else expected_s


def cost_of(key: LineKey) -> Cost:
    """What the line's first asks, whatever the flavor."""
    return key.gang.due()
