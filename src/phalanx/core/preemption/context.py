"""What a search for somebody to give way looks at: the book, and what this cycle has laid over it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.core.placement.draft import Draft
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.core.quota.shares import DominantShare
from phalanx.state.classes import Demand
from phalanx.state.cluster import Cluster
from phalanx.state.running import RunningPods


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionContext:
    """`leaving`: (node, demand, devices by name) of each pod that was told to go in this cycle;
    `told`: of which jobs, and `spent`: of each queue how many whole. The residents do not show that yet.
    `richest`: by version of the ledger, what `core.preemption.policy` found of it."""

    cluster: Cluster
    draft: Draft
    ledger: QuotaLedger
    running_pods: RunningPods
    now_s: float
    leaving: Sequence[tuple[str, Demand, tuple[str, ...]]] = ()
    told: Collection[str] = ()
    spent: Mapping[str, int] = field(default_factory=dict)
    richest: dict[int, Mapping[str, DominantShare]] = field(default_factory=dict)
