"""One gang: its objects, its stage, and its earlier starts. The module also applies changes of members to the gang's
present start."""

from __future__ import annotations

from dataclasses import replace

from phalanx.kube.gang.departure import Departure
from phalanx.kube.gang.effects import Effects, report_rejection
from phalanx.kube.gang.lifecycle.stages import NEXT, Leaving, Running, State, Waiting
from phalanx.kube.gang.lifecycle.start_history import StartHistory
from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.gang.spec.gang_spec import GangSpec
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.reason import Reason


class GangLifecycle:
    """The life cycle of a gang, from the creation of its first member until its last pod is gone. `wake_s`: the time at
    which the gang must be reconciled again even if nothing changes (seconds since the epoch; 0 means never).
    `departure`: the latest departure of the gang from its nodes, even if the departure has ended: it may begin and end
    within one reconciliation, and its reason is still needed afterwards. `resized`: the reason for which the gang
    returns to the queue after a user has changed the size of its running Job; None if the gang need not return."""

    def __init__(self, id: str, effects: Effects) -> None:
        self.id, self.effects = id, effects
        self.objects = GangObjects(id)
        self.state: State = Waiting()
        self.history = StartHistory()
        self.departure: Departure | None = None
        self.resized: Reason | None = None
        self.wake_s = 0.0

    def enter(self, state: State) -> None:
        """Change to this stage (such as starting or running), which must be a permitted successor of the present
        stage."""
        assert type(state) in NEXT[type(self.state)], f"{self.id}: from {self.state} to {state}"
        self.state = state

    # --- questions ------------------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        return isinstance(self.state, Waiting)

    @property
    def done(self) -> bool:
        """Return whether the gang waits and has no object left."""
        return self.waits and self.objects.empty

    @property
    def spec(self) -> GangSpec | None:
        """Return the spec that was last reported to the core; None if the gang was not reported."""
        return self.state.spec if isinstance(self.state, Waiting) else self.state.parts.start.spec

    @property
    def queue(self) -> str:
        return self.spec.job.queue if self.spec is not None else ""

    @property
    def record(self) -> StartRecord | None:
        return self.state.parts.start.record if self.state.parts is not None else None

    @property
    def elsewhere(self) -> StartRecord | None:
        """Return the record of the gang's start if the gang was sent to another cluster and runs there; otherwise
        None."""
        record = self.record if isinstance(self.state, Running) else None
        return record if record is not None and record.cluster else None

    # --- members change -------------------------------------------------------------------------------------------

    def see_job(self, job: BatchJob) -> None:
        if self.state.parts is not None and (known := self.objects.jobs.get(job.uid)) is not None:
            self.resized = self.state.parts.elastic.see_job(known, job) or self.resized
        self.objects.see_job(job)

    def note_fault(self, uid: str, fault: str) -> None:
        """Record that the newest state of a Job's object is invalid. `fault`: the error."""
        if (known := self.objects.jobs.get(uid)) is not None:
            self.objects.see_job(replace(known, fault=fault))

    def lose_job(self, uid: str) -> None:
        self.objects.jobs.pop(uid, None)
        if self.state.parts is not None:
            self.state.parts.start.resuming.discard(uid)
            self.state.parts.elastic.lose_job(uid)
        if isinstance(self.state, Leaving):
            self.state.departure.lose_job(uid)

    def see_pod(self, pod: Pod) -> None:
        if pod.over:
            self.lose_pod(pod)
            return
        self.objects.pods[pod.uid], self.objects.changed_pods[pod.uid] = pod, None

    def lose_pod(self, pod: Pod, *, gone: bool = False) -> None:
        self.objects.end_pod(pod, gone=gone)
        if pod.rejected:
            self._avoid_node_of(pod)
        if self.state.parts is not None:
            self.state.parts.seating.vacate(pod)
        if isinstance(self.state, Running):
            self.state.readiness.lose(pod.uid)

    def _avoid_node_of(self, pod: Pod) -> None:
        """Record that a kubelet refused the pod. For the next `avoid_s` seconds, the gang's pods prefer other nodes to
        the node of that kubelet."""
        if pod.node:
            now_s = self.effects.now_s()
            self.history.avoid(pod.node, now_s + self.effects.timeouts.avoid_s)
            if self.state.parts is not None:
                self.state.parts.start.prefer_nodes(self.history.preference(now_s))
        report_rejection(self.effects, pod, self.objects.job_of(pod))
