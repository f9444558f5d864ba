"""Choose the next job by a tournament over the queue tree.

Slots that replace lost pods of started gangs come first, ordered by priority, then by arrival. Other requests are
chosen by cursors: each queue with a request class that may start has a *cursor*. The *head* of a cursor is the first
request of the best request class in its queue and the queues below. A queue with children chooses one child by its
order; the queue's own jobs compete as if they were one more child:

- PRIORITY, FIFO or MULTIFACTOR: the child whose head has the best rank. Children that would have to borrow for their
  head come after all children that would stay within their guarantee;
- USAGE: the child with the least past usage; then the rank of the head. Children that would stay within their guarantee
  come first. The queue's own jobs compete as one child for each account;
- FAIR: the child that has the lowest weighted dominant share if its head is included; then the child with the higher
  queue priority; then the rank of the head;
- TIERED: first the children that would stay within their guarantee with their head; then the child with the higher
  queue priority; then the order is that of FAIR;
- FILL: the child whose head has the highest priority, where the priorities of queues are added to those of jobs
  (`shares.seen_priority`); then the child that uses the smallest part of its guarantee; then the rank of the head.

The chosen request is tried. The result only changes the ranks of the cursors on the path from the chosen queue to the
root. So the next choice takes a time of O(depth of the tree * log(number of children)). If the requests of several
queues are ordered only by one common order, these queues form one *arena* (`state.queues.tree`) and share a cursor. So,
for example, a thousand queues ordered by priority need not be compared with each other. A cursor draws its request
classes one at a time and in order (`core.cycle.candidates`), because most classes are never tried.

The *rank* is the sort key of a request: higher priority, then earlier arrival, then id. In FIFO order only the arrival
decides, and in MULTIFACTOR order Slurm's sum of factors is used instead of the priority. In USAGE order the rank only
compares jobs of one account. A pod above the minimum of a started gang is *growth*. Growth comes after all waiting jobs
of equal priority, even after jobs that were submitted later. If several jobs may grow, the job that was submitted first
grows first. If a job is started pod by pod, the arrival of a pod is the time at which its slot was opened, and not the
submission of the job. kube-scheduler uses the same order.

If the head of a `strict` queue cannot start, the queue is removed from the tournament, so all jobs behind the head
wait. But a head that can never start does not block the queue."""

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
    """A set of request classes that are ordered together: all classes of the arena of a branch
    (`state.queues.branch.Branch.arena`) or, in USAGE order, all classes of one account of this arena."""

    queue: str
    account: str = ""


MOST_LEFT = 8  # when a strict queue is closed, this many request classes behind its head are stored
NOBODY: Draws = iter(())


class QueueCursor:
    """A cursor represents an arena (queues with one common order) in the tournament. If an arena contains other arenas,
    or is divided by accounts, the arena's own jobs have cursors below the cursor of the arena.

    `own`: None for a cursor of a whole arena; an empty text for a cursor of all own jobs of the arena; otherwise the
    account to whose jobs the cursor belongs.
    `candidates`: a heap of the cursor's request classes, each with its next request. `children`: a heap of the cursors
    below it.
    `draws`: further candidates, in order. `drawn`: the class that was last taken from `draws`."""

    __slots__ = ("branch", "candidates", "children", "drawn", "draws", "own", "parent")

    def __init__(self, branch: Branch, parent: QueueCursor | None, *, own: str | None = None) -> None:
        self.branch, self.parent, self.own = branch, parent, own
        self.candidates: list[Ranked] = []
        self.children: list[tuple[SortKey, str, QueueCursor]] = []
        self.draws = NOBODY
        self.drawn: RequestClass | None = None

    def last(self) -> QueueCursor:
        """Return the cursor that has the best request class of this cursor and of all cursors below it."""
        cursor = self
        while cursor.children:
            cursor = cursor.children[0][-1]
        return cursor


