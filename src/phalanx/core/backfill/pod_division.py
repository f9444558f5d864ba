"""Divide the pods of a job among nodes so that there is still capacity for the first reservation (rule R13).

Suppose that a job would still run when the first reservation starts. The job may take any nodes, as long as the
reserved job still fits on some nodes at that time. `core.backfill.reservation` calls this module if the usual placement
of one of the two jobs leaves no capacity for the other job. The module solves the problem exactly if the job and the
reserved job have one role each, and their pods have no constraints besides amounts (no affinity, ports or devices):

    fits(i, x) = number of reserved pods that fit on node i beside x pods of the job
    most(i, k) = max over x of most(i - 1, k - x) + fits(i, x)      (knapsack over nodes)

If the number of nodes times the number of pods of the job exceeds `LARGEST`, the module does not search for a
solution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.core.placement.packing import PackedPods
from phalanx.state.classes import Demand, Gang

Free = dict[str, NDArray[np.int64]]  # resource -> the free amount of each row, as in `shadow_time`

LARGEST = 1 << 14  # the limit on the number of nodes times the number of pods of the job
NONE = -1


def divided(draft: Draft, gang: Gang, free: Free, first: Gang) -> list[PackedPods]:
    """Divide the gang's pods among the nodes so that the gang of the first reservation (`first`) still fits into the
    remaining amounts of `free`. Return the number of pods for each node; an empty list if there is no solution, if the
    problem is too large, or if the pods have constraints besides amounts."""
    if not is_plain(draft, gang) or not is_plain(draft, first):
        return []
    demand, pods = gang.demands[0], gang.minimums[0]
    positions = [at for at in range(len(draft)) if capacity(draft, demand, at)]
    if not positions or len(positions) * pods > LARGEST:
        return []
    allowed = matching.matching(draft.columns.attributes, first.demands[0].where)
    fits = [fitting(draft, demand, free, first.demands[0], at, pods, bool(allowed[draft.rows[at]])) for at in positions]
    elsewhere = sum(
        held(free, first.demands[0], int(row), {})
        for row in allowed.nonzero()[0]
        if row not in {int(draft.rows[at]) for at in positions}
    )
    chosen = knapsack(fits, pods, first.minimums[0] - elsewhere)
    return [(0, at, count) for at, count in zip(positions, chosen, strict=True) if count] if chosen else []


def is_plain(draft: Draft, gang: Gang) -> bool:
    """Return whether counting alone shows on which nodes the gang fits."""
    return len(gang.roles) == 1 and gang.tree is None and draft.ordinary_amounts(gang.demands[0])


def capacity(draft: Draft, demand: Demand, position: int) -> int:
    """Return the number of pods of the demand that fit now on the node at the position."""
    allowed = draft.allowed(demand.where)
    if (allowed is not None and not allowed[position]) or draft.asked(demand) is None:
        return 0
    return max(0, min(draft.views[name][position] // amount for name, amount in demand.asks))


def held(free: Free, demand: Demand, row: int, less: dict[str, int]) -> int:
    """Return the number of pods of the demand that fit into the free amounts of the row after `less` is subtracted."""
    amounts = ((int(free[name][row]) - less.get(name, 0)) // ask if name in free else 0 for name, ask in demand.asks)
    return max(0, min(amounts))


def fitting(
    draft: Draft, demand: Demand, free: Free, first: Demand, position: int, pods: int, allowed: bool
) -> list[int]:
    """Return a list. Its entry `i` is the number of pods of the first reservation that still fit on the node at the
    position after it got `i` pods of the demand."""
    row, most = int(draft.rows[position]), min(pods, capacity(draft, demand, position))
    taken = ({name: amount * count for name, amount in demand.asks} for count in range(most + 1))
    return [held(free, first, row, less) if allowed else 0 for less in taken]


def knapsack(fits: list[list[int]], pods: int, wanted: int) -> list[int]:
    """Divide `pods` pods of the job among the nodes so that at least `wanted` pods of the first reservation fit. Return
    the number of pods for each node; an empty list if there is no solution. `fits`: the result of `fitting` for each
    node."""
    best = [[0] + [NONE] * pods]
    for node in fits:
        before = best[-1]
        after = [NONE] * (pods + 1)
        for count, beside in enumerate(node):
            for total in range(count, pods + 1):
                if before[total - count] != NONE:
                    after[total] = max(after[total], before[total - count] + beside)
        best.append(after)
    if best[-1][pods] == NONE or best[-1][pods] < wanted:
        return []
    chosen: list[int] = []
    left = pods
    for at in range(len(fits) - 1, -1, -1):
        before, wished = best[at], best[at + 1][left]
        ways = (count for count in range(min(left, len(fits[at]) - 1) + 1) if before[left - count] != NONE)
        count = next(count for count in ways if before[left - count] + fits[at][count] == wished)
        chosen.append(count)
        left -= count
    return chosen[::-1]
