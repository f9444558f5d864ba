"""Shrink a started gang, and let it grow again, by changing the parallelism of its elastic Jobs.

To shrink the gang, Phalanx lowers a Job's parallelism, and the Job controller chooses the pods to delete: first pods
that do not run yet, then the youngest pods. (This is the order ActivePods of k8s.io/kubernetes/pkg/controller, which
ignores `pod-deletion-cost`.) The core gives up the seats with the highest ordinals first, because these seats usually
have the pods that the controller deletes. If the controller deleted other pods than the core has chosen, Phalanx
reports the remaining seats (places for pods) to the core. If the gang consists of bare pods, Phalanx evicts the pods
that the core has chosen. Deleted pods are reported to the core by the event `Released`.

To grow the gang, Phalanx reports empty seats (places for further pods) to the core by the event `Opened`. When the core
has found nodes for these pods, Phalanx raises the Job's parallelism accordingly.

This module also detects *stale* gangs: gangs of bare pods with too few running pods.

A Job controller replaces lost pods, or fails the Job. But lost bare pods may never be replaced, or there may be no
capacity for their replacements. The remaining pods then occupy their nodes without being able to work. After a grace
period the whole gang is evicted (KAI's stale gang eviction: `stalenessGracePeriod`, 60 s).

A gang with a succeeded pod is never stale (as in KAI), because it is about to end. The running pods are counted for
each role. Their requests are ignored, because a replacement may request other amounts than the lost pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.seats.bind_barrier import BindBarrier
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seat_table import RoleSeats, Seat
from phalanx.kube.gang.spec.members import BarePods
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.job import Phase, Slot
from phalanx.model.plan import Shrink
from phalanx.model.reason import Reason, ReasonCode, format_time

_GIVE_UP = 3  # after this number of refused evictions in a row, the pod stays


class Shrinking:
    """The pods that a started gang gives up to shrink, and their seats (places for pods). `granted`: a map from the uid
    of an elastic Job to the number of pods that the Job may run. `leaving`: a map from the slot of each of these pods
    to the reason for giving the pod up."""

    def __init__(self, start: GangStart, granted: dict[str, int]) -> None:
        self._start, self._seats, self._effects, self._granted = start, start.seats, start.effects, granted
        self.leaving = start.leaving

    def begin(self, decided: Shrink) -> None:
        """Begin to remove the pods that the decision names, to shrink the gang."""
        released = [slot for slot in decided.slots if slot in self._seats and slot not in self.leaving]
        self.leaving.update(dict.fromkeys(released, decided.reason))
        for number in dict.fromkeys(slot.role for slot in released):
            self._lower(number)
        for slot in released:
            bare = not self._seats.rows[slot.role].job
            if bare and (pod := self._start.objects.pods.get(self._seats[slot].pod)):
                self._evict(pod, decided.grace_s)

    def _lower(self, number: int) -> None:
        """Lower the number of pods that the role's Job may run to the number of pods that stay, but not below the
        role's minimum. If the role's group can run without this role, the role may give up all of its pods."""
        row = self._seats.rows[number]
        has = sum(bool(seat.node or seat.pod) for seat in row.seats.values())
        count = sum(slot.role == number for slot in self.leaving)
        row.left_out = row.left_out or len(row.seats) - count < row.role.minimum
        if (job := self._start.objects.jobs.get(row.job)) is not None:
            self._granted[job.uid] = min(max(row.least, has - count), self._granted.get(job.uid, job.parallelism))

    def _evict(self, pod: Pod, grace_s: float | None, refusals: int = 0) -> None:
        """Evict the pod. If a PodDisruptionBudget refuses the eviction, try again later. The budget may soon allow it,
        and the preemptor cannot start without the capacity of this pod, even though other pods are already evicted."""

        def answered(answer: WriteOutcome, text: str) -> None:
            if (
                answer is not WriteOutcome.REFUSED
                or not self._start.going_on
                or pod.uid not in self._start.objects.pods
            ):
                return
            if refusals + 1 >= _GIVE_UP:
                self._stays(pod)
            else:
                self._effects.retry_later(self._start.id, refusals + 1, lambda: self._evict(pod, grace_s, refusals + 1))

        if self._start.going_on and pod.uid in self._start.objects.pods:
            self._effects.pods.evict(self._start.id, pod, grace_s, answered)

    def _stays(self, pod: Pod) -> None:
        """Let the pod continue to run, because a PodDisruptionBudget forbids its eviction, and report this to the
        core."""
        seat = self._seats.of_pod.get(pod.uid)
        if seat is not None and self.leaving.pop(seat.slot, None) is not None:
            self._start.forbid_preemption()

    def end(self) -> None:
        """End the shrinking once enough pods are gone. If the Job controller deleted other pods than the core had
        chosen, report the remaining seats (places for pods) to the core."""
        left = [slot for slot in self.leaving if slot in self._seats]
        if any(self._too_many(number) for number in {slot.role for slot in left}):
            return
        self.leaving.clear()
        if left:
            self._start.emit_full_state()

    def _too_many(self, number: int) -> bool:
        row = self._seats.rows[number]
        if not row.job:
            return True  # bare pods are evicted one by one
        job = self._start.objects.jobs.get(row.job)
        return job is not None and len(row.seats) > self._granted.get(job.uid, job.parallelism)


class ElasticParallelism:
    """The parallelism of a start's elastic Jobs. `granted`: a map from the uid of an elastic Job to the number of pods
    that the Job may run."""

    def __init__(self, start: GangStart, barrier: BindBarrier) -> None:
        self.granted: dict[str, int] = {}
        self._start, self._barrier, self._seats, self._effects = start, barrier, start.seats, start.effects
        self.shrinking = Shrinking(start, self.granted)
        self._resizing: set[str] = set()  # Jobs whose resize is not answered yet
        self._refused: dict[str, int] = {}  # uid of a Job -> how many of its resizes were refused in a row
        self._short_since: dict[str, float] = {}  # uid of a Job -> since when it may run more pods than have nodes
        self._offer_s = 0.0  # no additional pods are requested from the core before this time

    def grant(self, counts: Sequence[int]) -> None:
        """Set the number of pods that each elastic Job may run to the number that the start has placed for its role.
        `counts`: the number of placed pods of each role."""
        for row, count in zip(self._seats.rows, counts, strict=True):
            if row.job and (least := row.least) < row.role.count:
                self.granted[row.job] = max(count, least)

    def see_job(self, known: BatchJob, job: BatchJob) -> Reason | None:
        """Return the reason for which a change of the Job's size ends the start; None if the start continues."""
        if job.requested_parallelism < known.requested_parallelism and job.uid in self.granted:
            self.granted[job.uid] = min(job.requested_parallelism, self.granted[job.uid])
        return _resizing_reason(known, job)

    def lose_job(self, uid: str) -> None:
        self._resizing.discard(uid)
        self._short_since.pop(uid, None)
        self.granted.pop(uid, None)

    def parallelism(self, job: BatchJob) -> int:
        """Return the number of pods that the Job may run."""
        return self.granted.get(job.uid, job.requested_parallelism)

    def seats_of(self, job: BatchJob) -> int:
        """Return the number of seats (places for pods) of the Job. While the gang shrinks, this is the number of seats
        that remain; otherwise it is the number of pods that the Job can use."""
        size = self._start.objects.size(job)
        shrinking = any(self._seats.rows[slot.role].job == job.uid for slot in self.shrinking.leaving)
        return min(size, self.granted.get(job.uid, size)) if shrinking else size

    # --- shrink ----------------------------------------------------------------------------------------------------

    def shrink(self, decided: Shrink) -> None:
        self.rest()
        self.shrinking.begin(decided)

    def rest(self) -> None:
        """Do not request additional pods from the core for `regrow_s` seconds."""
        self._offer_s = self._effects.now_s() + self._effects.timeouts.regrow_s

    def advance(self) -> float:
        """Report empty seats (places for further pods) to the core, give up seats for which the core finds no node, and
        set the parallelism of the Jobs. Return the time at which this method must be called again even if nothing
        changes (0 means never)."""
        times_s = self.offer(), self.withdraw()
        self.resize()
        return min((at_s for at_s in times_s if at_s), default=0.0)

    # --- grow -----------------------------------------------------------------------------------------------------

    def offer(self) -> float:
        """Report to the core the empty slots for additional pods that an elastic gang could run. If it is too early for
        this report, return the time of the next one; otherwise return 0."""
        wanted = self._start.phase is Phase.RUNNING and self._start.spec.job.size.grows
        if not wanted or self.shrinking.leaving:
            return 0.0
        new: list[Seat] = []
        for row in self._seats.rows:
            for _ in range(self._missing(row)):
                if self._effects.now_s() < self._offer_s:
                    return self._offer_s
                new.append(row.add(row.next_ordinal()))
        self._barrier.open(new)
        return 0.0

    def _missing(self, row: RoleSeats) -> int:
        job = self._start.objects.jobs.get(row.job)
        if job is None or job.uid not in self.granted or not job.queued:
            return 0
        return self._start.objects.size(job) - len(row.seats)

    def fill(self, slots: Iterable[Slot]) -> None:
        """Record that these seats (places for pods) have nodes now. Their Jobs may then run one pod for each seat that
        has a node or a pod."""
        for number in sorted({slot.role for slot in slots if slot.role < len(self._seats.rows)}):
            row = self._seats.rows[number]
            job = self._start.objects.jobs.get(row.job)
            if job is not None and job.uid in self.granted:
                planned = sum(bool(seat.node or seat.pod) for seat in row.seats.values())
                self.granted[job.uid] = max(self.granted[job.uid], min(planned, job.requested_parallelism))

    def withdraw(self) -> float:
        """If the core has not found nodes for all pods of a Job within `place_s` seconds, lower the number of pods that
        the Job may run, because the pods without nodes would only wait. The new number is the number of pods with
        nodes, but at least the Job's minimum. Return the time at which a number must be lowered next (0 means
        never)."""
        due_s = [self._withdraw(row) for row in self._seats.rows]
        return min((at_s for at_s in due_s if at_s), default=0.0)

    def _withdraw(self, row: RoleSeats) -> float:
        job = self._start.objects.jobs.get(row.job)
        if job is None or job.uid not in self.granted or self._start.phase is not Phase.RUNNING:
            return 0.0
        placed = max(row.least, sum(bool(seat.node) for seat in row.seats.values()))
        if self.granted[job.uid] <= placed:
            self._short_since.pop(job.uid, None)
            return 0.0
        now_s = self._effects.now_s()
        due_s = self._short_since.setdefault(job.uid, now_s) + self._effects.timeouts.place_s
        if now_s < due_s:
            return due_s
        del self._short_since[job.uid]
        self.granted[job.uid] = placed
        return 0.0

    def resize(self) -> None:
        """Set the parallelism of each elastic Job to the number of pods that it may run (`granted`)."""
        for uid, granted in self.granted.items():
            job = self._start.objects.jobs.get(uid)
            busy = uid in self._resizing or uid in self._start.resuming
            if job is None or busy or job.suspended or job.finished or job.parallelism == granted:
                continue
            self._resizing.add(uid)
            self._send(job, granted)

    def _send(self, job: BatchJob, parallelism: int) -> None:
        def answered(answer: WriteOutcome, text: str) -> None:
            if answer is WriteOutcome.REFUSED:
                refusals = self._refused[job.uid] = self._refused.get(job.uid, 0) + 1
                self._effects.retry_later(self._start.id, refusals, lambda: self._resizing.discard(job.uid))
            else:
                self._refused.pop(job.uid, None)
                self._resizing.discard(job.uid)

        rows, leaving = self._seats.rows, self.shrinking.leaving.items()
        why = next((reason for slot, reason in leaving if rows[slot.role].job == job.uid), None)
        if why is not None:
            self._effects.report(job, "Preempted", f"{why.code}: {why.text}", warning=True)
        self._effects.jobs.resize(self._start.id, job, parallelism, answered)


