"""The stages of a gang. The class of a stage has only the fields that are needed in this stage.

    WAITING ──start──▶ STARTING ──minimum bound──▶ RUNNING ──all over──▶ (finished)
       ▲                  │                           │
       └──no pod left── LEAVING ◀────── undone ──────┘

The stages starting, running and leaving share one `StartedParts` object. It contains the objects that handle one start,
such as the seats (places for pods) and the preemption. It is created when the gang starts, and discarded when the start
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

from phalanx.kube.gang.departure import Departure, Preemption, PreemptionRequest
from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.seats.bind_barrier import BindBarrier, Readiness
from phalanx.kube.gang.seats.elastic import ElasticParallelism, Staleness
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seating import Seating
from phalanx.kube.gang.spec.gang_spec import GangSpec
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.workload.batch_job import BatchJob


class Stage(Enum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedParts:
    """The objects that handle one start: its seats (places for pods), its bind barrier, its elastic Jobs and its
    preemption."""

    start: GangStart
    barrier: BindBarrier
    seating: Seating
    elastic: ElasticParallelism
    staleness: Staleness
    preemption: Preemption

    @classmethod
    def of(cls, start: GangStart, marked: Callable[[PreemptionRequest], None]) -> StartedParts:
        """Create the objects that handle a start. `marked`: a function that is called during a preemption, as soon as
        all of the gang's objects have the mark of the preemption."""
        barrier = BindBarrier(start, gate_open=not start.record.gang)
        return cls(
            start=start,
            barrier=barrier,
            seating=Seating(start, barrier),
            elastic=ElasticParallelism(start, barrier),
            staleness=Staleness(start),
            preemption=Preemption(start, marked),
        )

    def resume_jobs(self, resumed: Callable[[WriteOutcome, str], None]) -> None:
        """Resume the gang's Jobs, and write the record of this start on them. Jobs that already run with this record
        are left unchanged. If several Jobs are roles of one object, a single write resumes them."""
        start, together = self.start, dict[str, list[BatchJob]]()
        for job in start.objects.jobs.values():
            known = job.record is not None and job.record.attempt == start.record.attempt and not job.suspended
            if job.ours and not job.finished and not known:
                start.resuming.add(job.uid)
                together.setdefault(job.object_uid, []).append(job)
        for jobs in together.values():
            self._resume(jobs, resumed)
        for pod in start.unsent_pods():
            self.send_pod(pod, resumed)

    def send_pod(self, pod: Pod, sent: Callable[[WriteOutcome, str], None]) -> None:
        """Write on a bare pod that its gang was started in another cluster."""

        def answered(answer: WriteOutcome, text: str) -> None:
            self.start.resuming.discard(pod.uid)
            sent(answer, text)

        self.start.resuming.add(pod.uid)
        self.start.effects.pods.send(self.start.id, pod, self.start.record, answered)

    def _resume(self, jobs: Sequence[BatchJob], resumed: Callable[[WriteOutcome, str], None]) -> None:
        def answered(answer: WriteOutcome, text: str) -> None:
            self.start.resuming.difference_update(job.uid for job in jobs)
            resumed(answer, text)

        roles = [self.start.role_of(job, self.elastic.parallelism(job)) for job in jobs]
        self.start.effects.jobs.resume(self.start.id, roles, self.start.record, answered)


@dataclass(slots=True, kw_only=True)
class Waiting:
    """The stage before a start. `spec`: the spec that was last reported to the core; None if the core does not know the
    gang."""

    stage: ClassVar[Stage] = Stage.WAITING
    parts: ClassVar[None] = None
    spec: GangSpec | None = None


@dataclass(slots=True, kw_only=True)
class Starting:
    """The stage in which the Jobs are resumed and the pods are created; no pod is bound before the bind barrier opens.
    `held`: True if nodes and quota are granted, but the Jobs stay suspended until the dialect opens its gate (in Kueue:
    until all admission checks are ready)."""

    stage: ClassVar[Stage] = Stage.STARTING
    parts: StartedParts
    held: bool = False


@dataclass(slots=True, kw_only=True)
class Running:
    """The stage after all pods that must start together were bound."""

    stage: ClassVar[Stage] = Stage.RUNNING
    parts: StartedParts
    readiness: Readiness


@dataclass(slots=True, kw_only=True)
class Leaving:
    """The stage in which a start is undone or preempted, until no pod of the gang is left."""

    stage: ClassVar[Stage] = Stage.LEAVING
    parts: StartedParts
    departure: Departure


State: TypeAlias = Waiting | Starting | Running | Leaving

# Stage -> the stages that may follow it. Running follows Waiting if an earlier process has completed the start.
NEXT: Mapping[type[State], frozenset[type[State]]] = {
    Waiting: frozenset({Starting, Running}),
    Starting: frozenset({Running, Leaving, Waiting}),
    Running: frozenset({Leaving, Waiting}),
    Leaving: frozenset({Waiting}),
}
