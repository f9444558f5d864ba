"""Roles onto nodes, without regard to how close these are: fill, try another order, search.

A role's pods fill the nodes in packing order (best fit). For one role that is exact: it finds room exactly if there is
any. Roles compete for the same nodes, so with several of them the order matters and packing is a search:

1. the role whose pod is the largest part of a node goes first, then the next;
2. if that fails, though each role alone would fit: the scarcest role first (the one whose room exceeds its minimum
   least), then other orders, at most `ORDERS` in all;
3. the scarcest role's nodes are left to it: the others are placed elsewhere first, then it;
4. if there are at most `SEARCH_NODES` nodes that any of its pods fits on: a depth-first search over how many pods of
   each role go to each node, given up after `SEARCH_STEPS` steps.

Not guaranteed: that roles which would just fit together are found to when more nodes than that are in question, or the
steps run out. (Deciding it is multi-dimensional bin packing, which is NP-hard.)

`within` is everywhere: by position in the draft, the only nodes that count; None: all.

A bounded exact search: how many pods of each role go to each node, so that a gang of several roles fits.

Roles are taken largest first, and for each role the nodes are walked once, trying as many pods as the node holds,
then one fewer, down to none. A branch is left as soon as the nodes not yet walked cannot hold the rest of the role,
and states already found hopeless are not entered twice. So small cases, where best fit in any order of roles fails
though the gang would fit, are found; large ones are given up after `SEARCH_STEPS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from phalanx.core.placement import topology
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching, node_resources
from phalanx.core.placement.filters.matching import Rows
from phalanx.core.placement.scoring import constrained
from phalanx.model.job import Role
from phalanx.state.classes import Demand, Gang

ORDERS = 6

# (role, position in the draft, how many of its pods there)
PackedPods: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestDomain:
    """The domain that came closest: of `domains` domains of `level`, `name` holds most, `holds` of the `wanted` pods.
    `empty`: how many the best one would hold if nothing ran. `unit`: the name of the role or group that asks it.
    `slices`: `(pods, level)` if only whole slices count."""

    level: str
    domains: int
    name: str
    holds: int
    wanted: int
    empty: int
    unit: str
    slices: tuple[int, str] | None = None


class PlacementShortfall(NamedTuple):
    """How far the first trial came, in numbers of that trial: `placed` of `wanted` pods; then `role` found no more
    room. `left`: per resource it asks, the most that was then free on one node it matches (so after the trial's own
    pods). `nearest`: the nodes together would hold it, but no domain that is close enough."""

    role: int
    placed: int
    wanted: int
    left: tuple[tuple[str, int], ...]
    nearest: NearestDomain | None = None


def pack(
    draft: Draft, gang: Gang, roles: Sequence[int], within: Rows | None, shares: list[PackedPods]
) -> PlacementShortfall | None:
    """The minimums of those roles; if they find no room, the draft and the shares are as before."""
    if len(roles) == 1:
        return try_in_order(draft, gang, roles, within, shares)
    shortfall = try_in_order(draft, gang, by_size(draft, gang, roles), within, shares)
    if shortfall is None or rearrange(draft, gang, roles, within, shares):
        return None
    return shortfall


def try_in_order(
    draft: Draft, gang: Gang, order: Sequence[int], within: Rows | None, shares: list[PackedPods]
) -> PlacementShortfall | None:
    """Fill the minimums role by role in that order; if one fails, put everything back."""
    mark, before, placed = draft.mark(), len(shares), 0
    for role in order:
        minimum = gang.minimums[role]
        if missing := fill(draft, gang.demands[role], role, minimum, shares, within):
            left = largest_left(draft, gang.demands[role])
            draft.rewind(mark)
            del shares[before:]
            return PlacementShortfall(
                role, placed + minimum - missing, sum([gang.minimums[each] for each in order]), left
            )
        placed += minimum
    return None


def rearrange(draft: Draft, gang: Gang, roles: Sequence[int], within: Rows | None, shares: list[PackedPods]) -> bool:
    """Other ways to place several roles (steps 2 to 4 above); whether one was found."""
    rooms = {role: draft.room(gang.demands[role], within) for role in roles}
    if any(room < gang.roles[role].minimum for role, room in rooms.items()):
        return False
    for order in other_orders(rooms, gang.roles):
        if try_in_order(draft, gang, order, within, shares) is None:
            return True
    if scarcest_first(draft, gang, rooms, within, shares):
        return True
    if not all(draft.ordinary(gang.demands[role]) for role in roles):
        return False  # the search counts amounts only
    found = exact_search(draft, gang, roles, within)
    for role, position, count in found or ():
        draft.put(position, gang.demands[role], count)
    shares += found or ()
    return found is not None


def scarcest_first(
    draft: Draft, gang: Gang, rooms: dict[int, int], within: Rows | None, shares: list[PackedPods]
) -> bool:
    """Whether the others find room beside the nodes of the role that has least to spare, and then it does there."""
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
    """Roles by the largest part of the largest node that one pod asks, largest first."""
    return sorted(roles, key=lambda role: -draft.part_of_node(gang.demands[role]))


def other_orders(rooms: dict[int, int], roles: Sequence[Role]) -> Iterator[Sequence[int]]:
    scarcest = sorted(rooms, key=lambda role: rooms[role] / max(1, roles[role].minimum))
    return islice(permutations(scarcest), ORDERS)


def fill(
    draft: Draft, demand: Demand, role: int, count: int, shares: list[PackedPods], within: Rows | None = None
) -> int:
    """Take room for `count` pods, the fullest nodes first; how many found none."""
    if not count:
        return 0
    ordinary = draft.ordinary(demand)
    allowed = draft.allowed(demand.where) if ordinary else None
    if within is not None:
        allowed = intersection(allowed, within)
    layout = draft.node_order
    if (asked := layout.asked(demand)) is None:
        return count  # no node speaks of some of it
    if not ordinary:
        return constrained.fill_constrained(draft, demand, role, count, shares, within)
    for position in layout.holding(asked, allowed):
        taken = draft.put_most(position, demand, asked, count)
        if taken < 1:
            layout.crowd()
            return fill(draft, demand, role, count, shares, within)
        shares.append((role, position, taken))
        count -= taken
        if not count:
            if allowed is None:  # it is full, or the next looks here first
                asked.at, asked.since = position, layout.loosened
            break
    return count


def intersection(some: Rows | None, others: Rows | None) -> Rows | None:
    """Where both are true; None is true everywhere."""
    if some is None or others is None:
        return others if some is None else some
    return some & others


def largest_left(draft: Draft, demand: Demand) -> tuple[tuple[str, int], ...]:
    """Per resource asked, the most that is free now on one matching node."""
    return tuple(zip(demand.amounts, draft.most_free(demand), strict=True))


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
    found: list[int] = node_resources.rows_that_fit(draft.free, demand.asks, everywhere).tolist()
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
