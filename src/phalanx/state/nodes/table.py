"""Nodes as columns: two signed int64 arrays per resource, the allocatable and the free amounts.

Columns are used because decisions read one amount of all nodes ("which nodes have 4000m of cpu?") far more often than
all amounts of one node. A node gets a row when an event first names the node. The row may be given to another node when
the node is gone and no pod is charged to it. When all rows are in use, the length of all arrays is doubled.

A pod may be charged to the name of a node before the world has reported this node, or after the node is gone. The row
of such a name is called a *ghost*. Its allocatable amounts are zero, and its free amounts are negative, because pods
are charged to it.

`free = allocatable - charged` may be negative, because events can overcommit a node; decisions never overcommit a node.
Single numbers are read and written through memoryviews, which are several times faster than indexing an array.

The module also stores scores of nodes from one cycle to the next, because they are expensive to compute (`ScoreCache`).

The cache has a score for each demand and row. With each score it stores the stamp that the row had when the score was
computed (`NodeTable.stamps`); if the row has another stamp now, the score is no longer valid. Decisions write scores
into the cache. The cache makes later decisions faster, but does not change their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phalanx.model.node import Node
from phalanx.model.pod import Amounts, HostPort
from phalanx.state.classes import AffinityClass, Demand
from phalanx.state.nodes.attributes import NodeAttributes, extended
from phalanx.state.nodes.devices import DeviceTable, device_use
from phalanx.state.nodes.groups import NodeGroups
from phalanx.state.nodes.pod_index import PodIndex

REMEMBERED = 1 << 24  # at most this many scores are stored; each takes 16 bytes


class ScoreCache:
    """The cache of scores. `expected`: the expected frequencies of pod shapes with which the scores were computed. When
    the expected frequencies change, the cache is emptied."""

    def __init__(self) -> None:
        self.expected: object = None
        # (the number of jobs when the typical pods were last computed, the typical pods)
        self.typical: tuple[int, Any] = (0, None)
        self._known: dict[object, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}

    def of(self, key: object, rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return two arrays for the demand with this key. The first has the score of each row. The second has the stamp
        of each row at the time when its score was computed, or -1 if the score was never computed. The caller may write
        to both arrays."""
        known = self._known.get(key)
        if known is None or len(known[0]) < rows:
            if (len(self._known) + 1) * rows > REMEMBERED:
                self._known.clear()
            known = self._known[key] = (np.zeros(rows), np.full(rows, -1, np.int64))
        return known

    def expect(self, expected: object) -> None:
        """Empty the cache if its scores were computed with other expected frequencies of pod shapes."""
        if self.expected is not expected:
            self.expected = expected
            self._known.clear()


FIRST_ROWS = 16
FEW_FACTS = 1024  # unused attribute values are removed only if there are more values than this


