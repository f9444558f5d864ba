"""Choose the next job by a tournament over the queue tree.

Slots that replace lost pods of started gangs come first, ordered by priority, then arrival. After them, each queue with
a request class that may start has a *cursor*. The *head* of a cursor is the first request of the best request class in
its queue and the queues below. A queue with children chooses among them, and its own jobs compete like one more child.
The choice depends on the order of the queue:

- PRIORITY, FIFO or MULTIFACTOR: the child whose head ranks best. But children that would stay within their guarantee if
  their head started come before children that would have to borrow for it;
- USAGE: the child that has used least in the past, then the rank of the head, with the same exception for children
  within their guarantee. The queue's own jobs compete separately for each account;
- FAIR: the child with the lowest weighted dominant share, its head included; then the higher queue priority; then the
  rank of the head;
- TIERED: first the children that stay within their guarantee; then the higher queue priority; then as with FAIR;
- FILL: the child whose head has the highest priority as the queue sees it (`shares.seen_priority`); then the child that
  has used the smallest part of its guarantee; then the rank of the head.

The winner's request is tried. The result changes the rank of the cursors on its path to the root only, so the next
choice costs the depth of the tree times the logarithm of the children. If one order alone decides between several
queues, these queues form one *arena* (`state.queues.tree`) and have one cursor. So for a thousand queues that are all
ordered by priority, no queue has to be ranked. A cursor draws its request classes one at a time and in order
(`core.cycle.candidates`), because most of them are never tried.

The *rank* of a request orders it among all others: higher priority, then earlier arrival, then id. In FIFO order the
arrival alone decides, and in MULTIFACTOR order Slurm's sum of factors. In USAGE order the rank only compares jobs of
one account. A started gang with less than its minimum of a role gets the lost pods before any other request. A pod
above the minimum is *growth*: it comes behind every waiting job of its priority, whenever that job was submitted. If
several jobs may grow, the job that was submitted first grows first. A pod of a job that is started pod by pod arrives
when its slot opens, not when its job was submitted. This is the order of kube-scheduler.

If the head of a `strict` queue cannot start, the queue leaves the tournament, and all jobs behind the head wait. If the
head can never start, it does not block the queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace, nsmallest
from itertools import chain
from math import inf
from typing import NamedTuple, Protocol, TypeAlias

from phalanx.core.order.account_usage import AccountUsage
from phalanx.core.quota import shares
from phalanx.core.quota.ledger import QuotaLedger, within_guarantee
from phalanx.model.queue import QueueOrder
from phalanx.state.pending.request_class import Candidate, Kind, QueuedRequest, RequestClass, RequestClassKey
from phalanx.state.queues.branch import Branch
from phalanx.state.queues.quota import Cost, Key
from phalanx.state.queues.tree import QueueTree

SortKey: TypeAlias = tuple[object, ...]
Ranked: TypeAlias = tuple[SortKey, Candidate]
Draws: TypeAlias = Iterator[Ranked]


class Arena(NamedTuple):
    """A set of request classes that are ordered together: all classes of an arena (`state.queues.branch.Branch.arena`),
    or those of one of its accounts if its order is USAGE."""

    queue: str
    account: str = ""


MOST_LEFT = 8  # the number of request classes right behind a head that are remembered
NOBODY: Draws = iter(())


class QueueCursor:
    """A cursor stands for an arena (queues with one common order) in the tournament, or for the own jobs of an arena
    with children or accounts.

    `own`: the account whose jobs the cursor stands for; empty: all own jobs of the arena; None: the whole arena.
    `candidates`: a heap of its request classes, each with its next request. `children`: a heap of the cursors below it.
    `draws`: further candidates, in order. `drawn`: the class that was last taken from `draws`. `ranked`: the last
    computed rank of its head, by the order of its parent."""

    __slots__ = ("branch", "candidates", "children", "drawn", "draws", "own", "parent", "ranked")

    def __init__(self, branch: Branch, parent: QueueCursor | None, *, own: str | None = None) -> None:
        self.branch, self.parent, self.own = branch, parent, own
        self.candidates: list[Ranked] = []
        self.children: list[tuple[SortKey, str, QueueCursor]] = []
        self.draws = NOBODY
        self.drawn: RequestClass | None = None
        self.ranked: SortKey = ()

    def last(self) -> QueueCursor:
        """Return the cursor whose first request class is the best of this cursor and of all cursors below: this cursor,
        or one below it."""
        cursor = self
        while cursor.children:
            cursor = cursor.children[0][-1]
        return cursor


class Field(Protocol):
    """The source of the tournament's request classes. `usage`: the past usage, for USAGE order."""

    @property
    def usage(self) -> AccountUsage: ...

    def may_be_tried(self, request_class: RequestClass, /) -> bool:
        """Return whether the request class may still be tried."""

    def priority_of(self, entry: QueuedRequest, /) -> float:
        """Return the priority of a request in MULTIFACTOR order."""


