"""A gang's pods and their seats: who sits where, who is ready, and who is to be bound.

The half of a gang that looks at pods. It knows nothing of how a start begins and ends (that is `lifecycle`); what it
finds out goes to the core as events (`Opened`, `Released`, `Adopted`) and to the API as bindings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from phalanx.kube.gang.effects import Answer, Effects, Stage
from phalanx.kube.gang.seats import GangSeats, pod_source
from phalanx.kube.gang.spec.gang_spec import BarePods, FuturePods, GangSpec, JobPods, PodSource
from phalanx.kube.gang.spec.held_resources import pods_in_pieces
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.pod_group import PodGroup
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.template.pod_shape import covers
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import Adopted, Opened, Released
from phalanx.model.job import Outcome, Phase, Role, Slot
from phalanx.model.shape import Amounts, amounts

_SELECT_S = 10.0  # a claim is told again after so long


class SeatedGang(ABC):
    """`id` as in the core. `pods` are those that are neither over nor gone; `jobs` all that still exist."""

    def __init__(self, id: str, effects: Effects) -> None:
        self.id, self.effects = id, effects
        self.stage = Stage.WAITING
        self.jobs: dict[str, BatchJob] = {}
        self.pods: dict[str, Pod] = {}
        self.group: PodGroup | None = None  # the PodGroup whose members its pods are
        self.spec: GangSpec | None = None
        self.record: StartRecord | None = None
        self.seats = GangSeats()
        self.gate_open = False
        self.gives_up = ""  # why it is held when it has gone back
        self.wake_s = 0.0  # advance again then, though nothing changes; 0: no need
        self._since_s = 0.0  # when the present start began, or its last seat lost its node
        self._succeeded: dict[str, set[str]] = {}
        self._fresh: dict[str, None] = {}  # pods to look at in the next advance
        self._pending: dict[Slot, None] = {}  # ready and not bound
        self._resting: dict[Slot, float] = {}  # refused: ask for another node then
        self._resuming: set[str] = set()
        self._suspending: set[str] = set()
        self._resizing: set[str] = set()
        self._given: dict[str, int] = {}  # elastic Jobs -> the parallelism that their placed pods come to
        self._outcomes: dict[str, Outcome] = {}  # of Jobs, and of bare pods, that are over
        self._selected: dict[str, tuple[str, float]] = {}  # pod -> the node that its claims were told, when
        self._settling: dict[str, None] = {}  # bound in this start, and not ready yet; only where that has a time limit
        self._guarded_s = 0.0  # a budget protects it until then

    # --- answered: what became of what was asked ----------------------------------------------------------------------

    @abstractmethod
    def resumed(self, uid: str, answer: Answer, text: str) -> None: ...
    @abstractmethod
    def suspended(self, uid: str, quote: str) -> None: ...
    @abstractmethod
    def resized(self, uid: str) -> None: ...
    @abstractmethod
    def bound(self, pod: Pod, node: str, answer: Answer, text: str) -> None: ...
    @abstractmethod
    def budgeted(self, objection: str) -> None: ...
    @abstractmethod
    def marked(self, uid: str) -> None: ...
    @abstractmethod
    def stays(self, pod: Pod) -> None: ...

    # --- members change -------------------------------------------------------------------------------------------

    def see_job(self, job: BatchJob) -> None:
        known = self.jobs.get(job.uid)
        if known is not None and job.requested_parallelism < known.requested_parallelism and job.uid in self._given:
            self._given[job.uid] = min(job.requested_parallelism, self._given[job.uid])
        if job.outcome is not None:
            self._outcomes[job.uid] = job.outcome
        self.jobs[job.uid] = job

    def lose_job(self, uid: str) -> None:
        self.jobs.pop(uid, None)
        self._resuming.discard(uid)
        self._suspending.discard(uid)
        self._resizing.discard(uid)
        self._given.pop(uid, None)

    def see_pod(self, pod: Pod) -> None:
        if pod.over:
            if pod.phase == "Succeeded" and pod.owner is not None:
                self._succeeded.setdefault(pod.owner[1], set()).add(pod.uid)
            if pod.owner is None:
                self._outcomes[pod.uid] = Outcome.SUCCEEDED if pod.phase == "Succeeded" else Outcome.FAILED
            self._vacate(pod)
            return
        self.pods[pod.uid] = pod
        self._fresh[pod.uid] = None

    def lose_pod(self, pod: Pod) -> None:
        self._vacate(pod)

    def _vacate(self, pod: Pod) -> None:
        self.pods.pop(pod.uid, None)
        self._fresh.pop(pod.uid, None)
        self._selected.pop(pod.uid, None)
        self._settling.pop(pod.uid, None)
        if pod.rejected:
            self.effects.rejected(self, pod)
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
        led = (self.group is not None and self.group.whole) or any(
            labels.MIN_RESOURCES in pod.options for pod in self.pods.values()
        )
        return bool(self.pods) and bool(led)

    def _wake(self, *times_s: float) -> None:
        self.wake_s = min((at_s for at_s in (self.wake_s, *times_s) if at_s), default=0.0)

    @property
    def outcome(self) -> Outcome:
        """How it ended: failed if any part of it did, deleted if nothing of it is known to have ended by itself."""
        known = self._outcomes.values()
        return next((end for end in (Outcome.FAILED, Outcome.SUCCEEDED) if end in known), Outcome.DELETED)

    @property
    def over(self) -> bool:
        """It ended before anything of it was told: its Jobs are over, and no bare pod of it is left."""
        owners = (pod.owner for pod in self.pods.values())
        alive = any(owner is None or owner[1] not in self.jobs for owner in owners)
        return bool(self._outcomes) and not alive and all(job.finished for job in self.jobs.values())

    @property
    def queue(self) -> str:
        return self.spec.job.queue if self.spec is not None else ""

    @property
    def empty(self) -> bool:
        return not self.jobs and not self.pods

    def holds(self, pod: Pod) -> bool:
        """the core charges this pod to its node through a slot of this gang."""
        slot = self.seats.slot_of.get(pod.uid)
        return slot is not None and self.seats[slot].node == pod.node

    def excess(self, pod: Pod) -> Amounts:
        """What the pod costs beyond what its slot is charged (it was resized in place)."""
        charged = dict(self.seats.rows[self.seats.slot_of[pod.uid].role].role.shape.requests)
        return amounts({name: max(0, value - charged.get(name, 0)) for name, value in pod.requests})

    # --- pods and seats -------------------------------------------------------------------------------------------

    def _look_at(self, pod: Pod) -> None:
        slot = self.seats.slot_of.get(pod.uid)
        if slot is None:
            slot = self._seat(pod)
            if slot is None:
                return
        self._relabel(slot, pod)
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
                self._since_s = self.effects.now_s()
                self._open([slot])

    def _relabel(self, slot: Slot, pod: Pod) -> None:
        """Others select pods by more words than when this role was planned."""
        row = self.seats.rows[slot.role]
        if len(pod.shape.labels) > len(row.role.shape.labels):
            shape = replace(row.role.shape, labels=pod.shape.labels, namespace=pod.shape.namespace)
            row.role = replace(row.role, shape=shape)
            self._restate()

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
        source = pod_source(pod, self.jobs)
        number = self.seats.role_of(source)
        held = self.seats.role_of(FuturePods())
        if number is None:
            number = self._role_for(pod, source)
        elif held is not None and self.seats.rows[held].seats and not self.seats.rows[number].vacant:
            self._extend(number, self._cut(held, pod))
        elif not covers(self.seats.rows[number].role.shape, pod.shape, narrower=self._flavored()):
            self._replan(number, pod)
        return self.seats.take(number, pod)

    def _flavored(self) -> bool:
        """Its pods were sent to the nodes of a flavor, and so say more than their user wrote."""
        return self.record is not None and any(self.record.flavors)

    def _role_for(self, pod: Pod, source: PodSource) -> int:
        """A pod that no role expects makes one; room held for the unborn is cut to its shape."""
        number, held = len(self.seats.rows), self.seats.role_of(FuturePods())
        # What comes after the start, or from a driver, holds nothing up.
        minimum = 0 if self.stage is Stage.RUNNING or held is not None else 1
        name = pod.options.get(labels.ROLE) or f"pods-{number}"
        self.seats.rows += GangSeats((Role(name=name, count=1, minimum=minimum, shape=pod.shape),), (source,)).rows
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
            for _ in range(pods_in_pieces([row.role.shape.requests] * count, pod.shape) if here else 0)
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
        """Tell the core the whole truth about this started job."""
        assert self.spec is not None
        assert self.record is not None
        spared = self.effects.now_s() < self._guarded_s
        job = replace(self.spec.job, roles=self.seats.roles, blocked=None)
        job = replace(job, preemptible=False) if spared else job
        job = replace(job, limit_s=self.record.limit_s) if job.limit_s is None else job
        phases = {Stage.RUNNING: Phase.RUNNING, Stage.LEAVING: Phase.STOPPING}
        flavors = self.record.flavors and (*self.record.flavors, *[""] * len(self.seats.rows))[: len(self.seats.rows)]
        self.effects.tell(
            Adopted(
                job,
                self.record.attempt,
                phases.get(self.stage, Phase.STARTING),
                self.seats.placements(),
                self.seats.wanting() if self.stage is not Stage.LEAVING else (),
                started_s=self.record.at_s,
                flavors=tuple(flavors),
            )
        )

    def size(self, job: BatchJob) -> int:
        """Pods that the Job could still use at once; its status may not count yet what its pods show."""
        return job.size(len(self._succeeded.get(job.uid, ())))

    def _wanted(self, job: BatchJob) -> int:
        """Seats that the Job is to have."""
        return self.size(job)

    def _fit_seats(self) -> None:
        """Give back seats that a Job can no longer use, and wait for no pod that it will not create."""
        for number, row in enumerate(self.seats.rows):
            if isinstance(row.source, JobPods):
                job = self.jobs.get(row.source.uid)
                wanted = self._wanted(job) if job is not None and job.ours else 0
                if wanted < row.role.minimum:
                    row.role = replace(row.role, minimum=wanted)
                self._release(self.seats.surplus(number, wanted))

    def _release(self, slots: Iterable[Slot]) -> None:
        slots = tuple(slots)
        for slot in slots:
            self.seats.drop(slot)
            self._resting.pop(slot, None)
        if slots:
            self.effects.tell(Released(self.id, slots))

    def _open(self, slots: Iterable[Slot]) -> None:
        slots = tuple(slots)
        for slot in slots:
            seat = self.seats[slot]
            seat.node, seat.devices, seat.asked, seat.sent = "", (), True, False
            self.seats.mark(slot, ready=False, bound=False)
            self._pending.pop(slot, None)
        if slots:
            self.effects.tell(Opened(self.id, slots))

    # --- the barrier and the bindings -----------------------------------------------------------------------------

    def _may_open(self) -> bool:
        if self._resuming or not self.seats.complete():
            return False
        if self._select():
            return False
        self.gate_open = self._reserve()
        return self.gate_open

    def _select(self) -> bool:
        """Whether volumes of pods that could be bound are still to be made; their claims are told where, once in a
        while (who makes them may have given that node up)."""
        now_s, waits = self.effects.now_s(), False
        for slot in self._pending:
            seat = self.seats[slot]
            pod = self.pods[seat.pod]
            if not pod.unplaced or seat.sent:
                continue
            waits = True
            node, at_s = self._selected.get(pod.uid, ("", 0.0))
            if node != seat.node or now_s - at_s >= _SELECT_S:
                self._selected[pod.uid] = seat.node, now_s
                self._since_s = now_s if node != seat.node else self._since_s
                self.effects.select(self, pod, seat.node)
        return waits

    def _reserve(self) -> bool:
        """A last look at the nodes before the first binding: whole, or what lost its room is planned again."""
        allocations = self.effects.allocations
        taken, lost = [], []
        for slot in self._pending:
            seat = self.seats[slot]
            requests = self.pods[seat.pod].requests
            if allocations.fits(seat.node, requests):
                allocations.allocate(seat.pod, seat.node, requests)
                taken.append(seat.pod)
            else:
                lost.append(slot)
        if lost:
            for uid in taken:
                allocations.release(uid)
            self._open(lost)
        return not lost

    def _bind_pending(self) -> None:
        allocations, lost = self.effects.allocations, []
        self._select()
        for slot in list(self._pending):
            seat = self.seats[slot]
            pod = self.pods[seat.pod]
            if seat.sent or pod.unplaced:
                continue
            allocations.release(pod.uid)
            if not allocations.fits(seat.node, pod.requests):
                lost.append(slot)
                continue
            allocations.allocate(pod.uid, seat.node, pod.requests)
            seat.sent = True
            self.effects.bind(self, pod, seat, self.record if pod.owner is None else None)
        if lost:
            self._since_s = self.effects.now_s()
            self._open(lost)

    def _retry(self) -> None:
        now_s = self.effects.now_s()
        due = [slot for slot, at_s in self._resting.items() if at_s <= now_s]
        for slot in due:
            del self._resting[slot]
        self._open(slot for slot in due if slot in self.seats and self.seats[slot].pod)
