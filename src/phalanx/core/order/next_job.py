"""Choose the next job by a tournament over the queue tree.

Slots that replace lost pods of started gangs come first, ordered by priority, then by arrival. For all other requests,
each queue with a request class that may start has a *cursor*. The *head* of a cursor is the best request in its queue
and in the queues below. From the root down, each queue with children chooses the best child. The queue's own jobs
compete as if they were one more child. The order of the queue decides which child is the best:

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

The cycle then tries the chosen request. The result only changes the ranks of the cursors on the path from the chosen
queue to the root. So the next choice takes a time of O(depth of the tree * log(number of children)). If one common
order applies to the requests of several queues, these queues form one *arena* (`state.queues.tree`) and share a cursor.
So, for example, a thousand queues ordered by priority need not be compared with each other. A cursor takes its request
classes one at a time from a sorted iterator (`core.cycle.candidates`), because most classes are never tried.

The *rank* is the sort key of a request: higher priority, then earlier arrival, then id. In FIFO order only the arrival
decides. In MULTIFACTOR order Slurm's sum of factors (`core.order.multifactor`) replaces the priority. In USAGE order
the rank only decides between jobs of one account. A pod above the minimum of a started gang is *growth*. Growth comes
after all waiting jobs of equal priority, even after jobs that were submitted later. If several jobs may grow, the job
that was submitted first grows first. If a job starts pod by pod, the arrival of a pod is the time at which its slot was
opened, and not the submission time of the job. kube-scheduler orders pods in the same way.

If the head of a `strict` queue cannot start now, the tournament goes on without this queue, so all jobs behind the head
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
    """The name of a set of request classes that are ordered together. These are all classes in the arena of a
    branch (`state.queues.branch.Branch.arena`). In USAGE order they are only the classes of one account."""

    queue: str
    account: str = ""


MOST_LEFT = 8  # when a strict queue is closed, this many request classes behind its head are stored in order
NOBODY: Draws = iter(())


class QueueCursor:
    """A cursor represents an arena (queues with one common order) in the tournament. If an arena contains other arenas,
    the arena's own jobs (those in no inner arena) have a separate cursor below the cursor of the arena. In USAGE order,
    there is a separate cursor for the jobs of each account.

    `own`: None for the cursor of a whole arena. Otherwise the cursor only has the arena's own jobs, and `own` is their
    account (empty if the order does not compare accounts).
    `candidates`: a heap of request classes, each with its next request. `children`: a heap of the cursors directly
    below.
    `draws`: an iterator over further candidates, in order. `drawn`: the class that was last taken from `draws`, as long
    as it is in the heap."""

    __slots__ = ("branch", "candidates", "children", "drawn", "draws", "own", "parent")

    def __init__(self, branch: Branch, parent: QueueCursor | None, *, own: str | None = None) -> None:
        self.branch, self.parent, self.own = branch, parent, own
        self.candidates: list[Ranked] = []
        self.children: list[tuple[SortKey, str, QueueCursor]] = []
        self.draws = NOBODY
        self.drawn: RequestClass | None = None

    def last(self) -> QueueCursor:
        """From this cursor, go down to the best child repeatedly, and return the lowest cursor."""
        cursor = self
        while cursor.children:
            cursor = cursor.children[0][-1]
        return cursor


class Field(Protocol):
    """The methods of `core.cycle.candidates.Candidates` that the tournament calls. `usage`: the past usage of accounts,
    for USAGE order."""

    @property
    def usage(self) -> AccountUsage: ...

    def may_be_tried(self, request_class: RequestClass, /) -> bool:
        """Return whether the request class may still be tried."""

    def priority_of(self, entry: QueuedRequest, /) -> float:
        """Return the priority of a request in MULTIFACTOR order."""


class Tournament:
    """The tournament of one cycle. `field`: the object that decides which request classes may still be tried."""

    def __init__(self, tree: QueueTree, ledger: QuotaLedger, field: Field) -> None:
        self.tree, self.ledger, self.field = tree, ledger, field
        self.by_estimate = False
        self.out_of_turn = False  # True from a call of `head_of` until the next call of `renew`
        self.closed: dict[str, Candidate] = {}  # closed strict queue -> its head, which cannot start
        self.left: dict[str, Draws] = {}  # closed strict queue -> an iterator over the candidates behind its head

    def begin(self, draws_by_arena: Iterable[tuple[Arena | None, Draws]]) -> None:
        """Begin the tournament. `draws_by_arena`: pairs of an arena and an iterator over its candidates, in order. In
        the pair for slots that replace lost pods, the arena is None."""
        self.urgent: QueueCursor | None = None  # the cursor of the slots that replace lost pods
        self.root = QueueCursor(self.tree.root, None)
        self.at = self.root  # the cursor whose head is tried now
        self.cursor_by_queue: dict[str, QueueCursor] = {self.tree.root.name: self.root}
        self.own_cursors: dict[Arena, QueueCursor] = {}
        for arena, draws in draws_by_arena:
            if arena is None:
                self.urgent = QueueCursor(self.tree.root, None)
                self.urgent.draws = draws
                continue
            branch = self.tree.branches[arena.queue]
            if any(each.name in self.closed for each in branch.path):
                continue  # the arena is in a closed strict queue, so its classes must wait
            cursor = self.cursor_by_queue.get(branch.name) or self.add_cursor(branch)
            if branch.split or branch.order is QueueOrder.USAGE:
                cursor = self.own_cursors[arena] = QueueCursor(branch, cursor, own=arena.account)
            cursor.draws = draws
        self.rank_all()

    def add_cursor(self, arena: Branch) -> QueueCursor:
        missing = []
        while (cursor := self.cursor_by_queue.get(arena.name)) is None:
            missing.append(arena)
            assert arena.parent is not None  # the root has a cursor, so the loop ends there at the latest
            arena = arena.parent.arena
        for each in reversed(missing):
            cursor = self.cursor_by_queue[each.name] = QueueCursor(each, cursor)
        return cursor

    def rank_all(self) -> None:
        """Compute the ranks of all cursors, from the deepest cursors up to the root."""
        urgent = () if self.urgent is None else (self.urgent,)
        for cursor in (*urgent, *self.own_cursors.values(), *reversed(self.cursor_by_queue.values())):
            self.advance_cursor(cursor)
            heapify(cursor.children)
            if cursor.parent is not None and (cursor.candidates or cursor.children):
                cursor.parent.children.append(self.ranking(cursor))

    def renew(self) -> None:
        """Rank all cursors again. This is necessary after `head_of` has chosen requests out of order."""
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
        """Return the cursors that have request classes themselves, and not only cursors below. But return no cursor as
        long as a slot that replaces a lost pod is a candidate."""
        if self.urgent is not None and self.urgent.candidates:
            return []
        return [each for each in (*self.cursor_by_queue.values(), *self.own_cursors.values()) if each.candidates]

    def head_of(self, cursor: QueueCursor) -> Candidate:
        """Choose the best request of one cursor as the next request to try, and return it. It need not be the best
        request of the tournament. The caller must call `renew` before the next call of `head`."""
        self.at, self.out_of_turn = cursor, True
        return cursor.candidates[0][1]

    def accept_head(self, following: QueuedRequest | None) -> None:
        """Report that the head was granted, or that the cycle goes on with another request of its class. `following`:
        the request of this class that becomes a candidate instead; None if the class has no further request."""
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
        """Report that the head cannot start, and remove its request class. `holds_up`: whether the head blocks its
        queue if the queue is strict. If so, close the queue, so that the jobs behind the head must wait. The growth of
        a started job never closes a queue."""
        cursor = self.at
        _, head = heappop(cursor.candidates)
        request_class = head.request_class
        strict = self.tree.strict_above(cursor.branch.name) if holds_up and request_class.strict else None
        if strict is not None and request_class.key.kind != Kind.GROWTH and cursor is not self.urgent:
            self.left[strict.name] = chain(nsmallest(MOST_LEFT, cursor.candidates), cursor.draws)
            self.closed[strict.name], cursor = head, self.cursor_by_queue[strict.name]
            closing = [cursor]  # remove all requests of this cursor and of the cursors below
            while closing:
                each = closing.pop()
                closing += [child for _, _, child in each.children]
                each.candidates, each.children, each.draws, each.drawn = [], [], NOBODY, None
        elif request_class is cursor.drawn:
            cursor.drawn = None
        self.rerank(cursor)

    def rerank(self, cursor: QueueCursor) -> None:
        """Rank the cursor and the cursors above it again, because its head or the charge of its queue has changed.
        Precondition: each of these cursors is the best child of its parent."""
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
        """Return the sort key of the cursor among the children of its parent; the child with the lowest key comes
        first."""
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
        """Return whether the cursor's queue would have to borrow quota to start the head. A queue's own jobs have no
        guarantee if the queue has children. So they borrow if the head requests a resource in `contested`. `contested`:
        the resources of which at least one child has a guarantee. `extra`: the cost of the head."""
        if cursor.own is not None:
            return any(key in contested for key, _ in extra)
        return not within_guarantee(self.ledger, cursor.branch, contested, extra)

    def rank(self, branch: Branch, key: RequestClassKey, entry: QueuedRequest) -> SortKey:
        """Return the rank of the request in the order of `branch`; the request with the lowest rank comes first. Slots
        that replace lost pods are always ranked by priority, whatever the order (rule R5)."""
        first = -float(key.priority)
        if branch.order is QueueOrder.FIFO and key.kind != Kind.REPLACEMENT:
            first = 0.0
        elif branch.order is QueueOrder.MULTIFACTOR and key.kind != Kind.REPLACEMENT:
            first = -self.field.priority_of(entry)
        ranked = (first, entry.arrival_s, key.kind, entry.tie)
        return (estimate(key), *ranked) if self.by_estimate else ranked


def estimate(key: RequestClassKey) -> float:
    """Return the expected run time, in seconds, of the jobs in a request class. This is their estimate, or their time
    limit if they have no estimate, or infinity if they have neither."""
    terms = key.terms
    expected_s = terms.limit_s if terms.estimate_s is None else terms.estimate_s
    return inf if expected_s is None else expected_s
