"""Topology domains. For a role whose pods must, or should, be close to each other, decide how many pods each node gets.

*Domains* come from the nodes' labels. A level is a label key, and a topology is a list of levels, coarse to fine. Two
nodes are in the same domain of a level if they have the same value of this label, and the same values of the labels of
all coarser levels. For example, rack `1` of block `a` and rack `1` of block `b` are two domains. A node that lacks one
of the labels is in no domain of that level. A level that is in no configured topology counts as a topology with one
level. The domains of a level are stored as a column (one domain number for each row of the node table). The column is
cached with the node attributes until a node changes.

*Placement* is decided by counting, before any capacity is taken from the draft. The number of pods that each node could
hold is counted. These numbers are summed over each domain of a level (`np.bincount`).

- *Packed*: choose the tightest child domain that holds all pods, and continue in the same way inside it. If no child
  holds all pods, fill the largest child, then the next largest, and put the remaining pods into the tightest child that
  holds all of the remaining pods. So the pods use as few domains of each level as possible. Inside the finest domain,
  the nodes are filled in the draft's order (best fit).
- *Balanced*: spread the pods evenly over the domains one level below the chosen domain, as far as each has capacity
  (water filling). Inside each domain of the lower level, the pods are packed.
- *Slices* (Kueue): a slice is a fixed number of pods that must be in one domain of the slice's level. At the slice's
  level and coarser levels, the capacity of a domain is the number of pods that it can hold in whole slices. A slice is
  never split over two domains of its level, and its pods have consecutive ordinals. Slices may consist of slices of a
  finer level (layers). The last slice may have fewer pods than the others; it is placed after the whole slices.

Nodes that are in no domain of a level are used last, and no slice is placed on them. (Packing and slices follow Kueue's
Topology-Aware Scheduling, KEP-2724, algorithm BestFit. Balanced placement differs from Kueue's, see
docs/decisions/0009-topology.md.)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.core.placement.filters.matching import Rows
from phalanx.model.node import Topology, TopologyRequest
from phalanx.state.classes import Demand
from phalanx.state.nodes.attributes import ABSENT, NodeAttributes

Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class TopologyDomains:
    """The domains of one level.

    `codes`: for each row, the number of its domain; 0 if it is in no domain.
    `own`: for each domain, the code of its label value, which is an index in `values`.
    `outer`: for each domain, the number of its domain at the next coarser level."""

    codes: Codes
    outer: Codes
    own: Codes
    coarser: TopologyDomains | None
    values: list[str]

    def __len__(self) -> int:
        """Return the number of domains, plus 1, because the nodes in no domain count as one more domain (number 0)."""
        return len(self.own)

    def name(self, code: int) -> str:
        """Return the domain's label value. If another domain has the same label value, the values of the coarser levels
        are prepended, as in `a/1`."""
        own = self.values[int(self.own[code])]
        if self.coarser is None or np.count_nonzero(self.own == self.own[code]) == 1:
            return own
        return f"{self.coarser.name(int(self.outer[code]))}/{own}"


def hierarchy(topologies: Sequence[Topology], level: str) -> tuple[str, ...]:
    """Return all levels of the first topology that contains `level`, coarse to fine. If no topology contains it, return
    only `level`."""
    return next((topology.levels for topology in topologies if level in topology.levels), (level,))


def domains(facts: NodeAttributes, keys: tuple[str, ...]) -> TopologyDomains:
    """Return the domains of one level. `keys`: the label keys of all levels from the coarsest down to this level."""
    known: TopologyDomains | None = facts.derived.get(("domains", keys))
    if known is None:
        known = found_domains(facts, keys)
        matching.cache_answer(facts, ("domains", keys), known)
    return known


def found_domains(facts: NodeAttributes, keys: tuple[str, ...]) -> TopologyDomains:
    """Compute the result of `domains`, without the cache."""
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
UNBOUNDED = 2**31  # the number of pods that one node could hold is limited to this value


class SliceDepth(NamedTuple):
    """A layer of slices. `pods`: the number of pods in a slice. `depth`: the index of the level at which all pods of a
    slice are in one domain."""

    depth: int
    pods: int


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """A topology request as one placement attempt uses it. The level is the requested level, or a coarser level that is
    tried as a fallback.

    `levels`: the levels of the hierarchy, coarse to fine.
    `depth`: the index of the level at which all pods must be in one domain; -1 if the pods may be in several domains of
    every level. `layers`: the layers of slices, coarse to fine; smaller slices are inside larger slices. `slices`: the
    layers at the level of `depth` or finer levels. Layers at coarser levels are always satisfied, because all pods are
    in one domain of the level at `depth`."""

    levels: tuple[str, ...]
    depth: int
    balanced: bool
    layers: tuple[SliceDepth, ...]
    slices: tuple[SliceDepth, ...]

    @property
    def slice_pods(self) -> int:
        """Return the number of pods in a slice of the coarsest layer; 1 if there are no slices."""
        return self.slices[0].pods if self.slices else 1

    def within(self, depth: int) -> TopologyConstraint:
        """Return the constraint that all pods must be in one domain of the level at `depth`."""
        return replace(self, depth=depth, slices=tuple(layer for layer in self.layers if layer.depth >= depth))

    def inside(self) -> TopologyConstraint:
        """Return the constraint for the pods inside one slice of the coarsest layer."""
        depth, rest = self.slices[0].depth, self.slices[1:]
        return TopologyConstraint(self.levels, depth, balanced=False, layers=rest, slices=rest)


def topology_constraint(draft: Draft, near: TopologyRequest) -> TopologyConstraint:
    """Return the constraint for the first attempt to place the request, before any fallback."""
    named = [level for _, level in near.slices]
    levels = hierarchy(draft.topologies, near.level or named[0])
    levels += tuple(level for level in dict.fromkeys(named) if level not in levels)
    layers: list[SliceDepth] = []
    for pods, level in near.slices:
        depth = levels.index(level)
        # Leave out a layer whose level is not finer than the level of the layer before it. The larger slices of that
        # layer must already be in one domain of an equal or finer level.
        if pods > 1 and (not layers or depth > layers[-1].depth):
            layers.append(SliceDepth(depth, pods))
    anywhere = TopologyConstraint(levels, -1, near.balanced, tuple(layers), tuple(layers))
    return anywhere.within(levels.index(near.level)) if near.level else anywhere


def fallback_levels(style: TopologyConstraint, near: TopologyRequest) -> Iterator[TopologyConstraint]:
    """Yield the constraints to try, one after the other. If the request requires its level, only this level is tried.
    If the level is only preferred, the coarser levels are tried next. The last constraint allows any nodes."""
    yield style
    if not near.required:
        yield from (style.within(depth) for depth in range(style.depth - 1, -2, -1))


def rounded_to_slices(style: TopologyConstraint | None, minimum: int, count: int) -> int:
    """Return the smallest number of pods with which the role can start: its minimum, rounded up to whole slices. The
    result is at most `count`, the number of pods of the role. So the last slice may have fewer pods than the others."""
    if style is None or style.slice_pods == 1:
        return minimum
    return min(count, -(-minimum // style.slice_pods) * style.slice_pods)


class DomainCapacity:
    """The nodes that could hold pods of one demand, and how many pods each of them could hold.

    `at`: positions in packing order.
    `pods`: the number of pods that each position could hold; this is only an upper bound if pod affinity or topology
    spread applies to the pods."""

    def __init__(self, draft: Draft, style: TopologyConstraint, at: Indices, pods: Counts) -> None:
        self.draft, self.style, self.at, self.pods = draft, style, at, pods

    def held(self, depth: int, need: int = 0) -> Counts:
        """Return for each domain of the level at `depth` the number of pods that it could hold. At the slices' level
        and coarser levels, only pods in whole slices count. `need`: the number of pods to place. If `need` is not a
        whole number of slices, the last slice is shorter. If a domain can hold this short slice in addition to its
        whole slices, the pods of the short slice are added to its number."""
        size = len(domains_of_positions(self.draft, self.style, depth))
        held = self._held(self.at, self.pods, depth, size)
        rest, layers = need % self.style.slice_pods, self.style.slices
        if rest:
            inner = codes(self.draft, self.style, layers[0].depth)[self.at]
            beside = self._inside(self.pods).held(layers[0].depth, rest)
            # `beside` becomes the number of further pods that fit into each domain if it also holds all of its whole
            # slices
            beside -= self._held(self.at, self.pods, layers[0].depth, len(beside))
            beside[0] = int(rest == 1)  # nodes in no domain may hold a short slice only if it has one pod
            held[np.unique(codes(self.draft, self.style, depth)[self.at[beside[inner] >= rest]])] += rest
        return held

    def shares(self, need: int, placed: dict[int, int]) -> list[tuple[int, int]] | None:
        """Choose positions for `need` pods. Return a list of (position, number of pods) in the order of the pods'
        ordinals; None if the pods do not fit. `placed`: position -> number of the role's pods that are already placed.
        Balanced placement takes them into account."""
        shares: list[tuple[int, int]] = []
        rest = need % self.style.slice_pods
        if need > rest:
            if self.most() < need - rest:
                return None
            shares = list(self._spread(need - rest, placed) if self.style.balanced else self._packed(need - rest))
        if not rest:
            return shares
        last = self._last(shares, rest)
        return None if last is None else shares + last

    def most(self) -> int:
        """Return the number of pods that all nodes together could hold in whole slices."""
        return int(self._whole(self.at, self.pods, self.style.depth)[1].sum())

    def _packed(self, need: int) -> Iterator[tuple[int, int]]:
        return self._pack(self.at, self.pods, need, self.style.depth)

    def _last(self, shares: list[tuple[int, int]], rest: int) -> list[tuple[int, int]] | None:
        """Choose positions for the last slice, which has only `rest` pods. It gets the tightest domain that can hold it
        after `shares` are placed. Return a list of (position, number of pods); None if no domain can hold the slice."""
        pods, index = self.pods.copy(), {position: at for at, position in enumerate(self.at.tolist())}
        for position, count in shares:
            pods[index[position]] -= count
        left, depth = self._inside(pods), self.style.slices[0].depth
        held = left.held(depth, rest)
        held[0] = held[0] if rest == 1 else 0  # nodes in no domain may hold a short slice only if it has one pod
        if int(held.max()) < rest:
            return None
        inside = codes(self.draft, self.style, depth)[self.at] == chosen(held, rest)[0][0]
        return DomainCapacity(self.draft, left.style, self.at[inside], pods[inside]).shares(rest, {})

    def _inside(self, pods: Counts) -> DomainCapacity:
        """Return the capacity of the same nodes, for the pods inside one slice of the coarsest layer. `pods`: the
        number of pods that each position could hold."""
        return DomainCapacity(self.draft, self.style.inside(), self.at, pods)

    def _held(self, at: Indices, pods: Counts, depth: int, size: int) -> Counts:
        if self.style.slices:
            at, pods = self._whole(at, pods, depth)
        return summed(codes(self.draft, self.style, depth)[at], pods, size)

    def _whole(self, at: Indices, pods: Counts, depth: int) -> tuple[Indices, Counts]:
        """Return (positions, number of pods at each position), where only pods in whole slices are counted. For each
        domain of the slices' level, the result has one of its positions, with the pods of all whole slices of the
        domain. If the level at `depth` is finer than the level of the slices, return `at` and `pods` unchanged."""
        for layer in reversed(self.style.slices):
            if layer.depth < depth:
                break
            inner = codes(self.draft, self.style, layer.depth)[at]
            held = summed(inner, pods, 0) // layer.pods * layer.pods
            held[0] = 0  # nodes in no domain of the slices' level hold no slices
            some = np.zeros(len(held), np.intp)
            some[inner] = at
            full = held.nonzero()[0]
            at, pods = some[full], held[full]
        return at, pods

    def _spread(self, need: int, placed: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Choose positions for `need` pods, spread evenly over the domains of the next finer level. If there is no
        finer level, spread them over the nodes. Yield (position, number of pods)."""
        depth, nodes = self.style.depth + 1, self.style.depth + 1 == len(self.style.levels)
        each = next((layer.pods for layer in self.style.slices if layer.depth >= depth), 1)
        numbers = np.arange(len(self.draft)) + 1 if nodes else codes(self.draft, self.style, depth)
        inside = numbers[self.at]
        held = summed(inside, self.pods, 0) if nodes else self._held(self.at, self.pods, depth, 0)
        # the domains cannot hold all pods, so some pods must be placed on nodes in no domain; these are not spread
        if int(held[1:].sum()) < need:
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
        """Choose positions for `need` pods inside one domain of the level at `depth`, in as few domains of the next
        finer level as possible. Yield (position, number of pods). The caller has checked that the domain can
        hold `need` pods."""
        depth += 1
        if depth >= len(self.style.levels):
            yield from in_order(at, pods, need)
            return
        inside, held = codes(self.draft, self.style, depth)[at], self._held(at, pods, depth, 0)
        if depth == len(self.style.levels) - 1 and all(layer.depth < depth for layer in self.style.slices):
            yield from finest(at, pods, inside, held, need)
            return
        for code, count in chosen(held, need):
            yield from self._pack(at[inside == code], pods[inside == code], count, depth)


