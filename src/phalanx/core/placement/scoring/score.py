"""Choose one of the nodes on which a pod fits, by the policy (`Policy.score`).

Each policy is a list of criteria, the strongest first. A criterion gives each node a score, and the node with the
highest score is chosen. If several nodes have equal scores in all criteria, the one with the smallest row is chosen,
which is usually the oldest. `PACK` has no criteria, because the draft's packing order already decides. If the pod
requests a part of a device, some policies also choose the device. With all other policies, the pod gets a shared device
of the chosen node: of those with enough free capacity, the one with the least.

- SPREAD: the node with the most free capacity after the pod is placed: the mean, over the requested resources, of free
  amount / allocatable amount.
- LOAD: the node with the smallest (measured use + grants of this cycle + request of the pod) / allocatable, for the
  resource with the highest such value. On a node without measurements, the requests of the pods that are already on the
  node are used instead of measured use + grants.
- FRAGMENTATION: the node on which fragmentation (`core.placement.scoring.fragmentation`) grows least, rounded as in the
  program of the FGD paper.
- FEWEST_LOST (Phalanx's own): the node where `TypicalPods.wasted` grows least, rounded to 1/100,000 of a device; among
  equal nodes, BEST_FIT decides.
- BEST_FIT, DOT_PRODUCT, DEVICE_PACKING, DEVICE_CLUSTERING, RANDOM: the policies with which the paper (ATC'23, section
  6) compares FGD. These policies have the weights and roundings of the paper's simulator. Cpu and devices count half
  each, relative to the largest node; scores are whole numbers from 0 to 100.

Some policies use typical pods, which are the pods expected in the future. The settings of the policy may list typical
pods; otherwise the pods of all known jobs are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft, Expected
from phalanx.core.placement.scoring import fragmentation
from phalanx.core.placement.scoring.fragmentation import TypicalPods, device_request, left_of
from phalanx.model.pod import CPU, MILLI, Shape
from phalanx.model.policy import ScoringStrategy
from phalanx.state.classes import Demand
from phalanx.state.cluster import Cluster

Positions: TypeAlias = NDArray[np.intp]
Floats: TypeAlias = NDArray[np.float64]
Criterion: TypeAlias = Callable[[Draft, Demand, Positions], Floats]

TOUCHED = -2  # stands for a row that the draft has changed; its scores are not reused
BY_FRAGMENTATION = {ScoringStrategy.FRAGMENTATION, ScoringStrategy.FEWEST_LOST}


def criteria(score: ScoringStrategy) -> tuple[Criterion, ...]:
    """Return the criteria of the strategy, the strongest first."""
    return CRITERIA.get(score, ())


def device(draft: Draft, demand: Demand, position: int) -> int | None:
    """Return the device of the node at the position that the strategy chooses for the pod. Return None if the pod does
    not request a part of exactly one device, or if the strategy does not choose devices."""
    share = demand.shape.share
    if share is None or share.count != 1:
        return None
    at = np.array([position])
    if draft.score is ScoringStrategy.RANDOM:
        fits = draft.ledger.open_to(share, int(draft.rows[position])).nonzero()[0]
        return int(fits[int(chance(draft, at)[0]) % len(fits)]) if len(fits) else None
    if draft.score not in BY_FRAGMENTATION or (gains := gains_at(draft, demand, at)) is None:
        return None
    return int(gains[0].argmax()) if np.isfinite(gains[0]).any() else None


def spread(draft: Draft, demand: Demand, found: Positions) -> Floats:
    """Score by free capacity. For each requested resource, the amount that is free after the pod is placed is divided
    by the allocatable amount; the score is the mean of these quotients."""
    parts = [
        (draft.free[name][found] - amount) / np.maximum(draft.columns.allocatable[name][draft.rows[found]], 1)
        for name, amount in demand.asks
    ]
    return np.asarray(sum(parts) / len(parts))


def load(draft: Draft, demand: Demand, found: Positions) -> Floats:
    """Score by measured use. For each requested resource, the use of the node with the pod is divided by the
    allocatable amount. The largest of these quotients is the score, negated so that less use scores higher."""
    rows, worst = draft.rows[found], np.zeros(len(found))
    for name, amount in demand.asks:
        has = draft.columns.allocatable[name][rows]
        held = has - draft.free[name][found]
        used = np.array([measured(draft, row, name) for row in rows.tolist()])
        given = draft.columns.free[name][rows] - draft.free[name][found]
        worst = np.maximum(worst, (np.where(used < 0, held, used + given) + amount) / np.maximum(has, 1))
    return -worst


def measured(draft: Draft, row: int, resource: str) -> int:
    """Return the measured use of the resource on the row's node; -1 if it is not measured."""
    node = draft.columns.nodes[row]
    return next((amount for name, amount in node.used if name == resource), -1) if node is not None else -1