class NodeTable:
    """All nodes: rows by name, amounts per resource, attributes, devices, the pods on them, and node groups.

    `allocatable`, `free`: resource -> column.
    `charges`: row -> number of pods that are charged to it.
    `tenants`: row -> demand -> number of pods of this demand that hold devices of the node.
    `stamps`: row -> a number that grows with each change of the node, its charges or its devices.
    `touched`: rows whose charges changed since the nodes were last sorted into packing order.
    `recharged`: rows whose charges changed since a cycle last counted how many pods fit on them.
    `described`: a number that grows whenever the attributes of a node change.
    `packing_order`: the packing order of the last cycle; None after a node has changed."""

    def __init__(self) -> None:
        self.capacity = FIRST_ROWS
        self.names: list[str] = []  # row -> name; "" for a vacant row
        self.nodes: list[Node | None] = []  # row -> the node; None if the row is a ghost or vacant
        self.row_of: dict[str, int] = {}
        self.charges: list[int] = []
        self.allocatable: dict[str, NDArray[np.int64]] = {}
        self.free: dict[str, NDArray[np.int64]] = {}
        self.attributes = NodeAttributes(self.capacity)
        self.devices = DeviceTable(self.capacity)
        self.groups = NodeGroups()
        self.pod_index = PodIndex()
        self.scores = ScoreCache()
        self.tenants: dict[int, dict[Demand, int]] = {}
        self.stamps: list[int] = []
        self.touched: dict[int, None] = {}
        self.recharged: dict[int, None] = {}
        self.described = 0
        self.packing_order: Any = None  # see `core.placement.packing_order`
        self._most_facts = FEW_FACTS
        self.views: dict[str, memoryview[int]] = {}  # resource -> its column in `free`, as a memoryview
        self._vacant: list[int] = []

    def __len__(self) -> int:
        """Return the number of nodes, without ghosts."""
        return sum(node is not None for node in self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self.nodes if node is not None)

    def node(self, name: str) -> Node | None:
        """Return the node with this name; None if it does not exist."""
        row = self.row_of.get(name)
        return None if row is None else self.nodes[row]

    def group_sizes(self) -> Counter[str]:
        """Return the number of nodes of each node group. Nodes that were requested but have not arrived are
        included."""
        return Counter(node.group for node in self if node.group)

    def update(self, node: Node) -> int:
        """Add a new node, or update a changed one. Return its row."""
        row = self.row(node.name)
        self._allocate(row, dict(node.allocatable))
        self.nodes[row] = node
        self._describe(row, node)
        self._list(row, node)
        return row

    def remove(self, name: str) -> None:
        """Remove the node. If pods are still charged to it, its row stays as a ghost."""
        row = self.row_of[name]
        self._allocate(row, {})
        self.nodes[row] = None
        self._describe(row, None)
        self._list(row, None)
        self._vacate_if_unused(row)

    def charge(self, name: str, asks: Amounts, pods: int = 1) -> int:
        """Charge `pods` pods to the node of that name, and return its row. `asks`: the requests of one pod."""
        row = self.row_of.get(name, -1)
        if row < 0:
            row = self.row(name)
        self.charges[row] += pods
        self.stamps[row] += 1
        self.touched[row] = self.recharged[row] = None
        views = self.views
        for resource, amount in asks:
            if resource not in views:
                self.view(resource)
            views[resource][row] -= amount * pods
        return row

    def discharge(self, name: str, asks: Amounts) -> None:
        """Free the amounts `asks` that one pod holds on the node."""
        row = self.row_of[name]
        self.charges[row] -= 1
        self.stamps[row] += 1
        self.touched[row] = self.recharged[row] = None
        for resource, amount in asks:
            self.views[resource][row] += amount
        if self.nodes[row] is None:
            self._vacate_if_unused(row)

    def hold(self, name: str, demand: Demand, devices: tuple[str, ...] = ()) -> int:
        """Charge one pod of the demand, which holds these devices, to the node. Return the node's row."""
        row = self.charge(name, demand.asks)
        if demand.tracked:
            self.add_pod(row, demand.kind, demand.shape.ports)
        if devices:
            self._count(row, self.devices.hold(row, devices, device_use(demand.shape.share), demand.asks))
            tenants = self.tenants.setdefault(row, {})
            tenants[demand] = tenants.get(demand, 0) + 1
        return row

    def release(self, name: str, demand: Demand, devices: tuple[str, ...] = ()) -> None:
        """Release the amounts and the devices that one pod of the demand holds on the node."""
        row = self.row_of[name]
        if demand.tracked:
            self.remove_pod(row, demand.kind, demand.shape.ports)
        if devices:
            self._count(row, self.devices.drop(row, devices, device_use(demand.shape.share), demand.asks))
            tenants = self.tenants[row]
            tenants[demand] -= 1
            if not tenants[demand]:
                del tenants[demand]
        self.discharge(name, demand.asks)

    def add_pod(self, row: int, kind: AffinityClass | None, ports: tuple[HostPort, ...]) -> None:
        """Add a pod to the pod index."""
        if kind is not None:
            self.pod_index.add(kind, row)
        if ports:
            self.pod_index.open_ports(row, ports)

    def remove_pod(self, row: int, kind: AffinityClass | None, ports: tuple[HostPort, ...]) -> None:
        """Remove a pod from the pod index."""
        if kind is not None:
            self.pod_index.remove(kind, row)
        if ports:
            self.pod_index.close_ports(row, ports)

    def view(self, resource: str) -> memoryview[int]:
        """Return a memoryview of the free amounts of a resource, for fast access to single numbers. If the table has no
        column for the resource yet, add one with zeros."""
        view = self.views.get(resource)
        if view is None:
            self.allocatable[resource] = np.zeros(self.capacity, np.int64)
            self.free[resource] = np.zeros(self.capacity, np.int64)
            view = self.views[resource] = self.free[resource].data
        return view

    def free_of(self, row: int) -> dict[str, int]:
        """Return the free amount of each resource on the row."""
        return {resource: view[row] for resource, view in self.views.items()}

    def least_free(self, row: int) -> int:
        """Return the lowest free amount of the row, but at most 0. If the result is negative, the pods on the node hold
        more than the node has."""
        least = 0
        for view in self.views.values():
            if view[row] < least:
                least = view[row]
        return least

    def lowest_free(self, rows: NDArray[np.intp] | slice = slice(None)) -> NDArray[np.int64]:
        """Return for each of the rows the lowest of its free amounts, but at most 0."""
        lowest = np.zeros(self.capacity, np.int64)[rows]
        for column in self.free.values():
            np.minimum(lowest, column[rows], out=lowest)
        return lowest

    def row(self, name: str) -> int:
        """Return the row of the node name; assign one if it has none."""
        row = self.row_of.get(name)
        if row is not None:
            return row
        if self._vacant:
            row = self._vacant.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
            self.nodes.append(None)
            self.charges.append(0)
            self.stamps.append(0)
            if row >= self.capacity:
                self._grow()
        self.row_of[name] = row
        return row

    def copy(self) -> NodeTable:
        other = NodeTable()
        other.capacity = self.capacity
        other.names, other.nodes, other.row_of = list(self.names), list(self.nodes), dict(self.row_of)
        other.charges, other._vacant, other.stamps = list(self.charges), list(self._vacant), list(self.stamps)
        other.tenants = {row: dict(tenants) for row, tenants in self.tenants.items()}
        other.allocatable = {resource: column.copy() for resource, column in self.allocatable.items()}
        other.attributes, other.devices, other.pod_index = (
            self.attributes.copy(),
            self.devices.copy(),
            self.pod_index.copy(),
        )
        other._most_facts, other.groups = self._most_facts, self.groups.copy()
        other._take(column.copy() for column in self.free.values())
        return other

    def emptied(self) -> NodeTable:
        """Return a read-only copy of the table without pods on the nodes. The copy shares the node attributes with the
        original."""
        other = NodeTable()
        other.capacity, other.attributes = self.capacity, self.attributes
        other.names, other.nodes, other.row_of = list(self.names), list(self.nodes), dict(self.row_of)
        other.charges, other.stamps = [0] * len(self.charges), list(self.stamps)
        other.devices = DeviceTable(self.capacity)
        for row in (*self.devices.listed, *self.devices.zones):
            other.devices.write(row, self.nodes[row])
        other.allocatable = {resource: column.copy() for resource, column in self.allocatable.items()}
        other._take(column.copy() for column in self.allocatable.values())
        return other

    def unkept(self) -> NodeTable:
        """Return a read-only copy of the table without pods and without reserved parts of nodes. The amounts of each
        reserved part are added to the node to which it belongs."""
        other = self.emptied()
        # The copy needs its own attributes, because their cache `derived` may have results that depend on the amounts.
        other.attributes = self.attributes.copy()
        for row, node in enumerate(self.nodes):
            if node is not None and (at := self.row_of.get(node.part_of)) is not None:
                for column in (*other.allocatable.values(), *other.free.values()):
                    column[at] += column[row]
                    column[row] = 0
        return other

    def with_free(self, free: dict[str, NDArray[np.int64]]) -> NodeTable:
        """Return a read-only copy of the table with the free amounts `free`. Only the arrays of the copy may be read;
        its memoryviews still show the amounts of the original."""
        other = NodeTable.__new__(NodeTable)
        other.__dict__.update(self.__dict__)
        other.free = free
        return other

    def _describe(self, row: int, node: Node | None) -> None:
        """Write the attributes of the row. The attribute table stores every value that a node has had. If it stores too
        many values, it is built again without the values that no node has any more, such as names of deleted nodes or
        taints that contain times. So at most about half of the stored values are unused."""
        self.packing_order = None
        self.described += 1
        self.attributes.write(row, node)
        if self.attributes.remembered > self._most_facts:
            self.attributes = NodeAttributes(self.capacity)
            for at, known in enumerate(self.nodes):
                if known is not None:
                    self.attributes.write(at, known)
            self._most_facts = 2 * self.attributes.remembered + FEW_FACTS

    def _list(self, row: int, node: Node | None) -> None:
        self.stamps[row] += 1
        before = self.devices.shared(row)
        self.devices.write(row, node)
        after = self.devices.shared(row)
        self._count(row, {name: after.get(name, 0) - before.get(name, 0) for name in sorted({*before, *after})})

    def _count(self, row: int, shared: dict[str, int]) -> None:
        """Subtract newly shared devices from the free amounts of the row. `shared`: resource -> number of newly shared
        devices; negative if devices are no longer shared."""
        for resource, devices in shared.items():
            self.view(resource)[row] -= devices

    def _allocate(self, row: int, amounts: dict[str, int]) -> None:
        for resource in amounts:
            self.view(resource)
        for resource, column in self.allocatable.items():
            change = amounts.get(resource, 0) - int(column[row])
            column[row] += change
            self.views[resource][row] += change

    def _vacate_if_unused(self, row: int) -> None:
        if self.nodes[row] is None and not self.charges[row]:
            del self.row_of[self.names[row]]
            self.names[row] = ""
            self._vacant.append(row)

    def _grow(self) -> None:
        self.capacity *= 2
        self.packing_order = None
        self.described += 1
        self.attributes.resize(self.capacity)
        self.devices.resize(self.capacity)
        self.allocatable = {resource: extended(column, self.capacity) for resource, column in self.allocatable.items()}
        self._take(extended(column, self.capacity) for column in self.free.values())

    def _take(self, columns: Iterable[NDArray[np.int64]]) -> None:
        self.free = dict(zip(self.allocatable, columns, strict=True))
        self.views = {resource: column.data for resource, column in self.free.items()}
