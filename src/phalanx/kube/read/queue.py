"""Convert Queue, Flavor and Reservation objects into the core's values, and report errors in them.

These objects are cluster-scoped, because they divide the capacity of the cluster. The API server validates their
schema. Errors that the API server does not find (because its definition is older, or because its database was edited)
are collected in `wrong` and shown in the queue's status. A queue with an error is held, so that no job starts under
rules that the administrator did not intend.

The spec of a queue does not contain the time of its last state change. This module stores that time. Phalanx also
writes it to the queue's status, so that the next scheduler process can read it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.moment import MomentError, read_moment
from phalanx.dialects.frame.dialect import Definitions
from phalanx.dialects.schema import queue as written
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.schema.policy import read_flavor, read_reservation
from phalanx.model.event import (
    Event,
    FlavorGone,
    FlavorSeen,
    QueueGone,
    QueueSeen,
    ReservationGone,
    ReservationSeen,
)
from phalanx.model.node import Flavor
from phalanx.model.queue import Queue, QueueState

log = logging.getLogger(__name__)


def read_queue(obj: Object, state_since_s: float | None = None) -> Queue:
    """Read a Queue object. `state_since_s`: the time of the last state change (seconds since the epoch); None to read
    this time from the object's status. Raises Misread."""
    since_s = _since(obj) if state_since_s is None else state_since_s
    return written.read_queue(obj["metadata"]["name"], obj.get("spec") or {}, state_since_s=since_s or 0.0)


def _since(obj: Object) -> float | None:
    """Return the time of the last state change from the queue's status; None if the status is outdated (it contains
    another state than the present one)."""
    status, state = obj.get("status") or {}, (obj.get("spec") or {}).get("state") or QueueState.OPEN
    try:
        return read_moment(status["stateSince"]) if status.get("state") == state else None
    except (KeyError, MomentError):
        return None