class Field(Protocol):
    """The interface through which the tournament gets its request classes. `usage`: the past usage, for USAGE order."""

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
        self.out_of_turn = False  # True while a request is tried that is not the head of the tournament (`head_of`)
        self.closed: dict[str, Candidate] = {}  # closed strict queue -> its head, which cannot start
        self.left: dict[str, Draws] = {}  # closed strict queue -> the candidates behind its head

    def begin(self, draws_by_arena: Iterable[tuple[Arena | None, Draws]]) -> None:
        """Begin the tournament. `draws_by_arena`: (arena, its candidates in order). For slots that replace lost pods,
        the arena is None."""
        self.urgent: QueueCursor | None = None  # slots that replace lost pods
        self.root = QueueCursor(self.tree.root, None)
        self.at = self.root  # the cursor of the head that is tried now
        self.cursor_by_queue: dict[str, QueueCursor] = {self.tree.root.name: self.root}
        self.own_cursors: dict[Arena, QueueCursor] = {}
        for arena, draws in draws_by_arena:
            if arena is None:
                self.urgent = QueueCursor(self.tree.root, None)
                self.urgent.draws = draws
                continue
            branch = self.tree.branches[arena.queue]
            if any(each.name in self.closed for each in branch.path):
                continue  # the classes of this arena must wait, because a strict queue above them was closed
            cursor = self.cursor_by_queue.get(branch.name) or self.add_cursor(branch)
            if branch.split or branch.order is QueueOrder.USAGE:
                cursor = self.own_cursors[arena] = QueueCursor(branch, cursor, own=arena.account)
            cursor.draws = draws
        self.rank_all()

    def add_cursor(self, arena: Branch) -> QueueCursor:
        missing = []
        while (cursor := self.cursor_by_queue.get(arena.name)) is None:
            missing.append(arena)
            assert arena.parent is not None  # the loop ends at the root at the latest, because the root has a cursor
            arena = arena.parent.arena
        for each in reversed(missing):
            cursor = self.cursor_by_queue[each.name] = QueueCursor(each, cursor)
        return cursor

    def rank_all(self) -> None:
        """Rank every cursor by its best request class that may be tried, beginning with the deepest cursors."""
        urgent = () if self.urgent is None else (self.urgent,)
        for cursor in (*urgent, *self.own_cursors.values(), *reversed(self.cursor_by_queue.values())):
            self.advance_cursor(cursor)
            heapify(cursor.children)
            if cursor.parent is not None and (cursor.candidates or cursor.children):
                cursor.parent.children.append(self.ranking(cursor))

    def renew(self) -> None:
        """Rank all cursors again after requests of other cursors than that of the head were tried (`head_of`)."""
        self.out_of_turn = False
        for cursor in self.cursor_by_queue.values():
            cursor.children.clear()
        self.rank_all()

    def head(self) -> Candidate | None:
        """Return the best request; None if no request is left. Before the next call, the caller must report the result
        of this request with `accept_head` or `reject_head`."""
        cursor = self.urgent if self.urgent is not None and self.urgent.candidates else self.root
        self.at = cursor = cursor.last() if cursor.children else cursor
        return cursor.candidates[0][1] if cursor.candidates else None

    def cursors(self) -> list[QueueCursor]:
        """Return the cursors that have request classes themselves; cursors that only have cursors below them are left
        out. Return no cursor as long as a slot that replaces a lost pod is a candidate."""
        if self.urgent is not None and self.urgent.candidates:
            return []
        return [each for each in (*self.cursor_by_queue.values(), *self.own_cursors.values()) if each.candidates]

    def head_of(self, cursor: QueueCursor) -> Candidate:
        """Return the best request of one cursor, which may not be the best request of the tournament, but is tried now.
        The caller must call `renew` before the next call of `head`."""
        self.at, self.out_of_turn = cursor, True
        return cursor.candidates[0][1]

    def accept_head(self, following: QueuedRequest | None) -> None:
        """Report that the head was granted, or that the next request of its class replaces it. `following`: the next
        request of the head's request class; None if the class has no further request."""
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
        later. If its queue is strict, the queue is then closed: the jobs behind the head must wait, unless the head is
        growth of a started job."""
        cursor = self.at
        _, head = heappop(cursor.candidates)
        request_class = head.request_class
        strict = self.tree.strict_above(cursor.branch.name) if holds_up and request_class.strict else None
        if strict is not None and request_class.key.kind != Kind.GROWTH and cursor is not self.urgent:
            self.left[strict.name] = chain(nsmallest(MOST_LEFT, cursor.candidates), cursor.draws)
            self.closed[strict.name], cursor = head, self.cursor_by_queue[strict.name]
            closing = [cursor]  # all requests of this cursor and of the cursors below it must wait behind the head
            while closing:
                each = closing.pop()
                closing += [child for _, _, child in each.children]
                each.candidates, each.children, each.draws, each.drawn = [], [], NOBODY, None
        elif request_class is cursor.drawn:
            cursor.drawn = None
        self.rerank(cursor)

    def rerank(self, cursor: QueueCursor) -> None:
        """Rank the cursor and the cursors above it again, because its head or the charge of its queue has changed.
        Precondition: each of these cursors is the first in the heap of its parent."""
        self.advance_cursor(cursor)
        while cursor.parent is not None and not self.out_of_turn:
            if cursor.candidates or cursor.children:
                heapreplace(cursor.parent.children, self.ranking(cursor))
            else:
                heappop(cursor.parent.children)
            cursor = cursor.parent

    def advance_cursor(self, cursor: QueueCursor) -> None:
        """Remove request classes that may no longer be tried from the top of the cursor's heap. If the class that was
        last taken from `draws` is no longer in the heap, take the next class from `draws`."""
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
        # Each rank ends with a unique name (`QueuedRequest.tie`), so no two ranks are equal, and the heap never
        # compares cursors.
        return self.standing(cursor), cursor.branch.name, cursor

    def standing(self, cursor: QueueCursor) -> SortKey:
        """Return the key by which the parent compares its children; the child with the lowest key comes first."""
        assert cursor.parent is not None
        parent, (_, (request_class, entry)) = cursor.parent.branch, cursor.last().candidates[0]
        key = request_class.key
        ranked = self.rank(parent, key, entry)
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
        """Return whether the start of the cursor's head would need borrowing. The own jobs of a queue with children
        have no guarantee, so they borrow if the head requests a resource of `contested`."""
        if cursor.own is not None:
            return any(key in contested for key, _ in extra)
        return not within_guarantee(self.ledger, cursor.branch, contested, extra)

    def rank(self, branch: Branch, key: RequestClassKey, entry: QueuedRequest) -> SortKey:
        """Return the rank of the request among the requests of all classes, by the order of `branch`; the request with
        the lowest rank comes first. In every order, slots that replace lost pods are ranked by priority (rule R5)."""
        first = -float(key.priority)
        if branch.order is QueueOrder.FIFO and key.kind != Kind.REPLACEMENT:
            first = 0.0
        elif branch.order is QueueOrder.MULTIFACTOR and key.kind != Kind.REPLACEMENT:
            first = -self.field.priority_of(entry)
        ranked = (first, entry.arrival_s, key.kind, entry.tie)
        return (estimate(key), *ranked) if self.by_estimate else ranked


def estimate(key: RequestClassKey) -> float:
    """Return the expected run time, in seconds, of the jobs of a request class: their estimate or, if they have none,
    their time limit; infinity if they have neither."""
    terms = key.terms
    expected_s = terms.limit_s if terms.estimate_s is None else terms.estimate_s
    return inf if expected_s is None else expected_s
