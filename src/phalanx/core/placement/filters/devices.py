"""Choose the devices of a pod, by name and NUMA zone, and find the nodes that have enough suitable devices.

The draft has its own copy of the device columns, with an undo log. A *share* is a pod's request for a part of a device.
The pod may use a device that is already shared and has enough left, or it may *open* a free device. The node also has a
count of free whole devices. Some running pods use devices whose names are unknown. These pods lower the count, but
their devices still seem free. So the number of opened devices is limited by the count. Rows and devices are numbered as
in `state.nodes.devices`. An *allocation* has the chosen devices and their zone. Both are given as indexes in the node's
lists of devices and zones.

If at least one NUMA zone has enough whole devices for a pod, the devices are taken from the zone with the smallest
sufficient number of devices. Otherwise the zones with the most free devices are used first, so that the devices come
from few zones. If a pod requests several kinds of devices (such as GPU and RDMA), they are taken from the same zone if
possible. With `aligned` set to "required", the cpu, memory and devices of a pod must all be in one zone; with
"preferred", they are in one zone if possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters.matching import Rows
from phalanx.model.pod import MILLI, ZONE, Amounts, DeviceShare
from phalanx.state.classes import Demand
from phalanx.state.nodes.devices import NO_ZONE, Table, device_use, zone_in
from phalanx.state.nodes.table import NodeTable

Ints = NDArray[np.int64]
# two arrays: the free thousandths of each device, and the free memory of each device in bytes
Left: TypeAlias = tuple[Ints, Ints]

ALL = slice(None)


class DeviceAllocation(NamedTuple):
    """The devices and the zone of a pod, as indexes in the node's lists of devices and zones. The zone is `NO_ZONE` if
    the pod is bound to no zone."""

    devices: tuple[int, ...] = ()
    zone: int = NO_ZONE


class DeviceDraft:
    """The free amounts of all devices and zones on the draft.

    Most cycles read and change the devices of only a few rows. So when a row is changed for the first time, only this
    row is copied. The arrays of all rows are copied only if all rows must be read after a change."""

    def __init__(self, columns: NodeTable) -> None:
        self.columns, self.book = columns, columns.devices
        self.size, self.resource, self.zone = self.book.size, self.book.resource, self.book.zone
        self.zoned = self.book.zoned
        self.known = {resource: table.copy() for resource, table in self.book.known.items()}
        self._rows: dict[int, Left] = {}
        self._all: Left | None = None

    def left(self, row: int | None = None) -> Left:
        """Return two arrays: the free thousandths and the free bytes of each device of the row. If `row` is None, the
        arrays are indexed [row, device]. The caller must not change the arrays."""
        if row is not None and self._all is None:
            return self._rows.get(row) or (self.book.milli[row], self.book.memory[row])
        if self._all is None:
            if not self._rows:
                return self.book.milli, self.book.memory
            self._all = self.book.milli.copy(), self.book.memory.copy()
            for at, (milli, memory) in self._rows.items():
                self._all[0][at], self._all[1][at] = milli, memory
        return self._all if row is None else (self._all[0][row], self._all[1][row])

    def _to_change(self, row: int) -> Left:
        if self._all is None and row not in self._rows:
            self._rows[row] = self.book.milli[row].copy(), self.book.memory[row].copy()
        return self.left(row)

    def whole(self, resource: str, row: int | None = None) -> NDArray[np.bool_]:
        """Return a mask of the devices of the resource that are completely free, with one entry for each device of the
        row. If `row` is None, the mask is indexed [row, device]."""
        code, (milli, memory), some = self.book.codes.get(resource, -2), self.left(row), ALL if row is None else row
        free: NDArray[np.bool_] = (milli == MILLI) & (memory == self.size[some])
        return np.asarray(free & (self.resource[some] == code))

    def open_to(self, share: DeviceShare, row: int | None = None) -> NDArray[np.bool_]:
        """Return the mask of devices that have enough left for the share."""
        (milli, memory), some = self.left(row), ALL if row is None else row
        mine, size = self.resource[some] == self.book.codes.get(share.resource, -2), self.size[some]
        if share.memory_bytes:
            part = share.memory_bytes * MILLI // np.maximum(size, 1)
            return np.asarray(mine & (memory >= share.memory_bytes) & (milli >= part))
        return np.asarray(mine & (milli >= share.milli) & (memory >= size * share.milli // MILLI))

    def holds_share(self, share: DeviceShare, rows: NDArray[np.intp], whole: Ints) -> Rows:
        """Return a mask with one entry for each of `rows`. It is True if the node has capacity for the share. `whole`:
        for each of `rows`, the node's count of free whole devices."""
        fits, free = self.open_to(share), self.whole(share.resource)
        shared = np.count_nonzero(fits & ~free, axis=1)[rows]
        opened = np.minimum(np.count_nonzero(fits & free, axis=1)[rows], np.maximum(whole, 0))
        held: Rows = shared + opened >= share.count
        return held

    def zones_that_hold(self, demand: Demand, free: dict[str, Ints], rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return a mask of the zones that certainly have enough for one pod. The mask is indexed [index in `rows`,
        zone]. `free`: resource -> the free amount of each of `rows`."""
        zones = len(self.zoned) and next(iter(self.zoned.values())).shape[1]
        most = max(int(self.zone.max(initial=NO_ZONE)) + 1, zones)
        fits = np.zeros((len(rows), most), np.bool_)
        for at, row in enumerate(rows.tolist()):
            fits[at, : len(self.book.zones.get(row, ()))] = True
        for resource, amount in demand.asks:
            table = self.zoned.get(resource)
            if table is not None:
                self._enough(fits, table, resource, amount, free[resource], rows)
            elif resource in self.book.codes:
                fits &= self._per_zone(self.whole(resource)[rows], rows, most) >= amount
        if (share := demand.shape.share) is not None:
            fits &= self._per_zone(self.open_to(share)[rows], rows, most) >= share.count
        return fits

    def left_in(self, row: int, zone: int, demand: Demand) -> float:
        """Return a measure of the free capacity of the zone. For each requested resource, the free amount is divided by
        the requested amount; the measure is the sum of these quotients. The zone with the lowest value is the
        tightest."""
        share, total = demand.shape.share, 0.0
        for resource, amount in demand.asks:
            if (table := self.zoned.get(resource)) is not None:
                total += float(table[row, zone] - self.known[resource][row, zone]) / amount
            elif resource in self.book.codes:
                total += float((self.whole(resource, row) & (self.zone[row] == zone)).sum()) / amount
        if share is not None:
            total += float(self.left(row)[0][self.open_to(share, row) & (self.zone[row] == zone)].sum()) / MILLI
        return total

    def _enough(
        self, fits: NDArray[np.bool_], table: Table, resource: str, amount: int, free: Ints, rows: NDArray[np.intp]
    ) -> None:
        """Set `fits` to False for zones that may have too little of the resource. It is unknown in which
        zone some running pods are. So each zone is checked as if all of these pods were in this zone."""
        known = self.known[resource][rows]
        held = self.columns.allocatable[resource][rows] - free - known.sum(axis=1)
        left = table[rows] - known - np.maximum(held, 0)[:, None]
        says = np.asarray(table[rows].any(axis=1))
        fits[:, : left.shape[1]] &= (left >= amount) | ~says[:, None]

    def _per_zone(self, devices: NDArray[np.bool_], rows: NDArray[np.intp], zones: int) -> Ints:
        """Return for each row and zone how many devices of the zone are set in the mask `devices`. The result is
        indexed [row, zone]."""
        where = self.zone[rows]
        return np.stack([(devices & (where == zone)).sum(axis=1) for zone in range(zones)], axis=1)

    def choose(
        self, demand: Demand, row: int, whole: dict[str, int], *, zone: int = NO_ZONE, first: int | None = None
    ) -> DeviceAllocation:
        """Return the devices for one pod on the row.

        `whole`: resource -> the node's count of free whole devices.
        `first`: the preferred device for a share, which is used if it has enough left."""
        share = demand.shape.share
        picked: list[int] = []
        for resource, amount in demand.asks:
            free = self.whole(resource, row).nonzero()[0].tolist() if resource in self.book.named else []
            if len(free) >= amount:
                picked += self._near(row, free, amount, zone, picked)
        if share is not None:
            picked += self._for_share(share, row, whole.get(share.resource, 0), zone, picked, first)
        return DeviceAllocation(tuple(picked), zone)

    def _near(self, row: int, free: Sequence[int], amount: int, zone: int, beside: Sequence[int]) -> list[int]:
        """Choose `amount` of the free devices `free`, and return them. Devices of the zone `zone` come first. If `zone`
        is `NO_ZONE`, devices come first that are in the zone of the pod's other devices (`beside`). Next come devices
        of the zone with the smallest sufficient number of free devices."""
        zones = self.zone[row].tolist()
        counts = {at: sum(zones[each] == at for each in free) for at in {zones[each] for each in free}}
        first = zone if zone != NO_ZONE else zones[beside[0]] if beside else NO_ZONE

        def order(device: int) -> tuple[bool, bool, int, int, int]:
            at = zones[device]
            has = counts[at]
            return at != first or first == NO_ZONE, has < amount, has if has >= amount else -has, at, device

        return sorted(free, key=order)[:amount]

    def _for_share(
        self, share: DeviceShare, row: int, whole: int, zone: int, beside: Sequence[int], wanted: int | None
    ) -> list[int]:
        """Choose the devices for a share, and return them. Devices that are already shared come before free devices.
        Among these, the device with the least free capacity comes first. `whole`: the node's count of free whole
        devices; at most this number of free devices is opened."""
        fits, free = self.open_to(share, row), self.whole(share.resource, row)
        zones, (left, memory) = self.zone[row].tolist(), [each.tolist() for each in self.left(row)]
        first = zone if zone != NO_ZONE else zones[beside[0]] if beside else NO_ZONE
        listed = [each for each in fits.nonzero()[0].tolist() if zone == NO_ZONE or zones[each] == zone]

        def order(each: int) -> tuple[bool, bool, bool, int, int, int]:
            return each != wanted, bool(free[each]), zones[each] != first, left[each], memory[each], each

        listed.sort(key=order)
        chosen: list[int] = []
        for each in listed:
            if free[each] and whole <= 0:
                continue
            whole -= bool(free[each])
            chosen.append(each)
            if len(chosen) == share.count:
                break
        return chosen

    def take(self, demand: Demand, row: int, choice: DeviceAllocation, pods: int = 1) -> dict[str, int]:
        """Take the devices for a pod; if `pods` is -1, release them. Return a mapping: resource -> how many free whole
        devices the node loses (negative if it gains devices)."""
        share, use = demand.shape.share, device_use(demand.shape.share)
        opened, (left, memory_left) = 0, self._to_change(row)
        for at in choice.devices:
            size = int(self.size[row, at])
            mine = share is not None and self.resource[row, at] == self.book.codes.get(share.resource, -2)
            milli, memory = use.of(size) if mine else (MILLI, size)
            was_free = bool(left[at] == MILLI and memory_left[at] == size)
            left[at] -= milli * pods
            memory_left[at] -= memory * pods
            if mine:
                opened += was_free - bool(left[at] == MILLI and memory_left[at] == size)
        if choice.zone != NO_ZONE:
            for resource, amount in demand.asks:
                if resource in self.known:
                    self.known[resource][row, choice.zone] += amount * pods
        return {share.resource: opened} if share is not None and opened else {}

    def names(self, row: int, choice: DeviceAllocation) -> tuple[str, ...]:
        """Return the names that a placement lists: the zone, if the allocation has one, then the devices."""
        listed = self.book.listed.get(row, ())
        zone = (ZONE + self.book.zones[row][choice.zone],) if choice.zone != NO_ZONE else ()
        return (*zone, *(listed[at].name for at in choice.devices))

    def choice(self, row: int, names: Sequence[str]) -> DeviceAllocation:
        """Return the allocation for the names of a zone and of devices (`names`). Names that the node does not list are
        left out."""
        at = {device.name: place for place, device in enumerate(self.book.listed.get(row, ()))}
        zones = self.book.zones.get(row, ())
        zone = zone_in(names)
        zone_at = zones.index(zone) if zone in zones else NO_ZONE
        return DeviceAllocation(tuple(at[name] for name in names if name in at), zone_at)


def asks_devices(columns: NodeTable, asks: Amounts) -> bool:
    """Return whether at least one requested resource consists of devices that pods get by name."""
    return any(resource in columns.devices.named for resource, _ in asks)
