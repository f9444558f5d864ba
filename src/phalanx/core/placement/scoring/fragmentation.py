"""Fragmentation of devices as Weng et al. measure it ("Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC'23, section 3), and by how much one pod more changes it.

*Typical pods* are shapes with their frequencies. For one of them a node's free parts of devices are all fragments if
the pod does not fit there (cpu, devices, or which nodes it may go to) or asks no devices; else those parts of devices
that are too small for it. The expectation over the typical pods is the node's fragmentation, in thousandths of a
device. Memory is not looked at, as in the paper.

A pod goes where it adds least: `int(100 * sigmoid((before - after) / 1000))` is the score of a node (and, for a share,
of each of its devices) in the paper's program, higher is better; the first of equal devices, then of equal nodes, is
taken. Those ties are frequent and decide much: broken by chance, the same scores place less than best fit does.

`TypicalPods.wasted` is our own measure. Fragmentation asks whether the next pod finds a device; a node of eight free
devices and the cpu for one pod passes. So what is *stranded* is added: free devices beyond what the free cpu is enough
for, at the cpu that the pods to come ask per device. Since that changes with every pod, it steers pods that ask much
cpu to where cpu is plenty, long before some device is stranded; but one that asks little cpu it would lead to the large
nodes, which have least per device, and break these up, so it counts for a part only (`STRANDED`). Where many of the
pods to come can go nowhere else (a model of GPU that they name), a node is *wanted*: others had better go elsewhere
(`WANTED`). Unrounded gains of fragmentation alone would overrule packing (they are never equal), so what stays free
counts a little too (`UNTIDY`). And whether *one* more pod fits says little of a shared device: two pods of 0.47 leave
0.06 that nobody takes, 0.47 and 0.32 leave room for 0.16. So the *remnant* of a device is added, what of it is expected
to be left when pods have come, one after the other, as often as they are expected (`remnants`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters import matching
from phalanx.core.placement.filters.devices import DeviceDraft
from phalanx.model.pod import CPU, MILLI, Shape
from phalanx.state.classes import Demand, InternTable
from phalanx.state.nodes.table import NodeTable

POPULAR = 0.95  # of all pods: the most frequent shapes that make up so many are the typical ones
STRANDED = 1 / 5  # a device without cpu, beside one that is a fragment
WANTED = 1 / 4  # a free device for which twice as many compete as on average, beside one that is a fragment
SCARCE = 1 / 20  # the part of pods to come that a device does not get to see, though it has room for them
UNTIDY = 1 / 400  # what is free, beside what is lost: 2.5 thousandths of a device per device
ROWS = 256  # looked at in one operation: the tables stay in the processor's cache

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class DeviceRequest(NamedTuple):
    """The request of one pod: cpu in millicores, how many devices, and how many thousandths of each."""

    cpu: int
    devices: int
    milli: int


def device_request(shape: Shape, resource: str) -> DeviceRequest:
    """Return what pods of the shape ask for of this resource."""
    cpu = dict(shape.requests).get(CPU, 0)
    if shape.share is not None and shape.share.resource == resource:
        return DeviceRequest(cpu, shape.share.count, shape.share.milli)
    whole = dict(shape.requests).get(resource, 0)
    return DeviceRequest(cpu, whole, MILLI if whole else 0)


class TypicalPods:
    """The typical pods, in columns. `may[row, pod]`: whether the pod may go to the node."""

    def __init__(self, columns: NodeTable, weighted: Sequence[tuple[Shape, float]], resource: str) -> None:
        popular = most_frequent(weighted)
        asks = [device_request(shape, resource) for shape, _ in popular]
        self.resource, self.expected = resource, weighted
        self.cpu = np.array([each.cpu for each in asks], np.int64)
        self.devices = np.array([each.devices for each in asks], np.int64)
        self.milli = np.array([each.milli for each in asks], np.int64)
        self.total = sum(weight for _, weight in popular) or 1.0
        self.weight = np.array(
            [weight for _, weight in popular], np.float64
        )  # counts: their sums are exact, in any order
        self.cpu_per_device = cpu_per_device(columns, weighted, resource)
        interned = InternTable()
        demands = [interned.demand(shape) for shape, _ in popular]
        self.may = np.stack([matching.selected(columns.attributes, demand.where) for demand in demands], axis=1)
        self.wanted = self.wanted_in(columns)
        self.remnants = remnants(weighted, resource)

    def wanted_in(self, columns: NodeTable) -> Floats:
        """By row, over the mean of all devices: how many devices pods to come ask per device that they may have, summed
        over the pods that may go there. Rounded, so that it is the same on every machine."""
        has = (columns.devices.resource == columns.devices.codes.get(self.resource, -2)).sum(axis=1)
        asked_in_all = self.weight * self.devices * self.milli
        for_each = asked_in_all / np.maximum((self.may * has[:, None]).sum(axis=0), 1)
        found = (self.may * for_each).sum(axis=1)
        mean = (found * has).sum() / max(1, has.sum())
        return np.asarray(np.round(found / mean, 3) if mean else np.ones(len(found)))

    def lost(self, rows: NDArray[np.intp], cpu: Ints, left: Ints) -> Floats:
        """Return, for each row with so much free cpu and [row, device] left thousandths, its fragmentation."""
        large = left[:, :, None] >= self.milli
        fits = (large.sum(axis=1) >= self.devices) & (self.devices > 0) & (cpu[:, None] >= self.cpu) & self.may[rows]
        total = left.sum(axis=1)[:, None]
        usable = np.einsum("nw,nwt->nt", left, large)
        return np.asarray(total - np.where(fits, usable, 0)) @ self.weight / self.total

    def wasted(self, rows: NDArray[np.intp], cpu: Ints, left: Ints) -> Floats:
        """Return, for each row, what of it is lost, the remnants of its devices, part of what is stranded, and a little
        of what is free, less as much as other pods want it; in thousandths of a device."""
        free = left.sum(axis=1)
        fed = cpu * MILLI / self.cpu_per_device if self.cpu_per_device else free
        kept = UNTIDY - WANTED * (self.wanted[rows] - 1.0)
        lost = self.lost(rows, cpu, left) + self.remnants[left].sum(axis=1)
        return np.asarray(lost + STRANDED * np.maximum(free - fed, 0) + free * kept)


Measure: TypeAlias = Callable[[TypicalPods, NDArray[np.intp], Ints, Ints], Floats]


def cpu_per_device(columns: NodeTable, weighted: Sequence[tuple[Shape, float]], resource: str) -> float:
    """Return the millicores that the expected pods ask for per device, pods without devices included; at most what
    nodes with devices have."""
    cpu = devices = 0.0
    for shape, weight in weighted:
        asks = device_request(shape, resource)
        cpu, devices = cpu + weight * asks.cpu, devices + weight * asks.devices * asks.milli / MILLI
    has = columns.devices.resource == columns.devices.codes.get(resource, -2)
    millicores = columns.allocatable.get(CPU)
    if millicores is None or not devices or not has.any():
        return 0.0
    return min(cpu / devices, float(millicores[has.any(axis=1)].sum() / has.sum()))


def remnants(weighted: Sequence[tuple[Shape, float]], resource: str) -> Floats:
    """Return, by the thousandths left of a device, how many of them are expected to be left in the end.

    With p(m) the part of the pods to come that ask m thousandths of a device, and s = `SCARCE`, it is
    V(x) = (s x + sum of p(m) V(x - m)) / (s + sum of p(m)), over m <= x: either a pod comes that fits, or none does any
    more. Rounded, so that it is the same on every machine."""
    parts: dict[int, float] = {}
    for shape, weight in weighted:
        asks = device_request(shape, resource)
        if asks.devices and 0 < asks.milli <= MILLI:
            parts[asks.milli] = parts.get(asks.milli, 0.0) + weight * asks.devices
    found, total = np.zeros(MILLI + 1), sum(parts.values()) or 1.0
    for left in range(MILLI + 1):
        fitting = [(milli, weight / total) for milli, weight in sorted(parts.items()) if milli <= left]
        expected = SCARCE * left + sum(weight * found[left - milli] for milli, weight in fitting)
        found[left] = round(expected / (SCARCE + sum(weight for _, weight in fitting)), 3)
    return found


def most_frequent(weighted: Sequence[tuple[Shape, float]]) -> list[tuple[Shape, float]]:
    """Return the most frequent shapes, up to `POPULAR` of the weight; at equal weight as they were given."""
    listed = sorted(weighted, key=lambda item: -item[1])
    enough, found, have = POPULAR * sum(weight for _, weight in listed), list[tuple[Shape, float]](), 0.0
    for shape, weight in listed:
        if have >= enough:
            break
        found.append((shape, weight))
        have += weight
    return found


def left_of(ledger: DeviceDraft, resource: str, rows: NDArray[np.intp]) -> Ints:
    """Return [row, device]: the thousandths left of the row's devices of the resource."""
    counted = ledger.resource[rows] == ledger.book.codes.get(resource, -2)
    return np.where(counted, np.maximum(ledger.left()[0][rows], 0), 0)


