"""Domains: sets of nodes that are close to each other, read off the nodes' labels.

A level is a label key, and a topology a list of them, coarse to fine. The domain of a node at a level is its values of
that key and of all coarser ones: rack `1` of block `a` is not rack `1` of block `b`. A node that lacks one of the
labels is in no domain of that level. A level that no topology names is a hierarchy of its own.

Domains are columns (one code per row), kept with the facts until a node changes.

How many of a role's pods go to each node, once it is known that they must, or should, be close to each other.

All is decided by counting, before anything is taken: how many pods each node holds (a vector over the nodes), summed
over the domains of a level (`np.bincount`).

*Packed*: the tightest child domain that holds all of them, and so on downwards; if none does, the largest child is
filled, then the next, and what is left goes to the tightest that holds it. So each level is given as few domains as
counting allows, and the nodes of the finest domain are filled in the draft's order (best fit).
*Balanced*: evenly over the domains one level below the one that was chosen, as far as each holds (water filling);
packed inside each of them.
*Slices*: at the slice's level and above, a domain counts for whole slices only; a slice is never split over two domains
of its level, and its pods have consecutive ordinals.

Nodes in no domain of a level come last, and hold no slices. (Algorithm as in Kueue's Topology-Aware Scheduling,
KEP-2724: BestFit, and its slices; its balanced placement differs, see docs/decisions/0009-topology.md.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching, node_resources
from phalanx.core.placement.filters.matching import Rows
from phalanx.model.node import Topology, TopologyRequest
from phalanx.state.classes import Demand
from phalanx.state.nodes.attributes import ABSENT, NodeAttributes

Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class TopologyDomains:
    """`codes`: per row the number of its domain, 0 where it is in none. Domain n has the label value of code `own[n]`
    and lies in domain `outer[n]` of the next coarser level; `values` decodes label values."""

    codes: Codes
    outer: Codes
    own: Codes
    coarser: TopologyDomains | None
    values: list[str]

    def __len__(self) -> int:
        """How many there are, and the one that is none."""
        return len(self.own)

    def name(self, code: int) -> str:
        """The value of its label, and of the coarser ones where these are needed to tell it from others."""
        own = self.values[int(self.own[code])]
        if self.coarser is None or np.count_nonzero(self.own == self.own[code]) == 1:
            return own
        return f"{self.coarser.name(int(self.outer[code]))}/{own}"


def hierarchy(topologies: Sequence[Topology], level: str) -> tuple[str, ...]:
    """All levels of the first topology that has this one."""
    return next((topology.levels for topology in topologies if level in topology.levels), (level,))


def domains(facts: NodeAttributes, keys: tuple[str, ...]) -> TopologyDomains:
    """Of the last of the keys, below all others."""
    known: TopologyDomains | None = facts.derived.get(("domains", keys))
    if known is None:
        known = found_domains(facts, keys)
        matching.cache_answer(facts, ("domains", keys), known)
    return known


def found_domains(facts: NodeAttributes, keys: tuple[str, ...]) -> TopologyDomains:
    codes, none = np.zeros(facts.capacity, np.intp), np.zeros(1, np.intp)
    column = facts.labels.get(keys[-1])
    coarser = domains(facts, keys[:-1]) if len(keys) > 1 else None
    if column is None:
        return TopologyDomains(codes, none, none, coarser, facts.values)
    inside: Codes = np.ones(facts.capacity, np.intp) if coarser is None else coarser.codes
    rows = ((inside > 0) & (column != ABSENT)).nonzero()[0]
    distinct, inverse = np.unique(inside[rows] * len(facts.values) + column[rows], return_inverse=True)
    codes[rows] = inverse + 1
    outer, own = np.divmod(distinct, len(facts.values))
    return TopologyDomains(codes, np.append(none, outer), np.append(none, own), coarser, facts.values)


Counts: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.intp]
UNBOUNDED = 2**31  # more pods than that on one node are not told apart


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """`levels`: of the hierarchy, coarse to fine. `depth`: the level in whose one domain all is placed; -1: anywhere.
    `slice_depth`: the level that a slice is not split over; -1: there are no slices."""

    levels: tuple[str, ...]
    depth: int
    balanced: bool
    slice_depth: int
    slice_pods: int


def topology_constraint(draft: Draft, near: TopologyRequest) -> TopologyConstraint:
    """As near as asked, before any falling back."""
    levels = hierarchy(draft.topologies, near.level or near.slice_level)
    if near.slice_level and near.slice_level not in levels:
        levels = (*levels, near.slice_level)
    depth = levels.index(near.level) if near.level else -1
    slice_depth = levels.index(near.slice_level) if near.slice_level else -1
    return TopologyConstraint(
        levels, depth, near.balanced, slice_depth, max(1, near.slice_pods) if slice_depth >= 0 else 1
    )


def fallback_levels(style: TopologyConstraint, near: TopologyRequest) -> Iterator[TopologyConstraint]:
    """The levels to try in turn: what is not required falls back to coarser ones, and at last to any nodes."""
    yield style
    if not near.required:
        yield from (replace(style, depth=depth) for depth in range(style.depth - 1, -2, -1))


def rounded_to_slices(style: TopologyConstraint | None, minimum: int, count: int) -> int:
    """The pods that a role starts with at least: whole slices, the last of which may be short."""
    if style is None or style.slice_pods == 1:
        return minimum
    return min(count, -(-minimum // style.slice_pods) * style.slice_pods)


class DomainCapacity:
    """The nodes on which some pods of one demand fit, `at` (positions in packing order), and how many on each, `pods`
    (for a demand that is not plain an upper bound)."""

    def __init__(self, draft: Draft, style: TopologyConstraint, at: Indices, pods: Counts) -> None:
        self.draft, self.style, self.at, self.pods = draft, style, at, pods

    def held(self, depth: int) -> Counts:
        """Per domain of that level, the pods that it holds; in whole slices, at the slices' level and above."""
        return self._held(self.at, self.pods, depth, len(domains_of_positions(self.draft, self.style, depth)))

    def shares(self, need: int, placed: dict[int, int]) -> list[tuple[int, int]] | None:
        """(position, pods) for `need` pods, in the order of their ordinals; None if there is no room. `placed`: pods of
        the role that are there already, by position; balancing counts them."""
        shares: list[tuple[int, int]] = []
        rest = need % self.style.slice_pods
        if need > rest:
            if self.most() < need - rest:
                return None
            shares = list(self._spread(need - rest, placed) if self.style.balanced else self._packed(need - rest))
        if rest:
            short = self._less(shares, rest)
            if short.most() < rest:
                return None
            shares += short._packed(rest)
        return shares

    def most(self) -> int:
        """How many pods it holds in whole slices."""
        if self.style.slice_pods == 1 or self.style.depth > self.style.slice_depth:
            return int(self.pods.sum())
        return int(self._held(self.at, self.pods, self.style.slice_depth, 0).sum())

    def _packed(self, need: int) -> Iterator[tuple[int, int]]:
        return self._pack(self.at, self.pods, need, self.style.depth)

    def _less(self, shares: list[tuple[int, int]], slice_pods: int) -> DomainCapacity:
        """What is left when these are taken, for slices of another size."""
        pods, index = self.pods.copy(), {position: at for at, position in enumerate(self.at.tolist())}
        for position, count in shares:
            pods[index[position]] -= count
        return DomainCapacity(self.draft, replace(self.style, slice_pods=slice_pods), self.at, pods)

    def _held(self, at: Indices, pods: Counts, depth: int, size: int) -> Counts:
        outside = codes(self.draft, self.style, depth)[at]
        if self.style.slice_pods == 1 or depth > self.style.slice_depth:
            return summed(outside, pods, size)
        inner, each = codes(self.draft, self.style, self.style.slice_depth)[at], self.style.slice_pods
        sliced = summed(inner, pods, 0) // each * each
        sliced[:1] = 0  # in no domain of that level
        outer = np.zeros(len(sliced), np.intp)
        outer[inner] = outside
        return summed(outer, sliced, size)

    def _spread(self, need: int, placed: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Evenly over the domains one level down; over nodes, if there is no such level."""
        depth, nodes = self.style.depth + 1, self.style.depth + 1 == len(self.style.levels)
        each = self.style.slice_pods if depth <= self.style.slice_depth else 1
        numbers = np.arange(len(self.draft)) + 1 if nodes else codes(self.draft, self.style, depth)
        inside = numbers[self.at]
        held = summed(inside, self.pods, 0) if nodes else self._held(self.at, self.pods, depth, 0)
        if int(held[1:].sum()) < need:  # some must go to nodes in no domain
            yield from self._packed(need)
            return
        have = np.zeros(len(held), np.int64)
        for position, count in placed.items():
            if numbers[position] < len(have):
                have[numbers[position]] += count
        held[0] = 0
        for code, units in enumerate(levelled(held // each, have // each, need // each).tolist()):
            if units:
                yield from self._pack(self.at[inside == code], self.pods[inside == code], units * each, depth)

    def _pack(self, at: Indices, pods: Counts, need: int, depth: int) -> Iterator[tuple[int, int]]:
        """`need` pods in one domain of level `depth`, which holds them, on as few of the next level's as possible."""
        depth += 1
        if depth >= len(self.style.levels):
            yield from in_order(at, pods, need)
            return
        inside, held = codes(self.draft, self.style, depth)[at], self._held(at, pods, depth, 0)
        if depth == len(self.style.levels) - 1 and depth != self.style.slice_depth:
            yield from finest(at, pods, inside, held, need)
            return
        for code, count in chosen(held, need):
            yield from self._pack(at[inside == code], pods[inside == code], count, depth)


def domains_of_positions(draft: Draft, style: TopologyConstraint, depth: int) -> TopologyDomains:
    return domains(draft.columns.attributes, style.levels[: depth + 1])


def codes(draft: Draft, style: TopologyConstraint, depth: int) -> Indices:
    """By position: which domain of that level; 0: none."""
    return domains_of_positions(draft, style, depth).codes[draft.rows]


def when_empty(draft: Draft, style: TopologyConstraint, demand: Demand, depth: int) -> Counts:
    """Per domain of that level, the pods that it would hold if nothing ran."""
    columns = draft.columns
    rows = matching.matching(columns.attributes, demand.where).nonzero()[0]
    pods = np.minimum(node_resources.pods_held(columns.allocatable, demand.asks, rows), UNBOUNDED)
    known = domains_of_positions(draft, style, depth)
    return summed(known.codes[rows], pods, len(known))


def ground(draft: Draft, style: TopologyConstraint, demand: Demand, within: Rows | None) -> DomainCapacity:
    return DomainCapacity(draft, style, *holding(draft, demand, within))


def holding(draft: Draft, demand: Demand, within: Rows | None) -> tuple[Indices, Counts]:
    """The positions that hold some pods of the demand, and how many each."""
    columns, fits = draft.asked(demand), draft.allowed(demand.where)
    if columns is None:
        return np.zeros(0, np.intp), np.zeros(0, np.int64)
    if within is not None:
        fits = within if fits is None else fits & within
    for column, _, amount in columns:
        enough = column >= amount
        fits = enough if fits is None else fits & enough
    assert fits is not None  # every pod asks one of `pods`
    at = fits.nonzero()[0]
    return at, np.minimum(node_resources.pods_held(draft.free, demand.asks, at), UNBOUNDED)


def summed(codes: Indices, pods: Counts, size: int) -> Counts:
    """Pods per code. Exact: the sums stay below 2**53."""
    return np.bincount(codes, weights=pods, minlength=max(1, size)).astype(np.int64)


def chosen(held: Counts, need: int) -> list[tuple[int, int]]:
    """(domain, pods): the tightest that holds all of `need`; else the largest ones, and the tightest for the rest. What
    is in no domain (number 0) comes last."""
    picked: list[tuple[int, int]] = []
    domains = held.copy()
    domains[0] = 0
    while need and (largest := int(domains.max(initial=0))):
        if largest >= need:
            code = int(np.where(domains >= need, domains, np.iinfo(np.int64).max).argmin())
        else:
            code = int(domains.argmax())
        picked.append((code, min(need, largest)))
        need -= picked[-1][1]
        domains[code] = 0
    return [*picked, (0, need)] if need else picked


def finest(at: Indices, pods: Counts, codes: Indices, held: Counts, need: int) -> Iterator[tuple[int, int]]:
    """As `chosen` says, node by node. There may be as many domains as nodes, so these are put in order at once."""
    after = len(held)
    rank = np.full(after, after, np.intp)
    for place, (code, _) in enumerate(chosen(held, need)):
        rank[code] = place
    wanted = (rank[codes] < after).nonzero()[0]
    order = wanted[np.argsort(rank[codes[wanted]], kind="stable")]
    yield from in_order(at[order], pods[order], need)


def in_order(at: Indices, pods: Counts, need: int) -> Iterator[tuple[int, int]]:
    for position, most in zip(at.tolist(), pods.tolist(), strict=True):
        if need <= 0:
            return
        if most:
            yield position, min(need, most)
            need -= most


def levelled(caps: Counts, have: Counts, need: int) -> Counts:
    """Water filling: `need` more, so that (have + given) is as even as `caps` (the most that may be given) allow."""
    low, high = 0, int(have.max(initial=0)) + need
    while low < high:  # the highest water line that takes no more than `need`
        line = (low + high + 1) // 2
        if int(np.clip(line - have, 0, caps).sum()) <= need:
            low = line
        else:
            high = line - 1
    given = np.clip(low - have, 0, caps)
    more = ((have + given <= low) & (given < caps)).nonzero()[0][: need - int(given.sum())]
    given[more] += 1
    return given