class Tournament:
    """The tournament of one cycle. `field`: the source of its request classes."""

    def __init__(self, tree: QueueTree, ledger: QuotaLedger, field: Field) -> None:
        self.tree, self.ledger, self.field = tree, ledger, field
        self.by_estimate = False
        self.out_of_turn = False  # True while a head is tried that is not the best one (`head_of`)
        self.closed: dict[str, Candidate] = {}  # strict queue -> its head that cannot start
        self.left: dict[str, Draws] = {}  # strict queue -> the candidates behind this head

    def begin(self, draws_by_arena: Iterable[tuple[Arena | None, Draws]]) -> None:
        """Begin the tournament with these candidates: (arena, its candidates in order). The arena None has the slots
        that replace lost pods."""
        self.urgent: QueueCursor | None = None  # slots that replace lost pods
        self.root = QueueCursor(self.tree.root, None)
        self.at = self.root  # the cursor of the head that is tried now
        self.cursor_by_queue: dict[str, QueueCursor] = {self.tree.root.name: self.root}
        self.own_cursors: dict[Arena, QueueCursor] = {}
        for arena, draws in draws_by_arena:
            if arena is None:
                self.urgent = QueueCursor(self.tree.root, None)
                self.urgent.draws = draws
            elif not (self.closed and self.is_closed(self.tree.branches[arena.queue])):
                self.leaf(arena).draws = draws
        self.rank_all()

    def is_closed(self, branch: Branch) -> bool:
        """Return whether a strict queue on the path has left the tournament."""
        return any(each.name in self.closed for each in branch.path)

    def leaf(self, key: Arena) -> QueueCursor:
        """Return the cursor with the request classes of an arena's own jobs, or of one account in it."""
        arena = self.tree.branches[key.queue]
        cursor = self.cursor_by_queue.get(arena.name) or self.add_cursor(arena)
        if not arena.split and arena.order is not QueueOrder.USAGE:
            return cursor
        return self.own_cursors.get(key) or self.own_cursors.setdefault(
            key, QueueCursor(arena, cursor, own=key.account)
        )

    def add_cursor(self, arena: Branch) -> QueueCursor:
        missing = []
        while (cursor := self.cursor_by_queue.get(arena.name)) is None:
            missing.append(arena)
            assert arena.parent is not None  # the root has a cursor
            arena = arena.parent.arena
        for each in reversed(missing):
            cursor = self.cursor_by_queue[each.name] = QueueCursor(each, cursor)
        return cursor

    def rank_all(self) -> None:
        """Rank every cursor by its best request class that may be tried, the deepest cursors first."""
        urgent = () if self.urgent is None else (self.urgent,)
        for cursor in (*urgent, *self.own_cursors.values(), *reversed(self.cursor_by_queue.values())):
            self.advance_cursor(cursor)
            heapify(cursor.children)
            if cursor.parent is not None and (cursor.candidates or cursor.children):
                cursor.parent.children.append(self.ranking(cursor))

    def renew(self) -> None:
        """Rank all cursors again, after requests were tried out of turn."""
        self.out_of_turn = False
        for cursor in self.cursor_by_queue.values():
            cursor.children.clear()
        self.rank_all()

    def head(self) -> Candidate | None:
        """Return the best request. Before the next call, report the result of this one with `accept_head` or
        `reject_head`."""
        cursor = self.urgent if self.urgent is not None and self.urgent.candidates else self.root
        self.at = cursor = cursor.last() if cursor.children else cursor
        return cursor.candidates[0][1] if cursor.candidates else None

    def cursors(self) -> list[QueueCursor]:
        """Return the cursors that have request classes of their own. Return no cursor while a slot that replaces a lost
        pod waits."""
        if self.urgent is not None and self.urgent.candidates:
            return []
        return [each for each in (*self.cursor_by_queue.values(), *self.own_cursors.values()) if each.candidates]

    def head_of(self, cursor: QueueCursor) -> Candidate:
        """Return the best request of one cursor, to be tried out of turn. Call `renew` before the next `head`."""
        self.at, self.out_of_turn = cursor, True
        return cursor.candidates[0][1]

    def accept_head(self, following: QueuedRequest | None) -> None:
        """Report that the head has started. `following`: the next request of its request class."""
        cursor = self.at
        request_class = cursor.candidates[0][1].request_class
        if following is None:
            heappop(cursor.candidates)
        else:
            ranked = self.rank(cursor.branch, request_class.key, following)
            heapreplace(cursor.candidates, (ranked, Candidate(request_class, following)))
        if request_class is cursor.drawn:
            cursor.drawn = None
        self.rerank(cursor)

    def reject_head(self, *, holds_up: bool = True) -> None:
        """Report that the head cannot start, and remove its request class. `holds_up`: True if the head may start
        later, so that the jobs behind it in a strict queue wait (except if the head only grows a job)."""
        cursor = self.at
        _, head = heappop(cursor.candidates)
        request_class = head.request_class
        strict = self.tree.strict_above(cursor.branch.name) if holds_up and request_class.strict else None
        if strict is not None and request_class.key.kind != Kind.GROWTH and cursor is not self.urgent:
            self.left[strict.name] = chain(nsmallest(MOST_LEFT, cursor.candidates), cursor.draws)
            cursor = self.close(self.cursor_by_queue[strict.name], head)
        elif request_class is cursor.drawn:
            cursor.drawn = None
        self.rerank(cursor)

    def close(self, cursor: QueueCursor, head: Candidate) -> QueueCursor:
        """Close the cursor of a strict queue: remove all requests of this cursor and of the cursors below it, because
        they wait behind the head. Return the cursor."""
        self.closed[cursor.branch.name] = head
        left = [cursor]
        while left:
            each = left.pop()
            left += [child for _, _, child in each.children]
            each.candidates, each.children, each.draws, each.drawn = [], [], NOBODY, None
        return cursor

    def rerank(self, cursor: QueueCursor) -> None:
        """Rank the cursor and the cursors above it again, because its head or its charge changed. Each cursor on this
        path is the first child of its parent."""
        self.advance_cursor(cursor)
        while cursor.parent is not None and not self.out_of_turn:
            if cursor.candidates or cursor.children:
                heapreplace(cursor.parent.children, self.ranking(cursor))
            else:
                heappop(cursor.parent.children)
            cursor = cursor.parent

    def advance_cursor(self, cursor: QueueCursor) -> None:
        """Remove request classes that may no longer be tried from the top of the cursor's heap, and draw the next class
        if none is drawn."""
        while True:
            if cursor.drawn is None and (drawn := next(cursor.draws, None)) is not None:
                cursor.drawn = drawn[1].request_class
                heappush(cursor.candidates, drawn)
            if not cursor.candidates:
                return
            best = cursor.candidates[0][1].request_class
            if self.field.may_be_tried(best):
                return
            heappop(cursor.candidates)
            if best is cursor.drawn:
                cursor.drawn = None

    def ranking(self, cursor: QueueCursor) -> tuple[SortKey, str, QueueCursor]:
        # No two entries are equal, because ranks end with a unique name (`QueuedRequest.tie`).
        return self.standing(cursor), cursor.branch.name, cursor

    def standing(self, cursor: QueueCursor) -> SortKey:
        """Return the key by which the parent compares its children; the child with the lowest key comes first."""
        assert cursor.parent is not None
        parent, (_, (request_class, entry)) = cursor.parent.branch, cursor.last().candidates[0]
        key = request_class.key
        if parent.order is cursor.branch.order:  # parent and child have the same order, so the rank is known
            ranked = cursor.children[0][-1].ranked if cursor.children else cursor.candidates[0][0]
        else:
            ranked = self.rank(parent, key, entry)
        cursor.ranked = ranked
        if self.by_estimate:
            return ranked
        if parent.order is QueueOrder.FILL:
            return -self.seen(cursor, key.priority), self.fill(cursor), ranked
        if parent.order in (QueueOrder.FAIR, QueueOrder.TIERED):
            priority = cursor.branch.queue.priority if cursor.branch.queue is not None and cursor.own is None else 0
            share = self.share(cursor, key.gang.due)
            if parent.order is QueueOrder.TIERED:
                return share > shares.NOTHING, -priority, share, ranked
            return share, -priority, ranked
        if parent.order is QueueOrder.USAGE:
            ranked = (self.used(cursor), *ranked)
        if not parent.quota.contested:
            return ranked
        return self.borrows(cursor, parent.quota.contested, key.gang.due), ranked

    def used(self, cursor: QueueCursor) -> float:
        if cursor.own is None or cursor.branch.queue is None:
            return self.field.usage.of_queue(cursor.branch)
        return self.field.usage.of_account(cursor.branch.queue, cursor.own)

    def share(self, cursor: QueueCursor, extra: Cost) -> shares.DominantShare:
        branch = cursor.branch
        if cursor.own is not None:
            return shares.own_share(branch, self.ledger.account(branch).own, self.tree.pool, extra)
        return self.ledger.share(branch, extra)

    def seen(self, cursor: QueueCursor, priority: int) -> int:
        if cursor.own is not None:
            return priority
        return shares.seen_priority(cursor.last().branch, cursor.branch, priority)

    def fill(self, cursor: QueueCursor) -> float:
        account, own = self.ledger.account(cursor.branch), cursor.own is not None
        return shares.fill(cursor.branch, account.own if own else account.total, self.tree.pool, own=own)

    def borrows(self, cursor: QueueCursor, contested: set[Key], extra: Cost) -> bool:
        """Return whether a start of the cursor's head would borrow. For the own jobs of a queue with children: return
        whether the head requests a resource of `contested`."""
        if cursor.own is not None:
            return any(key in contested for key, _ in extra)
        return not within_guarantee(self.ledger, cursor.branch, contested, extra)

    def rank(self, branch: Branch, key: RequestClassKey, entry: QueuedRequest) -> SortKey:
        """Return the rank of the request among the requests of all classes, by the order of `branch`; the request with
        the lowest rank comes first. Slots that replace lost pods are ranked by priority, whatever the order (rule
        R5)."""
        first = -float(key.priority)
        if branch.order is QueueOrder.FIFO and key.kind != Kind.REPLACEMENT:
            first = 0.0
        elif branch.order is QueueOrder.MULTIFACTOR and key.kind != Kind.REPLACEMENT:
            first = -self.field.priority_of(entry)
        ranked = (first, entry.arrival_s, key.kind, entry.tie)
        return (estimate(key), *ranked) if self.by_estimate else ranked


def estimate(key: RequestClassKey) -> float:
    """Return the expected run time, in seconds, of the jobs of a request class: their estimate, else their time limit,
    else infinity."""
    terms = key.terms
    expected_s = terms.limit_s if terms.estimate_s is None else terms.estimate_s
    return inf if expected_s is None else expected_s
