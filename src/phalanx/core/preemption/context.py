"""What a search for victims looks at: the state, and what this cycle has laid over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.core.backfill.reservation import Placer
from phalanx.core.backfill.shadow_time import Release
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters.matching import Rows
from phalanx.core.placement.gang import GangPlacement, place
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.core.quota.shares import DominantShare
from phalanx.model.job import Placement, Slot
from phalanx.state.classes import Demand, Gang
from phalanx.state.cluster import Cluster
from phalanx.state.running import RunningPods


def place_anywhere(draft: Draft, gang: Gang, among: Rows | None, released: Sequence[Release]) -> GangPlacement:
    """Return where the gang is placed without regard to reservations."""
    return place(draft, gang, among)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionContext:
    """The context of all searches for victims in one cycle.

    `running_pods`: the running pods as of the state.
    `leaving`: (node, demand, device names) of each pod that was told to go in this cycle, which `running_pods` does not
        show yet.
    `victims`: the jobs of these pods -> the slots that each gives up; empty: it is preempted whole.
    `placed`: job -> the pods that this cycle has placed for it, which `running_pods` does not show yet.
    `spent`: queue -> how many of its jobs this cycle has preempted whole.
    `place`: places a gang on the draft, beside the reservations that it must not delay; `is_guarded`: there are any.
    `richest`: by version of the ledger, what `core.preemption.policy` found of it."""

    cluster: Cluster
    draft: Draft
    ledger: QuotaLedger
    running_pods: RunningPods
    now_s: float
    leaving: list[tuple[str, Demand, tuple[str, ...]]] = field(default_factory=list)
    victims: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    placed: dict[str, list[Placement]] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=dict)
    place: Placer = place_anywhere
    is_guarded: bool = False
    richest: dict[int, Mapping[str, DominantShare]] = field(default_factory=dict)
