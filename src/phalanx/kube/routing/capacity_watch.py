"""Convert changes of nodes, parts of nodes, queues, flavors and reservations into events for the core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.kind import NODES, Kind
from phalanx.dialects.frame.dialect import Dialect
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.install.definitions import RESERVATIONS
from phalanx.kube.read.node import read_node
from phalanx.kube.read.queue import QueueCache
from phalanx.model.event import Event, NodeGone, NodeSeen
from phalanx.model.node import Node


class CapacityWatch:
    """Convert changes of nodes, queues, flavors and reservations into events for the core. `with_places`: a function
    that returns a node with the number of volumes that CSI drivers can attach to it. `tell`: a function that passes
    events to the core. `queue_changed`: a function that is called with the name of a changed queue. `dialects`: the
    enabled dialects. `group_labels`: a map from a label (key, value) of nodes to their node group. `objects`: a
    function that returns the cached objects of a kind. `gang_changed`: a function that is called with a gang whose
    settings come from a dialect, if the dialect's objects have changed. `note`: a function that is called if a setting
    of an object has no effect, with the object and a text about the setting. `invalid`: a function that is called with
    a dialect's definition (such as a queue) that cannot be read."""

    def __init__(
        self,
        *,
        with_places: Callable[[Node], Node],
        clock: Callable[[], float],
        tell: Callable[[tuple[Event, ...]], None],
        queue_changed: Callable[[str], None],
        dialects: Iterable[Dialect[Any]] = (),
        group_labels: Mapping[tuple[str, str], str] = MappingProxyType({}),
        objects: Callable[[Kind], Mapping[str, Object] | None] = lambda kind: None,
        gang_changed: Callable[[str], None] = lambda gang: None,
        note: Callable[[Kind, Object, str], None] = lambda kind, obj, text: None,
        invalid: Callable[[Kind, Object, str], None] = lambda kind, obj, text: None,
    ) -> None:
        self.allocations, self.queues = NodeAllocations(), QueueCache()
        self.dialects = DialectWatch(
            dialects,
            self.queues,
            objects=objects,
            mark=gang_changed,
            clock=clock,
            note=note,
            invalid=invalid,
            tell=tell,
        )
        self._group_labels = group_labels
        self._with_places, self._clock, self._tell, self._queue_changed = with_places, clock, tell, queue_changed
        self._largest: dict[str, int] | None = None
        self._parts: dict[str, tuple[str, ...]] = {}  # node -> its parts that were reported to the core
        self._objects = objects
        self.overlay = self.dialects.overlay
        self.dialects.places_changed = self._look_at_nodes_again

    def largest(self) -> dict[str, int]:
        """Return the largest amount of each resource that any node has."""
        if self._largest is None:
            self._largest = self.allocations.largest()
        return self._largest

    def on_node(self, change: Change) -> None:
        self._largest = None
        if change.new is None:
            assert change.old is not None
            name = change.old["metadata"]["name"]
            self._lose_nodes((name, *self._parts.pop(name, ())))
            return
        whole = self.overlay.with_places(self._with_places(self._grouped(read_node(change.new))))
        node, *parts = self.overlay.split(whole)
        for each in (node, *parts):
            if self.allocations.nodes.get(each.name) != each:
                self.allocations.see_node(each)
                self._tell((NodeSeen(each),))
        names = tuple(part.name for part in parts)
        before = self._parts.pop(node.name, ())
        if names:
            self._parts[node.name] = names
        self._lose_nodes(name for name in before if name not in names)
        if names != before:
            self._look_at_reservations_again()

    def _grouped(self, node: Node) -> Node:
        """If one of the node's labels identifies a node group, return the node with the name of this group."""
        found = next((group for label, group in self._group_labels.items() if label in node.labels), node.group)
        return node if found == node.group else replace(node, group=found)

    def _lose_nodes(self, names: Iterable[str]) -> None:
        for name in names:
            self.allocations.lose_node(name)
            self._tell((NodeGone(name),))

    def _look_at_nodes_again(self) -> None:
        for obj in (self._objects(NODES) or {}).values():
            self.on_node(Change(kind=NODES, old=obj, new=obj))

    def _look_at_reservations_again(self) -> None:
        """Emit the events about all reservations again, because reserved parts of nodes have changed. The core sees
        these parts as nodes of their own, and a reservation of a node must include them."""
        for obj in (self._objects(RESERVATIONS) or {}).values():
            self.on_reservation(Change(kind=RESERVATIONS, old=obj, new=obj))

    def on_queue(self, change: Change) -> None:
        told = tuple(self.queues.on_queue(change, self._clock()))
        self._tell(told)
        if told:
            self._queue_changed((change.new or change.old or {})["metadata"]["name"])

    def on_flavor(self, change: Change) -> None:
        self._tell(tuple(self.queues.on_flavor(change)))

    def on_reservation(self, change: Change) -> None:
        self._tell(tuple(self.queues.on_reservation(change, self._parts)))
