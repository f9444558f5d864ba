"""Request classes. A class has equal requests of one queue, in order. If its first request cannot be placed, none of
them can.

A *request* is a queued job, or one open slot of a started job. Requests of one queue with the same roles, shapes,
counts, priority and terms form a *request class*. So a cycle examines classes instead of requests, and 100,000 equal
jobs take as much time as one. Within a class, requests are ordered by arrival, and requests with equal arrivals
by `QueuedRequest.tie`.

The requests are in a heap with lazy deletion. To add a request takes time proportional to log n. To remove a request
takes almost no time. A cycle reads the requests in order without removing them; a second, small heap has the next
entries to visit. In a cluster with many queues most classes have only one request. A class with one request has no
heap, so it needs only a fifth of the memory.

Each class has a number. The values of its first request are stored in columns (`RequestClassColumns`), which are arrays
with one element for each class; the number is the index in each column. When a class is removed, its number becomes
unused, and the next new class gets it. At an unused number, the column of placement classes contains -1. A mask of
placement classes has an extra last element, which is always False; the index -1 selects this element. So no mask
selects an unused number."""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx.model.job import Slot
from phalanx.model.reason import Reason
from phalanx.state.classes import Gang
from phalanx.state.pending.placement_class import PlacementClass

BEHIND_ALL_S = float(2**53)  # in seconds since the epoch; later than all submissions
FIRST_LENGTH = 64  # the initial length of a column; its length doubles when it is full


class Blocker:
    """The kinds of reasons that a request class may report. The values are integers and not members of an enum. To
    compare a column with a member of an enum would take ten times as long."""

    NONE_REPORTED: Final = 0
    CAPACITY: Final = 1
    QUOTA: Final = 2
    RESERVATION: Final = 3  # the capacity is reserved for another job
    HEAD: Final = 4  # the requests are behind the head of a strict queue


class Request(NamedTuple):
    """A request for capacity. `slot`: the open slot that needs a node; None for a queued job, whose pods need nodes."""

    job: str
    slot: Slot | None = None


class Kind(IntEnum):
    """The kind of the requests of a request class. Replacements of lost pods come before all other requests. Growth,
    that is, pods above the minimum of a job, comes after all waiting jobs of the same priority. Quotas and limits apply
    to growth, because the job gets more capacity than before. They do not apply to replacements."""

    REPLACEMENT = 0  # an open slot of a started gang
    POD = 1  # an open slot of a job whose pods start one by one
    JOB = 2  # a queued job
    GROWTH = 3  # an open slot of a started gang, above its minimum


class Terms(NamedTuple):
    """The terms of a request: the fields of its `Job` that influence the decision, without the queue and the gang.
    `user` and `group` are only set if they influence it, through a limit, an order by factors or a reservation.
    `account` is only set if the queue is ordered by usage. `job` is set if each job must have a class of its own. A
    queued job has a class of its own if a priority function may give each job another priority. The open slots of a
    started job have a class of their own in this case, too, and also if the job has a time limit or a limit for each
    job applies."""

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


class RequestClassKey(NamedTuple):
    """The key of a request class: all values that influence the decision about a request. For a single open slot, the
    gang has one pod. `queue`: the queue of the request. It is empty for replacements, because they are already charged
    to their queue."""

    kind: int  # a `Kind`, as an int, because an int is hashed faster
    priority: int
    gang: Gang
    queue: str = ""
    terms: Terms = PLAIN


class Search(NamedTuple):
    """A failed search for victims (jobs to preempt).

    `changes`: the value of `Pending.changes` at the time of the search. Negative values
    are `DELAYED` (`core.cycle.preempt.search`) and `UNTRIED` (`core.cycle.plan`).
    `again_s`: the time (seconds since the epoch) from which a new search may succeed, even if nothing else changes.
    `reserved`: identifies the reservations that limited the search (`core.cycle.reserve.Reserving.mark`)."""

    changes: int
    again_s: float
    reserved: object


class QueuedRequest(NamedTuple):
    """A request with the values that decide its place in its class. `arrival_s`: the time at which the request arrived.
    For a slot above a job's minimum (growth), it is `BEHIND_ALL_S` instead, or the submission time of the job
    with `GangSize.IN_TURN`. `tie`: decides between requests with equal arrivals. For a queued job it is the job's id,
    and for an open slot a number that increases with each opened slot. For growth it is a tuple of the submission time,
    the job's id and this number."""

    arrival_s: float
    tie: str | int | tuple[float, str, int]
    request: Request


NOBODY: Final[dict[Request, QueuedRequest]] = {}  # a shared dictionary that stays empty
NO_HEAP: Final[list[QueuedRequest]] = []