def domains_of_positions(draft: Draft, style: TopologyConstraint, depth: int) -> TopologyDomains:
    """Return the domains of the level at `depth`."""
    return domains(draft.columns.attributes, style.levels[: depth + 1])


def codes(draft: Draft, style: TopologyConstraint, depth: int) -> Indices:
    """Return for each position the number of its domain of the level at `depth`; 0: the node is in no domain."""
    return domains_of_positions(draft, style, depth).codes[draft.rows]


def ranks(draft: Draft, style: TopologyConstraint, near: TopologyRequest | None) -> Indices:
    """Return the rank of each domain of the constraint's level, as the topology request defines it. If the request has
    no ranks for this level, all ranks are 0."""
    known = domains_of_positions(draft, style, style.depth)
    if near is None or not near.ranks or near.level != style.levels[style.depth]:
        return np.zeros(len(known), np.intp)
    said = dict(near.ranks)
    last = max(said.values()) + 1
    return np.array([said.get(known.values[code], last) for code in known.own.tolist()], np.intp)


def when_empty(draft: Draft, style: TopologyConstraint, demand: Demand, depth: int) -> Counts:
    """Return for each domain of the level the number of pods that it could hold if all nodes were empty."""
    columns = draft.columns
    rows = matching.matching(columns.attributes, demand.where).nonzero()[0]
    pods = np.minimum(matching.pods_held(columns.allocatable, demand.asks, rows), UNBOUNDED)
    known = domains_of_positions(draft, style, depth)
    return summed(known.codes[rows], pods, len(known))