def _resizing_reason(known: BatchJob, job: BatchJob) -> Reason | None:
    """Return the reason for which the gang returns to the queue after this change of its running Job. Return None if
    the size of the Job is unchanged, or if the Job's options allow the size to change while it runs."""
    if job.options.get(labels.RESIZING) != labels.REQUEUE:
        return None
    before, now = known.asked_pods, job.asked_pods
    if before == now:
        return None
    text = f"it was changed from {before} to {now} pods while it ran, so it is queued again"
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text, numbers={"by": "resized"})


class Staleness:
    """Measure for how long too few bare pods of a start have been running. `since_s`: the time at which this began
    (seconds since the epoch); 0 if enough pods run."""

    def __init__(self, start: GangStart) -> None:
        self.since_s = 0.0
        self._start = start

    def ends_s(self, grace_s: float) -> float:
        """Return the time (seconds since the epoch) at which the start is undone unless enough pods run again before; 0
        means never. `grace_s`: for how many seconds the gang may continue with too few pods; 0 means without limit."""
        if not grace_s or not self._is_stale():
            self.since_s = 0.0
            return 0.0
        if not self.since_s:
            self.since_s = self._start.effects.now_s()
            self._report(grace_s)
        return self.since_s + grace_s

    def _is_stale(self) -> bool:
        """Return whether the gang has bare pods on nodes, but fewer than its minimum."""
        start, lacks = self._start, Counter[str]()
        for row in start.seats.rows:
            if isinstance(row.source, BarePods):
                lacks[row.source.role] += row.least - row.bound
        if not start.record.gang or all(missing <= 0 for missing in lacks.values()):
            return False
        return bool(start.bare_pods()) and not start.objects.succeeded_bare

    def _report(self, grace_s: float) -> None:
        """Report by an Event that too few pods run. Do not report a gang whose pods are just being bound: they are
        bound one after the other, so at first only some of them run."""
        start, seats, now_s = self._start, self._start.seats, self.since_s
        if seats.started():
            text = (
                f"{seats.minimum_bound} of the {seats.least} pods that it needs run; unless the missing pods return, "
                f"it is taken back at {format_time(now_s + grace_s, now_s)}"
            )
            start.effects.report(start.bare_pods()[0], str(ReasonCode.STALE), text, warning=True)
