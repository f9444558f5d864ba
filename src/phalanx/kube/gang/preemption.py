"""How a started gang gives room to others: preempted whole, or made smaller; and how it grows again.

Preempted (kubernetes.md 8): what is to go is marked on the objects before anything ends, so that whoever comes after a
crash goes on with it. A Job's mark is part of the PATCH that suspends it; its controller then ends its pods, and they
do not count as failures. Bare pods are marked one by one, and evicted when all are; who would break a
PodDisruptionBudget by that stays, and is spared for a while. When no pod is left the core is told, and the gang waits
again with its age.

Smaller: an elastic Job's parallelism is lowered, and its controller chooses which pods go: those not yet running, then
the youngest (ActivePods of k8s.io/kubernetes/pkg/controller; it does not look at `pod-deletion-cost`, which only
ReplicaSets heed). The core gives up the highest ordinals first, which are mostly the same; where they are not, the core
is told which seats are left. Bare pods above the minimum are evicted by name.
What has gone is `Released`. Larger: its empty seats are `Opened`, and where the core gives them nodes the parallelism
is raised to match.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from phalanx.kube.gang.effects import Effects, Stage
from phalanx.kube.gang.seating import SeatedGang
from phalanx.kube.gang.seats import RoleSeats
from phalanx.kube.gang.spec.gang_spec import JobPods
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.job import Size, Slot
from phalanx.model.plan import Preempt, Shrink
from phalanx.model.reason import Reason

_STARTED = (Stage.STARTING, Stage.RUNNING)


class PreemptibleGang(SeatedGang):
    def __init__(self, id: str, effects: Effects) -> None:
        super().__init__(id, effects)
        self._why: Reason | None = None  # why it is on its way back
        self._mark: PreemptionMark | None = None  # it is preempted, or about to be
        self._grace_s: float | None = None
        self._unmarked: set[str] = set()  # bare pods whose mark is on its way
        self._sent_off: set[str] = set()  # bare pods that were told to go
        self._shed: dict[Slot, Reason] = {}  # seats that it was told to give up
        self._offer_s = 0.0  # no empty seats are offered before that time

    # --- preempted ------------------------------------------------------------------------------------------------

    def preempt(self, decided: Preempt) -> None:
        """Late decisions are passed over: who is on its way back, or over, tells the core so in any case."""
        if self.stage not in _STARTED or self.record is None or self.record.attempt != decided.attempt:
            return
        self._mark = PreemptionMark(by=decided.by, start_s=self.record.at_s)
        self._why, self._grace_s = decided.reason, decided.grace_s
        if bare := self._bare():
            self.effects.budgets(self, bare)
        else:
            self._mark_pods()

    def budgeted(self, objection: str) -> None:
        """Whether the budgets let its bare pods go: nothing is said against it, or what is."""
        if self._mark is None or self.stage not in _STARTED:
            return
        if not objection:
            self._mark_pods()
            return
        self._mark, self._why = None, None
        self._guarded_s = self.effects.now_s() + self.effects.timeouts.guarded_s
        self._restate()

    def _mark_pods(self) -> None:
        assert self._mark is not None
        bare = [pod for pod in self._bare() if pod.mark != self._mark]
        self._unmarked = {pod.uid for pod in bare}
        for pod in bare:
            self.effects.mark(self, pod, self._mark)
        self.marked("")

    def marked(self, uid: str) -> None:
        """When all are, it goes."""
        self._unmarked.discard(uid)
        if self._mark is None or self._unmarked or self.stage not in _STARTED:
            return
        assert self._why is not None
        self.effects.going(self, self._why)
        self._sent_off.clear()
        self.depart(self._why)
        self._send_off()

    def _send_off(self) -> None:
        """Evict its bare pods on nodes, each once (a binding may have been on its way)."""
        for pod in self._bare():
            if self._mark is not None and pod.uid not in self._sent_off:
                self._sent_off.add(pod.uid)
                self.effects.evict(self, pod, self._grace_s)

    def depart(self, why: Reason) -> None:
        """Suspend what was resumed, then wait until no pod of it is left."""
        self.stage, self._why, self.gate_open = Stage.LEAVING, why, False
        self._pending.clear()
        self._resting.clear()
        for job in self.jobs.values():
            runs = not job.suspended or job.uid in self._resuming
            if runs and job.queued and not job.finished:
                self._suspending.add(job.uid)
                self.effects.suspend(self, job, why, self._mark)

    def suspended(self, uid: str, quote: str) -> None:
        """The Job is suspended again; `quote` is what its controller said about pods that it could not create."""
        self._suspending.discard(uid)
        if quote and self._why is not None:
            self._why = replace(self._why, text=f"{self._why.text}; the Job controller says: {quote}")
        if self._mark is not None and self._grace_s is not None:
            for pod in self.pods.values():
                if pod.node and pod.owner is not None and pod.owner[1] == uid and pod.grace_s > self._grace_s:
                    self.effects.evict(self, pod, self._grace_s)

    def _bare(self) -> list[Pod]:
        """Its pods on nodes that no Job would take back."""
        queued = {job.uid for job in self.jobs.values() if job.queued}
        bare = (pod for pod in self.pods.values() if pod.owner is None or pod.owner[1] not in queued)
        return [pod for pod in bare if pod.node or self._on_its_way(pod)]

    def _on_its_way(self, pod: Pod) -> bool:
        """Its binding was sent, and perhaps answered; the watch has not shown it yet."""
        slot = self.seats.slot_of.get(pod.uid)
        return slot is not None and (self.seats[slot].sent or self.seats[slot].bound)

    # --- made smaller ---------------------------------------------------------------------------------------------

    def shrink(self, decided: Shrink) -> None:
        if self.stage not in _STARTED:
            return
        self._offer_s = self.effects.now_s() + self.effects.timeouts.regrow_s
        going = [slot for slot in decided.slots if slot in self.seats and slot not in self._shed]
        self._shed.update(dict.fromkeys(going, decided.reason))
        for number in dict.fromkeys(slot.role for slot in going):
            self._lower(number)
        for slot in going:
            bare = not isinstance(self.seats.rows[slot.role].source, JobPods)
            if bare and (pod := self.pods.get(self.seats[slot].pod)):
                self.effects.evict(self, pod, decided.grace_s)

    def _lower(self, number: int) -> None:
        """What the role's Job was given is what it has without the seats to shed: never below the minimum, unless it
        goes with a member that its group can do without."""
        row = self.seats.rows[number]
        has = sum(bool(seat.node or seat.pod) for seat in row.seats.values())
        shed = sum(slot.role == number for slot in self._shed)
        row.left_out = row.left_out or len(row.seats) - shed < row.role.minimum
        left = max(row.least, has - shed)
        if isinstance(row.source, JobPods) and (job := self.jobs.get(row.source.uid)) is not None:
            self._given[job.uid] = min(left, self._given.get(job.uid, job.parallelism))

    def stays(self, pod: Pod) -> None:
        """A budget keeps the pod that was told to go: its seat is kept, and the core told so."""
        slot = self.seats.slot_of.get(pod.uid)
        if slot is not None and self._shed.pop(slot, None) is not None and self.stage in _STARTED:
            self._guarded_s = self.effects.now_s() + self.effects.timeouts.guarded_s
            self._restate()

    def _wanted(self, job: BatchJob) -> int:
        """While seats are shed, those that it was left with; else all that it could use."""
        size = self.size(job)
        shedding = any(self._source(slot) == job.uid for slot in self._shed)
        return min(size, self._given.get(job.uid, size)) if shedding else size

    def _source(self, slot: Slot) -> str:
        source = self.seats.rows[slot.role].source
        return source.uid if isinstance(source, JobPods) else ""

    def _end_shedding(self) -> None:
        """As many seats have gone as were to go: if others than those named, the core hears which are left."""
        left = [slot for slot in self._shed if slot in self.seats]
        rows = {slot.role: self.seats.rows[slot.role] for slot in left}
        if any(self._too_many(row) for row in rows.values()):
            return
        self._shed.clear()
        if left:
            self._restate()

    def _too_many(self, row: RoleSeats) -> bool:
        if not isinstance(row.source, JobPods):
            return True  # the pods that hold them were told by name
        job = self.jobs.get(row.source.uid)
        return job is not None and len(row.seats) > self._given.get(job.uid, job.parallelism)

    # --- larger again ---------------------------------------------------------------------------------------------

    def _offer(self) -> None:
        """An elastic gang says where it would take more."""
        if self.stage is not Stage.RUNNING or self._shed or self.spec is None or self.spec.job.size is not Size.ELASTIC:
            return
        new: list[Slot] = []
        for number, row in enumerate(self.seats.rows):
            job = self.jobs.get(row.source.uid) if isinstance(row.source, JobPods) else None
            if job is None or job.uid not in self._given or not job.queued:
                continue
            for _ in range(self.size(job) - len(row.seats)):
                if self.effects.now_s() < self._offer_s:
                    self._wake(self._offer_s)
                    return
                ordinal = row.next_ordinal()
                row.add(ordinal)
                new.append(Slot(number, ordinal))
        self._open(new)

    def _fill(self, slots: Iterable[Slot]) -> None:
        """Those seats have nodes now: where no pod exists for one, its Job may run one more."""
        for number in sorted({slot.role for slot in slots}):
            row = self.seats.rows[number]
            job = self.jobs.get(row.source.uid) if isinstance(row.source, JobPods) else None
            if job is not None and job.uid in self._given:
                planned = sum(bool(seat.node or seat.pod) for seat in row.seats.values())
                self._given[job.uid] = max(self._given[job.uid], min(planned, job.requested_parallelism))

    def _resize(self) -> None:
        """Bring the parallelism of elastic Jobs to what they were given."""
        for uid, given in self._given.items():
            job = self.jobs.get(uid)
            busy = uid in self._resizing or uid in self._resuming
            if job is None or busy or job.suspended or job.finished or job.parallelism == given:
                continue
            self._resizing.add(uid)
            why = next((reason for slot, reason in self._shed.items() if self._source(slot) == uid), None)
            self.effects.resize(self, job, given, why)

    def resized(self, uid: str) -> None:
        self._resizing.discard(uid)

    def _give(self, counts: Sequence[int]) -> None:
        """At its start: elastic Jobs may run as many pods as were placed (`counts`, per role)."""
        self._given.clear()
        for row, count in zip(self.seats.rows, counts, strict=True):
            if isinstance(row.source, JobPods) and row.least < row.role.count:
                self._given[row.source.uid] = max(count, row.least)
