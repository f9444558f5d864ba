"""The interface between a gang's life cycle and the API: the writes that `GangLifecycle` may request, and their
answers. The classes in this folder do no I/O. They pass each write, with a callback for its answer, to an
implementation of `Effects`. After every answer, the gang is reconciled with the present state of its objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from phalanx.dialects.frame.dialect import PodUpdate
from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import Event
from phalanx.model.reason import Reason, ReasonCode

Member: TypeAlias = BatchJob | Pod
NO_UPDATE = PodUpdate()


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTimeouts:
    """Time-outs of a gang, in seconds. `start_s`, plus `start_share_s` for each pod: how long it may take from the
    resume of the Jobs until all pods that must start together can be bound (the bind barrier). `place_s`: how long a
    pod of a started gang may lack a node. `hold_s`: how long capacity is reserved for pods that a driver has not
    created yet. `avoid_s`: how long other nodes are preferred to a node whose kubelet refused a pod. `regrow_s`: how
    long an elastic gang that gave up pods waits before it requests more pods again. `guarded_s`: how long a job is not
    preempted again after a PodDisruptionBudget protected it. `start_attempts`: the number of failed starts after which
    the gang is held. A start counts as failed if its bound pods do not become ready in the time that the queue allows.
    `backoff_s`: the pause after a failed start; it doubles with each further failure, up to `backoff_most_s`."""

    start_s: float = 60.0
    start_share_s: float = 0.5
    place_s: float = 300.0
    hold_s: float = 600.0
    avoid_s: float = 600.0
    regrow_s: float = 60.0
    guarded_s: float = 300.0
    start_attempts: int = 3
    backoff_s: float = 30.0
    backoff_most_s: float = 600.0

    def barrier_s(self, pods: int) -> float:
        return self.start_s + self.start_share_s * pods

    def rest_s(self, failures: int) -> float:
        """Return the pause in seconds after `failures` failed starts in a row."""
        return min(self.backoff_most_s, self.backoff_s * 2.0 ** min(30, failures - 1))


class WriteOutcome(Enum):
    """The outcome of a write to the API. `GONE`: the object was deleted, or another object has its name now. `CHANGED`:
    the object has changed since the decision. The write was not made, and the caller must decide again."""

    DONE = "done"
    GONE = "gone"
    REFUSED = "refused"
    CHANGED = "changed"


Answered: TypeAlias = Callable[[WriteOutcome, str], None]  # a function that gets the outcome, and the text of a refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStart:
    """The part of a start that concerns one Job. `parallelism`: how many pods the Job may run. `flavor`: the node
    flavor of these pods; "" if there is none. `update`: further changes of the pod template for this start.
    `why_there`: why the Job was sent to another cluster; "" if it starts in this cluster."""

    job: BatchJob
    parallelism: int
    flavor: str = ""
    update: PodUpdate = NO_UPDATE
    why_there: str = ""


class JobEffects(Protocol):
    """Writes to Jobs. `gang`: the id of the gang that requests the write."""

    def resume(self, gang: str, roles: Sequence[RoleStart], record: StartRecord, answered: Answered) -> None:
        """Resume these Jobs, which are the roles of one object, by a single write to that object."""

    def suspend(
        self, gang: str, job: BatchJob, why: Reason, mark: PreemptionMark | None, hold: str, answered: Answered
    ) -> None:
        """Suspend the Job again. `hold`: why a user must release the Job before it may start again; "" if no user has
        to release it. The text passed to `answered` is the Job controller's message about pods that it could not
        create."""

    def resize(self, gang: str, job: BatchJob, parallelism: int, answered: Answered) -> None: ...

    def explain(self, job: BatchJob, text: str) -> None:
        """Write on the Job why it waits, or why it failed."""


class PodEffects(Protocol):
    """Writes to pods. `gang`: the id of the gang that requests the write."""

    def bind(
        self, gang: str, pod: Pod, node: str, devices: tuple[str, ...], record: StartRecord | None, answered: Answered
    ) -> None: ...

    def select_node(self, pod: Pod, node: str) -> None:
        """Write the planned node on the pod's volume claims, so that the provisioner creates volumes that this node can
        use."""

    def read_budgets(self, gang: str, by: str, pods: Sequence[Pod], answered: Callable[[str], None]) -> None:
        """Check whether the PodDisruptionBudgets allow the eviction of these pods and of all other victims of the
        preemptor `by` at the same time. `answered`: called with a message about the budget that forbids the eviction,
        or with "" if the eviction is allowed."""

    def mark(self, gang: str, pod: Pod, mark: PreemptionMark, answered: Answered) -> None: ...

    def send(self, gang: str, pod: Pod, record: StartRecord | None, answered: Answered) -> None:
        """Write on the pod that its gang was started in another cluster. `record`: the record of this start; None to
        remove the record, because no other cluster runs the pod any more."""

    def evict(
        self,
        gang: str,
        pod: Pod,
        grace_s: float | None,
        answered: Answered,
        condition: Mapping[str, str] | None = None,
    ) -> None:
        """Evict the pod. `condition`: a condition that is written to the pod's status before the eviction."""


class Effects(Protocol):
    """The operations that `GangLifecycle` requests from its caller."""

    @property
    def allocations(self) -> NodeAllocations: ...
    @property
    def timeouts(self) -> GangTimeouts: ...
    @property
    def jobs(self) -> JobEffects: ...
    @property
    def pods(self) -> PodEffects: ...

    def now_s(self) -> float:
        """Return the present time in seconds since the epoch."""

    def emit_event(self, event: Event) -> None:
        """Pass the event to the core."""

    def report(self, about: Member, reason: str, text: str, *, warning: bool = False) -> None:
        """Report `text` to users by a Kubernetes Event on the member. `reason`: the reason of the Event."""

    def drop_wait_reason(self, gang: str) -> None:
        """Discard the gang's reason for waiting, unless it is already written."""

    def retry_later(self, gang: str, refusals: int, call: Callable[[], None]) -> None:
        """Call `call` after a pause, to try a refused operation again, and then reconcile the gang. The pause grows
        with the number of `refusals` in a row."""


def report_rejection(effects: Effects, pod: Pod, job: BatchJob | None) -> None:
    """Report that a kubelet refused the pod. The refusal is also written on the pod's Job as its reason, even if the
    Job fails because of it (with backoffLimit 0)."""
    said = f": {pod.message}" if pod.message else ""
    text = f"the kubelet of {pod.node} refused pod {pod.name} ({pod.reason}{said}); other nodes are preferred"
    effects.report(job or pod, "Rejected", text, warning=True)
    if job is not None:
        effects.jobs.explain(job, f"{ReasonCode.REJECTED}: {text}")
