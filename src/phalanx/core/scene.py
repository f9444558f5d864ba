"""What a search for somebody to give way looks at: the book, and what this cycle has laid over it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.core.draft import Draft
from phalanx.core.quota import Ledger
from phalanx.core.share import Share
from phalanx.model.cluster import Cluster
from phalanx.model.demand import Demand
from phalanx.model.residents import Residents


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """`leaving`: (node, demand, devices by name) of each pod that was told to go in this cycle;
    `told`: of which jobs, and `spent`: of each queue how many whole. The residents do not show that yet.
    `richest`: by version of the ledger, what `core.rights` found of it."""

    cluster: Cluster
    draft: Draft
    ledger: Ledger
    residents: Residents
    now_s: float
    leaving: Sequence[tuple[str, Demand, tuple[str, ...]]] = ()
    told: Collection[str] = ()
    spent: Mapping[str, int] = field(default_factory=dict)
    richest: dict[int, Mapping[str, Share]] = field(default_factory=dict)