def gains(
    typical: TypicalPods,
    demand: Demand,
    rows: NDArray[np.intp],
    cpu: Ints,
    left: Ints,
    measure: Measure = TypicalPods.lost,
) -> Floats:
    """Return [row, device]: by how much fragmentation (or another measure) falls if the pod goes there and, for a
    share, to that device."""
    asks, parts = device_request(demand.shape, typical.resource), list[Floats]()
    for start in range(0, len(rows), ROWS):
        some = slice(start, start + ROWS)
        parts.append(_gains(typical, asks, rows[some], cpu[some], left[some], measure))
    return np.concatenate(parts) if parts else np.zeros((0, left.shape[1]))


def _gains(
    typical: TypicalPods, asks: DeviceRequest, rows: NDArray[np.intp], cpu: Ints, left: Ints, measure: Measure
) -> Floats:
    before = measure(typical, rows, cpu, left)
    width = left.shape[1]
    if asks.devices != 1 or asks.milli >= MILLI:
        after = measure(typical, rows, cpu - asks.cpu, taken_whole(left, asks))
        return np.repeat((before - after)[:, None], width, axis=1)
    each = np.repeat(left[:, None, :], width, axis=1)
    each[:, np.arange(width), np.arange(width)] -= asks.milli
    fits = left >= asks.milli
    at, device = fits.nonzero()
    after = measure(typical, rows[at], cpu[at] - asks.cpu, each[at, device])
    found = np.full(left.shape, -np.inf)
    found[at, device] = before[at] - after
    return found


def taken_whole(left: Ints, asks: DeviceRequest) -> Ints:
    """Return what is left without the first so many devices that have as much left as is asked of each."""
    fits = (left >= asks.milli) & (asks.milli > 0)
    first = fits & (np.cumsum(fits, axis=1) <= asks.devices)
    return np.where(first, left - asks.milli, left)


def rounded(gain: Floats) -> Floats:
    """Return the score of a gain as the paper's program has it, a whole number from 0 to 100; -inf stays what it is."""
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(gain), np.floor(100.0 / (1.0 + np.exp(-gain / 1000.0))), gain)
