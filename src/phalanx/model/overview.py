"""The whole cluster in a few numbers, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.model.amount import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """`waiting`: jobs that wait, by the code of their reason (empty: not looked at yet). `nodes`: how many there are,
    and how many of them are `ready` and `overfull` (pods hold more of something than the node has). `allocatable`: what
    the ready ones have, by resource; `free`: what of it nobody holds."""

    waiting: Mapping[str, int] = field(default_factory=dict)
    nodes: int = 0
    ready: int = 0
    overfull: int = 0
    allocatable: Mapping[str, Amount] = field(default_factory=dict)
    free: Mapping[str, Amount] = field(default_factory=dict)
