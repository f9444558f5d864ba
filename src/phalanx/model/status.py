"""The status of a queue, and of the whole cluster, at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.model.pod import Amount
from phalanx.model.queue import QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """The usage of a resource by a queue and all queues below it, on the nodes of one flavor. If `flavor` is empty,
    this is the usage on all nodes.

    `guaranteed`, `limit`: the guarantee and the limit; None if there is no bound.
    `lendable`: the unused part of the guarantee that other queues may use now.
    `owned`: whether at least one queue of the tree has a guarantee of the resource, and the guarantee of this queue is
    bounded. Only in this case can a part of the usage be borrowed."""

    flavor: str
    resource: str
    used: Amount
    guaranteed: int | None = None
    limit: int | None = None
    owned: bool = True
    lendable: Amount = 0

    @property
    def borrowed(self) -> Amount:
        """Return the usage above the guarantee; 0 if no part of the usage can be borrowed."""
        return max(0, self.used - (self.guaranteed or 0)) if self.owned else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """A pending job's position in its queue, counted from 1.

    `code`: the code of the reason why the job waits.
    `start_s`: the expected start (seconds since the epoch); None if unknown."""

    job: str
    position: int
    code: str = ""
    start_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """The status of a queue.

    `pending`, `running`: the numbers of pending and running jobs of the queue and of all queues below it.
    `share`: the weighted dominant share, by which the queue is compared with its siblings; infinite for a queue of
    weight 0 that borrows.
    `fault`: the error in the queue tree that affects this queue; empty if there is none.
    `held_by`: this queue, or a queue above it, if its `state` prevents this queue from accepting or starting jobs;
    otherwise empty.
    `first`: the pending jobs of the queue itself that are first in its order."""

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

    `waiting`: code of a reason -> number of pending jobs with this reason; the code is empty for jobs that were not
    tried yet.
    `nodes`, `ready`: the numbers of nodes and of ready nodes.
    `overfull`: the number of ready nodes that are overcommitted.
    `allocatable`, `free`: the amounts of the ready nodes, by resource."""

    waiting: Mapping[str, int] = field(default_factory=dict)
    nodes: int = 0
    ready: int = 0
    overfull: int = 0
    allocatable: Mapping[str, Amount] = field(default_factory=dict)
    free: Mapping[str, Amount] = field(default_factory=dict)
