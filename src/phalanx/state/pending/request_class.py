"""Request classes. A class has equal requests of one queue, in order, and one decision applies to all of them.

A *request* is a queued job, or one open slot of a started job. Requests of one queue with the same roles, shapes,
counts, priority and terms form a *request class*. If the first request of the class cannot be placed, none of its
requests can be placed. So a cycle examines classes instead of requests, and 100,000 equal jobs take as much time as
one. Within a class, requests are ordered by arrival; `tie` decides between equal arrivals.

The requests are in a heap with lazy deletion: to add one takes time proportional to log n, and to remove one takes
almost no time. A decision reads the requests in order, and removes none. For this it walks down the heap with a second,
small heap. In a cluster with many queues most classes have only one request. A class with one request has no heap, so
it needs only a fifth of the memory.

The values by which the first requests of the classes are compared are stored as columns (`RequestClassColumns`), arrays
with one element for each class. The number of a request class is its index in every column. At an unused index, the
column of placement classes has the value -1. If a mask over placement classes is read at -1, the result is its last
element, which is always False. So no mask selects an unused index. The next new request class takes an unused index."""

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

BEHIND_ALL_S = float(2**53)  # later than any submission: seconds since the epoch
FIRST_LENGTH = 64  # the initial length of a column; its length doubles when it is full


class Blocker:
    """The kinds of reasons that a request class may report. The values are plain integers, because a comparison of a
    column of integers with a member of an enum takes ten times as long."""

    NONE_REPORTED: Final = 0
    CAPACITY: Final = 1
    QUOTA: Final = 2
    RESERVATION: Final = 3  # the capacity is reserved for another job
    HEAD: Final = 4  # the requests are behind the head of a strict queue


class Request(NamedTuple):
    """A request for capacity. `slot`: the open slot for which a pod is requested; None if a whole queued job is
    requested."""

    job: str
    slot: Slot | None = None


class Kind(IntEnum):
    """The kind of the requests of a request class. Replacements of lost pods come before all other requests. Growth of
    a job that has its minimum comes after all waiting jobs of the same priority. Growth requests more capacity than the
    job was granted, so quotas and limits apply to it. They do not apply to replacements."""

    REPLACEMENT = 0  # an open slot of a started gang
    POD = 1  # an open slot of a job whose pods start one by one
    JOB = 2  # a queued job, placed whole
    GROWTH = 3  # an open slot of a started gang above its minimum


class Terms(NamedTuple):
    """The terms of a request: the fields of `Job`, other than the queue and the gang, on which the decision about the
    request depends. `user` and `group` are only set if the decision depends on them, because of a limit, an order by
    factors or a reservation. `account` is only set if the queue is ordered by usage. `job` is only set if a limit
    counts the pods that the job already has, or if there is a priority function, which may distinguish any two jobs."""

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
    """The key of a request class: all values on which the decision about a request depends. The gang of a request for a
    single slot has one pod.
    `queue`: the queue of the request; empty for replacements, because the quota of the queue already includes their
    charges."""

    kind: int  # a `Kind`, stored as an int because keys are hashed often
    priority: int
    gang: Gang
    queue: str = ""
    terms: Terms = PLAIN


class Search(NamedTuple):
    """A search for victims (jobs to preempt) that failed.

    `changes`: the value of `Pending.changes` at the time of the search; negative: the search was not allowed yet.
    `again_s`: the time from which a new search may succeed even if no event comes (seconds since the epoch).
    `reserved`: the first reservation at the time of the search."""

    changes: int
    again_s: float
    reserved: object


class QueuedRequest(NamedTuple):
    """A request with the values by which the requests of its class are ordered. `arrival_s`: the time at which the
    request arrived. For a slot above a job's minimum (growth) it is `BEHIND_ALL_S`, but with `GangSize.IN_TURN` the
    time at which the job was submitted. `tie`: the value that decides between equal arrivals. It is the job's id, or
    the number of the open slot. For growth, it is the submission time and the id of the job, and the number of the
    slot."""

    arrival_s: float
    tie: str | int | tuple[float, str, int]
    request: Request


NOBODY: Final[dict[Request, QueuedRequest]] = {}  # a shared dictionary that stays empty
NO_HEAP: Final[list[QueuedRequest]] = []


class RequestClass:
    """The requests of one request class, in order. It has at least one request, `first`.

    `reason`: the last reason why the first request was not placed; None if this is the reason of its placement class.
    `number`, `row`: the numbers of the request class and of its headroom row.
    `strict`: True if the queue, or a queue above it, is strict."""

    __slots__ = ("_entries", "_heap", "first", "key", "number", "placement_class", "reason", "row", "strict")

    def __init__(
        self, key: RequestClassKey, placement_class: PlacementClass, row: int, first: QueuedRequest, number: int
    ) -> None:
        self.key, self.placement_class, self.row, self.first, self.number = key, placement_class, row, first, number
        self.reason: Reason | None = None
        self.strict = False
        self._entries: dict[Request, QueuedRequest] = NOBODY  # all requests, if there are several
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
        """Remove the request. Precondition: the class has further requests."""
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
        """Return the entries in order."""
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
        """Copy the requests and the reason of the other class into this one."""
        self.reason, self.first = other.reason, other.first
        if other._entries:
            self._entries, self._heap = dict(other._entries), list(other._heap)

    def _is_queued(self, entry: QueuedRequest) -> bool:
        return self._entries.get(entry.request) is entry


class RequestClassColumns:
    """The columns of request classes.

    `placement_class`, `row`: the numbers of the placement class and of the headroom row; `qos`: the number of the
        QOS, by `qos_numbers`.
    `arrival_s`: the time at which the first request arrived.
    `limit_s`: the time limit; infinite without one.
    `reported_blocker`: the kind of the last reported reason (`Blocker`).
    `preempts`: True if the requests of the class may preempt; `replaces`: True if they replace lost pods; `strict`: as
        in `RequestClass`."""

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
        """Make a request class with a vacant number, and write its values into the columns."""
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
        """Make the number vacant, because the request class is empty."""
        self.request_classes[number] = None
        self.placement_class[number] = -1
        self.reported_blocker[number] = Blocker.NONE_REPORTED
        self.preempts[number] = False
        self._vacant.append(number)


class Candidate(NamedTuple):
    """A request of a request class, as the tournament uses it. The tournament finds the next request to try
    (`core.order.next_job`)."""

    request_class: RequestClass
    entry: QueuedRequest
