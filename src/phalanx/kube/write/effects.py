"""What gangs ask of the outside, carried out: writes to Jobs and pods, and the Events that tell people of them.

Every method asks for one write and says what its answer means to the gang that asked. Answers are evidence as the
watch's news are: what they show goes to the caches, and whichever is newer counts. A write that was refused, and is
still wanted, is tried again in a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from phalanx.client.connection import Object
from phalanx.client.informer import Informer
from phalanx.client.kind import PODS, VOLUME_CLAIMS, Kind
from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.gang.barrier import GangTimeouts
from phalanx.kube.gang.effects import Answer, Stage
from phalanx.kube.gang.seating import SeatedGang
from phalanx.kube.gang.seats import Seat
from phalanx.kube.gang.spec.gang_spec import JobPods
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.kube.write.binding import BindPod
from phalanx.kube.write.events import EventReporter
from phalanx.kube.write.eviction import EvictPod, MarkPod, ReadDisruptionBudgets
from phalanx.kube.write.job_patch import AnnotateReason, ResizeJob, ResumeJob, SuspendJob
from phalanx.kube.write.pinning import PinPod
from phalanx.kube.write.volume_claim import SelectNode
from phalanx.kube.write.writer import Writer
from phalanx.model.event import Event
from phalanx.model.flavor import Flavor
from phalanx.model.reason import Code, Reason

log = logging.getLogger(__name__)

_AGAIN_S = 5.0


class ApiEffects:
    """The `Effects` of gangs. `tell` hands an event to the core, `conclude` has a gang look at what came of a write."""

    def __init__(
        self,
        *,
        writer: Writer,
        reporter: EventReporter,
        informers: Callable[[Kind], Informer],
        allocations: NodeAllocations,
        timeouts: GangTimeouts,
        flavors: Mapping[str, Flavor],
        clock: Callable[[], float],
        tell: Callable[[Event], None],
        conclude: Callable[[SeatedGang], None],
    ) -> None:
        self.writer, self.reporter, self.allocations, self.timeouts = writer, reporter, allocations, timeouts
        self._informers, self._flavors = informers, flavors
        self.now_s, self.tell, self._conclude = clock, tell, conclude

    def resume(self, gang: SeatedGang, jobs: Sequence[tuple[BatchJob, int]], record: StartRecord) -> None:
        """`jobs`: the roles of one object, each with its parallelism."""
        writes: list[ResumeJob] = []
        for job, parallelism in reversed(jobs):
            role = gang.seats.role_of(JobPods(job.uid))
            named = record.flavors[role] if role is not None and role < len(record.flavors) else ""
            flavor = self._flavors.get(named)
            obj, beside = self._known(job), tuple(writes) if job is jobs[0][0] else ()
            writes.append(ResumeJob(job, record, obj, parallelism=parallelism, flavor=flavor, beside=beside))

        def done(answer: Answer, obj: Object | None, text: str) -> None:
            self._observe(jobs[0][0].adapter.kind, obj)
            for job, _ in jobs:
                gang.resumed(job.uid, answer, text)
            self._conclude(gang)

        self.writer.put(writes[-1], done)

    def suspend(self, gang: SeatedGang, job: BatchJob, reason: Reason, mark: PreemptionMark | None) -> None:
        write = SuspendJob(job, reason, self._known(job), mark, gang.gives_up)

        def done(answer: Answer, obj: Object | None, text: str) -> None:
            self._observe(job.adapter.kind, obj)
            if answer is Answer.REFUSED and job.uid in gang.jobs:
                log.warning("Job %s could not be suspended again: %s", job.key, text)
                self._later(self.suspend, gang, gang.jobs[job.uid], reason, mark)
                return
            gang.suspended(job.uid, write.quote)
            self._conclude(gang)

        self.writer.put(write, done)

    def resize(self, gang: SeatedGang, job: BatchJob, parallelism: int, why: Reason | None) -> None:
        def done(answer: Answer, obj: Object | None, text: str) -> None:
            self._observe(job.adapter.kind, obj)
            if answer is Answer.REFUSED:
                log.warning("Job %s could not be given parallelism %d: %s", job.key, parallelism, text)
                self._later(gang.resized, job.uid)
                return
            gang.resized(job.uid)
            self._conclude(gang)

        if why is not None:
            self.reporter.event(job, "Preempted", f"{why.code}: {why.text}", warning=True)
        self.writer.put(ResizeJob(job, self._known(job), parallelism), done)

    def budgets(self, gang: SeatedGang, pods: Sequence[Pod]) -> None:
        write = ReadDisruptionBudgets(pods, [self._informers(PODS).objects[pod.key] for pod in pods])

        def done(answer: Answer, obj: Object | None, text: str) -> None:
            gang.budgeted(write.objection or text)
            self._conclude(gang)

        self.writer.put(write, done)

    def mark(self, gang: SeatedGang, pod: Pod, mark: PreemptionMark) -> None:
        def done(answer: Answer, obj: Object | None, text: str) -> None:
            self._observe(PODS, obj)
            if answer is Answer.REFUSED:
                self._later(self.mark, gang, pod, mark)
                return
            gang.marked(pod.uid)
            self._conclude(gang)

        self.writer.put(MarkPod(pod, mark), done)

    def evict(self, gang: SeatedGang, pod: Pod, grace_s: float | None) -> None:
        def done(answer: Answer, obj: Object | None, text: str) -> None:
            if answer is not Answer.REFUSED or pod.uid not in gang.pods:
                return
            log.info("pod %s could not be evicted: %s", pod.key, text)
            if gang.stage is Stage.LEAVING:
                self._later(self.evict, gang, pod, grace_s)
            else:
                gang.stays(pod)
                self._conclude(gang)

        self.writer.put(EvictPod(pod, grace_s), done)

    def going(self, gang: SeatedGang, why: Reason) -> None:
        members: list[BatchJob | Pod] = [job for job in gang.jobs.values() if not job.finished]
        for about in members + [pod for pod in gang.pods.values() if pod.owner is None]:
            self.reporter.event(about, "Preempted", f"{why.code}: {why.text}", warning=True)

    def bind(self, gang: SeatedGang, pod: Pod, seat: Seat, record: StartRecord | None) -> None:
        node, devices = seat.node, seat.devices

        def done(answer: Answer, obj: Object | None, text: str) -> None:
            if obj is not None and obj.get("kind") == PODS.name:
                self._observe(PODS, obj)
            gang.bound(pod, node, answer, text)
            self._conclude(gang)

        pin = PinPod(pod, node, self._informers(PODS).objects[pod.key], devices) if pod.pinned else None
        self.writer.put(pin or BindPod(pod, node, record, devices), done)

    def select(self, gang: SeatedGang, pod: Pod, node: str) -> None:
        def done(answer: Answer, obj: Object | None, text: str) -> None:
            self._observe(VOLUME_CLAIMS, obj)
            if answer is Answer.REFUSED:
                log.warning("a claim of pod %s could not be told its node: %s", pod.key, text)

        for name in pod.unplaced:
            claim = self._informers(VOLUME_CLAIMS).objects.get(f"{pod.namespace}/{name}")
            if claim is not None:
                self.writer.put(SelectNode(claim, node), done)

    def rejected(self, gang: SeatedGang, pod: Pod) -> None:
        """A kubelet would not have the pod: its Job says so, also if it fails by that (backoffLimit 0)."""
        said = f": {pod.message}" if pod.message else ""
        text = f"the kubelet of {pod.node} refused pod {pod.name} ({pod.reason}{said})"
        job = gang.jobs.get(pod.owner[1]) if pod.owner is not None else None
        self.reporter.event(job or pod, "Rejected", text, warning=True)
        if job is not None and (obj := self._informers(kind := job.adapter.kind).objects.get(job.key)) is not None:
            write = AnnotateReason(job, obj, f"{Code.REJECTED}: {text}")
            self.writer.put(write, lambda answer, found, _: self._observe(kind, found))

    def started(self, gang: SeatedGang) -> None:
        self.reporter.forget(gang)
        first: BatchJob | Pod | None = next(iter(gang.jobs.values()), None) or next(iter(gang.pods.values()), None)
        nodes = [seat.node for _, seat in gang.seats.all() if seat.bound]
        where = nodes[0] if len(set(nodes)) == 1 else f"{len(set(nodes))} nodes"
        what = "its pod" if len(nodes) == 1 else f"its {len(nodes)} pods, together,"
        if first is not None:
            self.reporter.event(first, "Scheduled", f"Bound {what} to {where}")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _later(self, call: Callable[..., None], *args: object) -> None:
        """A write that was refused is tried again in a while."""
        asyncio.get_running_loop().call_later(_AGAIN_S, call, *args)

    def _known(self, job: BatchJob) -> Object:
        return self._informers(job.adapter.kind).objects[job.key]

    def _observe(self, kind: Kind, obj: Object | None) -> None:
        """An answer is evidence like the watch's: whichever is newer counts."""
        if obj is not None:
            self._informers(kind).observe(obj)
