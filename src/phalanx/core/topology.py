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

from phalanx.core import fit
from phalanx.model.facts import ABSENT, Facts
from phalanx.model.topology import Topology

Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Domains:
    """`codes`: per row the number of its domain, 0 where it is in none. `values[n]`: the labels' values of domain n,
    coarse to fine."""

    codes: Codes
    values: list[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.values)

    def name(self, code: int) -> str:
        """The finest value, and the coarser ones where these are needed to tell domains of that name apart."""
        value = self.values[code]
        alone = sum(other[-1:] == value[-1:] for other in self.values) == 1
        return value[-1] if alone else "/".join(value)


def hierarchy(topologies: Sequence[Topology], level: str) -> tuple[str, ...]:
    """All levels of the first topology that has this one."""
    return next((topology.levels for topology in topologies if level in topology.levels), (level,))


def domains(facts: Facts, keys: tuple[str, ...]) -> Domains:
    """Of the last of the keys, below all others."""
    known: Domains | None = facts.derived.get(("domains", keys))
    if known is None:
        known = found(facts, keys)
        fit.remember(facts, ("domains", keys), known)
    return known


def found(facts: Facts, keys: tuple[str, ...]) -> Domains:
    codes = np.zeros(facts.capacity, np.intp)
    if not keys:
        return Domains(codes + 1, [(), ()])  # everything is one
    coarser, column = domains(facts, keys[:-1]), facts.labels.get(keys[-1])
    if column is None:
        return Domains(codes, [()])
    rows = ((coarser.codes > 0) & (column != ABSENT)).nonzero()[0]
    both = coarser.codes[rows] * len(facts.values) + column[rows]
    distinct, inverse = np.unique(both, return_inverse=True)
    codes[rows] = inverse + 1
    split = (divmod(each, len(facts.values)) for each in distinct.tolist())
    return Domains(codes, [(), *((*coarser.values[outer], facts.values[value]) for outer, value in split)])
