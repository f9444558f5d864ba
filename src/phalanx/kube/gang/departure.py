"""End a started gang: preempt it, or undo its start.

Before any pod ends, Phalanx writes a mark of the preemption on the gang's objects (kubernetes.md 8), so that a
scheduler process that starts after a crash continues the preemption. The mark of a Job is part of the PATCH that
suspends the Job. The Job controller then deletes the pods of the Job, and does not count the deleted pods as failures.
Bare pods (pods without a Job) are marked one by one, and evicted when all of them are marked. If a PodDisruptionBudget
protects a pod of one victim, all victims of the same preemptor continue to run, and none of them is preempted for a
while.

The *departure* of a gang begins with the decision to end its start, and lasts until all of its pods are gone. During
the departure, the gang's Jobs are suspended. The departure is reported to the core only when all pods are gone. The
owner of a suspended Job may resume the Job at once (a JobSet does so unless it is suspended itself). In this case,
Phalanx does not suspend the Job again, but it leaves the new pods unbound. If the API server keeps refusing the
suspension of a Job, the start still ends as soon as no pod of the gang is on a node. Other jobs can then use the
capacity that was reserved for the gang. If a gang's bare pods cannot be marked as preempted, the gang is not preempted.

Two kinds of gangs are ended in the same way, although no preemptor needs their capacity: a gang of bare pods of which
too few run (`seats.elastic`), and a gang whose dialect (the part of Phalanx that reads another scheduler's objects) no
longer allows it to run. The objects of these gangs get no marks, because after a crash the next process finds the same
state, and then ends these gangs itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from phalanx.client.moment import write_moment
from phalanx.kube.gang.effects import Member, WriteOutcome
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode

_GIVE_UP = 3  # a write is given up after this many refusals in a row, each after several attempts


@dataclass(slots=True, kw_only=True)
class PreemptionRequest:
    """A preemption that waits until all of its marks are written. `unmarked`: the bare pods whose mark is still being
    written."""

    mark: PreemptionMark
    why: Reason
    grace_s: float | None = None
    unmarked: set[str] = field(default_factory=set)


class Preemption:
    """The first step of the preemption of a started gang: write the marks on its bare pods. `marked`: a function that
    is called when all of these marks are written. No pod of the gang is evicted or deleted before this call."""

    def __init__(self, start: GangStart, marked: Callable[[PreemptionRequest], None]) -> None:
        self._start, self._effects, self._marked = start, start.effects, marked
        self._request: PreemptionRequest | None = None

    def preempt(self, decided: Preempt) -> None:
        if self._start.record.attempt != decided.attempt:
            return  # the decision is about an earlier start of the gang
        mark = PreemptionMark(by=decided.by, start_s=self._start.record.at_s)
        request = self._request = PreemptionRequest(mark=mark, why=decided.reason, grace_s=decided.grace_s)
        if bare := self._start.bare_pods():
            self._effects.pods.read_budgets(
                self._start.id, decided.by, bare, lambda objection: self._budgeted(request, objection)
            )
        else:
            self._write_marks(request)

    def resume(self, mark: PreemptionMark) -> None:
        """Continue a preemption that an earlier scheduler process began."""
        text = f"it was preempted by {mark.by}" if mark.by else "its queue uses more than its limit"
        why = Reason(code=ReasonCode.PREEMPTED, text=text, numbers={"by": mark.by})
        self._request = PreemptionRequest(mark=mark, why=why)
        self._write_marks(self._request)

    def cancel(self) -> None:
        self._request = None

    def _budgeted(self, request: PreemptionRequest, objection: str) -> None:
        """Continue or cancel the preemption, after PodDisruptionBudgets were checked for the gang's bare pods.
        `objection`: a message about the budget that forbids the eviction; "" if the pods may be evicted."""
        if request is not self._request:
            return
        if not objection:
            self._write_marks(request)
            return
        self._request = None
        self._start.forbid_preemption()

    def _write_marks(self, request: PreemptionRequest) -> None:
        bare = [pod for pod in self._start.bare_pods() if pod.mark != request.mark]
        request.unmarked = {pod.uid for pod in bare}
        for pod in bare:
            self._write_mark(request, pod, 0)
        self._check(request)

    def _write_mark(self, request: PreemptionRequest, pod: Pod, refusals: int) -> None:
        def answered(answer: WriteOutcome, text: str) -> None:
            if request is not self._request:
                return
            if answer is WriteOutcome.REFUSED and refusals + 1 >= _GIVE_UP:
                self._request = None
                self._start.forbid_preemption()
                return
            if answer is WriteOutcome.REFUSED:
                self._effects.retry_later(
                    self._start.id, refusals + 1, lambda: self._write_mark(request, pod, refusals + 1)
                )
                return
            request.unmarked.discard(pod.uid)
            self._check(request)

        if request is self._request:
            self._effects.pods.mark(self._start.id, pod, request.mark, answered)

    def _check(self, request: PreemptionRequest) -> None:
        if request is self._request and not request.unmarked:
            self._request = None
            self._marked(request)


class TakeBack(NamedTuple):
    """The reason why a start is undone. `hold`: why a user must release the gang before it may start again; "" if no
    user has to release it. `evicts`: True if the gang's bare pods are evicted too, as in a preemption."""

    why: Reason
    hold: str = ""
    evicts: bool = False


