"""Choose nodes for the roles of a gang, without regard to topology. The pods fill one node after the other; if that
fails, other orders of the roles are tried, and at last an exact search.

A role's pods fill the nodes in packing order (best fit). For a gang of one role, best fit is exact: it fails only if
the capacity is too small. Several roles compete for the same nodes, so the order in which they are placed matters. The
module tries these steps:

1. Place the roles one after the other. Roles with larger pods come first.

2. If step 1 fails although each role would fit alone, try other orders, at most `ORDERS` in total. The first of them
   begins with the *scarcest* role. For each role, the number of its pods that would fit alone is divided by its
   minimum; the scarcest role has the smallest quotient.

3. If step 2 fails, first place the other roles only on nodes that the scarcest role cannot use, and then place the
   scarcest role.

4. If step 3 fails and at most `SEARCH_NODES` nodes can hold any of the pods, make a depth-first search. It chooses a
   number of pods for each role and node. It gives up after `SEARCH_STEPS` steps.

The search places the roles with the largest pods first, and goes through the nodes once for each role. On each node the
search first tries the largest number of pods that fits, then one fewer, and so on down to none. A branch of the search
is abandoned as soon as the remaining nodes cannot hold the remaining pods of the role. A state of the search that has
failed is stored, so that it is never examined a second time.

With more than `SEARCH_NODES` nodes or `SEARCH_STEPS` steps, the module may fail to place roles that would fit together.
(The problem is multi-dimensional bin packing, which is NP-hard.)

In every function, the parameter `within` is the mask of the positions (nodes of the draft) that may be used; None if
all may be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from phalanx.core.placement import topology
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.core.placement.filters.matching import Rows
from phalanx.core.placement.scoring import constrained
from phalanx.model.job import Role
from phalanx.model.node import SliceLayer
from phalanx.state.classes import Demand, Gang

ORDERS = 6

# (role, position in the draft, number of the role's pods at the position)
PackedPods: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestDomain:
    """For a gang that was not placed: the topology domain that could hold the largest number of its pods.

    `level`: the requested level. `domains`: the number of domains of this level.
    `name`: the name of this domain. `holds`: the number of the gang's pods that it could hold. `wanted`: the number of
    pods that it would have to hold.
    `empty`: the largest number of the gang's pods that any domain of the level could hold if all its nodes were empty.
    `unit`: the name of the role or group that has the topology request. `slices`: the layers of slices, if the request
    has slices."""

    level: str
    domains: int
    name: str
    holds: int
    wanted: int
    empty: int
    unit: str
    slices: tuple[SliceLayer, ...] = ()


class PlacementShortfall(NamedTuple):
    """The result of a failed attempt to place a gang. It has the number of pods that could be placed, and the free
    amounts that were too small for the next pod.

    `wanted`: the number of pods in the gang's minimum. `placed`: the number of these pods that were placed when `role`
        found no more capacity.
    `left`: for each resource that the role requests, the largest amount that was free on one matching node at that
    moment. `nearest`: the domain that could hold the largest number of pods; only set if all nodes together have enough
    capacity for the gang, but no domain of the requested level has."""

    role: int
    placed: int
    wanted: int
    left: tuple[tuple[str, int], ...]
    nearest: NearestDomain | None = None


def pack(
    draft: Draft, gang: Gang, roles: Sequence[int], within: Rows | None, shares: list[PackedPods]
) -> PlacementShortfall | None:
    """Place the minimums of the roles `roles`, and add the placed pods to `shares`. Return None on success. If they
    cannot be placed, return the shortfall, and leave the draft and `shares` unchanged."""
    if len(roles) == 1:
        return try_in_order(draft, gang, roles, within, shares)
    shortfall = try_in_order(draft, gang, by_size(draft, gang, roles), within, shares)
    if shortfall is None or rearrange(draft, gang, roles, within, shares):
        return None
    return shortfall


def try_in_order(
    draft: Draft, gang: Gang, order: Sequence[int], within: Rows | None, shares: list[PackedPods]
) -> PlacementShortfall | None:
    """Place the minimums of the roles, one role after the other, in the order `order`. Return None if all minimums fit.
    Otherwise return the shortfall of the first role that does not fit, and leave the draft unchanged."""
    mark, before, placed = draft.mark(), len(shares), 0
    for role in order:
        minimum = gang.minimums[role]
        if missing := fill(draft, gang.demands[role], role, minimum, shares, within):
            left = draft.most_free(gang.demands[role])
            draft.rewind(mark)
            del shares[before:]
            return PlacementShortfall(
                role, placed + minimum - missing, sum([gang.minimums[each] for each in order]), left
            )
        placed += minimum
    return None


def rearrange(draft: Draft, gang: Gang, roles: Sequence[int], within: Rows | None, shares: list[PackedPods]) -> bool:
    """Try to place the roles by steps 2 to 4 of the module docstring. Return whether the roles were placed."""
    rooms = {role: draft.room(gang.demands[role], within) for role in roles}
    if any(room < gang.roles[role].minimum for role, room in rooms.items()):
        return False
    for order in other_orders(rooms, gang.roles):
        if try_in_order(draft, gang, order, within, shares) is None:
            return True
    if scarcest_first(draft, gang, rooms, within, shares):
        return True
    if not all(draft.ordinary(gang.demands[role]) for role in roles):
        return False  # the exact search only compares amounts, so it cannot place pods with other rules
    found = exact_search(draft, gang, roles, within)
    for role, position, count in found or ():
        draft.put(position, gang.demands[role], count)
    shares += found or ()
    return found is not None


def scarcest_first(
    draft: Draft, gang: Gang, rooms: dict[int, int], within: Rows | None, shares: list[PackedPods]
) -> bool:
    """Place the other roles only on nodes that the scarcest role cannot use, and then place the scarcest role. Return
    whether all roles were placed."""
    scarcest, *others = sorted(rooms, key=lambda role: rooms[role] / max(1, gang.minimums[role]))
    mark, before = draft.mark(), len(shares)
    elsewhere = np.ones(len(draft), np.bool_) if within is None else within.copy()
    elsewhere[topology.holding(draft, gang.demands[scarcest], None)[0]] = False
    for role, where in (*((role, elsewhere) for role in by_size(draft, gang, others)), (scarcest, within)):
        if fill(draft, gang.demands[role], role, gang.minimums[role], shares, where):
            draft.rewind(mark)
            del shares[before:]
            return False
    return True


def by_size(draft: Draft, gang: Gang, roles: Sequence[int]) -> Sequence[int]:
    """Return the roles in the order of the size of their pods (`Draft.part_of_node`), the largest first."""
    return sorted(roles, key=lambda role: -draft.part_of_node(gang.demands[role]))


def other_orders(rooms: dict[int, int], roles: Sequence[Role]) -> Iterator[Sequence[int]]:
    """Yield the orders of the roles for step 2 of the module docstring. The first order begins with the scarcest
    role."""
    scarcest = sorted(rooms, key=lambda role: rooms[role] / max(1, roles[role].minimum))
    return islice(permutations(scarcest), ORDERS)


def fill(
    draft: Draft, demand: Demand, role: int, count: int, shares: list[PackedPods], within: Rows | None = None
) -> int:
    """Place `count` pods of the demand on the draft, on the fullest nodes first. Append the placed pods to `shares`.
    Return the number of pods for which there was no capacity."""
    if not count:
        return 0
    if draft.ordinary(demand):
        return draft.fill(demand, role, count, shares, within)
    if draft.asked(demand) is None:
        return count  # a requested resource exists on no node
    return constrained.fill_constrained(draft, demand, role, count, shares, within)


SEARCH_NODES = 32
SEARCH_STEPS = 4000


def exact_search(
    draft: Draft, gang: Gang, roles: Sequence[int], within: matching.Rows | None
) -> list[tuple[int, int, int]] | None:
    """Search nodes for the minimums of all roles in `roles`. Return the solution as a list of (role, position, number
    of pods); None if no solution was found within the limits of the search."""
    found = (position for role in roles for position in candidate_nodes(draft, gang.demands[role], within))
    positions = sorted(set(found))
    if len(positions) > SEARCH_NODES:
        return None
    return ExactSearch(draft, gang, roles, positions).run()


def candidate_nodes(draft: Draft, demand: Demand, within: matching.Rows | None) -> list[int]:
    """Return the positions whose nodes match the demand and have capacity for at least one of its pods. The list has
    at most `SEARCH_NODES` + 1 positions."""
    allowed = draft.allowed(demand.where)
    everywhere = np.ones(len(draft), np.bool_) if allowed is None else allowed
    everywhere = everywhere if within is None else everywhere & within
    found: list[int] = matching.rows_that_fit(draft.free, demand.asks, everywhere).tolist()
    return found[: SEARCH_NODES + 1]


class ExactSearch:
    """A depth-first search for nodes for all roles.

    `free[n][r]`: the free amount of resource r on node n.
    `asks[role][r]`: the amount of resource r that a pod of the role requests.
    `may[role][n]`: whether node n meets the node constraints of the role."""

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
        """Return (role, position, number of pods) for all roles; None if no solution was found."""
        return self.shares if self.place_role(0) else None

    def place_role(self, at: int) -> bool:
        """Place the role `order[at]` and all roles after it in `order`. Return whether a solution was found."""
        return at == len(self.order) or self.place_pods(at, 0, self.minimum[self.order[at]])

    def place_pods(self, at: int, node: int, missing: int) -> bool:
        """Place `missing` more pods of the role `order[at]`, on the node with the index `node` or on later nodes. Then
        place all later roles. Return whether a solution was found."""
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
        """Place `count` pods of the role `order[at]` on the node, and continue with the next node. Return whether the
        search found a solution with exactly `count` pods on this node."""
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
        """Return how many more pods of the role fit on the node."""
        if not self.may[role][node]:
            return 0
        return min(free // ask for free, ask in zip(self.free[node], self.asks[role], strict=True) if ask)

    def add(self, role: int, node: int, count: int) -> None:
        """Place `count` pods of the role on the node (remove them if `count` is negative)."""
        free = self.free[node]
        for resource, ask in enumerate(self.asks[role]):
            free[resource] -= ask * count