class RequestClass:
    """The requests of one request class, in order. A class has at least one request.

    `first`: the first request. `reason`: the last reason why the first request was not placed; None if this is the
    reason of its placement class.
    `number`, `row`: the number of the request class, and the number of its headroom row.
    `strict`: whether the queue, or a queue above it, is strict."""

    __slots__ = ("_entries", "_heap", "first", "key", "number", "placement_class", "reason", "row", "strict")

    def __init__(
        self, key: RequestClassKey, placement_class: PlacementClass, row: int, first: QueuedRequest, number: int
    ) -> None:
        self.key, self.placement_class, self.row, self.first, self.number = key, placement_class, row, first, number
        self.reason: Reason | None = None
        self.strict = False
        self._entries: dict[Request, QueuedRequest] = NOBODY  # all requests; empty if `first` is the only one
        self._heap: list[QueuedRequest] = NO_HEAP

    def __len__(self) -> int:
        return len(self._entries) or 1

    def add(self, entry: QueuedRequest) -> None:
        if not self._entries:
            self._entries, self._heap = {self.first.request: self.first}, [self.first]
        self._entries[entry.request] = entry
        heappush(self._heap, entry)
        self.first = self._heap[0]

    def remove(self, request: Request) -> None:
        """Remove the request. Precondition: it is not the only request of the class."""
        del self._entries[request]
        while not self._is_queued(self._heap[0]):
            heappop(self._heap)
        if len(self._heap) > 2 * len(self._entries) + 8:
            self._heap = list(self._entries.values())
            heapify(self._heap)
        self.first = self._heap[0]

    def requests(self) -> Set[Request]:
        return self._entries.keys() or {self.first.request}

    def __iter__(self) -> Iterator[QueuedRequest]:
        """Return an iterator over the requests, in order."""
        return self._in_order() if self._entries else iter((self.first,))

    def _in_order(self) -> Iterator[QueuedRequest]:
        heap, frontier = self._heap, [(self.first, 0)]
        while frontier:
            entry, at = heappop(frontier)
            if self._is_queued(entry):
                yield entry
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap):
                    heappush(frontier, (heap[child], child))

    def take(self, other: RequestClass) -> None:
        """Copy the requests and the reason of the class `other` into this class."""
        self.reason, self.first = other.reason, other.first
        if other._entries:
            self._entries, self._heap = dict(other._entries), list(other._heap)

    def _is_queued(self, entry: QueuedRequest) -> bool:
        return self._entries.get(entry.request) is entry


class RequestClassColumns:
    """The columns of request classes: arrays with one element for each class, at the index of its number.

    `placement_class`, `row`, `qos`: the numbers of the placement class, of the headroom row and of the
        QOS (`qos_numbers`).
    `arrival_s`: the time at which the first request arrived.
    `limit_s`: the time limit in seconds; infinite if there is none.
    `reported_blocker`: the kind of the last reported reason (`Blocker`).
    `preempts`, `replaces`: whether the requests of the class may preempt jobs, and whether they replace lost pods."""

    def __init__(self) -> None:
        self.request_classes: list[RequestClass | None] = []
        self.placement_class: NDArray[np.int32] = np.full(FIRST_LENGTH, -1, np.int32)
        self.row: NDArray[np.int32] = np.zeros(FIRST_LENGTH, np.int32)
        self.reported_blocker: NDArray[np.int8] = np.zeros(FIRST_LENGTH, np.int8)
        self.preempts, self.replaces, self.strict = np.zeros((3, FIRST_LENGTH), np.bool_)
        self.qos: NDArray[np.int32] = np.zeros(FIRST_LENGTH, np.int32)
        self.priority, self.arrival_s, self.limit_s, self.nice = np.zeros((4, FIRST_LENGTH))
        self.qos_numbers: dict[str, int] = {}
        self._vacant: list[int] = []

    def open(
        self, key: RequestClassKey, placement_class: PlacementClass, row: int, first: QueuedRequest
    ) -> RequestClass:
        """Create a request class with an unused number, and write its values into the columns."""
        number, terms = self._vacant.pop() if self._vacant else len(self.request_classes), key.terms
        if number == len(self.request_classes):
            self.request_classes.append(None)
            if number >= len(self.placement_class):
                self._grow()
        found = self.request_classes[number] = RequestClass(key, placement_class, row, first, number)
        self.placement_class[number], self.row[number] = placement_class.number, row
        self.priority[number], self.nice[number] = key.priority, terms.nice
        self.limit_s[number] = np.inf if terms.limit_s is None else terms.limit_s
        self.qos[number] = self.qos_numbers.setdefault(terms.qos, len(self.qos_numbers))
        self.replaces[number] = key.kind == Kind.REPLACEMENT
        self.reported_blocker[number] = Blocker.NONE_REPORTED
        return found

    def _grow(self) -> None:
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                more = np.full(len(column), -1 if name == "placement_class" else 0, column.dtype)
                setattr(self, name, np.concatenate((column, more)))

    def vacate(self, number: int) -> None:
        """Mark the number of a removed request class as unused."""
        self.request_classes[number] = None
        self.placement_class[number] = -1
        self.reported_blocker[number] = Blocker.NONE_REPORTED
        self.preempts[number] = False
        self._vacant.append(number)


class Candidate(NamedTuple):
    """A request that the cycle may try, with its request class. `core.order.next_job` decides which candidate is tried
    next."""

    request_class: RequestClass
    entry: QueuedRequest