class QueueCache:
    """The queues, flavors and reservations that exist now. Each method `on_…` applies a change to these objects, and
    yields the core's events about this change."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.wrong: dict[str, str] = {}  # queue -> the errors in its definition
        self.flavors: dict[str, Flavor] = {}
        self._reservations: set[str] = set()
        self._own: set[str] = set()  # queues of Phalanx
        self._theirs: dict[str, Queue] = {}  # queues of dialects
        self._defined: dict[str, tuple[set[str], set[str]]] = {}  # dialect -> its queues and flavors
        self._made: dict[str, tuple[str, ...]] = {}  # gang -> queues created for its claim
        self._needed: dict[str, set[str]] = {}  # queue created for claims -> the gangs whose claims contain it

    def gang(self, queue: str) -> bool:
        """Return whether the queue starts its jobs as gangs."""
        return queue not in self.queues or self.queues[queue].gang

    def of_dialect(self, queue: str) -> bool:
        """Return whether the queue with this name is defined by a dialect."""
        return queue in self._theirs and queue not in self._own

    def _put(self, name: str, queue: Queue | None) -> Iterator[Event]:
        if queue is None:
            if self.queues.pop(name, None) is not None:
                yield QueueGone(name)
        elif self.queues.get(name) != queue:
            self.queues[name] = queue
            yield QueueSeen(queue)

    def on_definitions(self, dialect: str, defined: Definitions, now_s: float) -> Iterator[Event]:
        """Replace a dialect's queues and flavors. If a queue of Phalanx and a queue of a dialect have the same name,
        the queue of Phalanx takes precedence."""
        flavors = {flavor.name: flavor for flavor in defined.flavors}
        queues = {queue.name: queue for queue in defined.queues}
        before = self._defined.get(dialect, (set(), set()))
        for name, flavor in flavors.items():
            if self.flavors.get(name) != flavor:
                self.flavors[name] = flavor
                yield FlavorSeen(flavor)
        for name, queue in queues.items():
            self._theirs[name] = self._since_before(queue, now_s)
            yield from self._put_theirs(name)
        for name in before[0] - queues.keys() - self._needed.keys():
            del self._theirs[name]
            yield from self._put_theirs(name)
        for name in before[1] - flavors.keys():
            if self.flavors.pop(name, None) is not None:
                yield FlavorGone(name)
        self._defined[dialect] = (set(queues), set(flavors))

    def on_claim(self, gang: str, queues: tuple[Queue, ...]) -> Iterator[Event]:
        """Add the queues that are part of a gang's claim (the settings that a dialect declares for the gang), parents
        first. Leave out queues that the dialect's definitions already declare. Remove the queues of the gang's earlier
        claim that no claim contains any more."""
        names = tuple(queue.name for queue in queues)
        for queue in queues:
            self._needed.setdefault(queue.name, set()).add(gang)
            if not self._is_defined(queue.name):
                self._theirs[queue.name] = queue
                yield from self._put_theirs(queue.name)
        for name in reversed(self._made.pop(gang, ())):
            if name in names:
                continue
            self._needed[name].discard(gang)
            if not self._needed[name]:
                del self._needed[name]
                if not self._is_defined(name):
                    del self._theirs[name]
                    yield from self._put_theirs(name)
        if names:
            self._made[gang] = names

    def _is_defined(self, name: str) -> bool:
        return any(name in queues for queues, _ in self._defined.values())

    def _put_theirs(self, name: str) -> Iterator[Event]:
        if name not in self._own:
            yield from self._put(name, self._theirs.get(name))

    def _since_before(self, queue: Queue, now_s: float) -> Queue:
        """Return the queue with the time of its last state change. Definitions of dialects do not contain this time, so
        it is taken from the last version of the queue. The time is `now_s` if the state has changed since that
        version."""
        if queue.state is QueueState.OPEN or queue.state_since_s:
            return queue
        before = self._theirs.get(queue.name)
        same = before is not None and before.state is queue.state
        return replace(queue, state_since_s=before.state_since_s if before is not None and same else now_s)

    def start_timeout_s(self, queue: str) -> float | None:
        return self.queues[queue].start_timeout_s if queue in self.queues else None

    def staleness_grace_s(self, queue: str) -> float:
        return self.queues[queue].staleness_grace_s if queue in self.queues else 0.0

    def on_queue(self, change: Change, now_s: float) -> Iterator[Event]:
        name = _name(change)
        self.wrong.pop(name, None)
        if change.new is None:
            self._own.discard(name)
            yield from self._put(name, self._theirs.get(name))
            return
        self._own.add(name)
        try:
            queue = read_queue(change.new, self._state_since(change.new, now_s))
        except Misread as error:
            log.warning("queue %s is held: %s", name, error)
            self.wrong[name] = str(error)
            queue = Queue(name=name, state=QueueState.HELD)
        yield from self._put(name, queue)

    def on_flavor(self, change: Change) -> Iterator[Event]:
        name = _name(change)
        try:
            if change.new is not None:
                self.flavors[name] = read_flavor(name, change.new.get("spec") or {})
                yield FlavorSeen(self.flavors[name])
                return
        except Misread as error:
            log.warning("flavor %s is ignored: %s", name, error)
        if self.flavors.pop(name, None) is not None:
            yield FlavorGone(name)

    def on_reservation(self, change: Change, parts: Mapping[str, tuple[str, ...]]) -> Iterator[Event]:
        """Yield the events about a changed reservation. `parts`: a map from a node to its parts, which the core sees as
        separate nodes."""
        name = _name(change)
        try:
            if change.new is not None:
                found = read_reservation(name, change.new.get("spec") or {})
                nodes = (*found.nodes, *(part for node in found.nodes for part in parts.get(node, ())))
                yield ReservationSeen(replace(found, nodes=nodes))
                self._reservations.add(name)
                return
        except Misread as error:
            log.warning("reservation %s is ignored: %s", name, error)
        if name in self._reservations:
            self._reservations.remove(name)
            yield ReservationGone(name)

    def _state_since(self, obj: Object, now_s: float) -> float:
        """Return the time since which the queue has been in its present state. This is 0 for an open queue. Otherwise
        it is the time at which the scheduler first saw the present state. (An earlier scheduler process may have
        written this time to the status.)"""
        name, state = obj["metadata"]["name"], (obj.get("spec") or {}).get("state") or QueueState.OPEN
        if state == QueueState.OPEN:
            return 0.0
        known = self.queues.get(name)
        if known is not None and known.state == state and name not in self.wrong and known.state_since_s:
            return known.state_since_s
        return _since(obj) or now_s


def _name(change: Change) -> str:
    obj = change.new or change.old
    assert obj is not None
    return str(obj["metadata"]["name"])
