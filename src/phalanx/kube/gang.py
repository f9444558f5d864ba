"""One gang's life against the API: queued, starting, running, going back. The heart of `kube/`.

A gang sees its members change (`see_*`, `lose_*`), is told what was decided (`start`, `place`) and what became of its
writes (`resumed`, `suspended`, `bound`). It does no I/O: it tells events and asks for writes through its `Outlet`.
Seeing is cheap; `advance` draws the conclusions, once for however many changes came together.

Stages (those of docs/decisions/0004-kube-world.md):

    WAITING ──start──▶ STARTING ──minimum bound──▶ RUNNING ──all over──▶ (finished)
       ▲                  │                           │
       └──no pod left── LEAVING ◀──── taken back ─────┘

STARTING has a gate: it is shut until the barrier is complete, and then all bindings are sent. A gang of a queue with
`gang: false` is started with the gate open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import Protocol

from phalanx.kube import labels
from phalanx.kube.barrier import Patience, shortfall
from phalanx.kube.charge import Charges
from phalanx.kube.declare import BarePods, Declaration, House, JobPods, Members, Source, Unborn, declare
from phalanx.kube.hold import fitting
from phalanx.kube.job import BatchJob
from phalanx.kube.pod import Pod
from phalanx.kube.record import Record
from phalanx.kube.seats import Seats, source_of
from phalanx.kube.shape import covers
from phalanx.model.event import Adopted, Event, Finished, Opened, Refused, Released, Started, Submitted
from phalanx.model.job import Phase, Placement, Role, Slot
from phalanx.model.plan import Start
from phalanx.model.reason import Code, Reason
from phalanx.model.shape import Amounts, amounts


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
    def resume(self, gang: Gang, job: BatchJob, record: Record) -> None: ...
    def suspend(self, gang: Gang, job: BatchJob, reason: Reason) -> None: ...
    def bind(self, gang: Gang, pod: Pod, node: str, record: Record | None) -> None: ...
    def started(self, gang: Gang) -> None: ...


class Gang:
    """`id` as in the book. `pods` are those that are neither over nor gone; `jobs` all that still exist."""

    def __init__(self, id: str, outlet: Outlet) -> None:
        self.id, self.outlet = id, outlet
        self.stage = Stage.WAITING
        self.jobs: dict[str, BatchJob] = {}
        self.pods: dict[str, Pod] = {}
        self.told: Declaration | None = None
        self.record: Record | None = None
        self.seats = Seats()
        self.gate_open = False
        self.failures = 0
        self.wake_s = 0.0  # advance again then, though nothing changes; 0: no need
        self._since_s = 0.0  # when the present start began, or its last seat lost its node
        self._succeeded: dict[str, set[str]] = {}
        self._fresh: dict[str, None] = {}  # pods to look at in the next advance
        self._pending: dict[Slot, None] = {}  # ready and not bound
        self._resting: dict[Slot, float] = {}  # refused: ask for another node then
        self._resuming: set[str] = set()
        self._suspending: set[str] = set()
        self._why: Reason | None = None

    # --- members change -------------------------------------------------------------------------------------------

    def see_job(self, job: BatchJob) -> None:
        self.jobs[job.uid] = job

    def lose_job(self, uid: str) -> None:
        self.jobs.pop(uid, None)
        self._resuming.discard(uid)
        self._suspending.discard(uid)

    def see_pod(self, pod: Pod) -> None:
        if pod.over:
            if pod.phase == "Succeeded" and pod.owner is not None:
                self._succeeded.setdefault(pod.owner[1], set()).add(pod.uid)
            self._vacate(pod)
            return
        self.pods[pod.uid] = pod
        self._fresh[pod.uid] = None

    def lose_pod(self, pod: Pod) -> None:
        self._vacate(pod)

    def _vacate(self, pod: Pod) -> None:
        self.pods.pop(pod.uid, None)
        self._fresh.pop(pod.uid, None)
        slot = self.seats.leave(pod.uid)
        if slot is None:
            return
        self._pending.pop(slot, None)
        if pod.rejected:
            self.seats[slot].node = ""  # its successor must go elsewhere; the room is given back when it comes
        if pod.owner is None and (pod.phase == "Succeeded" or not self._keeps_bare(slot)):
            self._release([slot])

    def _keeps_bare(self, slot: Slot) -> bool:
        """A driver may create a failed executor anew; nobody does so for pods that no driver leads."""
        return bool(self.pods) and any(labels.MIN_RESOURCES in pod.said for pod in self.pods.values())

    @property
    def queue(self) -> str:
        return self.told.job.queue if self.told is not None else ""

    @property
    def empty(self) -> bool:
        return not self.jobs and not self.pods

    def holds(self, pod: Pod) -> bool:
        """The book charges this pod to its node through a slot of this gang."""
        slot = self.seats.slot_of.get(pod.uid)
        return slot is not None and self.seats[slot].node == pod.node

    def excess(self, pod: Pod) -> Amounts:
        """What the pod costs beyond what its slot is charged (it was resized in place)."""
        charged = dict(self.seats.rows[self.seats.slot_of[pod.uid].role].role.shape.requests)
        return amounts({name: max(0, value - charged.get(name, 0)) for name, value in pod.requests})

    # --- drawing conclusions --------------------------------------------------------------------------------------

    def advance(self, house: House) -> None:
        self.wake_s = 0.0
        match self.stage:
            case Stage.STARTING | Stage.RUNNING:
                self._attend()
            case Stage.LEAVING:
                self._leave()
            case Stage.WAITING:
                pass
        if self.stage is Stage.WAITING:  # also what has just gone back: it may be held by now
            self._queue(house)

    def _members(self) -> Members:
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
        return Members(id=self.id, jobs=jobs, pods=pods, finished=finished, sizes=sizes)

    def size(self, job: BatchJob) -> int:
        """Pods that the Job can still use at once; its status may not count yet what its pods show."""
        return job.size(len(self._succeeded.get(job.uid, ())))

    def _queue(self, house: House) -> None:
        self._fresh.clear()
        members = self._members()
        if not members.jobs and not members.pods:
            if self.told is not None:
                self.outlet.tell(Finished(self.id))
            self.told = None
            return
        declared = declare(members, house)
        if self.told is None or declared.job != self.told.job:
            self.outlet.tell(Submitted(declared.job))
        self.told = declared

    def _attend(self) -> None:
        if self._over():
            return
        if self._suspended_by_others():
            self.go_back(Reason(code=Code.HELD, text="suspended by somebody else after it was admitted"))
            return
        for uid in list(self._fresh):
            self._look_at(self.pods[uid])
        self._fresh.clear()
        self._shrink()
        self._retry()
        if self.gate_open or self._may_open():
            self._bind_pending()
        if self.stage is Stage.STARTING and self.gate_open and self.seats.started() and not self._resuming:
            self.stage, self.failures = Stage.RUNNING, 0
            assert self.record is not None
            self.outlet.tell(Started(self.id, self.record.attempt))
            self.outlet.started(self)
        self._check_time()

    def _over(self) -> bool:
        """Nothing of it runs or will: it leaves the book. What still terminates keeps its charge until it is gone."""
        if self.pods or any(job.ours and not job.finished for job in self.jobs.values()):
            return False
        self.outlet.tell(Finished(self.id))
        self._reset()
        self.told, self.failures = None, 0
        return True

    def _suspended_by_others(self) -> bool:
        return any(job.suspended and not job.finished and job.uid not in self._resuming for job in self.jobs.values())

    # --- pods and seats -------------------------------------------------------------------------------------------

    def _look_at(self, pod: Pod) -> None:
        slot = self.seats.slot_of.get(pod.uid)
        if slot is None:
            slot = self._seat(pod)
            if slot is None:
                return
        seat = self.seats[slot]
        if pod.node:
            if seat.node != pod.node:  # bound by somebody else, or by an answer that we never got
                seat.node = pod.node
                self._restate()
            self._settle(slot, pod)
            return
        ready = bool(seat.node) and (pod.bindable or seat.sent)
        self.seats.mark(slot, ready=ready or seat.bound, bound=seat.bound)
        if ready and not seat.bound:
            self._pending[slot] = None
        elif not seat.bound:
            self._pending.pop(slot, None)
            if not seat.node and not seat.asked and slot not in self._resting:
                self._since_s = self.outlet.now_s()
                self._open([slot])

    def _settle(self, slot: Slot, pod: Pod) -> None:
        """The pod is on its node."""
        self.seats[slot].sent = False
        self._pending.pop(slot, None)
        self.seats.mark(slot, ready=True, bound=True)
        self.gate_open = True

    def _seat(self, pod: Pod) -> Slot | None:
        """Give the pod a seat; None if it is on its way out and never had one."""
        if pod.going and not pod.node:
            return None
        source = source_of(pod, self.jobs)
        number = self.seats.role_of(source)
        held = self.seats.role_of(Unborn())
        if number is None:
            number = self._role_for(pod, source)
        elif held is not None and self.seats.rows[held].seats and not self.seats.rows[number].vacant:
            self._extend(number, self._cut(held, pod))
        elif not covers(self.seats.rows[number].role.shape, pod.shape):
            self._replan(number, pod)
        return self.seats.take(number, pod)

    def _role_for(self, pod: Pod, source: Source) -> int:
        """A pod that no role expects makes one; room held for the unborn is cut to its shape."""
        number, held = len(self.seats.rows), self.seats.role_of(Unborn())
        # What comes after the start, or from a driver, holds nothing up.
        minimum = 0 if self.stage is Stage.RUNNING or held is not None else 1
        name = pod.said.get(labels.ROLE) or f"pods-{number}"
        self.seats.rows += Seats((Role(name=name, count=1, minimum=minimum, shape=pod.shape),), (source,)).rows
        self._extend(number, self._cut(held, pod) if held is not None and isinstance(source, BarePods) else [])
        return number

    def _extend(self, number: int, nodes: list[str]) -> None:
        """The role has a seat on each of these nodes too."""
        row = self.seats.rows[number]
        for node in nodes:
            row.add(row.next_ordinal(), node)
        row.role = replace(row.role, count=max(row.role.count, len(row.seats)))
        self._restate()

    def _cut(self, held: int, pod: Pod) -> list[str]:
        """The held pieces become room for pods of this shape: the nodes, each as often as it takes one."""
        row = self.seats.rows[held]
        by_node: dict[str, int] = {}
        for seat in row.seats.values():
            if seat.node:
                by_node[seat.node] = by_node.get(seat.node, 0) + 1
        here = (row.role.shape.selector, row.role.shape.affinity) == (pod.shape.selector, pod.shape.affinity)
        nodes = [
            node
            for node, count in by_node.items()
            for _ in range(fitting([row.role.shape.requests] * count, pod.shape) if here else 0)
        ]
        row.seats.clear()
        row.vacant.clear()
        row.role = replace(row.role, count=0, minimum=0)
        return nodes

    def _replan(self, number: int, pod: Pod) -> None:
        """The real pods ask more than was planned: what of the role is not bound is planned again, before any bind."""
        row = self.seats.rows[number]
        asked = dict(row.role.shape.requests)
        for name, value in pod.shape.requests:
            asked[name] = max(value, asked.get(name, 0))
        row.role = replace(row.role, shape=replace(pod.shape, requests=tuple(sorted(asked.items()))))
        for ordinal, seat in row.seats.items():
            if not seat.bound:
                seat.node = ""
                self.seats.mark(Slot(number, ordinal), ready=False, bound=False)
                self._pending.pop(Slot(number, ordinal), None)
        self._restate()

    def _restate(self) -> None:
        """Tell the book the whole truth about this started job."""
        assert self.told is not None
        assert self.record is not None
        job = replace(self.told.job, roles=self.seats.roles, blocked=None)
        phase = Phase.RUNNING if self.stage is Stage.RUNNING else Phase.STARTING
        wanting = self.seats.wanting()
        self.outlet.tell(Adopted(job, self.record.attempt, phase, self.seats.placements(), wanting))

    def _shrink(self) -> None:
        """Give back seats that a Job can no longer use, and wait for no pod that it will not create."""
        for number, row in enumerate(self.seats.rows):
            if isinstance(row.source, JobPods):
                job = self.jobs.get(row.source.uid)
                wanted = self.size(job) if job is not None and job.ours else 0
                if wanted < row.role.minimum:
                    row.role = replace(row.role, minimum=wanted)
                self._release(self.seats.surplus(number, wanted))

    def _release(self, slots: Iterable[Slot]) -> None:
        slots = tuple(slots)
        for slot in slots:
            self.seats.drop(slot)
            self._resting.pop(slot, None)
        if slots:
            self.outlet.tell(Released(self.id, slots))

    def _open(self, slots: Iterable[Slot]) -> None:
        slots = tuple(slots)
        for slot in slots:
            seat = self.seats[slot]
            seat.node, seat.asked, seat.sent = "", True, False
            self.seats.mark(slot, ready=False, bound=False)
            self._pending.pop(slot, None)
        if slots:
            self.outlet.tell(Opened(self.id, slots))

    # --- the barrier and the bindings -----------------------------------------------------------------------------

    def _may_open(self) -> bool:
        if self._resuming or not self.seats.complete():
            return False
        self.gate_open = self._reserve()
        return self.gate_open

    def _reserve(self) -> bool:
        """A last look at the nodes before the first binding: whole, or what lost its room is planned again."""
        charges = self.outlet.charges
        taken, lost = [], []
        for slot in self._pending:
            seat = self.seats[slot]
            requests = self.pods[seat.pod].requests
            if charges.room(seat.node, requests):
                charges.hold(seat.pod, seat.node, requests)
                taken.append(seat.pod)
            else:
                lost.append(slot)
        if lost:
            for uid in taken:
                charges.release(uid)
            self._open(lost)
        return not lost

    def _bind_pending(self) -> None:
        charges, lost = self.outlet.charges, []
        for slot in list(self._pending):
            seat = self.seats[slot]
            if seat.sent:
                continue
            pod = self.pods[seat.pod]
            charges.release(pod.uid)
            if not charges.room(seat.node, pod.requests):
                lost.append(slot)
                continue
            charges.hold(pod.uid, seat.node, pod.requests)
            seat.sent = True
            self.outlet.bind(self, pod, seat.node, self.record if pod.owner is None else None)
        if lost:
            self._since_s = self.outlet.now_s()
            self._open(lost)

    def _retry(self) -> None:
        now_s = self.outlet.now_s()
        due = [slot for slot, at_s in self._resting.items() if at_s <= now_s]
        for slot in due:
            del self._resting[slot]
        self._open(slot for slot in due if slot in self.seats and self.seats[slot].pod)

    # --- time -----------------------------------------------------------------------------------------------------

    def _check_time(self) -> None:
        patience, now_s = self.outlet.patience, self.outlet.now_s()
        deadline_s = 0.0
        if self.stage is Stage.STARTING and (self.record is None or self.record.gang):
            deadline_s = self._since_s + patience.barrier_s(sum(row.role.minimum for row in self.seats.rows))
        elif self.stage is Stage.RUNNING and self._lacks_members():
            deadline_s = self._since_s + patience.place_s
        if deadline_s and now_s >= deadline_s:
            self.go_back(shortfall(self.seats, now_s - self._since_s, self._others() if self.gate_open else ""))
            return
        self._end_holds()
        self._wake(deadline_s, *self._resting.values())

    def _others(self) -> str:
        """The schedulers, other than ours, that bind its pods."""
        return " and ".join(sorted({job.scheduler for job in self.jobs.values() if job.pinned}))

    def _lacks_members(self) -> bool:
        """Started, yet below its minimum, and pods wait that cannot be bound."""
        gang = self.record is not None and self.record.gang
        return gang and any(row.bound < row.role.minimum and row.taken > row.bound for row in self.seats.rows)

    def _end_holds(self) -> None:
        """Room for pods that do not come is given back; whoever runs, runs on."""
        held = [row for row in self.seats.rows if row.vacant and not isinstance(row.source, JobPods)]
        if self.stage is not Stage.RUNNING or not held or self.record is None or not self.record.gang:
            return
        end_s = self.record.at_s + self.outlet.patience.hold_s
        if self.outlet.now_s() < end_s:
            self._wake(end_s)
            return
        for number, row in enumerate(self.seats.rows):
            if not isinstance(row.source, JobPods):
                self._release([Slot(number, ordinal) for ordinal in row.vacant])

    def _wake(self, *times_s: float) -> None:
        self.wake_s = min((at_s for at_s in (self.wake_s, *times_s) if at_s), default=0.0)

    # --- decided --------------------------------------------------------------------------------------------------

    def start(self, decided: Start, gang: bool) -> None:
        """Take up a start: the record goes to the Jobs first, then their pods come, then the barrier."""
        declared, now_s = self.told, self.outlet.now_s()
        if self.stage is not Stage.WAITING or declared is None or declared.job.blocked is not None:
            text = "it changed while it was planned"
            self.outlet.tell(Refused(self.id, decided.attempt, Reason(code=Code.BACKOFF, text=text), now_s + 1.0))
            return
        count = sum(role.minimum for role in declared.job.roles)
        self.record = Record(
            attempt=decided.attempt,
            queue=declared.job.queue,
            count=count,
            priority=declared.job.priority,
            at_s=now_s,
            gang=gang,
        )
        self.stage, self.gate_open, self._since_s = Stage.STARTING, not gang, now_s
        self.seats = Seats(declared.job.roles, declared.sources)
        self.seats.plan(decided.placements)
        self.resume_jobs()
        self._fresh = dict.fromkeys(self.pods)

    def resume_jobs(self) -> None:
        """Every member Job that does not carry this start's record is to get it, and to run."""
        assert self.record is not None
        for job in self.jobs.values():
            known = job.record is not None and job.record.attempt == self.record.attempt and not job.suspended
            if job.ours and not job.finished and not known:
                self._resuming.add(job.uid)
                self.outlet.resume(self, job, self.record)

    def place(self, placements: Iterable[Placement]) -> None:
        """Open seats have nodes now; what is no longer there is given back."""
        for placement in placements:
            slot = Slot(placement.role, placement.ordinal)
            if slot not in self.seats or self.seats[slot].bound:
                self.outlet.tell(Released(self.id, (slot,)))
                continue
            self.seats.plan((placement,))
            if (uid := self.seats[slot].pod) and uid in self.pods:
                self._fresh[uid] = None

    # --- answered -------------------------------------------------------------------------------------------------

    def resumed(self, uid: str, answer: Answer, text: str) -> None:
        self._resuming.discard(uid)
        if self.stage is not Stage.STARTING:
            return
        self._since_s = self.outlet.now_s()
        if answer is Answer.REFUSED:
            self.go_back(Reason(code=Code.BACKOFF, text=f"its Job could not be resumed: {text}"))

    def bound(self, pod: Pod, node: str, answer: Answer, text: str) -> None:
        slot = self.seats.slot_of.get(pod.uid)
        if answer is not Answer.DONE:
            self.outlet.charges.release(pod.uid)
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
            self._resting[slot] = self.outlet.now_s() + min(30.0, 0.1 * 2.0**seat.refusals)

    # --- going back -----------------------------------------------------------------------------------------------

    def go_back(self, why: Reason) -> None:
        """Take the start back whole: suspend what was resumed, then wait until no pod of it is left. Bare pods that are
        bound cannot be taken back (only deleted, which is not ours to do): such a gang goes on as it is."""
        if self._cannot_return():
            self._since_s = self.outlet.now_s()
            return
        self.stage, self._why, self.gate_open = Stage.LEAVING, why, False
        self._pending.clear()
        self._resting.clear()
        for job in self.jobs.values():
            runs = not job.suspended or job.uid in self._resuming
            if runs and job.queued and not job.finished:
                self._suspending.add(job.uid)
                self.outlet.suspend(self, job, why)
        self._leave()

    def _cannot_return(self) -> bool:
        queued = {job.uid for job in self.jobs.values() if job.queued}
        return any(
            (pod.node or self._sent(pod)) and (pod.owner is None or pod.owner[1] not in queued)
            for pod in self.pods.values()
        )

    def _sent(self, pod: Pod) -> bool:
        slot = self.seats.slot_of.get(pod.uid)
        return slot is not None and self.seats[slot].sent

    def suspended(self, uid: str, quote: str) -> None:
        """The Job is suspended again; `quote` is what its controller said about pods that it could not create."""
        self._suspending.discard(uid)
        if quote and self._why is not None:
            self._why = replace(self._why, text=f"{self._why.text}; the Job controller says: {quote}")

    def _leave(self) -> None:
        self._fresh.clear()
        queued = {job.uid for job in self.jobs.values() if job.queued}
        alive = any(pod.node or (pod.owner is not None and pod.owner[1] in queued) for pod in self.pods.values())
        if self._suspending or self._resuming or alive:
            return
        assert self.record is not None
        assert self._why is not None
        self.failures += self._why.code is not Code.HELD
        rest_s = self.outlet.patience.rest_s(self.failures) if self._why.code is not Code.HELD else 0.0
        now_s = self.outlet.now_s()
        self.outlet.tell(Refused(self.id, self.record.attempt, self._why, now_s + rest_s if rest_s else 0.0))
        self._reset()

    def _reset(self) -> None:
        self.stage, self.gate_open, self.record, self._why = Stage.WAITING, False, None, None
        self.seats = Seats()
        self._pending.clear()
        self._resting.clear()

    # --- after a restart ------------------------------------------------------------------------------------------

    def adopt(self, declared: Declaration, record: Record, *, leaving: bool) -> None:
        """Take up a start of before: `declared` describes the members as started ones (`recover`)."""
        self.told, self.record, self._since_s = declared, record, self.outlet.now_s()
        self.seats = Seats(declared.job.roles, declared.sources)
        self.stage, self.gate_open = Stage.STARTING, not record.gang
        for pod in sorted(self.pods.values(), key=lambda pod: (not pod.node, not pod.pin, pod.created_s, pod.name)):
            number = self.seats.role_of(source_of(pod, self.jobs))
            if number is None or (pod.going and not pod.node):
                continue
            slot = self.seats.take(number, pod)
            if pod.node or pod.pin:
                self.seats[slot].node, self.seats[slot].sent = pod.node or pod.pin, not pod.node
                self.seats.mark(slot, ready=True, bound=bool(pod.node))
                self.outlet.charges.hold(pod.uid, pod.node or pod.pin, pod.requests)
                self.gate_open = True
        for row in self.seats.rows:
            for _ in range(row.role.count - len(row.seats) if record.gang else 0):
                row.add(row.next_ordinal())
        if self.gate_open and self.seats.started():
            self.stage = Stage.RUNNING
        self._restate()
        self._fresh = dict.fromkeys(self.pods)
        if leaving:
            self.go_back(Reason(code=Code.BACKOFF, text="its start was being taken back"))
        else:
            self.resume_jobs()
