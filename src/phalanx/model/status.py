"""What people ask at one moment: how a queue stands, and the whole cluster in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.model.pod import Amount
from phalanx.model.queue import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """The usage of one flavor's resource by a queue and all below it; of all nodes if `flavor` is empty.

    `guaranteed`, `limit`: None: not bounded.
    `owned`: some queue of the tree is guaranteed any of the resource, and this one not all it asks for; what is not
    owned cannot be borrowed."""

    flavor: str
    resource: str
    used: Amount
    guaranteed: int | None = None
    limit: int | None = None
    owned: bool = True

    @property
    def borrowed(self) -> Amount:
        """Return how much is used beyond the guarantee."""
        return max(0, self.used - (self.guaranteed or 0)) if self.owned else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """A pending job's position in its queue, from 1.

    `code`: of the reason why the job waits.
    `start_s`: when the job is expected to start (seconds since the epoch), if that is known."""

    job: str
    position: int
    code: str = ""
    start_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """The status of a queue.

    `pending`, `running`: jobs of the queue and of all below it.
    `share`: the weighted dominant share among its siblings; infinite for a queue of weight 0 that borrows.
    `fault`: how the tree contradicts itself here; empty: it does not.
    `held_by`: the queue, itself or above, whose `state` keeps it from taking or starting jobs; empty: none.
    `first`: the first pending jobs of the queue itself."""

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
    """The status of the cluster.

    `waiting`: pending jobs by the code of their reason; empty: not looked at yet.
    `nodes`, `ready`, `overfull`: how many nodes there are, are ready, and hold more of a resource than they have.
    `allocatable`, `free`: by resource, of the nodes that are ready."""

    waiting: Mapping[str, int] = field(default_factory=dict)
    nodes: int = 0
    ready: int = 0
    overfull: int = 0
    allocatable: Mapping[str, Amount] = field(default_factory=dict)
    free: Mapping[str, Amount] = field(default_factory=dict)
