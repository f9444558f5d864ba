"""The input of a search for victims: the cluster state, and the decisions of this cycle so far."""

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
    """Place the gang without regard to reservations."""
    return place(draft, gang, among)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionContext:
    """The context of all searches for victims in one cycle.

    `running_pods`: the running pods in the state. `leaving`: (node, demand, device names) of each pod that this cycle
    has evicted; `running_pods` still includes these pods.
    `victims`: job -> the slots that this cycle has evicted; empty if the whole job is preempted.
    `placed`: job -> the pods that this cycle has placed for it. `running_pods` does not include them yet.
    `spent`: queue -> the number of its jobs that this cycle has preempted as a whole.
    `place`: the function that places a gang on the draft without delaying reservations.
    `is_guarded`: True if the preemptor must respect reservations. `without_growth`: True if the search first removes
    pods from the draft that this cycle has placed above the minimums of running jobs, provided that the preemptor may
    preempt them. `richest`: a cache: version of the ledger -> result of `policy.richest_children`."""

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
    without_growth: bool = False
    richest: dict[int, Mapping[str, DominantShare]] = field(default_factory=dict)
