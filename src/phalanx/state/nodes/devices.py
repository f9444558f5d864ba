"""Named devices and NUMA zones: the free amounts of each, as two-dimensional columns [row, device] and [row, zone].

A device is free, or one pod holds it whole, or several pods each hold a share of it. The placement of a pod names its
devices, so the table can be computed again after a restart. The free amounts of a node count only whole devices. When
the first pod gets a share of a device, the device is subtracted from this count. When its last share is released, the
device is added again. So no device is granted twice.

For some pods it is unknown which whole devices they hold: for pods of other schedulers, and for pods that were bound
before the node listed its devices. The number of their devices is subtracted from the node's count. So fewer devices of
the node can be shared.

If a share is requested in thousandths of a device, the pod also holds the same fraction of the device's memory. If a
share is requested in bytes, the pod also holds the same fraction of the device's thousandths. Both conversions round
down, so the sum of all shares never exceeds the device.

If a pod is aligned to a NUMA zone, the name of the zone is in its list of devices, written `zone/NAME`. The zones of
all other pods on the node are unknown, so their requests are subtracted from each zone. This estimate is pessimistic,
but a zone that is granted to a pod always has the requested amounts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx.model.node import Device, Node
from phalanx.model.pod import MILLI, ZONE, Amounts, DeviceShare

Table = NDArray[np.int64]

NO_ZONE = -1  # the number that stands for "in no NUMA zone"


class DeviceUse(NamedTuple):
    """A description of how one pod holds its devices. If `resource` is empty, the pod holds all of its devices whole.
    Otherwise it holds a share of each of its devices of this resource (`milli` thousandths or `memory_bytes`), and all
    of its other devices whole. Whole devices are subtracted from the node's free amounts."""

    resource: str = ""
    milli: int = 0
    memory_bytes: int = 0

    def of(self, size_bytes: int) -> tuple[int, int]:
        """Return (thousandths, bytes) that the pod holds of a device with `size_bytes` of memory."""
        if not self.resource:
            return MILLI, size_bytes
        if self.memory_bytes:
            return (self.memory_bytes * MILLI // size_bytes if size_bytes else MILLI), self.memory_bytes
        return self.milli, size_bytes * self.milli // MILLI


WHOLE_DEVICE = DeviceUse()


def device_use(share: DeviceShare | None) -> DeviceUse:
    """Return how a pod that requests this share holds its devices. A pod that requests no share holds whole devices."""
    return WHOLE_DEVICE if share is None else DeviceUse(share.resource, share.milli, share.memory_bytes)


class DeviceTable:
    """The devices and NUMA zones of all nodes.

    `listed`: row -> the devices of its node; only for nodes with devices.
    `milli`, `memory`: the free part of each device, in thousandths and bytes. The free part is negative while a
        terminating pod and a nominated pod both hold the device. Elements without a device are 0.
    `size`: the memory of each device, in bytes.
    `resource`: the number of the resource to which the device belongs (`codes` has the number of each resource); -1
        where there is no device.
    `named`: the resources whose devices are held by name even by pods that hold them whole.
    `zone`: the index of the device's NUMA zone in `zones[row]`; `NO_ZONE` if the device is in no zone."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.listed: dict[int, tuple[Device, ...]] = {}
        self.zones: dict[int, tuple[str, ...]] = {}
        self.codes: dict[str, int] = {}
        self.named: set[str] = set()
        self.zoned: dict[str, Table] = {}  # resource -> the allocatable amount of each [row, zone]
        # resource -> for each [row, zone], the amount held by the pods that are known to be in this zone
        self.known: dict[str, Table] = {}
        # row -> device -> how pods hold the device (`DeviceUse`) -> number of these pods
        self._held: dict[int, dict[str, dict[DeviceUse, int]]] = {}
        self._places: dict[int, dict[str, list[int]]] = {}  # row -> device -> its indexes in `listed[row]`
        # row -> zone name -> resource -> the amount held by the pods that are known to be in this zone
        self._settled: dict[int, dict[str, dict[str, int]]] = {}
        self._shape(0, 0)

    def write(self, row: int, node: Node | None) -> None:
        """Write the devices and zones of the node in this row. `node`: the node, or None for a row without a node. Pods
        that hold devices of the row continue to hold them."""
        devices, zones = (node.devices, node.zones) if node else ((), ())
        if not devices and not zones and row not in self.listed and row not in self.zones:
            return
        names = tuple(dict.fromkeys([zone.name for zone in zones] + [each.zone for each in devices if each.zone]))
        self._widen(len(devices), len(names))
        for known, said in ((self.listed, devices), (self.zones, names)):
            known.pop(row, None)
            if said:
                known[row] = said  # type: ignore[assignment]  # one of two dicts, each with its own kind of values
        self.resource[row], self.zone[row], self.size[row] = -1, NO_ZONE, 0
        self.milli[row], self.memory[row] = 0, 0
        self._places[row] = places = dict[str, list[int]]()
        for at, device in enumerate(devices):
            places.setdefault(device.name, []).append(at)
            self.resource[row, at] = self.codes.setdefault(device.resource, len(self.codes))
            self.named |= set() if device.counted else {device.resource}
            self.zone[row, at] = names.index(device.zone) if device.zone else NO_ZONE
            self.size[row, at] = max(0, device.memory_bytes)
        for table in self.zoned.values():
            table[row] = 0
        for at, zone in enumerate(zones):
            for resource, amount in zone.allocatable:
                self._zoned(resource)[row, at] = max(0, amount)
        for name in places:
            self._refresh(row, name)
        self._refresh_zones(row)

    def hold(self, row: int, names: Sequence[str], use: DeviceUse, asks: Amounts) -> dict[str, int]:
        """Add a pod to these devices. Return a mapping: resource -> number of devices that become shared. The caller
        subtracts them from the node's count of whole devices."""
        return self._change(row, names, use, asks, 1)

    def drop(self, row: int, names: Sequence[str], use: DeviceUse, asks: Amounts) -> dict[str, int]:
        """Remove a pod from these devices. Return the same mapping as `hold`, with a negative number for devices that
        are not shared any more. The caller adds these devices to the node's count of whole devices."""
        return self._change(row, names, use, asks, -1)

    def hold_whole(self, row: int, names: Sequence[str], asks: Amounts, pods: int = 1) -> None:
        """Add a pod that holds all of these devices whole; with `pods` -1, remove the pod."""
        self._change(row, names, WHOLE_DEVICE, asks, pods)

    def shared(self, row: int) -> dict[str, int]:
        """Return a mapping: resource -> number of shared devices of the row, which are not in the node's count of whole
        devices."""
        return self._shared(row, self._held[row]) if row in self._held else {}

    def returned(self, row: int, leavers: Iterable[tuple[Sequence[str], DeviceUse]]) -> dict[str, int]:
        """Return a mapping: resource -> number of devices that are not shared any more, and count as whole devices
        again, when these pods have left. `leavers`: for each pod, its devices and how it holds them."""
        left = {name: Counter(uses) for name, uses in self._held.get(row, {}).items()}
        before = self._shared(row, left)
        for names, use in leavers:
            for name in names:
                if name in left:
                    left[name][use] -= 1
        after = self._shared(row, {name: +uses for name, uses in left.items()})
        return {resource: count - after.get(resource, 0) for resource, count in before.items()}

    def _shared(self, row: int, held: Mapping[str, Mapping[DeviceUse, int]]) -> dict[str, int]:
        found: dict[str, int] = {}
        counts = {device.name: device.resource for device in self.listed.get(row, ())}
        for name, uses in held.items():
            for resource in sorted({use.resource for use in uses if use.resource == counts.get(name, use.resource)}):
                if resource:
                    found[resource] = found.get(resource, 0) + 1
        return found

    def resize(self, capacity: int) -> None:
        """Enlarge the tables to `capacity` rows; new rows have no devices."""
        self.capacity = capacity
        self._widen(0, 0, always=True)

    def copy(self) -> DeviceTable:
        other = DeviceTable(self.capacity)
        other.listed, other.zones, other.codes = dict(self.listed), dict(self.zones), dict(self.codes)
        other.named = set(self.named)
        other._held = {row: {name: dict(uses) for name, uses in devices.items()} for row, devices in self._held.items()}
        other._places = dict(self._places)
        other._settled = {
            row: {zone: dict(amounts) for zone, amounts in zones.items()} for row, zones in self._settled.items()
        }
        for name in ("milli", "memory", "size", "resource", "zone"):
            setattr(other, name, getattr(self, name).copy())
        other.zoned = {resource: table.copy() for resource, table in self.zoned.items()}
        other.known = {resource: table.copy() for resource, table in self.known.items()}
        return other

    def _change(self, row: int, names: Sequence[str], use: DeviceUse, asks: Amounts, pods: int) -> dict[str, int]:
        before = self.shared(row) if use.resource else {}
        held = self._held.get(row)
        if held is None:
            held = self._held[row] = {}
        for name in names:
            if name.startswith(ZONE):
                self._settle(row, name.removeprefix(ZONE), asks, pods)
                continue
            uses = held.setdefault(name, {})
            uses[use] = uses.get(use, 0) + pods
            if not uses[use]:
                del uses[use]
            if not uses:
                del held[name]
            self._refresh(row, name)
        if not held:
            del self._held[row]
        if not use.resource:
            return {}
        after = self.shared(row)
        return {name: after.get(name, 0) - before.get(name, 0) for name in sorted({*before, *after})}

    def _settle(self, row: int, zone: str, asks: Amounts, pods: int) -> None:
        """Record that a pod with these requests is known to be in the zone (`pods` is 1), or has left the zone (-1)."""
        held = self._settled.setdefault(row, {}).setdefault(zone, {})
        for resource, amount in asks:
            held[resource] = held.get(resource, 0) + amount * pods
            if not held[resource]:
                del held[resource]
        if not held:
            del self._settled[row][zone]
        if not self._settled[row]:
            del self._settled[row]
        self._refresh_zones(row)

    def _refresh(self, row: int, name: str) -> None:
        """Compute the free part of the device from the pods that hold it by name."""
        for at in self._places.get(row, {}).get(name, ()):
            resource, size = self.listed[row][at].resource, int(self.size[row, at])
            milli, memory = MILLI, size
            for use, pods in self._held.get(row, {}).get(name, {}).items():
                part, part_bytes = (use if use.resource == resource else WHOLE_DEVICE).of(size)
                milli, memory = milli - part * pods, memory - part_bytes * pods
            self.milli[row, at], self.memory[row, at] = milli, memory

    def _refresh_zones(self, row: int) -> None:
        for table in self.known.values():
            table[row] = 0
        for at, zone in enumerate(self.zones.get(row, ())):
            for resource, amount in self._settled.get(row, {}).get(zone, {}).items():
                self._zoned(resource)
                self.known[resource][row, at] = amount

    def _zoned(self, resource: str) -> Table:
        if resource not in self.zoned:
            shape = (self.capacity, self._most_zones)
            self.zoned[resource], self.known[resource] = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        return self.zoned[resource]

    def _shape(self, devices: int, zones: int) -> None:
        """Create empty tables with space for `devices` devices and `zones` zones in each row."""
        self._most_zones = zones
        shape = (self.capacity, devices)
        self.milli, self.memory, self.size = (np.zeros(shape, np.int64) for _ in range(3))
        self.resource, self.zone = np.full(shape, -1, np.int64), np.full(shape, NO_ZONE, np.int64)

    def _widen(self, devices: int, zones: int, *, always: bool = False) -> None:
        """Enlarge the tables so that each row has space for `devices` devices and `zones` zones."""
        widest = self.milli.shape[1]
        if not always and devices <= widest and zones <= self._most_zones:
            return
        old = (self.milli, self.memory, self.size, self.resource, self.zone)
        zoned, known = self.zoned, self.known
        self._shape(max(devices, widest), max(zones, self._most_zones))
        for before, after in zip(old, (self.milli, self.memory, self.size, self.resource, self.zone), strict=True):
            after[: len(before), : before.shape[1]] = before
        self.zoned, self.known = {}, {}
        for resource, table in zoned.items():
            self._zoned(resource)[: len(table), : table.shape[1]] = table
            self.known[resource][: len(table), : table.shape[1]] = known[resource]


def zone_in(names: Iterable[str]) -> str | None:
    """Return the NUMA zone in the list of a pod's devices; None if the list has no zone."""
    return next((name.removeprefix(ZONE) for name in names if name.startswith(ZONE)), None)
