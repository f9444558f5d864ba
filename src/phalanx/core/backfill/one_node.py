"""Compute the shadow time (the earliest start of a gang) on a cluster of one node, with plain integers. A cluster of
one node is, for example, a laptop, or a large machine whose workload log is simulated as one node.

For one node, this module computes the same result as `core.backfill.shadow_time` for many nodes. All pods of all jobs
are on this node, so the capacity that a job holds is one number per resource (`LargestConsumers`). With plain numbers,
a loop over the running jobs takes less time than creating a single array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, TypeAlias

from phalanx.core.backfill.shadow_time import Free, HeldCapacity
from phalanx.core.placement.draft import SHUT, Draft
from phalanx.model.job import Placement
from phalanx.model.pod import MAX_AMOUNT, PODS, Amount
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster

Amounts: TypeAlias = dict[str, int]
End: TypeAlias = tuple[float, str]  # (expected end in seconds since the epoch, job)
Release: TypeAlias = tuple[float, str | int]  # (time, name of a running job or number of a grant)
Held: TypeAlias = Mapping[Any, Amount]  # job or number of a grant -> the amount that it holds

INFINITE_S = float("inf")
WHEN = itemgetter(0)


def taken(gang: Gang, placements: Sequence[Placement]) -> Amounts:
    """Return a mapping: resource -> the total amount that the placed pods request."""
    total: Amounts = {}
    for placement in placements:
        for resource, amount in gang.demands[placement.role].asks:
            total[resource] = total.get(resource, 0) + amount
    return total


class OneNode:
    """The shadow time of the first reservation, and the amounts that are free at that time.

    `shadow_s`: the shadow time, in seconds since the epoch.
    `left`: resource -> the free amount at the shadow time, after the reserved amount is subtracted; empty as long as
    there is no reservation."""

    def __init__(self, cluster: Cluster, draft: Draft, now_s: float) -> None:
        self.cluster, self.draft, self.now_s = cluster, draft, now_s
        self.shadow_s = INFINITE_S
        self.left: Amounts = {}

    def find(self, gang: Gang, ends: Sequence[End], granted: Sequence[tuple[float, Gang, Sequence[Placement]]]) -> bool:
        """Find the first time at which the gang fits, and store it in `shadow_s`. Return False if the gang never fits.
        `granted`: the grants of this cycle with their ends. `ends`: the running jobs in the order of their ends."""
        draft, need = self.draft, gang.asked
        for demand in gang.demands:
            if draft.allowed(demand.where) is not None:
                return False
        left = {resource: view[0] for resource, view in draft.views.items()}
        if left[PODS] < SHUT:
            left[PODS] += MAX_AMOUNT
        for resource in need:
            if resource not in left:
                return False
            left[resource] -= need[resource]
        self.shadow_s, self.left = INFINITE_S, left
        lacking = [resource for resource in left if left[resource] < 0]
        if not lacking:
            self.shadow_s = self.now_s
        held: list[tuple[str, Held]] = [(name, of) for name, of in self.cluster.consumers.held.items() if name in left]
        releases: Iterable[Release] = ends
        if granted:
            releases = merge(ends, sorted([(end_s, at) for at, (end_s, _, _) in enumerate(granted)]), key=WHEN)
            for at, (_, of, where) in enumerate(granted):
                held += [(name, {at: amount}) for name, amount in taken(of, where).items()]
        for end_s, who in releases:
            if end_s > self.shadow_s:
                break
            for resource, by in held:
                given_back = by.get(who, 0)
                # Released parts of devices (fractions) are not added to the free amounts, because parts of several
                # devices do not make a whole free device.
                if isinstance(given_back, int):
                    left[resource] += given_back
            if lacking:
                while lacking and left[lacking[-1]] >= 0:
                    lacking.pop()
                if not lacking:
                    self.shadow_s = max(end_s, self.now_s)
        return self.shadow_s < INFINITE_S

    def fits(self, gang: Gang) -> bool:
        """Return whether the gang fits at the shadow time in addition to the job of the first reservation."""
        left = self.left
        return not [resource for resource, amount in gang.asked.items() if amount > left.get(resource, 0)]

    def take(self, gang: Gang, placements: Sequence[Placement]) -> None:
        """Subtract the amounts of a granted gang from the free amounts. The gang must still run at the shadow time."""
        for resource, amount in taken(gang, placements).items():
            self.left[resource] -= amount

    def change(self, held: HeldCapacity, sign: int) -> None:
        """Change the free amounts at the shadow time: add `held` (`sign` 1), or subtract `held` (`sign` -1)."""
        for resource, amount in held.in_all.items():
            if resource in self.left:
                self.left[resource] += sign * amount

    def kept(self) -> Free:
        """Return the free amounts of each row at the shadow time, after the reserved amounts are subtracted."""
        free = {resource: column.copy() for resource, column in self.draft.columns.free.items()}
        for resource, amount in self.left.items():
            free[resource][self.draft.rows] = amount
        return free
