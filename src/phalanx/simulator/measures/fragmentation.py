"""Fragmentation: free devices that the jobs of this workload cannot use.

*Fragmented* is defined as in FGD (Weng et al., "Beware of Fragmentation", ATC'23, section 3). A *typical* pod is drawn
from the workload (the most frequent shapes that make up 95 % of all pods). The free amount of a node counts as
fragmented if the pod does not fit on the node, or requests none of the counted resource. The measure is the expectation
over typical pods, summed over the nodes, relative to the cluster's capacity; it is the mean over `SAMPLES` evenly
spaced times of the run. Free parts of a shared device count as free amounts.

*Stranded* is the free amount of the counted resource for which the node's other free resources are too small, at the
ratio in which the workload's pods request them. (Borg, EuroSys'15, calls it unusable because another resource of the
machine is fully allocated.)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from phalanx.model.pod import Shape
from phalanx.simulator.schedule.schedule import Schedule
from phalanx.simulator.schedule.sweep import capacity, window
from phalanx.simulator.workload.workload import of_share

SAMPLES = 200
TYPICAL = 0.95

Free = dict[str, NDArray[np.float64]]  # resource -> the free amount of each node


def fragmentation(schedule: Schedule) -> dict[str, float]:
    """Return the measures; empty for a cluster of one node, on which pods are only counted."""
    if len(schedule.nodes) < 2 or not capacity(schedule):
        return {}
    counted, has = schedule.workload.counted, capacity(schedule) * schedule.workload.unit
    shapes, ratios = typical(schedule), beside(schedule)
    in_pieces, idle, in_want = 0.0, 0.0, 0.0
    for free in sampled(schedule):
        in_pieces += fragmented(free, shapes, counted)
        in_want += stranded(free, ratios, counted)
        idle += float(np.maximum(free[counted], 0.0).sum())
    return {
        "fragmentation": in_pieces / SAMPLES / has,
        "fragmentation_of_idle": in_pieces / idle if idle else 0.0,
        "stranded": in_want / SAMPLES / has,
    }


def typical(schedule: Schedule) -> list[tuple[dict[str, float], float]]:
    """Return (requests, probability) of each typical pod."""
    counts = counts_of(schedule)
    enough, total, found = TYPICAL * counts.total(), 0, list[tuple[Shape, int]]()
    for shape, count in counts.most_common():
        if total >= enough:
            break
        found.append((shape, count))
        total += count
    device_bytes = schedule.workload.device_bytes
    return [(asks(shape, device_bytes), count / total) for shape, count in found]


def counts_of(schedule: Schedule) -> Counter[Shape]:
    """Return the number of pods of each shape."""
    counts: Counter[Shape] = Counter()
    for fate in schedule.fates:
        for role in fate.task.job.roles:
            counts[role.shape] += role.count
    return counts


def beside(schedule: Schedule) -> dict[str, float]:
    """Return for each other resource the requested amount per unit of the counted one, over all pods that request the
    counted resource."""
    counted, device_bytes = schedule.workload.counted, schedule.workload.device_bytes
    asked: Counter[str] = Counter()
    for shape, count in counts_of(schedule).items():
        wanted = asks(shape, device_bytes)
        if wanted.get(counted, 0.0) > 0:
            asked.update({name: amount * count for name, amount in wanted.items()})
    return {name: amount / asked[counted] for name, amount in asked.items() if name != counted and amount > 0}


def asks(shape: Shape, device_bytes: float) -> dict[str, float]:
    found: dict[str, float] = {name: float(amount) for name, amount in shape.requests}
    if (share := shape.share) is not None:
        found[share.resource] = found.get(share.resource, 0.0) + of_share(share, device_bytes)
    return found


def sampled(schedule: Schedule) -> Iterator[Free]:
    """Yield the free amounts at evenly spaced times of the window."""
    since_s, until_s = window(schedule)
    row_of = {node.name: row for row, node in enumerate(schedule.nodes)}
    free = capacities(schedule)
    device_bytes = schedule.workload.device_bytes
    each = [[asks(role.shape, device_bytes) for role in fate.task.job.roles] for fate in schedule.fates]
    changes = [(stint.start_s, -1.0, at) for at, stint in enumerate(schedule.stints)]
    changes += [(stint.end_s, 1.0, at) for at, stint in enumerate(schedule.stints)]
    changes.sort()
    next_change = 0
    for sample in range(SAMPLES):
        at_s = since_s + (until_s - since_s) * (sample + 0.5) / SAMPLES
        while next_change < len(changes) and changes[next_change][0] <= at_s:
            _, sign, at = changes[next_change]
            stint = schedule.stints[at]
            for placement in stint.placements:
                for name, amount in each[stint.task][placement.role].items():
                    if name in free and placement.node in row_of:
                        free[name][row_of[placement.node]] += sign * amount
            next_change += 1
        yield free


def capacities(schedule: Schedule) -> Free:
    nodes = [dict(node.allocatable) for node in schedule.nodes]
    names = sorted({name for node in nodes for name in node})
    return {name: np.array([node.get(name, 0) for node in nodes], np.float64) for name in names}


def fragmented(free: Free, shapes: list[tuple[dict[str, float], float]], counted: str) -> float:
    """Return the expected free amount of `counted` that a typical pod cannot use."""
    there = np.maximum(free[counted], 0.0)
    found = 0.0
    for asked, likelihood in shapes:
        fits = np.full(len(there), asked.get(counted, 0.0) > 0)
        for name, amount in asked.items():
            fits &= free.get(name, np.zeros(len(there))) >= amount
        found += likelihood * float(there[~fits].sum())
    return found


def stranded(free: Free, ratios: Mapping[str, float], counted: str) -> float:
    """Return the free amount of `counted` on nodes where another resource is too small. `ratios`: the result of
    `beside`."""
    there = np.maximum(free[counted], 0.0)
    enough = there.copy()
    for name, per_unit in ratios.items():
        np.minimum(enough, np.maximum(free.get(name, np.zeros(len(there))), 0.0) / per_unit, out=enough)
    return float((there - enough).sum())