def best_fit(draft: Draft, demand: Demand, found: Positions) -> Floats:
    cpu, devices = left_after(draft, demand, found)
    return np.asarray(np.floor((1.0 - 0.5 * cpu - 0.5 * devices) * 100))


def dot_product(draft: Draft, demand: Demand, found: Positions) -> Floats:
    most_cpu, most_devices = largest(draft)
    asks = device_request(demand.shape, counted(draft))
    free, left = stock(draft, found)
    product = free / most_cpu * (asks.cpu / most_cpu)
    product = product + left.sum(axis=1) / most_devices * (asks.devices * asks.milli / most_devices)
    return np.asarray(np.floor(100 * (1 - product / 2)))


def device_packing(draft: Draft, demand: Demand, found: Positions) -> Floats:
    asks, (_, left) = device_request(demand.shape, counted(draft)), stock(draft, found)
    if not asks.devices:
        return np.zeros(len(found))
    whole = (left == MILLI).sum(axis=1)
    order = np.sort(np.where(left >= asks.milli, left, 10 * MILLI), axis=1)[:, : asks.devices]
    opened = (order == MILLI).sum(axis=1)
    used = np.maximum(100 - (order * 100 // MILLI).sum(axis=1) // 10, 50)
    found_score = np.where(opened > 0, np.maximum(50 - opened, 33), used)
    listed = draft.ledger.resource[draft.rows[found]] == draft.ledger.book.codes.get(counted(draft), -2)
    idle = whole == listed.sum(axis=1)
    return np.asarray(np.where(idle, np.maximum(33 - whole, whole), found_score), np.float64)


def device_clustering(draft: Draft, demand: Demand, found: Positions) -> Floats:
    resource = counted(draft)
    asks, (_, left) = device_request(demand.shape, resource), stock(draft, found)
    if not asks.devices:
        return np.zeros(len(found))
    most = largest(draft)[1]
    points = 25 * (most - left.sum(axis=1)) // most
    for at, row in enumerate(draft.rows[found].tolist()):
        kinds = {kind(each, resource) for each in draft.tenants(row)}
        points[at] += (75 if len(kinds) == 1 else 50) if kind(demand, resource) in kinds else 0 if kinds else 25
    return np.asarray(points, np.float64)


def kind(demand: Demand, resource: str) -> int:
    """Return the number of whole devices that the demand requests; 0 if it requests a part of a device."""
    asks = device_request(demand.shape, resource)
    return asks.devices if asks.milli == MILLI else 0


def by_chance(draft: Draft, demand: Demand, found: Positions) -> Floats:
    return chance(draft, found).astype(np.float64)


def chance(draft: Draft, found: Positions) -> NDArray[np.uint64]:
    """Return a pseudo-random number for each position in `found`. The number is a hash (splitmix64) of the position's
    row and of the number of changes to nodes so far."""
    seed = np.uint64(draft.changes() * 0xD1B54A32D192ED03 % 2**64)
    mixed = draft.rows[found].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + seed
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(12))


def least_lost(draft: Draft, demand: Demand, found: Positions) -> Floats:
    """Score each position in `found` by the gain on its best device (see `gains_at`). The score of a row is cached
    until the row changes."""
    if typical_pods(draft) is None:
        return np.zeros(len(found))
    columns, rows = draft.columns, draft.rows[found]
    known, seen = columns.scores.of((demand, draft.score), columns.capacity)
    now = np.array(columns.stamps, np.int64)[rows]
    now[np.isin(rows, list(draft.touched))] = TOUCHED
    stale = (seen[rows] != now) | (now == TOUCHED)
    if stale.any() and (gains := gains_at(draft, demand, found[stale])) is not None:
        known[rows[stale]] = gains.max(axis=1, initial=-np.inf)
        seen[rows[stale]] = now[stale]
    return known[rows]


def gains_at(draft: Draft, demand: Demand, found: Positions) -> Floats | None:
    """Return an array, indexed [index in `found`, device]. An entry is the gain if the pod uses the device: the
    decrease of the measure that the strategy uses. The gains are rounded so that they are the same on every machine.
    Return None if no expected pod requests devices."""
    if (typical := typical_pods(draft)) is None:
        return None
    free, left = stock(draft, found)
    if draft.score is ScoringStrategy.FEWEST_LOST:
        wasted = fragmentation.gains(typical, demand, draft.rows[found], free, left, TypicalPods.wasted)
        return np.asarray(np.round(wasted, 2))
    return fragmentation.rounded(fragmentation.gains(typical, demand, draft.rows[found], free, left))


def typical_pods(draft: Draft) -> TypicalPods | None:
    """Return the typical pods for fragmentation; None if no expected pod requests devices.

    The typical pods are cached with the node attributes until a node or the list of expected pods changes."""
    columns, codes = draft.columns, draft.columns.devices.codes
    if not draft.expected or not codes:
        return None
    columns.scores.expect(draft.expected)
    known: TypicalPods | None = columns.attributes.derived.get(TypicalPods)
    if known is None or known.expected is not draft.expected:
        known = TypicalPods(columns, draft.expected, next(iter(codes)))
        columns.attributes.derived[TypicalPods] = known
    return known


def stock(draft: Draft, found: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two arrays: the free cpu of each position in `found`, and the free thousandths of each device at these
    positions."""
    return draft.free[CPU][found], left_of(draft.ledger, counted(draft), draft.rows[found])


def left_after(draft: Draft, demand: Demand, found: Positions) -> tuple[Floats, Floats]:
    """Return two arrays with an element for each position in `found`: the cpu and the devices that would be free there
    after the pod is placed. Cpu is divided by the largest cpu of any node, and devices by the largest number of devices
    of any node."""
    most_cpu, most_devices = largest(draft)
    asks, (free, left) = device_request(demand.shape, counted(draft)), stock(draft, found)
    return (free - asks.cpu) / most_cpu, (left.sum(axis=1) - asks.devices * asks.milli) / most_devices


def largest(draft: Draft) -> tuple[int, int]:
    """Return the largest number of millicores of a node, and the largest number of thousandths of devices of a node.
    The result is cached with the node attributes."""
    derived = draft.columns.attributes.derived
    known: tuple[int, int] | None = derived.get(largest)
    if known is None:
        cpu, resource = draft.columns.allocatable.get(CPU), counted(draft)
        has = (draft.ledger.resource == draft.ledger.book.codes.get(resource, -2)).sum(axis=1)
        known = max(1, 0 if cpu is None else int(cpu.max())), max(1, int(has.max(initial=0))) * MILLI
        derived[largest] = known
    return known


def counted(draft: Draft) -> str:
    """Return the resource whose devices are scored: the first resource of which nodes list devices."""
    return next(iter(draft.columns.devices.codes), "")


CRITERIA: dict[ScoringStrategy, tuple[Criterion, ...]] = {
    ScoringStrategy.SPREAD: (spread,),
    ScoringStrategy.LOAD: (load,),
    ScoringStrategy.BEST_FIT: (best_fit,),
    ScoringStrategy.DOT_PRODUCT: (dot_product,),
    ScoringStrategy.DEVICE_PACKING: (device_packing,),
    ScoringStrategy.DEVICE_CLUSTERING: (device_clustering,),
    ScoringStrategy.RANDOM: (by_chance,),
    ScoringStrategy.FRAGMENTATION: (least_lost,),
    ScoringStrategy.FEWEST_LOST: (least_lost, best_fit),
}


GROWN = 1.25  # the pods of all jobs are counted again when the number of jobs has changed by this factor


def expected_pods(cluster: Cluster) -> Expected:
    """Count the pods of all known jobs, and return (shape, number of pods) for each shape. The result is cached, and
    the pods are counted again only after the number of jobs has changed by a factor of `GROWN`. A rough count is
    enough."""
    jobs, scores = len(cluster.jobs), cluster.columns.scores
    then, known = scores.typical
    if known is None or not jobs / GROWN <= then <= jobs * GROWN:
        counts: Counter[Shape] = Counter()
        for record in cluster.jobs.values():
            for role in record.gang.roles:
                counts[role.shape] += role.count
        known = tuple((shape, float(count)) for shape, count in counts.most_common())
        scores.typical = (jobs, known)
    found: Expected = known
    return found
