"""A bounded exact search: how many pods of each role go to each node, so that a gang of several roles fits.

Roles are taken largest first, and for each role the nodes are walked once, trying as many pods as the node holds,
then one fewer, down to none. A branch is left as soon as the nodes not yet walked cannot hold the rest of the role,
and states already found hopeless are not entered twice. So small cases, where best fit in any order of roles fails
though the gang would fit, are found; large ones are given up after `SEARCH_STEPS`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.state.classes import Demand, Gang

SEARCH_NODES = 32
SEARCH_STEPS = 4000


def exact_search(
    draft: Draft, gang: Gang, roles: Sequence[int], within: matching.Rows | None
) -> list[tuple[int, int, int]] | None:
    """(role, position, count) for the minimum of each of those roles; None if there is no way, or none was found in
    time. `within`: by position, the only nodes in question."""
    found = (position for role in roles for position in candidate_nodes(draft, gang.demands[role], within))
    positions = sorted(set(found))
    if len(positions) > SEARCH_NODES:
        return None
    return ExactSearch(draft, gang, roles, positions).run()


def candidate_nodes(draft: Draft, demand: Demand, within: matching.Rows | None) -> list[int]:
    allowed = draft.allowed(demand.where)
    everywhere = np.ones(len(draft), np.bool_) if allowed is None else allowed
    everywhere = everywhere if within is None else everywhere & within
    found: list[int] = matching.rows_that_fit(draft.free, demand.asks, everywhere).tolist()
    return found[: SEARCH_NODES + 1]


class ExactSearch:
    """One search. `free[n][r]`: what node n has left of resource r; `asks[role][r]`, `may[role][n]`."""

    def __init__(self, draft: Draft, gang: Gang, roles: Sequence[int], positions: Sequence[int]) -> None:
        demands = gang.demands
        resources = sorted({resource for role in roles for resource, _ in demands[role].asks})
        self.positions = positions
        self.free = [[draft.views[name][position] for name in resources] for position in positions]
        self.order = sorted(roles, key=lambda role: -draft.part_of_node(demands[role]))
        self.asks = [[dict(demand.asks).get(name, 0) for name in resources] for demand in demands]
        allowed = [draft.allowed(demand.where) for demand in demands]
        self.may = [[rows is None or bool(rows[position]) for position in positions] for rows in allowed]
        self.minimum = [role.minimum for role in gang.roles]
        self.shares: list[tuple[int, int, int]] = []
        self.steps = 0
        self.hopeless: set[tuple[object, ...]] = set()

    def run(self) -> list[tuple[int, int, int]] | None:
        return self.shares if self.place_role(0) else None

    def place_role(self, at: int) -> bool:
        """The roles from `order[at]` on."""
        return at == len(self.order) or self.place_pods(at, 0, self.minimum[self.order[at]])

    def place_pods(self, at: int, node: int, missing: int) -> bool:
        """`missing` more pods of that role on the nodes from `node` on, and then the other roles."""
        if not missing:
            return self.place_role(at + 1)
        self.steps += 1
        role = self.order[at]
        state = (at, node, missing, tuple(map(tuple, self.free)))
        if self.steps > SEARCH_STEPS or state in self.hopeless:
            return False
        if sum(self.holds(role, n) for n in range(node, len(self.positions))) >= missing:
            for count in range(min(missing, self.holds(role, node)), -1, -1):
                if self.with_pods(at, node, count, missing):
                    return True
        self.hopeless.add(state)
        return False

    def with_pods(self, at: int, node: int, count: int, missing: int) -> bool:
        role = self.order[at]
        self.add(role, node, count)
        if count:
            self.shares.append((role, self.positions[node], count))
        if self.place_pods(at, node + 1, missing - count):
            return True
        if count:
            self.shares.pop()
        self.add(role, node, -count)
        return False

    def holds(self, role: int, node: int) -> int:
        if not self.may[role][node]:
            return 0
        return min(free // ask for free, ask in zip(self.free[node], self.asks[role], strict=True) if ask)

    def add(self, role: int, node: int, count: int) -> None:
        free = self.free[node]
        for resource, ask in enumerate(self.asks[role]):
            free[resource] -= ask * count
