"""Domains: sets of nodes that are close to each other, read off the nodes' labels.

A level is a label key, and a topology a list of them, coarse to fine. The domain of a node at a level is its values of
that key and of all coarser ones: rack `1` of block `a` is not rack `1` of block `b`. A node that lacks one of the
labels is in no domain of that level. A level that no topology names is a hierarchy of its own.

Domains are columns (one code per row), kept with the facts until a node changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.filters import matching
from phalanx.model.topology import Topology
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
