"""Place constrained pods one by one, each on the node that passes the filters and scores best.

For each pod, the set of possible nodes is reduced in these steps. Each step keeps only:

1. nodes that have the requested amounts;
2. nodes that pass every filter (`core.placement.filters.affinity`: affinity, spread, host ports;
   `core.placement.filters.devices`: shares of devices, NUMA zones);
3. the nodes that the pod prefers most;
4. if the pod requests a share of a device: nodes with a device that is already shared and has enough left;
5. the best nodes by the scoring strategy (`core.placement.scoring.score`);
6. the first node in packing order.

So the pod's own preferences come before the policy, and the result is deterministic.

Pods of a gang that are already placed on the draft count as running pods when the next pod of the gang is placed. If
the pods of a gang require affinity to each other, and no pod of the gang runs yet, the first pod decides the domain of
the whole gang. In this case, the domains that have free amounts for all pods are tried first: at most `DOMAINS`, the
tightest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.core.placement.filters.matching import Rows
from phalanx.core.placement.scoring import score
from phalanx.model.pod import DeviceShare
from phalanx.model.policy import ScoringStrategy
from phalanx.state.classes import Demand
from phalanx.state.nodes.devices import NO_ZONE

DOMAINS = 64

Positions = NDArray[np.intp]


def fill_constrained(
    draft: Draft, demand: Demand, role: int, count: int, shares: list[tuple[int, int, int]], within: Rows | None
) -> int:
    """Place `count` pods on the draft, as `packing.fill` does. Return the number of pods for which there was no
    node."""
    for inside in own_domains(draft, demand, count, within):
        mark, before = draft.mark(), len(shares)
        if not one_by_one(draft, demand, role, count, shares, inside):
            return 0
        draft.rewind(mark)
        del shares[before:]
    return one_by_one(draft, demand, role, count, shares, within)


def one_by_one(
    draft: Draft, demand: Demand, role: int, count: int, shares: list[tuple[int, int, int]], within: Rows | None
) -> int:
    """Place the pods one after the other. Return the number of pods for which there was no node."""
    first = len(shares)  # the caller added the entries of `shares` before this index, so they must not be changed
    for left in range(count, 0, -1):
        position = best_position(draft, demand, within)
        if position is None:
            return left
        place_pod(draft, demand, position)
        if len(shares) > first and shares[-1][:2] == (role, position):
            shares[-1] = (role, position, shares[-1][2] + 1)
        else:
            shares.append((role, position, 1))
    return 0


def own_domains(draft: Draft, demand: Demand, count: int, within: Rows | None) -> Iterator[Rows]:
    """Yield the mask of each topology domain that may hold all pods, the tightest first. Yield nothing unless the pods
    require affinity to each other and none of them runs yet."""
    wishes = draft.pod_affinity(demand)
    if count < 2 or not wishes.near or not wishes.is_first():
        return
    found = positions_with_room(draft, demand, within)
    codes = draft.columns.attributes.labels.get(wishes.near[0].topology)
    if codes is None or not len(found):
        return
    by_position = codes[draft.rows]
    held = np.bincount(by_position[found], weights=matching.pods_held(draft.free, demand.asks, found))
    held[0] = 0
    enough = (held >= count).nonzero()[0]
    for code in enough[np.argsort(held[enough], kind="stable")][:DOMAINS].tolist():
        inside: Rows = by_position == code
        yield inside if within is None else inside & within


def positions_with_room(draft: Draft, demand: Demand, within: Rows | None) -> Positions:
    """Return the positions whose nodes match the demand and have enough free amounts for one pod."""
    allowed = draft.allowed(demand.where)
    if allowed is None:
        allowed = np.ones(len(draft), np.bool_)
    return matching.rows_that_fit(draft.free, demand.asks, allowed if within is None else allowed & within)


def best_position(draft: Draft, demand: Demand, within: Rows | None) -> int | None:
    """Return the best position for one pod; None if no node passes all filters. In this case, `Draft.objections`
    gets the number of nodes that each filter rejected."""
    found = positions_with_room(draft, demand, within)
    total, turned_away = len(found), []
    for text, passing in constraint_filters(draft, demand):
        kept = found[passing(found)]
        if len(kept) < len(found):
            turned_away.append((text, len(found) - len(kept)))
        found = kept
    if not len(found):
        draft.objections[demand] = (total, tuple(turned_away))
        return None
    for points in preferences(draft, demand):
        if len(found) > 1 and (values := points(found)) is not None:
            found = found[values == values.max()]
    return int(found[0])


def constraint_filters(draft: Draft, demand: Demand) -> Iterator[tuple[str, Callable[[Positions], Rows]]]:
    """Yield each filter as a pair: a text about nodes that fail the filter, and a function. The function takes
    positions and returns the mask of the positions that pass."""
    shape = demand.shape
    for text, rows in draft.pod_affinity(demand).rules():
        yield text, partial(at_rows, draft, rows)
    if (share := shape.share) is not None:
        whole = draft.free.get(share.resource, np.zeros(len(draft), np.int64))
        each = f"{share.resource} with {share_text(share)} left"
        what = f"have no {each}" if share.count == 1 else f"have fewer than {share.count} {each}"
        yield what, lambda found: draft.ledger.holds_share(share, draft.rows[found], whole[found])
    if shape.aligned == "required":
        yield (
            "have no NUMA zone that surely has all it asks",
            lambda found: in_one_zone(draft, demand, found),
        )


def preferences(draft: Draft, demand: Demand) -> Iterator[Callable[[Positions], NDArray[np.generic] | None]]:
    """Yield functions that take positions and return a score for each position; a higher score is better. The most
    important function comes first."""
    yield lambda found: draft.pod_affinity(demand).points(draft.rows[found])
    if demand.shape.aligned == "preferred":
        yield lambda found: in_one_zone(draft, demand, found)
    if (share := demand.shape.share) is not None and draft.score is ScoringStrategy.PACK:
        none = np.zeros(len(draft), np.int64)
        yield lambda found: draft.ledger.holds_share(share, draft.rows[found], none[found])
    for criterion in score.criteria(draft.score):
        yield partial(criterion, draft, demand)


def at_rows(draft: Draft, rows: Rows, found: Positions) -> Rows:
    """Return the entries of the mask `rows` (one entry for each row) that belong to the positions in `found`."""
    return rows[draft.rows[found]]


def in_one_zone(draft: Draft, demand: Demand, found: Positions) -> Rows:
    """Return a mask with one entry for each position in `found`. It is True if the node has a NUMA zone with enough for
    one pod."""
    return np.asarray(zones(draft, demand, found).any(axis=1))


def zones(draft: Draft, demand: Demand, found: Positions) -> NDArray[np.bool_]:
    """Return a mask, indexed [index in `found`, zone], of the NUMA zones that have enough for one pod."""
    free = {resource: draft.free[resource][found] for resource, _ in demand.asks}
    return draft.ledger.zones_that_hold(demand, free, draft.rows[found])


def place_pod(draft: Draft, demand: Demand, position: int) -> None:
    """Place one pod at the position, and choose the best devices and NUMA zone for it."""
    shape = demand.shape
    if shape.share is None and not shape.aligned and not draft.scores_devices(demand):
        draft.put(position, demand, 1)
        return
    row, zone = int(draft.rows[position]), NO_ZONE
    if shape.aligned:
        holding = zones(draft, demand, np.array([position]))[0].nonzero()[0].tolist()
        zone = min(holding, key=lambda each: (draft.ledger.left_in(row, each, demand), each), default=NO_ZONE)
    whole = {name: int(column[position]) for name, column in draft.free.items()}
    first = score.device(draft, demand, position)
    draft.put_on(position, demand, draft.ledger.choose(demand, row, whole, zone=zone, first=first))


def share_text(share: DeviceShare) -> str:
    """Return the requested share of a device as text for a message."""
    return f"{share.memory_bytes / 2**30:g}Gi" if share.memory_bytes else f"{share.milli}/1000"