class Departure:
    """A gang that is leaving its nodes. `mark`: the mark of the gang's preemption; None if it is not preempted.
    `grace_s`: the longest termination grace period of a preempted pod, in seconds. `evicts`: True if the gang's bare
    pods are evicted. `hold`: why a user must release the gang before it may start again; "" if no user has to release
    it."""

    def __init__(
        self,
        start: GangStart,
        why: Reason,
        *,
        mark: PreemptionMark | None = None,
        grace_s: float | None = None,
        evicts: bool = False,
        hold: str = "",
    ) -> None:
        self.why, self.mark = why, mark
        self._evicts = evicts or mark is not None
        self._start, self._effects, self._grace_s, self._hold = start, start.effects, grace_s, hold
        self._suspending: dict[str, int] = {}  # uid of a Job -> how often its suspension was refused
        self._stuck: set[str] = set()  # Jobs whose suspension the API server refused again and again
        self._was_suspended: set[str] = set()  # Jobs that this departure suspended; if one runs, its owner resumed it
        self._over = False
        self._evicted: set[str] = set()  # bare pods whose eviction was requested

    @property
    def preempted(self) -> bool:
        return self.mark is not None

    def begin(self) -> None:
        """Suspend the gang's Jobs that run or are being resumed. Remove the record of the start from bare pods that
        were sent to another cluster and do not run in this cluster."""
        for job in self._start.objects.jobs.values():
            runs = not job.suspended or job.uid in self._start.resuming
            if runs and job.queued and not job.finished:
                self._suspending[job.uid] = 0
                self._suspend(job)
        for pod in self._start.objects.pods.values():
            if self._start.record.cluster and self._start.is_recorded(pod) and pod.phase == "Pending":
                self._effects.pods.send(self._start.id, pod, None, lambda answer, text: None)
        self.evict_bare()

    def report(self) -> None:
        """Report by Events on the gang's objects that the gang was preempted, or why its bare pods are evicted."""
        jobs: list[Member] = [job for job in self._start.objects.jobs.values() if not job.finished]
        objects = self._start.objects
        for about in jobs + [pod for pod in objects.pods.values() if objects.job_of(pod) is None]:
            event = "Preempted" if self.preempted else str(self.why.code)
            self._effects.report(about, event, f"{self.why.code}: {self.why.text}", warning=True)

    def evict_bare(self) -> None:
        """Evict the gang's bare pods that are on nodes, each only once. The caller calls this method repeatedly,
        because the API server may confirm a pod's binding only after the first call."""
        for pod in self._start.bare_pods() if self._evicts else ():
            if pod.uid not in self._evicted:
                self._evicted.add(pod.uid)
                self._evict(pod, 0)

    def lose_job(self, uid: str) -> None:
        self._suspending.pop(uid, None)
        self._stuck.discard(uid)

    def end(self) -> None:
        """End the departure, so that refused writes are not tried again."""
        self._over = True

    @property
    def left(self) -> bool:
        """Return True if all pods of the gang that must end are gone, and the API server has answered all writes about
        its Jobs."""
        awaited = self._suspending.keys() - self._stuck
        return not (awaited or self._start.resuming or any(map(self._stays, self._start.objects.pods.values())))

    def _stays(self, pod: Pod) -> bool:
        """Return True if the gang may return to its queue only after this pod is gone. This is so if the pod is on a
        node, or if the Job controller will delete the pod because its Job is (or is being) suspended."""
        if pod.node or self._start.on_its_way(pod) or pod.uid in self._evicted:
            return True
        job = self._start.objects.job_of(pod)
        if job is None or not job.queued or job.uid in self._stuck:
            return False
        return job.suspended or job.uid not in self._was_suspended

    # --- private ---------------------------------------------------------------------------------------------------

    def _suspend(self, job: BatchJob) -> None:
        def answered(answer: WriteOutcome, text: str) -> None:
            if answer is WriteOutcome.REFUSED and job.uid in self._start.objects.jobs:
                self._refused(job, text)
            else:
                self._suspended(job.uid, text if answer is WriteOutcome.DONE else "")

        self._effects.jobs.suspend(self._start.id, job, self.why, self.mark, self._hold, answered)

    def _suspend_again(self, uid: str) -> None:
        if (job := self._start.objects.jobs.get(uid)) is not None and not self._over:
            self._suspend(job)

    def _refused(self, job: BatchJob, text: str) -> None:
        refusals = self._suspending[job.uid] = self._suspending.get(job.uid, 0) + 1
        if refusals == _GIVE_UP:
            self._stuck.add(job.uid)
            said = f"Job {job.name} could not be suspended: {text}"
            self._effects.report(job, "SuspendFailed", said, warning=True)
            self.why = replace(self.why, text=f"{self.why.text}; {said}")
        self._effects.retry_later(self._start.id, refusals, lambda: self._suspend_again(job.uid))

    def _suspended(self, uid: str, quote: str) -> None:
        """Record that the API server has suspended the Job. `quote`: the Job controller's message about pods that the
        controller could not create."""
        self._suspending.pop(uid, None)
        self._stuck.discard(uid)
        self._was_suspended.add(uid)
        if quote:
            self.why = replace(self.why, text=f"{self.why.text}; the Job controller says: {quote}")
        if self.mark is not None and self._grace_s is not None:
            for pod in self._start.objects.pods.values():
                if pod.node and pod.owner is not None and pod.owner[1] == uid and pod.grace_s > self._grace_s:
                    self._evict(pod, 0)

    def _condition(self, pod: Pod) -> dict[str, str] | None:
        """Return the condition that the pod's dialect requires on a bare pod before its preemption; None if the dialect
        requires no condition."""
        said = self._start.spec.evicted_as
        if said is None or self._start.objects.job_of(pod) is not None:
            return None
        since = write_moment(self._effects.now_s())
        return {
            "type": said[0],
            "status": "True",
            "reason": said[1],
            "message": self.why.text,
            "lastTransitionTime": since,
        }

    def _evict(self, pod: Pod, refusals: int) -> None:
        def answered(answer: WriteOutcome, text: str) -> None:
            if answer is WriteOutcome.REFUSED:
                self._effects.retry_later(self._start.id, refusals + 1, lambda: self._evict(pod, refusals + 1))

        if pod.uid in self._start.objects.pods and not self._over:
            self._effects.pods.evict(self._start.id, pod, self._grace_s, answered, self._condition(pod))
