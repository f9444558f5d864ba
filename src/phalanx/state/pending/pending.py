"""Store the pending requests, in classes of equal requests.

A *request* (`state.pending.request_class.Request`) is a queued job, or an open slot of a started job. Requests with the
same `RequestClassKey` always get the same decision; they form a *request class*. A `RequestClass` keeps its requests in
order. The values of its first request are stored in columns, which are arrays with one element for each
class (`RequestClassColumns`). Request classes with equal demands on nodes share a *placement
class* (`state.pending.placement_class`). Each cycle compares all request classes with the free amounts and the quota,
by a few operations on arrays (`core.cycle.candidates`). So each cycle considers every request class, even if no event
concerns it.

A cycle *receives* a request: it adds the request to its class, or finds that the request is not eligible. A request
that is not received yet is in `fresh`. A request that is not eligible is in no class. If it becomes eligible at a known
time, it has a timer (`timers`). If it waits for an event, `Pending` does not store it at all.

A decision may have results for classes (`core.fold.memory`). These results are valid as long as `version` does not
change."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from phalanx.model.plan import FirstReservation
from phalanx.model.reason import NEVER, Reason
from phalanx.state.classes import AffinityClass as PodKind
from phalanx.state.pending.headroom import Headroom, HeadroomRow
from phalanx.state.pending.placement_class import PlacementClasses, PlacementClassKey
from phalanx.state.pending.request_class import (
    Blocker,
    Kind,
    QueuedRequest,
    Request,
    RequestClass,
    RequestClassColumns,
    RequestClassKey,
    Search,
)
from phalanx.state.queues.tree import QueueTree

NEVER_S = float("inf")
# the value of `PlacementClass.stale` for an outdated reason, which must be computed again as soon as possible
STALE = 1 << 30


class Deadline(NamedTuple):
    """An item of `Pending.timers`. The timer expires when the job can no longer start and still end by its deadline."""

    job: str


class Timers:
    """The timers, in one heap. A timer is the time (seconds since the epoch) at which a cycle examines an item again,
    even if no event has come until then.

    An item is a request that is not eligible before this time, or a job that cannot meet its deadline from this time
    on (`Deadline`), or a request class whose search for victims may succeed from this time on. An item has at most one
    timer. If a timer is changed or removed, its old entry stays in the heap and is skipped when its time comes. If most
    entries of the heap are old, the old entries are removed."""

    __slots__ = ("_heap", "_number", "_of")

    def __init__(self) -> None:
        self._of: dict[Hashable, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._number = 0

    def __contains__(self, item: object) -> bool:
        return item in self._of

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._of)

    def set(self, item: Hashable, at_s: float) -> None:
        """Set the timer of the item to `at_s`. If `at_s` is `NEVER_S`, remove the timer."""
        if at_s == NEVER_S:
            self.drop(item)
            return
        self._number += 1
        self._of[item] = (at_s, self._number)
        heappush(self._heap, (at_s, self._number, item))
        if len(self._heap) > 2 * len(self._of) + 64:
            self._heap = [(at_s, number, each) for each, (at_s, number) in self._of.items()]
            heapify(self._heap)

    def drop(self, item: Hashable) -> None:
        """Remove the timer of the item."""
        self._of.pop(item, None)

    def due(self, now_s: float) -> list[Hashable]:
        """Return the items whose time has come, earliest first, and remove their timers."""
        found = []
        while self._heap and self._heap[0][0] <= now_s:
            at_s, number, item = heappop(self._heap)
            if self._of.get(item) == (at_s, number):
                del self._of[item]
                found.append(item)
        return found

    def next_s(self, without: Container[Hashable] = ()) -> float | None:
        """Return the time of the next timer whose item is not in `without`; None if there is no such timer."""
        heap = self._heap
        while heap and self._of.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        if not heap or heap[0][2] not in without:
            return heap[0][0] if heap else None
        return min((at_s for item, (at_s, _) in self._of.items() if item not in without), default=None)

    def copy(self) -> Timers:
        """Return an independent copy."""
        other = Timers()
        other._of, other._heap, other._number = dict(self._of), list(self._heap), self._number
        return other


class Pending:
    """All pending requests.

    `version`: the number of times that `core.fold.fold.fold` has applied events to the cluster state.
    `fresh`: requests that are not received yet.
    `unreported`: received requests for which no reason was reported yet.
    `changed`: whether a request may start now because of an event since the last plan.
    `changes`: a counter, which increases with each change after which a failed search for victims may succeed.
    `searched`: request class -> its last search for victims, if that search failed. The oldest search is the first
    entry.
    `grown`: the rows of nodes whose free amounts have grown since the last cycle examined the placement classes.
    `reserved`: the first backfill reservation of the last plan.
    `hopeless`: requests of array jobs that are in a class, but can never start in the cluster as it is.
    `capacity`: `placement_classes.capacity`, the numbers of pods that fit."""

    def __init__(self) -> None:
        self.version = self.changes = 0
        self.fresh: dict[Request, None] = {}
        self.unreported: dict[Request, None] = {}
        self.changed = False
        self.timers = Timers()
        self.request_classes: dict[RequestClassKey, RequestClass] = {}
        self.columns = RequestClassColumns()
        self.placement_classes = PlacementClasses()
        self.capacity = self.placement_classes.capacity
        self.headroom = Headroom()
        self.grown: dict[int, None] = {}
        self.searched: dict[RequestClassKey, Search] = {}
        self.reserved: FirstReservation | None = None
        self.hopeless: dict[Request, None] = {}
        self.request_class_of: dict[Request, RequestClass] = {}
        self.renews = False  # True if a node has changed, so that all stored wait reasons are outdated

    def __bool__(self) -> bool:
        """Return True if there is at least one request that does not wait for an event: it is in a class, is not
        received yet, or has a timer."""
        return bool(self.fresh or self.request_classes) or any(isinstance(item, Request) for item in self.timers)

    # Requests

    def refresh(self, request: Request) -> None:
        """Make the next cycle receive the request again: add it to `fresh`, and remove it from its class or remove its
        timer."""
        self.leave(request)
        self.fresh[request] = None

    def wait_until(self, request: Request, again_s: float) -> None:
        """Remove the request from its class, and set its timer to `again_s` (seconds since the epoch)."""
        self.leave(request)
        self.timers.set(request, again_s)

    def leave(self, request: Request) -> None:
        """Remove the request from `fresh`, from its class, or from the timers."""
        if request in self.fresh:
            del self.fresh[request]
            return
        request_class = self.request_class_of.pop(request, None)
        if request_class is None:
            self.timers.drop(request)
            return
        if self.unreported:
            self.unreported.pop(request, None)
        if self.hopeless:
            self.hopeless.pop(request, None)
        if self.reserved is not None and self.reserved[:2] == request:
            self.allow_new_searches()  # other jobs may use the reserved capacity
            self.changed = True
        if len(request_class) == 1:
            self._close(request_class)
        else:
            was_first = request_class.first.request == request
            request_class.remove(request)
            if was_first:
                self._describe(request_class)
                self.searched.pop(request_class.key, None)
        if request_class.strict:
            self.changed = True  # the queue may have a new head

    def enter(self, key: RequestClassKey, entry: QueuedRequest) -> RequestClass:
        """Add the request to its request class, and return the class."""
        request = entry.request
        self.fresh.pop(request, None)
        request_class = self.request_classes.get(key)
        if request_class is None:
            request_class = self._open(key, entry)
        else:
            request_class.add(entry)
            if request_class.first is entry:
                self._describe(request_class)
        self.request_class_of[request] = request_class
        self.unreported[request] = None
        return request_class

    def reason_of(self, request_class: RequestClass) -> Reason | None:
        """Return the reason that the request class reported last; None if it has not reported one."""
        if request_class.reason is not None:
            return request_class.reason
        if self.columns.reported_blocker[request_class.number] == Blocker.NONE_REPORTED:
            return None
        return request_class.placement_class.reason

    # Request classes and placement classes

    def _open(self, key: RequestClassKey, first: QueuedRequest) -> RequestClass:
        """Create a request class with this first request."""
        branch, terms, is_job = self.headroom.tree.branches[key.queue], key.terms, key.kind == Kind.JOB
        placement_key = PlacementClassKey(
            key.gang,
            () if key.kind == Kind.REPLACEMENT else branch.rules.flavors,
            whole=not is_job or branch.rules.starts_whole,
            counts=is_job,
        )
        row = self.headroom.row(
            HeadroomRow(key.queue, terms.user, terms.group, terms.job, terms.account, terms.preemptible)
        )
        request_class = self.columns.open(key, self.placement_classes.refer(placement_key), row, first)
        self.request_classes[key] = request_class
        self._describe(request_class)
        return request_class

    def _describe(self, request_class: RequestClass) -> None:
        """Update the columns of values that may change while the class exists. They depend on its first request, on its
        queue, and on the queues above."""
        columns, key, number = self.columns, request_class.key, request_class.number
        branch = self.headroom.tree.branches[key.queue]
        columns.arrival_s[number] = request_class.first.arrival_s
        request_class.strict = columns.strict[number] = branch.strict is not None
        columns.preempts[number] = key.terms.preempts and (
            (branch.rules.preempts and key.kind == Kind.JOB) or (branch.rules.reclaims and key.kind == Kind.GROWTH)
        )

    def _close(self, request_class: RequestClass) -> None:
        number = request_class.number
        self.placement_classes.release(request_class.placement_class)
        self.columns.vacate(number)
        del self.request_classes[request_class.key]
        self.searched.pop(request_class.key, None)
        self.timers.drop(request_class.key)

    # Memory

    def note_report(self, key: RequestClassKey, blocker: int, reason: Reason | None) -> None:
        """Store the last report about a request class. `blocker`: the kind of the reason (`Blocker`). `reason`: the
        reason; None if the reason of the placement class applies."""
        request_class = self.request_classes.get(key)
        if request_class is not None:
            request_class.reason = reason
            self.columns.reported_blocker[request_class.number] = blocker

    def remember(self, key: RequestClassKey, search: Search) -> None:
        """Store a failed search for victims, and set a timer for the time at which a new search may succeed."""
        if key in self.request_classes:
            if (known := self.searched.get(key)) is None or known.again_s != search.again_s:
                self.timers.set(key, search.again_s)
            self.searched.pop(key, None)  # moves the class to the end of `searched`
            self.searched[key] = search

    # Events

    def ring(self, item: object) -> None:
        """Handle the item of a timer that has expired. For a request or the deadline of a job, make the next cycle
        receive the request again. For a request class, the next cycle may search for victims again."""
        if isinstance(item, Deadline):
            self.refresh(Request(item.job))
        elif isinstance(item, Request):
            self.fresh[item] = None
        self.changed = True

    def has_due_search(self) -> bool:
        """Return whether anything has changed since the oldest failed search for victims, so that this search may now
        succeed."""
        return next((each.changes != self.changes for each in self.searched.values() if each.changes >= 0), False)

    def allow_new_searches(self) -> None:
        """Record a change after which a failed search for victims may succeed."""
        self.changes += 1

    def note_growth(self, row: int) -> None:
        """Record that the free amounts of a node have grown. `row`: the row of the node in the node table."""
        self.grown[row] = None
        self.changes += 1
        self.changed = True

    def look_at_nodes(self) -> None:
        """Record that a node was changed or removed. Requests that could never start before may start now, and all
        reasons are outdated."""
        self._look_at_never()
        for found in self.placement_classes:
            found.stale = STALE
        self.renews = True
        self.placement_classes.failed.clear()
        self.allow_new_searches()
        self.changed = True

    def _look_at_never(self) -> None:
        """Drop all stored reasons with a code that means that the request can never start (`NEVER`)."""
        self._renew_turns()
        forgotten = []
        for found in self.placement_classes:
            if found.reason is not None and found.reason.code in NEVER:
                found.reason = None
                forgotten.append(found.number)
        reported = self.columns.reported_blocker
        reported[np.isin(self.columns.placement_class, forgotten) & (reported == Blocker.CAPACITY)] = (
            Blocker.NONE_REPORTED
        )
        for request_class in self.request_classes.values():
            if request_class.reason is not None and request_class.reason.code in NEVER:
                reported[request_class.number] = Blocker.NONE_REPORTED

    def _renew_turns(self) -> None:
        """Make the next cycle receive the requests in `hopeless` again. The cap of their arrays must be checked before
        a cycle tries them."""
        for request in list(self.hopeless):
            self.refresh(request)

    def look_at_all(self) -> None:
        """Drop the stored results of all classes, because the policy, the flavors or the reservations have changed."""
        self._renew_turns()
        for found in self.placement_classes:
            found.reason = None
        self.placement_classes.failed.clear()
        self.columns.reported_blocker[:] = Blocker.NONE_REPORTED
        self.allow_new_searches()
        self.changed = True

    def look_at_pods(self, kinds: Iterable[PodKind]) -> None:
        """Record that pods were added or removed. A placement class may fit now if its affinity or spread rules select
        these pods. `kinds`: the affinity classes of the pods."""
        if self.placement_classes.forget_failures(list(kinds)):
            self.changed = True

    def look_at_hopeless(self) -> None:
        """Record that the capacity of the cluster or the queue tree has changed. Drop all stored reasons that state
        that a request can never start."""
        self._look_at_never()
        self.allow_new_searches()
        self.changed = True

    def arrange(self, tree: QueueTree) -> None:
        """Update the headroom and all request classes after a change of the queue tree."""
        self.headroom.build(tree)
        for request_class in self.request_classes.values():
            self._describe(request_class)
        self.look_at_hopeless()

    def copy(self, tree: QueueTree) -> Pending:
        """Return an independent copy. `tree`: a copy of the queue tree, for use by the new object. The numbers of pods
        that fit on the nodes are not copied; they are counted again."""
        other = Pending()
        other.headroom.build(tree)
        other.version, other.changes, other.changed = self.version, self.changes, True
        other.fresh, other.unreported, other.hopeless = dict(self.fresh), dict(self.unreported), dict(self.hopeless)
        other.timers, other.searched, other.reserved = self.timers.copy(), dict(self.searched), self.reserved
        for key, request_class in self.request_classes.items():
            copied = other._open(key, request_class.first)
            copied.take(request_class)
            other.columns.reported_blocker[copied.number] = self.columns.reported_blocker[request_class.number]
            other.request_class_of.update(dict.fromkeys(copied.requests(), copied))
        # Copy the placement classes with flavor classes first. This also creates their flavor classes in the new
        # object, so that the loop finds them there.
        for found in sorted(self.placement_classes, key=lambda found: not found.flavor_classes):
            if (same := other.placement_classes.of_key.get(found.key)) is None:
                continue
            same.reason, same.stale = found.reason, found.stale
            other.placement_classes.add_flavor_classes(same, [way.key for way in found.flavor_classes])
            if found in self.placement_classes.failed:
                other.placement_classes.failed[same] = None
        other.grown = dict(self.grown)
        return other
