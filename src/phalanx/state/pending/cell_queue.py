"""The queue of a cell: requests that are alike, decided once for all of them.

A *request* is a queued job, or one open slot of a started job. Requests of one queue with the same roles, shapes,
counts, priority and terms are in one *cell*; if its first cannot be placed none of the others can, so a cycle looks at
cells, and 100,000 alike jobs cost as much as one. Within a cell the order is arrival, then `tie`.

The queue is a heap with lazy deletion: adding costs log n, leaving costs nothing, and reading it in order goes down the
heap with a second, small heap and takes nothing out, since who decides only reads. With many queues most cells have one
request: that is kept without a heap, at a fifth of the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from phalanx.model.job import Slot
from phalanx.model.reason import Reason
from phalanx.state.classes import Gang

BEHIND_ALL_S = float(2**53)  # later than any submission: seconds since the epoch

# What the requests of a cell were told last.
UNTOLD, ROOM, QUOTA, KEPT, BEHIND = range(5)


# (what the order counts most, lower first; arrival; kind; tie): `kind` is before `tie` so that ties are of one type.
Rank: TypeAlias = tuple[float, float, int, str | int]


class Request(NamedTuple):
    """A request for capacity. `slot` is None for a queued job, which asks as a whole."""

    job: str
    slot: Slot | None = None


class Kind(IntEnum):
    """The kind of a cell's requests. Replacements come before all else, and what would only grow a job that has
    its minimum comes after all jobs of its priority that wait. Growth asks for more than was granted, so quotas and
    limits hold for it; for replacements they do not."""

    REPLACEMENT = 0  # an open slot of a started gang
    POD = 1  # an open slot of a job that is started pod by pod
    JOB = 2  # a queued job, placed whole
    GROWTH = 3  # an open slot of a started gang above its minimum


class Terms(NamedTuple):
    """The terms of a request: what else the answer depends on, besides who asks how much where: as in `Job`. `user`
    and `group` are named where a limit, an order by factors or a reservation tells them apart, `account` where an order
    by usage does, `job` where a limit bounds what it has already."""

    user: str = ""
    group: str = ""
    limit_s: float | None = None
    estimate_s: float | None = None
    deadline_s: float | None = None
    preemptible: bool = True
    preempts: bool = True
    reservation: str = ""
    nice: int = 0
    qos: str = ""
    account: str = ""
    job: str = ""


PLAIN = Terms()


class CellKey(NamedTuple):
    """The key of a cell: all that the answer to a request depends on. A slot's gang is one pod; replacements are
    alike in all queues, whose quotas they are within already. `queue`: the one it is in (never empty for a job)."""

    kind: int  # a `Kind`, as the bare integer: it is hashed often
    priority: int
    gang: Gang
    queue: str = ""
    terms: Terms = PLAIN


class QueuedRequest(NamedTuple):
    """A request's place in its cell: `tie` is the job's id, or the number under which the slot was opened. What grows
    a job arrives at `BEHIND_ALL_S`."""

    arrival_s: float
    tie: str | int
    request: Request


NOBODY: Final[dict[Request, QueuedRequest]] = {}  # shared, and never written to
NO_HEAP: Final[list[QueuedRequest]] = []


class CellQueue:
    """The requests of one cell, in order.

    `reason`: why its first request could not be placed when that was last told, if it is not its class's. `cell`,
    `cls`, `row`: its number, and those of its class and row (`state.pending.pending`); `strict`: a queue on its path
    is; `rank`: of its first in its arena's order, None where that changes with time; `arena`: in which it is kept in
    order, if it is in a strict queue."""

    __slots__ = ("_entries", "_heap", "_only", "arena", "cell", "cls", "key", "rank", "reason", "row", "strict")

    def __init__(self, key: CellKey) -> None:
        self.key = key
        self.reason: Reason | None = None
        self.cell = self.cls = self.row = -1
        self.strict = False
        self.rank: Rank | None = None
        self.arena: str | None = None
        self._only: QueuedRequest | None = None
        self._entries: dict[Request, QueuedRequest] = NOBODY
        self._heap: list[QueuedRequest] = NO_HEAP

    def __len__(self) -> int:
        return len(self._entries) if self._only is None else 1

    def add(self, entry: QueuedRequest) -> None:
        if self._only is None and not self._entries:
            self._only = entry
            return
        if self._only is not None:
            self._entries, self._heap = {self._only.request: self._only}, [self._only]
            self._only = None
        self._entries[entry.request] = entry
        heappush(self._heap, entry)

    def remove(self, request: Request) -> None:
        if self._only is not None:
            self._only = None
            return
        del self._entries[request]
        while self._heap and not self._stands(self._heap[0]):
            heappop(self._heap)
        if len(self._heap) > 2 * len(self._entries) + 8:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def first(self) -> QueuedRequest:
        return self._only or self._heap[0]

    def entry(self, request: Request) -> QueuedRequest:
        return self._only or self._entries[request]

    def requests(self) -> Set[Request]:
        return self._entries.keys() if self._only is None else {self._only.request}

    def __iter__(self) -> Iterator[QueuedRequest]:
        """The entries in order."""
        heap = self._heap if self._only is None else [self._only]
        frontier = [(heap[0], 0)] if heap else []
        while frontier:
            entry, at = heappop(frontier)
            if self._stands(entry):
                yield entry
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap):
                    heappush(frontier, (heap[child], child))

    def take(self, other: CellQueue) -> None:
        """Take over the requests and the reason of the other queue."""
        self.reason, self._only = other.reason, other._only
        if self._only is None:
            self._entries, self._heap = dict(other._entries), list(other._heap)

    def _stands(self, entry: QueuedRequest) -> bool:
        return self._only is entry or self._entries.get(entry.request) is entry
