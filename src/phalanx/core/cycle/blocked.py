"""Find the placement classes that may start in a cycle: their pods fit by counting, and no trial has failed.

At the beginning of a cycle a class is *open* if the nodes hold as many pods as it needs of each role
(`core.placement.capacity`), and if no trial has failed since the last change that could make it succeed. Within a cycle
free capacity only shrinks, so a closed class stays closed. A closed class also closes others:

    if f is exact and was counted with r pods, r < need(f), then every exact class of one role fails too whose pods
    ask no less of each resource, on no other nodes, and which needs more than r pods            (dominance)

The reason is that a pod of f would fit wherever a pod of such a class fits. So few classes must be counted, however
many classes there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft
from phalanx.core.quota import flavor_assignment
from phalanx.state.classes import Gang, NodeConstraints
from phalanx.state.cluster import Cluster
from phalanx.state.pending.pending import Pending
from phalanx.state.pending.request_class import PlacementClass, PlacementClassKey

Mask: TypeAlias = NDArray[np.bool_]

NO_MORE = -1.0  # the need of a class that is closed


class Live(NamedTuple):
    """Arrays about the open classes of one role. `numbers`: the number of each class. `needs`: the number of pods that
    it needs. `wheres`: the number of its set of node constraints; 0: all nodes. `asks`: the requested amount of a pod,
    as [resource, class]."""

    numbers: NDArray[np.intp]
    needs: NDArray[np.float64]
    wheres: NDArray[np.intp]
    asks: NDArray[np.float64]


class Blocked:
    """The open and closed placement classes of one cycle.

    `open`: a byte for each class; 0: its requests cannot start. The last byte belongs to no class. `had_room`: a byte
    for each class; 1: when the cycle began, it had capacity by counting, and no trial had failed. `failed`: classes
    that a trial closed although counting found capacity."""

    def __init__(self, cluster: Cluster, failed: list[PlacementClass]) -> None:
        self.cluster, self.pending, self.failed = cluster, cluster.pending, failed
        self.open = fits(self.pending)
        self._opened = bytes(self.open)
        self.had_room = bytearray(self._opened)
        self.open_mask: Mask = np.frombuffer(self.open, np.bool_)  # a view of `open`, so it shows later changes
        for each in self.pending.failed:
            self.had_room[each.number] = 0
        self._dead = 0  # the number of classes in `_live` that are closed
        self._counted: dict[int, int] = {}  # class -> the number of grants when a count last found enough capacity
        self._live: Live | None = None
        self._wheres: dict[NodeConstraints, int] = {}
        self._parents = [each for each in self.pending.composite if each.flavor_classes]

    def closed(self, *, all_of_them: bool) -> Iterator[PlacementClass]:
        """Yield the classes that were closed in this cycle. `all_of_them`: yield every class that is closed now."""
        if not all_of_them and self.open == self._opened:
            return
        at = self.open.find(0)
        while at >= 0:
            found = self.pending.placement_classes[at] if at < len(self.pending.placement_classes) else None
            if found is not None and (all_of_them or self._opened[at]):
                yield found
            at = self.open.find(0, at + 1)

    def counted(self, draft: Draft, found: PlacementClass, grants: int) -> bool:
        """Return whether the class has capacity by counting, and no trial of it has failed; otherwise close the class.
        `grants`: the number of grants so far in this cycle. A class that cannot be counted exactly counts as
        fitting."""
        number = found.number
        if found.single and self.open[number] and self._counted.get(number) != grants:
            need = int(found.demands[0][1])
            room = draft.room_up_to(need, found.key.gang.demands[0])
            if room < need:
                self.close(draft, found, room)
                return False
            self._counted[number] = grants
        if self.open[number] and found in self.pending.failed:
            self._shut(found)
        return bool(self.open[number])

    def fail(self, draft: Draft, gang: Gang, placed: int) -> None:
        """Handle a failed trial of the gang. `placed`: the number of pods that found capacity, if the gang has one
        role. A class that is closed already was only tried to compute its reason, so nothing is closed."""
        for counts in (True, False):
            found = self.pending.placement_class_of.get(PlacementClassKey(gang, counts=counts))
            if found is None or not self.open[found.number]:
                continue
            if found.single and draft.ordinary(gang.demands[0]):
                self.close(draft, found, placed)
            else:
                self.failed.append(found)
                self._shut(found)

    def _shut(self, found: PlacementClass) -> None:
        """Close a class whose trial failed, in this cycle or before."""
        self.open[found.number] = 0
        self._close_parents()

    def close(self, draft: Draft, found: PlacementClass, room: int) -> None:
        """Close the class, because only `room` of its pods fit. Also close all classes that it dominates."""
        self.open[found.number] = 0
        live = self._live = self._live or self._columns(draft)
        dominated = live.needs > room
        for has, asked in zip(live.asks, self.pending.capacity.asks[:, found.demands[0][0]].tolist(), strict=False):
            if asked:
                dominated &= has >= asked
        if where := self._where(draft, found.key.gang.demands[0].where):
            dominated &= live.wheres == where
        closing = live.numbers[dominated]
        if len(closing):
            self.open_mask[closing] = False
            live.needs[dominated] = NO_MORE
            self._dead += len(closing)
            if 2 * self._dead > len(live.needs):
                kept, self._dead = live.needs != NO_MORE, 0
                self._live = Live(live.numbers[kept], live.needs[kept], live.wheres[kept], live.asks[:, kept])
        self._close_parents()

    def _close_parents(self) -> None:
        """Close each class whose flavor classes are all closed."""
        for each in self._parents:
            if self.open[each.number] and not any(self.open[way.number] for way in each.flavor_classes):
                self.open[each.number] = 0

    def _columns(self, draft: Draft) -> Live:
        classes, capacity = self.pending.placement_classes, self.pending.capacity
        found = [each for at, is_open in enumerate(self.open) if is_open and (each := classes[at]) and each.single]
        wheres = [self._where(draft, each.key.gang.demands[0].where) for each in found]
        demands = [each.demands[0][0] for each in found]
        return Live(
            np.array([each.number for each in found], np.intp),
            np.array([each.demands[0][1] for each in found]),
            np.array(wheres, np.intp),
            capacity.asks[: len(capacity.resources), demands],
        )

    def _where(self, draft: Draft, where: NodeConstraints) -> int:
        """Return the number of this set of node constraints, a new one if the set is not known; 0 if all usable nodes
        match."""
        number = self._wheres.get(where)
        if number is None:
            number = self._wheres[where] = 0 if draft.matching(where) is None else len(self._wheres) + 1
        return number


def fits(pending: Pending) -> bytearray:
    """Return a byte for each class: 1 if it has capacity by counting, else 0. The byte after the last class is 0."""
    count = len(pending.placement_classes)
    room = pending.capacity.room
    found = bytearray((room[pending.demand[:count]] >= pending.need[:count]).tobytes() + b"\0")
    for each in pending.composite:
        if not each.key.flavors:
            found[each.number] = all(room[demand] >= need for demand, need in each.demands)
    for each in pending.composite:
        if each.key.flavors:
            found[each.number] = not each.flavor_classes or any(found[way.number] for way in each.flavor_classes)
    return found


def forget_mended_failures(pending: Pending) -> None:
    """Forget the failed trials of classes whose pods fit on a row that has gained free amounts since."""
    grown = pending.capacity.grown
    for found in list(pending.failed):
        if any(grown[demand] for demand, _ in found.demands):
            del pending.failed[found]


def find_flavor_classes(cluster: Cluster, found: PlacementClass) -> None:
    """Register the flavor classes of a class whose queue has flavors: one class for each possible assignment of flavors
    to its roles. The class is open as long as one of its flavor classes is open."""
    if found.flavor_classes or not found.key.flavors or not found.key.whole:
        return
    gang, counts = found.key.gang, found.key.counts
    given = flavor_assignment.combinations(cluster.flavors, found.key.flavors, gang)
    gangs = (cluster.with_flavors(gang, flavors) for flavors in given)
    cluster.pending.add_flavor_classes(found, [PlacementClassKey(each, counts=counts) for each in gangs])