def holding(draft: Draft, demand: Demand, within: Rows | None) -> tuple[Indices, Counts]:
    """Return two arrays: the positions that could hold pods of the demand, and the number of pods that each could
    hold."""
    columns, fits = draft.asked(demand), draft.allowed(demand.where)
    if columns is None:
        return np.zeros(0, np.intp), np.zeros(0, np.int64)
    if within is not None:
        fits = within if fits is None else fits & within
    for column, _, amount in columns:
        enough = column >= amount
        fits = enough if fits is None else fits & enough
    assert fits is not None  # every pod requests at least the resource `pods`
    at = fits.nonzero()[0]
    return at, np.minimum(matching.pods_held(draft.free, demand.asks, at), UNBOUNDED)


def summed(codes: Indices, pods: Counts, size: int) -> Counts:
    """Return for each domain number the sum of `pods` over the entries of `codes` with this number. The sums are exact,
    because they stay below 2**53."""
    return np.bincount(codes, weights=pods, minlength=max(1, size)).astype(np.int64)


def chosen(held: Counts, need: int) -> list[tuple[int, int]]:
    """Divide `need` pods among domains, and return a list of (domain, number of pods). If some domain can hold all
    pods, they get the tightest of these domains. Otherwise the largest domains are filled one after the other, and the
    remaining pods get the tightest domain that can hold them. Nodes in no domain (number 0) come last."""
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
    """Choose positions for `need` pods, in the domains that the function `chosen` returns and in its order. Yield
    (position, number of pods). All positions are sorted in one step instead of domain by domain, because there may be
    as many domains as nodes."""
    after = len(held)
    rank = np.full(after, after, np.intp)
    for place, (code, _) in enumerate(chosen(held, need)):
        rank[code] = place
    wanted = (rank[codes] < after).nonzero()[0]
    order = wanted[np.argsort(rank[codes[wanted]], kind="stable")]
    yield from in_order(at[order], pods[order], need)


def in_order(at: Indices, pods: Counts, need: int) -> Iterator[tuple[int, int]]:
    """Fill the positions in the given order until `need` pods are placed, and yield (position, number of pods) for
    each."""
    for position, most in zip(at.tolist(), pods.tolist(), strict=True):
        if need <= 0:
            return
        if most:
            yield position, min(need, most)
            need -= most


def levelled(caps: Counts, have: Counts, need: int) -> Counts:
    """Divide `need` pods among domains, and return the number of pods for each. Each domain has `have` pods already,
    and may get at most `caps` more. The total numbers of pods are made as even as possible (water filling)."""
    low, high = 0, int(have.max(initial=0)) + need
    while low < high:  # search the highest water line up to which `need` pods are enough
        line = (low + high + 1) // 2
        if int(np.clip(line - have, 0, caps).sum()) <= need:
            low = line
        else:
            high = line - 1
    given = np.clip(low - have, 0, caps)
    more = ((have + given <= low) & (given < caps)).nonzero()[0][: need - int(given.sum())]
    given[more] += 1
    return given
