"""Measure the fragmentation of devices, and how much it changes if one more pod is placed. The method is that of Weng
et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC'23,
section 3).

*Typical pods* are the most frequent pod shapes, each with its frequency. The *fragments* of a node, for one typical
pod, are the free parts of its devices that the pod cannot use. If the pod does not fit on the node (because of cpu,
devices, or node constraints) or requests no devices, all free parts are fragments. If the pod fits, the free parts that
are too small for it are fragments. The *fragmentation* of the node is the amount of its fragments in thousandths of a
device, averaged over all typical pods by their frequencies. As in the paper, memory is ignored.

A pod is placed on the node where it adds least fragmentation. In the paper's program, the score of a node is `int(100 *
sigmoid((before - after) / 1000))`; higher is better. If the pod requests a part of a device, each device of the node
has such a score. Among nodes of equal score the first node is chosen, and among devices of equal score the first
device. The rule for equal scores matters, because equal scores are frequent. If one of the equal nodes were chosen at
random, fewer pods could be placed than with best fit.

`TypicalPods.wasted` is Phalanx's own measure, which has four more terms:

- *Stranded* devices. Fragmentation only considers whether the next pod finds a device. So a node with eight free
  devices has no fragmentation even if its free cpu is only enough for one more pod. Each free device is assumed to need
  the mean cpu that expected pods request per device. A free device is stranded if the node does not have this cpu for
  it. The number of stranded devices changes with every placed pod, so pods that request much cpu are placed early on
  nodes with much cpu. With a large weight, the term would place pods that request little cpu on the large nodes, which
  have the least cpu per device, and so break up their free capacity. So the weight is small (`STRANDED`).
- *Wanted* nodes. If many expected pods can use only some nodes (because of a GPU model), this term makes other pods
  avoid these nodes (`WANTED`).
- *Untidy* nodes. Full nodes should be used first. A rule that only decides between nodes with an equal change of
  fragmentation would hardly ever apply. So each free device adds a small amount to the waste of its node (`UNTIDY`).
- *Remnants*. For a shared device, the remainder after several further pods is important, and not only whether one more
  pod fits. For example, two pods of 0.47 leave 0.06 of a device, which no pod can use; pods of 0.47 and 0.32 leave
  0.21, enough for a pod of 0.16. This term adds the part of each device that is expected to stay unused after further
  pods. The part is computed from the frequencies of typical pods (`remnants`)."""

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

POPULAR = 0.95  # the typical pods are the most frequent shapes that together make up this fraction of all pods
STRANDED = 1 / 5  # the weight of a stranded device, relative to a fragment
# For a device whose demand is twice the average, the waste of its node is lowered by this fraction of the free part of
# the device.
WANTED = 1 / 4
# The weight of the case that no further pod is placed (see `remnants`). All expected pods together have the weight 1.
SCARCE = 1 / 20
# the weight of a free device, relative to a fragment: a free device adds 2.5 thousandths to the waste of its node
UNTIDY = 1 / 400
ROWS = 256  # operations on arrays process this many rows at a time, so that the arrays stay in the processor's cache

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class DeviceRequest(NamedTuple):
    """The request of one pod: cpu in millicores, the number of devices, and the thousandths of each device."""

    cpu: int
    devices: int
    milli: int


def device_request(shape: Shape, resource: str) -> DeviceRequest:
    """Return the request of pods of the shape for this resource."""
    cpu = dict(shape.requests).get(CPU, 0)
    if shape.share is not None and shape.share.resource == resource:
        return DeviceRequest(cpu, shape.share.count, shape.share.milli)
    whole = dict(shape.requests).get(resource, 0)
    return DeviceRequest(cpu, whole, MILLI if whole else 0)


