"""What a gang may do to the outside, and what comes back: the seam between its life and the API."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.gang.barrier import GangTimeouts
from phalanx.kube.gang.seats import Seat
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import Event
from phalanx.model.reason import Reason

if TYPE_CHECKING:
    from phalanx.kube.gang.seating import SeatedGang


class Stage(Enum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"


class Answer(Enum):
    """What became of a write. `GONE`: its object is, or is another of that name."""

    DONE = "done"
    GONE = "gone"
    REFUSED = "refused"


class Effects(Protocol):
    """What a gang may do to the outside."""

    allocations: NodeAllocations
    timeouts: GangTimeouts

    def now_s(self) -> float: ...
    def tell(self, event: Event) -> None: ...
    def resume(self, gang: SeatedGang, jobs: Sequence[tuple[BatchJob, int]], record: StartRecord) -> None: ...
    def suspend(self, gang: SeatedGang, job: BatchJob, reason: Reason, mark: PreemptionMark | None) -> None: ...
    def resize(self, gang: SeatedGang, job: BatchJob, parallelism: int, why: Reason | None) -> None: ...
    def bind(self, gang: SeatedGang, pod: Pod, seat: Seat, record: StartRecord | None) -> None: ...
    def select(self, gang: SeatedGang, pod: Pod, node: str) -> None: ...
    def budgets(self, gang: SeatedGang, pods: Sequence[Pod]) -> None: ...
    def mark(self, gang: SeatedGang, pod: Pod, mark: PreemptionMark) -> None: ...
    def evict(self, gang: SeatedGang, pod: Pod, grace_s: float | None) -> None: ...
    def going(self, gang: SeatedGang, why: Reason) -> None: ...
    def rejected(self, gang: SeatedGang, pod: Pod) -> None: ...
    def started(self, gang: SeatedGang) -> None: ...
