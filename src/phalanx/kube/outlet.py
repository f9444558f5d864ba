"""What a gang may do to the outside, and what comes back: the seam between its life and the API."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from phalanx.kube.barrier import Patience
from phalanx.kube.charge import Charges
from phalanx.kube.job import BatchJob
from phalanx.kube.pod import Pod
from phalanx.kube.record import Mark, Record
from phalanx.kube.seats import Seat
from phalanx.model.event import Event
from phalanx.model.reason import Reason

if TYPE_CHECKING:
    from phalanx.kube.seated import Seated


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


class Outlet(Protocol):
    """What a gang may do to the outside."""

    charges: Charges
    patience: Patience

    def now_s(self) -> float: ...
    def tell(self, event: Event) -> None: ...
    def resume(self, gang: Seated, jobs: Sequence[tuple[BatchJob, int]], record: Record) -> None: ...
    def suspend(self, gang: Seated, job: BatchJob, reason: Reason, mark: Mark | None) -> None: ...
    def resize(self, gang: Seated, job: BatchJob, parallelism: int, why: Reason | None) -> None: ...
    def bind(self, gang: Seated, pod: Pod, seat: Seat, record: Record | None) -> None: ...
    def select(self, gang: Seated, pod: Pod, node: str) -> None: ...
    def budgets(self, gang: Seated, pods: Sequence[Pod]) -> None: ...
    def mark(self, gang: Seated, pod: Pod, mark: Mark) -> None: ...
    def evict(self, gang: Seated, pod: Pod, grace_s: float | None) -> None: ...
    def going(self, gang: Seated, why: Reason) -> None: ...
    def rejected(self, gang: Seated, pod: Pod) -> None: ...
    def started(self, gang: Seated) -> None: ...
