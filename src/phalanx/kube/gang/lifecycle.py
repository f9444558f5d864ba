"""One gang's life against the API: queued, starting, running, going back. The heart of `kube/`.

A gang sees its members change (`see_*`, `lose_*`), is told what was decided (`start`, `place`) and what became of its
writes (`resumed`, `suspended`, `bound`). It does no I/O: it tells events and asks for writes through its `Effects`.
Seeing is cheap; `advance` draws the conclusions, once for however many changes came together.

Stages (those of docs/decisions/0004-kube-world.md):

    WAITING ──start──▶ STARTING ──minimum bound──▶ RUNNING ──all over──▶ (finished)
       ▲                  │                           │
       └──no pod left── LEAVING ◀──── taken back ─────┘

STARTING has a gate: it is shut until the barrier is complete, and then all bindings are sent. A gang of a queue with
`gang: false` is started with the gate open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from phalanx.kube.gang.barrier import barrier_timeout_reason, start_timeout_reason
from phalanx.kube.gang.effects import Answer, Effects, Stage
from phalanx.kube.gang.preemption import PreemptibleGang
from phalanx.kube.gang.seats import GangSeats, pod_source
from phalanx.kube.gang.spec.gang_spec import GangDefaults, GangMembers, GangSpec, JobPods, PodSource, gang_spec
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import Finished, Refused, Released, Started, Submitted
from phalanx.model.job import Placement, Slot
from phalanx.model.plan import Start
from phalanx.model.reason import Code, Reason
from phalanx.model.shape import NodePreference, Operator, Requirement


class GangLifecycle(PreemptibleGang):
    """One gang, with all that it does."""

    def __init__(self, id: str, effects: Effects) -> None:
        super().__init__(id, effects)
        self.failures = 0
        self.stalls = 0  # starts in a row whose pods did not become ready in time
        self._avoid: dict[str, None] = {}  # the nodes on which they did not
        self._launched_s = 0.0  # the last binding of this start

    # --- drawing conclusions --------------------------------------------------------------------------------------

    def advance(self, defaults: GangDefaults) -> None:
        self.wake_s = 0.0
        match self.stage:
            case Stage.STARTING | Stage.RUNNING:
                self._attend(defaults)
            case Stage.LEAVING:
                self._leave()
            case Stage.WAITING:
                pass
        if self.stage is Stage.WAITING:  # also what has just gone back: it may be held by now
            self._queue(defaults)

    def _members(self) -> GangMembers:
        jobs = [job for job in self.jobs.values() if job.ours and not job.finished]
        owned = {job.uid for job in self.jobs.values()}
        pods = [
            pod
            for pod in self.pods.values()
            if not pod.node and not pod.going and (pod.owner is None or pod.owner[1] not in owned)
        ]
        jobs.sort(key=lambda job: (job.created_s, job.name))
        pods.sort(key=lambda pod: (pod.created_s, pod.name))
        finished = sum(job.finished and job.ours for job in self.jobs.values())
        sizes = {job.uid: self.size(job) for job in jobs}
        return GangMembers(id=self.id, jobs=jobs, pods=pods, finished=finished, sizes=sizes, group=self.group)

    def _queue(self, defaults: GangDefaults) -> None:
        self._fresh.clear()
        members = self._members()
        if not members.jobs and not members.pods:
            if self.spec is not None:
                self.effects.tell(Finished(self.id, self.outcome))
            self.spec = None
            return
        declared = _avoiding(gang_spec(members, defaults), tuple(self._avoid))
        if self.spec is None or declared.job != self.spec.job:
            self.effects.tell(Submitted(declared.job))
        self.spec = declared

    def _attend(self, defaults: GangDefaults) -> None:
        if self._over():
            return
        if self._suspended_by_others():
            self.go_back(Reason(code=Code.HELD, text="suspended by somebody else after it was admitted"))
            return
        for uid in list(self._fresh):
            self._look_at(self.pods[uid])
            if self._settling and self.pods[uid].ready:
                self._settled(uid)
        self._fresh.clear()
        self._fit_seats()
        if self._shed:
            self._end_shedding()
        self._retry()
        if self.gate_open or self._may_open():
            self._bind_pending()
        if self.stage is Stage.STARTING and self.gate_open and self.seats.started() and not self._resuming:
            self.stage, self.failures = Stage.RUNNING, 0
            assert self.record is not None
            self.effects.tell(Started(self.id, self.record.attempt))
            self.effects.started(self)
            self._launch(defaults)
        self._offer()
        self._resize()
        self._check_time(defaults)

    def _over(self) -> bool:
        """Nothing of it runs or will: it leaves the core. What still terminates keeps its charge until it is gone."""
        if self.pods or any(job.ours and not job.finished for job in self.jobs.values()):
            return False
        self.effects.tell(Finished(self.id, self.outcome))
        self._reset()
        self.spec, self.failures, self.stalls = None, 0, 0
        self._avoid.clear()
        return True

    def _suspended_by_others(self) -> bool:
        return any(job.suspended and not job.finished and job.uid not in self._resuming for job in self.jobs.values())

    # --- time -----------------------------------------------------------------------------------------------------

    def _launch(self, defaults: GangDefaults) -> None:
        """All are bound: from now on they have so long to become ready, if their queue says how long."""
        self._launched_s = self.effects.now_s()
        if defaults.start_timeout_s(self.queue) is not None and self.record is not None and self.record.gang:
            self._settling = {uid: None for uid, pod in self.pods.items() if not pod.ready}

    def _settled(self, uid: str) -> None:
        self._settling.pop(uid, None)
        if not self._settling:
            self.stalls = 0
            self._avoid.clear()

    def _stalled(self) -> None:
        """Not all became ready in time: elsewhere perhaps, and not for ever."""
        late = [self.pods[uid] for uid in self._settling]
        self._settling = {}
        self._avoid |= {pod.node: None for pod in late if pod.node}
        self.stalls += 1
        self.failures = self.stalls - 1
        why = start_timeout_reason(late, self.effects.now_s() - self._launched_s)
        if self.stalls >= self.effects.timeouts.start_attempts:
            self.gives_up = f"{self.stalls} starts in a row came to nothing"
            self.stalls = 0
        self.go_back(why)

    def _check_time(self, defaults: GangDefaults) -> None:
        timeouts, now_s = self.effects.timeouts, self.effects.now_s()
        deadline_s = 0.0
        if self.stage is Stage.STARTING and (self.record is None or self.record.gang):
            deadline_s = self._since_s + timeouts.barrier_s(sum(row.least for row in self.seats.rows))
        elif self.stage is Stage.RUNNING and self._lacks_members():
            deadline_s = self._since_s + timeouts.place_s
        if deadline_s and now_s >= deadline_s:
            self.go_back(
                barrier_timeout_reason(self.seats, now_s - self._since_s, self._others() if self.gate_open else "")
            )
            return
        limit_s = defaults.start_timeout_s(self.queue) if self._settling else None
        if limit_s is not None and now_s >= self._launched_s + limit_s:
            self._stalled()
            return
        if limit_s is not None:
            self._wake(self._launched_s + limit_s)
        self._end_holds()
        if self._guarded_s and now_s >= self._guarded_s:
            self._guarded_s = 0.0
            self._restate()
        self._wake(deadline_s, self._guarded_s, *self._resting.values())

    def _others(self) -> str:
        """The schedulers, other than ours, that bind its pods."""
        return " and ".join(sorted({job.scheduler for job in self.jobs.values() if job.pinned}))

    def _lacks_members(self) -> bool:
        """Started, yet below its minimum, and pods wait that cannot be bound."""
        gang = self.record is not None and self.record.gang
        return gang and any(row.bound < row.least and row.taken > row.bound for row in self.seats.rows)

    def _end_holds(self) -> None:
        """Room for pods that do not come is given back; whoever runs, runs on."""
        held = [row for row in self.seats.rows if row.vacant and not isinstance(row.source, JobPods)]
        if self.stage is not Stage.RUNNING or not held or self.record is None or not self.record.gang:
            return
        end_s = self.record.at_s + self.effects.timeouts.hold_s
        if self.effects.now_s() < end_s:
            self._wake(end_s)
            return
        for number, row in enumerate(self.seats.rows):
            if not isinstance(row.source, JobPods):
                self._release([Slot(number, ordinal) for ordinal in row.vacant])

    # --- decided --------------------------------------------------------------------------------------------------

    def start(self, decided: Start, gang: bool) -> None:
        """Take up a start: the record goes to the Jobs first, then their pods come, then the barrier."""
        declared, now_s = self.spec, self.effects.now_s()
        if self.stage is not Stage.WAITING or declared is None or declared.job.blocked is not None:
            text = "it changed while it was planned"
            self.effects.tell(Refused(self.id, decided.attempt, Reason(code=Code.BACKOFF, text=text), now_s + 1.0))
            return
        self.seats = GangSeats(declared.job.roles, declared.sources)
        if gang:
            self.seats.leave_out({placement.role for placement in decided.placements})
        self.record = StartRecord(
            attempt=decided.attempt,
            queue=declared.job.queue,
            count=sum(row.least for row in self.seats.rows),
            priority=declared.job.priority,
            at_s=now_s,
            gang=gang,
            flavors=decided.flavors,
            limit_s=decided.limit_s,
        )
        self.stage, self.gate_open, self._since_s = Stage.STARTING, not gang, now_s
        self.seats.plan(decided.placements)
        if gang:
            self._give([len(row.seats) for row in self.seats.rows])
        self.resume_jobs()
        self._fresh = dict.fromkeys(self.pods)

    def resume_jobs(self) -> None:
        """Every member Job that does not carry this start's record is to get it, and to run."""
        assert self.record is not None
        together = dict[str, list[tuple[BatchJob, int]]]()  # roles of one object are resumed by one write
        for job in self.jobs.values():
            known = job.record is not None and job.record.attempt == self.record.attempt and not job.suspended
            if job.ours and not job.finished and not known:
                self._resuming.add(job.uid)
                together.setdefault(job.object_uid, []).append(
                    (job, self._given.get(job.uid, job.requested_parallelism))
                )
        for jobs in together.values():
            self.effects.resume(self, jobs, self.record)

    def place(self, placements: Sequence[Placement]) -> None:
        """Open seats have nodes now; what is no longer there is given back."""
        for placement in placements:
            slot = Slot(placement.role, placement.ordinal)
            if slot not in self.seats or self.seats[slot].bound:
                self.effects.tell(Released(self.id, (slot,)))
                continue
            self.seats.plan((placement,))
            if (uid := self.seats[slot].pod) and uid in self.pods:
                self._fresh[uid] = None
        self._fill(Slot(role, ordinal) for role, ordinal, _, _ in placements)

    # --- answered -------------------------------------------------------------------------------------------------

    def resumed(self, uid: str, answer: Answer, text: str) -> None:
        self._resuming.discard(uid)
        if self.stage is not Stage.STARTING:
            return
        self._since_s = self.effects.now_s()
        if answer is Answer.REFUSED:
            self.go_back(Reason(code=Code.BACKOFF, text=f"its Job could not be resumed: {text}"))

    def bound(self, pod: Pod, node: str, answer: Answer, text: str) -> None:
        slot = self.seats.slot_of.get(pod.uid)
        if answer is not Answer.DONE:
            self.effects.allocations.release(pod.uid)
        if slot is None or pod.uid not in self.pods:
            return
        seat = self.seats[slot]
        if pod.pinned and answer is Answer.DONE:
            return  # it was let go: its scheduler binds it, and the watch will tell
        seat.sent = False
        if seat.bound or seat.node != node:
            return
        if answer is Answer.DONE:
            self._settle(slot, pod)
        elif answer is Answer.REFUSED:
            seat.refusals += 1
            seat.node = ""
            self.seats.mark(slot, ready=False, bound=False)
            self._pending.pop(slot, None)
            self._resting[slot] = self.effects.now_s() + min(30.0, 0.1 * 2.0**seat.refusals)

    # --- going back -----------------------------------------------------------------------------------------------

    def go_back(self, why: Reason) -> None:
        """Take the start back whole: suspend what was resumed, then wait until no pod of it is left. Bare pods that are
        bound cannot be taken back (only deleted, which is not ours to do): such a gang goes on as it is."""
        if self._bare():
            self._since_s = self.effects.now_s()
            return
        self._mark = None
        self.depart(why)
        self._leave()

    def _leave(self) -> None:
        self._fresh.clear()
        self._send_off()
        queued = {job.uid for job in self.jobs.values() if job.queued}
        alive = any(pod.node or (pod.owner is not None and pod.owner[1] in queued) for pod in self.pods.values())
        alive = alive or bool(self._bare())
        if self._suspending or self._resuming or alive:
            return
        assert self.record is not None
        assert self._why is not None
        failed = self._mark is None and self._why.code is not Code.HELD
        self.failures += failed
        rest_s = self.effects.timeouts.rest_s(self.failures) if failed else 0.0
        now_s = self.effects.now_s()
        self.effects.tell(Refused(self.id, self.record.attempt, self._why, now_s + rest_s if rest_s else 0.0))
        self._reset()

    def _reset(self) -> None:
        self.stage, self.gate_open, self.record, self._why = Stage.WAITING, False, None, None
        self.seats = GangSeats()
        self._mark, self._grace_s, self._guarded_s = None, None, 0.0
        self._settling, self.gives_up = {}, ""
        for remembered in (self._pending, self._resting, self._shed, self._given):
            remembered.clear()

    # --- after a restart ------------------------------------------------------------------------------------------

    def adopt(
        self, declared: GangSpec, record: StartRecord, *, leaving: bool, mark: PreemptionMark | None = None
    ) -> None:
        """Take up a start of before: `declared` describes the members as started ones (`restart`). `leaving`: it was
        being taken back, and with a `mark` it gives way to another."""
        self.spec, self.record, self._since_s = declared, record, self.effects.now_s()
        self.seats = GangSeats(declared.job.roles, declared.sources)
        for row in self.seats.rows:
            row.left_out = self._was_left_out(row.source)
        self.stage, self.gate_open = Stage.STARTING, not record.gang
        for pod in sorted(self.pods.values(), key=lambda pod: (not pod.node, not pod.pin, pod.created_s, pod.name)):
            number = self.seats.role_of(pod_source(pod, self.jobs))
            if number is None or (pod.going and not pod.node):
                continue
            slot = self.seats.take(number, pod)
            if pod.node or pod.pin:
                self.seats[slot].node, self.seats[slot].sent = pod.node or pod.pin, not pod.node
                self.seats[slot].devices = pod.devices
                self.seats.mark(slot, ready=True, bound=bool(pod.node))
                self.effects.allocations.allocate(pod.uid, pod.node or pod.pin, pod.requests)
                self.gate_open = True
        if record.gang:
            self._recall_seats()
        if self.gate_open and self.seats.started():
            self.stage, self._launched_s = Stage.RUNNING, self.effects.now_s()
            self._settling = {uid: None for uid, pod in self.pods.items() if pod.node and pod.phase == "Pending"}
        self._fresh = dict.fromkeys(self.pods)
        if not leaving:
            self._restate()
            self.resume_jobs()
        elif self._bare() and mark is None:
            self._restate()
            self.go_back(Reason(code=Code.BACKOFF, text="its start was being taken back"))
        else:
            self._go_on_leaving(mark)

    def _was_left_out(self, source: PodSource) -> bool:
        """A Job that was let go with no pods at all was left out by this start."""
        job = self.jobs.get(source.uid) if isinstance(source, JobPods) else None
        return job is not None and not job.suspended and not job.parallelism

    def _recall_seats(self) -> None:
        """Seats of pods that do not exist now: as many as the role has, of an elastic Job as it was given."""
        counts = []
        for row in self.seats.rows:
            job = self.jobs.get(row.source.uid) if isinstance(row.source, JobPods) else None
            elastic = job is not None and row.least < row.role.count
            count = min(row.role.count, job.parallelism) if job is not None and elastic else row.role.count
            for _ in range(count - len(row.seats)):
                row.add(row.next_ordinal())
            counts.append(count)
        self._give(counts)
        if any(
            job.uid in self._given and self._given[job.uid] < job.requested_parallelism for job in self.jobs.values()
        ):
            self._offer_s = self.effects.now_s() + self.effects.timeouts.regrow_s  # perhaps it has just given way

    def _go_on_leaving(self, mark: PreemptionMark | None) -> None:
        """the core is told that it is on its way out, and then what is left to do is done."""
        self._mark, stage, self.stage = mark, self.stage, Stage.LEAVING
        self._restate()
        self.stage = stage
        if mark is None:
            self.go_back(Reason(code=Code.BACKOFF, text="its start was being taken back"))
        else:
            self._why = Reason(code=Code.PREEMPTED, text=f"it gives way to {mark.by}", numbers={"by": mark.by})
            self._mark_pods()


def _avoiding(declared: GangSpec, nodes: tuple[str, ...]) -> GangSpec:
    """Rather elsewhere than on these nodes: if there is no elsewhere, there."""
    if not nodes:
        return declared
    other = NodePreference(100, (Requirement("metadata.name", Operator.NOT_IN, nodes, field=True),))
    roles = (replace(r, shape=replace(r.shape, preferences=(*r.shape.preferences, other))) for r in declared.job.roles)
    return replace(declared, job=replace(declared.job, roles=tuple(roles)))
