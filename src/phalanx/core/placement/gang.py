"""Place a whole gang on the draft, or place nothing.

First the minimum of every role and of every group is placed, as close together as requested. Then further pods are
placed as long as they fit. First come the members of a group above the group's minimum; each member is placed as a
whole or not at all. Then come the pods above the roles' minimums. `core.placement.packing` chooses the nodes of pods
without a topology request, and `core.placement.topology` the nodes of pods with a topology request.

A gang is a tree (`model.job.GangTree`). If a subtree has a topology request, its members are placed inside one domain
of the requested level. The domains are tried one after the other. First come the domains that can hold all pods of the
subtree, according to a count of pods; the tightest of them is tried first. If the level is only preferred, the domains
of coarser levels are tried next, and at last all nodes. For a single role without constraints the count is exact: the
role is placed if and only if some domain can hold it. Several members compete for the same nodes. So the placement of
several members is a search, which tries at most `TRIES` domains in total.

Because of this limit, a gang of several roles or groups may fail to be placed although it would fit. The gang then
waits, reports why its first attempt failed, and is tried again when more capacity is free. A placed gang is always
complete and as close as required. A failed attempt leaves the draft exactly as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement import topology
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters.matching import Rows
from phalanx.core.placement.packing import NearestDomain, PackedPods, PlacementShortfall, fill, pack
from phalanx.core.placement.topology import Counts, DomainCapacity, TopologyConstraint
from phalanx.model.job import GangTree, Placement
from phalanx.model.node import SliceLayer
from phalanx.state.classes import Gang

__all__ = ["GangPlacement", "PlacementShortfall", "place"]

Times: TypeAlias = NDArray[np.float64]
GangPlacement: TypeAlias = list[Placement] | PlacementShortfall

# `map(NEW, PLACEMENTS, fields)` creates Placements as `Placement._make` does, but without a Python call for each pod.
NEW, PLACEMENTS = tuple.__new__, repeat(Placement)
TRIES = 256
DOMAINS = 64  # at most this many domains of a level are tried: half from the start of their order, half from its end


def place(draft: Draft, gang: Gang, among: Rows | None = None) -> list[Placement] | PlacementShortfall:
    """Place the whole gang on the draft, and return its placements. If the gang does not fit, return the shortfall of
    the attempt, and leave the draft unchanged.

    `among`: the mask of rows of the node table that the gang may use; None if it may use all."""
    within = None if among is None else among[draft.rows]
    if gang.tree is not None:
        trial = PlacementAttempt(draft, gang)
        if not (trial.settle(gang.tree, within, None) or trial.anyhow(gang.tree, within)):
            return trial.shortfall(within)
        trial.extend()
        return placements_of(draft, gang, trial.shares)
    shares: list[PackedPods] = []
    if shortfall := pack(draft, gang, range(len(gang.roles)), within, shares):
        return shortfall
    for role, (demand, asked) in enumerate(zip(gang.demands, gang.roles, strict=True)) if not gang.rigid else ():
        if asked.count > asked.minimum:
            fill(draft, demand, role, asked.count - asked.minimum, shares, within)
    return placements_of(draft, gang, shares)


class PlacementAttempt:
    """An attempt to place a gang that has groups or topology requests.

    `shares`: the pods placed so far. `left`: (member, mask of the nodes that the member may use, its constraint) for
    members above a group's minimum, which are tried after all minimums.
    `where`: (role, mask of the nodes that the role may use, its constraint) for each placed role.

    If a part of the attempt is undone, its entries in `shares`, `left` and `where` are removed."""

    def __init__(self, draft: Draft, gang: Gang) -> None:
        self.draft, self.gang = draft, gang
        self.shares: list[PackedPods] = []
        self.left: list[tuple[GangTree, Rows | None, TopologyConstraint | None]] = []
        self.where: list[tuple[int, Rows | None, TopologyConstraint | None]] = []
        self.tries = 0
        # (subtree, its topology constraint, mask of the nodes that it may use) of the first subtree for which no domain
        # had enough capacity
        self.missed: tuple[GangTree, TopologyConstraint, Rows | None] | None = None

    def mark(self) -> tuple[int, int, int, int]:
        """Return a mark for `rewind`."""
        return self.draft.mark(), len(self.shares), len(self.left), len(self.where)

    def rewind(self, mark: tuple[int, int, int, int]) -> None:
        """Restore the draft and the attempt as they were at the mark."""
        taken, shares, left, where = mark
        self.draft.rewind(taken)
        del self.shares[shares:], self.left[left:], self.where[where:]

    def settle(self, unit: GangTree, within: Rows | None, style: TopologyConstraint | None) -> bool:
        """Place the subtree's minimum on the nodes `within`, as close together as its topology request requires. Return
        whether the minimum was placed; if not, the draft is unchanged."""
        near = unit.closeness
        if near is None or not (near.level or near.slices):
            return self.members(unit, within, style)
        asked = topology.topology_constraint(self.draft, near)
        for tried in topology.fallback_levels(asked, near):
            for inside in self.domains(unit, within, tried):
                self.tries += 1
                if self.members(unit, inside, tried):
                    return True
                if self.tries >= TRIES:
                    return False
        if unit.requires_topology():
            self.missed = self.missed or (unit, asked, within)
        return False

    def anyhow(self, unit: GangTree, within: Rows | None) -> bool:
        """Place the minimums of the subtree without regard to its preferred topology. Return whether they were placed;
        always False if a topology is required. The caller uses this method after an attempt with the preferred topology
        has failed."""
        return not (unit.requires_topology() or unit.optional()) and self.packed(unit, within, None)

    def domains(self, unit: GangTree, within: Rows | None, style: TopologyConstraint) -> Iterator[Rows | None]:
        """For each domain that can hold the subtree, according to a count of pods, yield the mask of its positions.
        Domains of the lowest rank in the topology request come first. Among domains of equal rank, domains that also
        hold all pods above the minimum come first, the tightest first. Then come domains that hold only the minimum,
        the emptiest first."""
        if style.depth < 0:
            yield within
            return
        counts = {role: self.gang.roles[role].count for role in unit.roles()}
        held = {role: self.ground(role, within, style).held(style.depth, count) for role, count in counts.items()}
        times = self.times(unit, held, style)
        whole: Rows = np.logical_and.reduce([held[role] >= count for role, count in counts.items()])
        order = (times >= 1).nonzero()[0]
        order = order[order > 0]  # code 0 means the nodes in no domain of this level
        ranks = topology.ranks(self.draft, style, unit.closeness)
        order = order[np.lexsort((order, np.where(whole, times, -times)[order], ~whole[order], ranks[order]))]
        if len(order) > DOMAINS:
            order = np.concatenate((order[: DOMAINS // 2], order[-DOMAINS // 2 :]))
        codes = topology.codes(self.draft, style, style.depth)
        for code in order.tolist():
            yield codes == code if within is None else (codes == code) & within

    def times(self, unit: GangTree, held: Mapping[int, Counts], style: TopologyConstraint) -> Times:
        """Count for each domain how many copies of the subtree's minimum it could hold, and return the numbers. `held`:
        role -> for each domain, the number of the role's pods that it could hold."""
        if unit.role >= 0:
            least = self.least(unit.role, style)
            return held[unit.role] / least if least else np.maximum(2.0 * held[unit.role], 1)
        each = np.sort([self.times(member, held, style) for member in unit.members], axis=0)
        return np.asarray(each[-unit.minimum] if unit.minimum else np.maximum(each[-1], 1))

    def counted(self, unit: GangTree) -> list[int]:
        """Return the roles whose pods count when domains are compared: the required roles of the subtree. If none is
        required, return all roles of the subtree."""
        return sorted(unit.required_roles()) or sorted(unit.roles())

    def least(self, role: int, style: TopologyConstraint | None) -> int:
        """Return the smallest number of pods with which the role can start: the role's minimum, rounded up to whole
        slices of its topology request."""
        asked = self.gang.roles[role]
        return topology.rounded_to_slices(style, asked.minimum, asked.count)

    def ground(self, role: int, within: Rows | None, style: TopologyConstraint) -> DomainCapacity:
        """Return an object that counts how many of the role's pods the domains can hold. `within`: the mask of
        positions that may be used; None if all may be used."""
        return DomainCapacity(self.draft, style, *topology.holding(self.draft, self.gang.demands[role], within))

    def members(self, unit: GangTree, within: Rows | None, style: TopologyConstraint | None) -> bool:
        """Place the minimums of the subtree's members on the nodes `within`. Return whether the minimums were
        placed."""
        if unit.role >= 0:
            return self.role(unit.role, within, style)
        for order in self.orders(unit):
            if self.some(order, unit.minimum, within, style):
                return True
        loose = style is None or style.slice_pods == 1
        if (
            not loose
            or unit.minimum < len(unit.members)
            or any(each.role < 0 or each.closeness for each in unit.members)
        ):
            return False
        return self.packed(unit, within, style)

    def packed(self, unit: GangTree, within: Rows | None, style: TopologyConstraint | None) -> bool:
        """Place the minimums of all roles of the subtree on the nodes `within`. Topology requests are ignored. Return
        whether the minimums were placed."""
        roles = sorted(unit.roles())
        if pack(self.draft, self.gang, roles, within, self.shares) is not None:
            return False
        self.where += [(role, within, style) for role in roles]
        return True

    def orders(self, unit: GangTree) -> Iterator[Sequence[GangTree]]:
        """Yield the orders in which the members are tried: first a forward order, then its reverse. The forward order
        is the order of the members in the gang. Only if all members are required, the members are sorted instead, with
        the largest pods first."""
        members = unit.members
        if unit.minimum == len(members):
            largest = {each.name: max(map(self.part, each.roles()), default=0.0) for each in members}
            members = tuple(sorted(members, key=lambda each: -largest[each.name]))
        yield members
        if len(members) > 1:
            yield members[::-1]

    def part(self, role: int) -> float:
        """Return the size of one pod of the role, as defined by `Draft.part_of_node`."""
        return self.draft.part_of_node(self.gang.demands[role])

    def some(
        self, members: Sequence[GangTree], minimum: int, within: Rows | None, style: TopologyConstraint | None
    ) -> bool:
        """Place members in the given order until `minimum` of them are placed. Add the other members to `left`. Return
        whether `minimum` members were placed."""
        mark, placed = self.mark(), 0
        for member in members:
            if placed < minimum and self.settle(member, within, style):
                placed += 1
            elif minimum < len(members):
                self.left.append((member, within, style))
            else:
                break
        if placed < minimum:
            self.rewind(mark)
        return placed >= minimum

    def role(self, role: int, within: Rows | None, style: TopologyConstraint | None) -> bool:
        """Place the role's minimum. If the gang has only this role, place all of its pods if they fit. Return whether
        the minimum was placed."""
        counts = [self.least(role, style)]
        if len(self.gang.roles) == 1:
            # Try to place all pods of the role at once. A gang with several roles does not do this, because all
            # minimums must be placed before any other pods.
            counts.insert(0, self.gang.roles[role].count)
        if not any(self.take(role, count, within, style) for count in counts):
            return False
        self.where.append((role, within, style))
        return True

    def take(self, role: int, count: int, within: Rows | None, style: TopologyConstraint | None) -> bool:
        """Place exactly `count` pods of the role, or no pods. Return whether the pods were placed."""
        demand, mark = self.gang.demands[role], self.mark()
        if style is None or not self.draft.ordinary(demand):
            if style is not None and style.slice_pods == 1 and self.parted(role, count, within, style):
                return True
            if self.filled(role, count, within, style) == count:
                return True
            self.rewind(mark)
            return False
        shares = self.ground(role, within, style).shares(count, self.placed(role))
        for position, pods in shares or ():
            self.draft.put(position, demand, pods)
            self.shares.append((role, position, pods))
        return shares is not None

    def parted(self, role: int, count: int, within: Rows | None, style: TopologyConstraint) -> bool:
        """Place pods with affinity or spread rules, one domain after the other. The number of pods for each domain is
        computed first, without these rules. Return whether all pods could be placed by the rules; if not, no pod is
        placed."""
        depth, mark = style.depth + 1, self.mark()
        shares = self.ground(role, within, style).shares(count, self.placed(role))
        if depth == len(style.levels) or not shares:
            return False
        codes, parts = topology.codes(self.draft, style, depth), Counter[int]()
        for position, pods in shares:
            parts[int(codes[position])] += pods
        for code, pods in parts.items():
            inside = codes == code if within is None else (codes == code) & within
            if fill(self.draft, self.gang.demands[role], role, pods, self.shares, inside):
                self.rewind(mark)
                return False
        return True

    def filled(self, role: int, count: int, within: Rows | None, style: TopologyConstraint | None) -> int:
        """Place up to `count` pods of the role, one slice after the other. Return the number of placed pods."""
        if style is None or style.slice_pods == 1:
            return count - fill(self.draft, self.gang.demands[role], role, count, self.shares, within)
        codes, each, placed = topology.codes(self.draft, style, style.slices[0].depth), style.inside(), 0
        found = np.unique(codes[self.ground(role, within, style).at]).tolist()
        for code in sorted(found, key=lambda code: not code):  # code 0 stands for nodes in no domain, which come last
            inside = codes == code if within is None else (codes == code) & within
            while placed < count:
                mark, pods = self.mark(), min(style.slice_pods, count - placed)
                if not code and pods > 1:  # a slice of several pods is never placed on nodes in no domain
                    break
                if self.filled(role, pods, inside, each) < pods:
                    self.rewind(mark)
                    break
                placed += pods
        return placed

    def placed(self, role: int) -> dict[int, int]:
        """Return a mapping: position -> number of the role's pods that this attempt has placed."""
        found: dict[int, int] = {}
        for each, position, count in self.shares:
            if each == role:
                found[position] = found.get(position, 0) + count
        return found

    def extend(self) -> None:
        """Place as many pods above the minimum as fit."""
        left, self.left = self.left, []
        for unit, within, style in left:
            self.settle(unit, within, style)
        for role, within, style in self.where:
            more = self.gang.roles[role].count - sum(self.placed(role).values())
            if not more:
                continue
            if style is None or not self.draft.ordinary(self.gang.demands[role]):
                self.filled(role, more, within, style)
            else:
                more = min(more, self.ground(role, within, style).most())
                if not self.take(role, more, within, style):
                    self.take(role, more - more % style.slice_pods, within, style)

    def shortfall(self, within: Rows | None) -> PlacementShortfall:
        """Return why the attempt failed: either all nodes together have too little capacity, or no single domain has
        enough."""
        tree, mark = self.gang.tree, self.mark()
        assert tree is not None
        roles = self.counted(tree)
        found = pack(self.draft, self.gang, roles, within, self.shares)
        self.rewind(mark)
        if found is not None:
            return found
        wanted = sum(self.gang.roles[role].minimum for role in roles)
        left = self.draft.most_free(self.gang.demands[roles[0]])
        nearest = None if self.missed is None else self.nearest(*self.missed)
        return PlacementShortfall(role=roles[0], placed=0, wanted=wanted, left=left, nearest=nearest)

    def nearest(self, unit: GangTree, style: TopologyConstraint, within: Rows | None) -> NearestDomain:
        """Return the domain of the requested level that could hold the largest number of the subtree's required
        pods."""
        roles = self.counted(unit)
        depth = style.depth if style.depth >= 0 else style.slices[0].depth
        now = np.zeros(1, np.int64)
        empty = np.zeros(1, np.int64)
        for role in roles:
            least = self.least(role, style)
            now = now + np.minimum(self.ground(role, within, style).held(depth, least), least)
            empty = empty + np.minimum(topology.when_empty(self.draft, style, self.gang.demands[role], depth), least)
        now[0] = empty[0] = 0
        best = int(now.argmax())
        return NearestDomain(
            level=style.levels[depth],
            domains=len(now) - 1,
            name=topology.domains_of_positions(self.draft, style, depth).name(best) if best else "",
            holds=int(now[best]),
            wanted=sum(self.least(role, style) for role in roles),
            empty=int(empty.max()),
            unit=unit.name,
            slices=tuple(SliceLayer(pods, style.levels[at]) for at, pods in style.slices),
        )


def placements_of(draft: Draft, gang: Gang, shares: Sequence[PackedPods]) -> list[Placement]:
    """Return a placement for each placed pod. The pods of a role are numbered in the order of `shares`."""
    names, rows = draft.columns.names, draft.packing_order.row_at
    numbered: dict[int, int] = {}
    placements: list[Placement] = []
    for role, position, count in shares:
        first = numbered.get(role, 0)
        numbered[role] = first + count
        devices = draft.names(position, gang.demands[role], count)
        slots = zip(repeat(role), range(first, first + count), repeat(names[rows[position]]), devices, strict=False)
        placements.extend(map(NEW, PLACEMENTS, slots))
    return placements