class TypicalPods:
    """The typical pods, stored as arrays with one entry for each typical pod. `may[row, pod]`: True if the pod may use
    the node in the row."""

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
        )  # the weights are integers, so their sums do not depend on the order of summation
        self.cpu_per_device = cpu_per_device(columns, weighted, resource)
        interned = InternTable()
        demands = [interned.demand(shape) for shape, _ in popular]
        self.may = np.stack([matching.selected(columns.attributes, demand.where) for demand in demands], axis=1)
        self.wanted = self.wanted_in(columns)
        self.remnants = remnants(weighted, resource)

    def wanted_in(self, columns: NodeTable) -> Floats:
        """Return for each row how much its devices are in demand: 1 is the average of all devices. To compute this, the
        request of each typical pod is divided evenly among all devices that the pod may use. These parts are added up
        for each device, and the sum is divided by the mean over all devices. The values are rounded so that they are
        the same on every machine."""
        has = (columns.devices.resource == columns.devices.codes.get(self.resource, -2)).sum(axis=1)
        asked_in_all = self.weight * self.devices * self.milli
        for_each = asked_in_all / np.maximum((self.may * has[:, None]).sum(axis=0), 1)
        found = (self.may * for_each).sum(axis=1)
        mean = (found * has).sum() / max(1, has.sum())
        return np.asarray(np.round(found / mean, 3) if mean else np.ones(len(found)))

    def lost(self, rows: NDArray[np.intp], cpu: Ints, left: Ints) -> Floats:
        """Return the fragmentation of each row. `cpu`: the free cpu of each row. `left`: the free thousandths, indexed
        [row, device]."""
        large = left[:, :, None] >= self.milli
        fits = (large.sum(axis=1) >= self.devices) & (self.devices > 0) & (cpu[:, None] >= self.cpu) & self.may[rows]
        total = left.sum(axis=1)[:, None]
        usable = np.einsum("nw,nwt->nt", left, large)
        return np.asarray(total - np.where(fits, usable, 0)) @ self.weight / self.total

    def wasted(self, rows: NDArray[np.intp], cpu: Ints, left: Ints) -> Floats:
        """Return the waste of each row, in thousandths of a device. The waste is the sum of the fragmentation and of
        the four terms in the module docstring."""
        free = left.sum(axis=1)
        fed = cpu * MILLI / self.cpu_per_device if self.cpu_per_device else free
        kept = UNTIDY - WANTED * (self.wanted[rows] - 1.0)
        lost = self.lost(rows, cpu, left) + self.remnants[left].sum(axis=1)
        return np.asarray(lost + STRANDED * np.maximum(free - fed, 0) + free * kept)


Measure: TypeAlias = Callable[[TypicalPods, NDArray[np.intp], Ints, Ints], Floats]


def cpu_per_device(columns: NodeTable, weighted: Sequence[tuple[Shape, float]], resource: str) -> float:
    """Return the millicores of cpu per device that the expected pods request: their total cpu divided by the number of
    devices that they request. Pods without devices are included. The result is at most the mean cpu per device of the
    nodes that have devices."""
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
    """Return an array V. V(x) is the number of thousandths that are expected to stay unused for ever if x thousandths
    of a device are free now.

    Of all requested devices of the expected pods, let p(m) be the fraction for which m thousandths are requested. Let s
    = `SCARCE` be the weight of the case that no further pod is placed. Then V(x) = (s x + sum of p(m) V(x - m)) / (s +
    sum of p(m)), where the sums are over all m <= x. The values are rounded so that they are the same on every
    machine."""
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
    """Return the most frequent shapes, until their weights add up to the fraction `POPULAR` of the total weight. Shapes
    of equal weight stay in the given order."""
    listed = sorted(weighted, key=lambda item: -item[1])
    enough, found, have = POPULAR * sum(weight for _, weight in listed), list[tuple[Shape, float]](), 0.0
    for shape, weight in listed:
        if have >= enough:
            break
        found.append((shape, weight))
        have += weight
    return found


def left_of(ledger: DeviceDraft, resource: str, rows: NDArray[np.intp]) -> Ints:
    """Return the free thousandths of each device of the resource on the rows `rows`, as an array indexed [row,
    device]."""
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
    """Return an array, indexed [row, device]. An entry is the amount by which fragmentation (or another measure)
    decreases if the pod is placed on the row and, if it requests a part of a device, on this device."""
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
    """Return the free thousandths of each device after the pod is placed. The pod takes the first `asks.devices`
    devices that have enough."""
    fits = (left >= asks.milli) & (asks.milli > 0)
    first = fits & (np.cumsum(fits, axis=1) <= asks.devices)
    return np.where(first, left - asks.milli, left)


def rounded(gain: Floats) -> Floats:
    """Return the score that the paper's program computes from a gain: a whole number from 0 to 100. A gain of -inf has
    the score -inf."""
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(gain), np.floor(100.0 / (1.0 + np.exp(-gain / 1000.0))), gain)
