"""How a queue stands: what it has, what of it is used, who waits in it. What people ask of a queue, at one moment.

The whole cluster in a few numbers, at one moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.model.pod import Amount
from phalanx.model.queue import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """Of one flavor's resource (an empty `flavor`: of all nodes), by the queue and all below. None: not bounded.
    `owned`: some queue of the tree is guaranteed any of it; what nobody owns cannot be borrowed."""

    flavor: str
    resource: str
    used: Amount
    guaranteed: int | None = None
    limit: int | None = None
    owned: bool = True

    @property
    def borrowed(self) -> Amount:
        """Used beyond the guarantee."""
        return max(0, self.used - (self.guaranteed or 0)) if self.owned else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """A job's place in its queue, from 1. `code`: that of the reason why it waits. `start_s`: when it is expected to
    start (seconds since the epoch), if that is known."""

    job: str
    position: int
    code: str = ""
    start_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """`pending` and `running` count jobs of the queue and all below. `share`: weighted dominant share among its
    siblings; infinite for a queue of weight 0 that borrows. `fault`: how the tree contradicts itself here. `held_by`:
    the queue, itself or above, whose `state` keeps it from starting or taking jobs; empty: none. `first`: those that
    wait in the queue itself, the first of them."""

    queue: str
    parent: str
    depth: int
    pending: int
    running: int
    share: float
    usage: tuple[ResourceUsage, ...]
    state: QueueState
    state_since_s: float
    held_by: str
    fault: str
    first: tuple[QueuePosition, ...]


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
