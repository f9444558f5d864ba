"""A small world: nodes that come and go, pods that start and end, and every message on its way.

The cluster state is compared with this world. A heap of (time, order, event) drives it. Events about one subject (a
job, a node, a pod) are reported in order, each with its own delay, so that messages about different subjects overtake
each other. The world checks each plan by independent, plain rules: no job starts twice, no gang starts in part, and no
pod is placed on a forbidden node."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random

from phalanx.model.event import (
    Adopted,
    Event,
    Finished,
    FlavorSeen,
    NodeGone,
    NodeSeen,
    Occupied,
    Opened,
    OutcomeTold,
    QueueSeen,
    Refused,
    Released,
    ReservationSeen,
    Started,
    Submitted,
    Vacated,
)
from phalanx.model.job import DependencyType, GangSize, Job, Outcome, Phase, Placement, Slot
from phalanx.model.node import Flavor, Node, Reservation
from phalanx.model.plan import Nominate, Place, Plan, Preempt, Shrink, Start, Wait
from phalanx.model.pod import with_pod_count
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode
from tests.core.brute import matches

from .rules import enough


@dataclass(slots=True)
class Truth:
    """The true state of a job. `planned`: slots with a node, bound once `started`. `open`: slots that request a
    node."""

    job: Job
    run_s: float
    gang: bool
    phase: Phase = Phase.QUEUED
    attempt: int = 0
    run: int = 0  # counts starts as `attempt` does, but is never set back to 0
    planned: dict[Slot, str] = field(default_factory=dict)
    devices: dict[Slot, tuple[str, ...]] = field(default_factory=dict)
    bound: set[Slot] = field(default_factory=set)
    started_s: float = 0.0
    flavors: tuple[str, ...] = ()
    open: set[Slot] = field(default_factory=set)


class Wrong(AssertionError):
    """A decision that the world knows to be wrong."""


class World:
    """`chances`: the probability of each disturbance, by name. A seed switches some disturbances off."""

    def __init__(self, seed: Random, chances: dict[str, float]) -> None:
        self.seed, self.chances = seed, chances
        self.clock_s = 1000.0
        self.jump_s = 0.0
        self.nodes: dict[str, Node] = {}
        self.all_nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.flavors: dict[str, Flavor] = {}
        self.reservations: dict[str, Reservation] = {}
        self.jobs: dict[str, Truth] = {}
        self.foreign: dict[str, tuple[str, tuple[tuple[str, int], ...]]] = {}
        self.unborn: set[str] = set()  # driver-first jobs, whose driver has not requested its other pods yet
        self.holds_last = not any(chances.get(each) for each in ("foreign", "node_lost", "pod_refused"))
        self.done: set[str] = set()
        self.ever_started: set[str] = set()
        self.preempted: dict[str, int] = {}
        self.log: list[str] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._told_until: dict[str, float] = defaultdict(float)
        self._inbox: list[Event] = []
        # a restart raises this number; messages of an earlier number are never delivered, because the world is listed
        # again
        self._era = 0

    # Time

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._heap, (self.clock_s + delay_s, self._order, act))

    def advance(self) -> bool:
        """Run the next action on the heap. Return False if no action is left."""
        if not self._heap:
            return False
        self.clock_s, _, act = heappop(self._heap)
        act()
        return True

    def next_at(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def now_s(self) -> float:
        """Return the time on the scheduler's clock, which may jump."""
        return self.clock_s + self.jump_s

    def chance(self, name: str) -> bool:
        return self.seed.random() < self.chances.get(name, 0.0)

    # Messages

    def tell(self, subject: str, event: Event) -> None:
        """Deliver the message after all earlier messages about the subject, perhaps late, perhaps twice."""
        delay_s = self.seed.uniform(0, 20) if self.chance("late") else 0.0
        at_s = max(self.clock_s + delay_s, self._told_until[subject])
        self._told_until[subject] = at_s
        twice, era = self.chance("twice"), self._era

        def deliver() -> None:
            if era == self._era:
                self._inbox += [event, event] if twice else [event]

        self.later(at_s - self.clock_s, deliver)
        if isinstance(event, Started | Refused | Finished) and self.chance("twice"):
            self.later(at_s - self.clock_s + self.seed.uniform(1, 50), deliver)  # the message is repeated much later

    def events(self) -> list[Event]:
        inbox, self._inbox = self._inbox, []
        return inbox

    def silent(self) -> bool:
        return not self._inbox

    # What nodes and others do

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = self.all_nodes[node.name] = node
        self.tell(node.name, NodeSeen(node))

    def remove_node(self, name: str) -> None:
        """Delete a node with its pods. A gang that loses pods requests replacements, or all of it goes back to its
        queue."""
        del self.nodes[name]
        self.tell(name, NodeGone(name))
        for pod in [pod for pod, (node, _) in self.foreign.items() if node == name]:
            self.vacate(pod)
        for truth in list(self.jobs.values()):
            lost = sorted(slot for slot in truth.bound if truth.planned[slot] == name)
            if lost and truth.phase is Phase.STOPPING:
                self.tell(truth.job.id, Released(truth.job.id, tuple(lost)))
                for slot in lost:
                    truth.bound.discard(slot)
                    del truth.planned[slot]
            elif lost and truth.gang and self.seed.random() < 0.3:
                self.refuse(truth, "its node was lost")
            elif lost:
                self.reopen(truth, lost)

    def change_queue(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self.tell(f"queue {queue.name}", QueueSeen(queue))

    def reopen(self, truth: Truth, slots: list[Slot]) -> None:
        for slot in slots:
            truth.planned.pop(slot, None)
            truth.bound.discard(slot)
            truth.open.add(slot)
        self.tell(truth.job.id, Opened(truth.job.id, tuple(slots)))

    def occupy(self, pod: str, node: str, requests: tuple[tuple[str, int], ...]) -> None:
        self.foreign[pod] = (node, requests)
        self.tell(pod, Occupied(pod, node, requests))

    def vacate(self, pod: str) -> None:
        if self.foreign.pop(pod, None):
            self.tell(pod, Vacated(pod))

    def free(self, name: str) -> dict[str, int]:
        """Return the free amounts of a node in truth: without bound pods and foreign pods. Pods that are only planned
        do not count."""
        free = dict(self.nodes[name].allocatable)
        for node, asks in self.held():
            if node == name:
                for resource, amount in asks:
                    free[resource] = free.get(resource, 0) - amount
        free["gpu"] = free.get("gpu", 0) - len(self.shared(name))
        return free

    def shared(self, name: str) -> set[str]:
        """Return the devices of the node that are partly in use, so that no pod may get them as whole devices."""
        return {
            device
            for truth in self.jobs.values()
            for slot in truth.bound
            if truth.planned[slot] == name and truth.job.roles[slot.role].shape.share
            for device in truth.devices[slot]
        }

    def held(self) -> Iterator[tuple[str, tuple[tuple[str, int], ...]]]:
        yield from self.foreign.values()
        for truth in self.jobs.values():
            for slot in truth.bound:
                yield truth.planned[slot], with_pod_count(truth.job.roles[slot.role].shape.requests)

    # Jobs

    def submit(self, job: Job, run_s: float) -> None:
        queue = self.queues.get(job.queue or "default")
        self.jobs[job.id] = Truth(job, run_s, gang=queue is None or queue.gang)
        self.tell(job.id, Submitted(job))

    def apply(self, plan: Plan) -> None:
        self.log.append(f"{self.clock_s:.3f} {plan.actions} {plan.wake_s}")
        for action in plan.actions:
            match action:
                case Start():
                    self.start(action)
                case Place(job, placements):
                    self.place(job, placements)
                case Preempt(job, attempt, by, _):
                    self.preempt(job, attempt, by)
                case Shrink(job, slots):
                    self.shrink(job, slots)
                case Nominate() | Wait():
                    pass  # these actions change no object in the cluster

    def start(self, action: Start) -> None:
        job, attempt, placements = action.job, action.attempt, action.placements
        truth = self.jobs.get(job)
        if truth is None:
            return  # the job was withdrawn, and the message about it is not delivered yet
        if truth.phase is not Phase.QUEUED or attempt != truth.attempt + 1:
            raise Wrong(f"{job} is {truth.phase} after {truth.attempt} starts, and is started as number {attempt}")
        self.must_be_time(truth.job)
        self.ever_started.add(job)
        truth.phase, truth.attempt, truth.run = Phase.STARTING, attempt, truth.run + 1
        truth.started_s, truth.flavors = action.at_s, action.flavors
        run = truth.run
        for role, ordinal, node, devices in placements:
            self.must_match(truth, role, node)
            truth.planned[Slot(role, ordinal)], truth.devices[Slot(role, ordinal)] = node, devices
        if truth.gang and not enough(truth.job, truth.planned):
            raise Wrong(f"{job} is started with only {placements}")
        delay_s = self.seed.uniform(0.1, 5)
        if truth.gang:
            self.later(delay_s, lambda: self.barrier(truth, run))
        else:
            self.later(delay_s, lambda: self.create_pods(truth, run))

    def must_be_time(self, job: Job) -> None:
        """Raise `Wrong` if a dependency of the job has not ended, its begin time is not reached, its deadline cannot be
        met, another job of its singleton name has started, or its array has no free slot."""
        met = {DependencyType.START: self.done | self.ever_started}
        early = [each.job for each in job.after if each.job not in met.get(each.after, self.done)]
        if early or (job.begin_s is not None and self.jump_s == 0 and self.now_s() < job.begin_s):
            raise Wrong(f"{job.id} is started before {early or job.begin_s}")
        if job.deadline_s is not None and self.now_s() + (job.limit_s or 0.0) > job.deadline_s and self.jump_s == 0:
            raise Wrong(f"{job.id} is started at {self.now_s()}, and was to end by {job.deadline_s}")
        others = [truth.job for truth in self.jobs.values() if truth.phase is not Phase.QUEUED and truth.job is not job]
        others = [other for other in others if other.user == job.user]
        if job.singleton and any(other.singleton == job.singleton for other in others):
            raise Wrong(f"{job.id} is started beside another of its name")
        if job.array_cap is not None and sum(other.array == job.array for other in others) >= job.array_cap:
            raise Wrong(f"{job.id} is started beyond the {job.array_cap} of its array")

    def preempt(self, job: str, attempt: int, by: str) -> None:
        """Let the pods end one after the other. After the last pod has ended, the whole job waits again."""
        truth = self.jobs.get(job)
        if truth is None or truth.attempt != attempt or truth.phase is Phase.QUEUED:
            return  # the job has ended or was stopped already, and the message about it is not delivered yet
        if truth.phase is Phase.STOPPING or not truth.job.preemptible or by == job:
            raise Wrong(f"{job} is {truth.phase}, preemptible: {truth.job.preemptible}, and is preempted for {by}")
        queue = self.queues.get(truth.job.queue or "default")
        if queue is not None and self.jump_s == 0 and self.now_s() - truth.started_s < queue.preemption.min_run_s:
            raise Wrong(f"{job} is preempted after {self.now_s() - truth.started_s} s")
        truth.phase, truth.run = Phase.STOPPING, truth.run + 1
        self.preempted[job] = self.preempted.get(job, 0) + 1
        truth.open.clear()
        for slot in set(truth.planned) - truth.bound:
            del truth.planned[slot]
        run = truth.run
        for slot in sorted(truth.bound):
            self.later(self.seed.uniform(0.1, 20), self.leaving(truth, run, slot))
        self.later(20.0, lambda: self.stopped(truth, run))

    def leaving(self, truth: Truth, run: int, slot: Slot) -> Callable[[], None]:
        def act() -> None:
            if self.current(truth, run) and slot in truth.planned:
                truth.bound.discard(slot)
                del truth.planned[slot]
                self.tell(truth.job.id, Released(truth.job.id, (slot,)))

        return act

    def stopped(self, truth: Truth, run: int) -> None:
        if self.current(truth, run):
            truth.phase = Phase.QUEUED
            for slots in (truth.planned, truth.bound, truth.open):
                slots.clear()
            reason = Reason(code=ReasonCode.PREEMPTED, text="it gave way")
            self.tell(truth.job.id, Refused(truth.job.id, truth.attempt, reason))

    def shrink(self, job: str, slots: tuple[Slot, ...]) -> None:
        truth = self.jobs.get(job)
        if truth is None or truth.phase in {Phase.QUEUED, Phase.STOPPING}:
            return
        left = [slot for slot in truth.planned if slot not in slots]
        known = self._told_until[job] < self.clock_s  # else messages about lost pods may not be delivered yet
        if known and enough(truth.job, truth.planned) and not enough(truth.job, left):
            raise Wrong(f"{job} is shrunk by {slots} below its minimum")
        for slot in slots:
            self.later(self.seed.uniform(0.1, 20), self.leaving(truth, truth.run, slot))

    def current(self, truth: Truth, run: int) -> bool:
        """Return whether the job still exists and is in the same start."""
        return self.jobs.get(truth.job.id) is truth and truth.run == run

    def must_match(self, truth: Truth, role: int, node: str) -> None:
        known = self.nodes.get(node) or self.all_nodes[node]
        shape = truth.job.roles[role].shape
        if truth.flavors:
            shape = self.flavors[truth.flavors[role]].applied_to(shape)
        if known.labels and not matches(known, shape) and "facts" not in self.chances:
            raise Wrong(f"a pod of {truth.job.id} is placed on {node}, where it may not go")

    def barrier(self, truth: Truth, run: int, tries: int = 20) -> None:
        """Wait until all pods of the minimum exist, then bind them together. If a pod is missing for too long, undo the
        start."""
        if not self.current(truth, run) or truth.phase is not Phase.STARTING:
            return
        if truth.open and tries:
            self.later(3.0, lambda: self.barrier(truth, run, tries - 1))  # after a restart some pods need a node first
        elif truth.open:
            self.refuse(truth, "some of its pods found no node in time")
        elif self.chance("start_refused"):
            self.refuse(truth, "a pod was not created")
        elif not all(self.bind(truth, slot) for slot in self.first_pods(truth)):
            self.refuse(truth, "a kubelet had no room")
        else:
            self.started(truth)
            for slot in sorted(truth.planned.keys() - truth.bound):
                self.later(self.seed.uniform(0, truth.run_s), lambda slot=slot: self.come(truth, run, slot))

    def first_pods(self, truth: Truth) -> list[Slot]:
        """Return the pods that are bound first: all planned pods, or only the driver that creates the others. Capacity
        is reserved for the other pods until they exist."""
        return sorted(truth.planned)[: 1 if truth.job.id in self.unborn else None]

    def come(self, truth: Truth, run: int, slot: Slot) -> None:
        """A pod with reserved capacity now exists, is no longer needed, or requests less than was declared."""
        waits = slot in truth.planned and slot not in truth.bound
        if not self.current(truth, run) or truth.phase is not Phase.RUNNING or not waits:
            return
        if self.seed.random() < 0.2:
            del truth.planned[slot]
            self.tell(truth.job.id, Released(truth.job.id, (slot,)))
            return
        if self.seed.random() < 0.3 and all(each.role != slot.role for each in truth.bound):
            self.reshape(truth, slot.role)
        if self.bind(truth, slot):
            return
        if self.holds_last:
            raise Wrong(f"what was held for {slot} of {truth.job.id} is not there: {self.free(truth.planned[slot])}")
        self.reopen(truth, [slot])

    def reshape(self, truth: Truth, role: int) -> None:
        """The pods of the role request less cpu than declared. This is reported at once, with the whole state of the
        job."""
        roles, known = list(truth.job.roles), truth.job.roles[role]
        less = tuple((name, amount // 2 if name == "cpu" else amount) for name, amount in known.shape.requests)
        roles[role] = replace(known, shape=replace(known.shape, requests=less))
        truth.job = replace(truth.job, roles=tuple(roles))
        self._inbox.append(self.adoption(truth))

    def bind(self, truth: Truth, slot: Slot) -> bool:
        node = truth.planned[slot]
        if node not in self.nodes or self.chance("pod_refused"):
            return False
        free = self.free(node)
        shape = truth.job.roles[slot.role].shape
        if any(free.get(name, 0) < ask for name, ask in with_pod_count(shape.requests)):
            return False
        if shape.share and not set(truth.devices[slot]) <= self.shared(node) and free.get("gpu", 0) < 1:
            return False
        truth.bound.add(slot)
        return True

    def started(self, truth: Truth) -> None:
        run = truth.run
        truth.phase = Phase.RUNNING
        self.tell(truth.job.id, Started(truth.job.id, truth.attempt))
        self.later(truth.run_s, lambda: self.finish(truth, run))
        if truth.gang and len(truth.bound) > 1:
            self.later(truth.run_s / 2, lambda: self.release_one(truth, run))
        if truth.gang and self.chance("growth"):
            self.later(truth.run_s / 4, lambda: self.want_all(truth, run))

    def want_all(self, truth: Truth, run: int) -> None:
        """Create the pods in excess of the started ones, which then request nodes."""
        if self.current(truth, run) and truth.phase is Phase.RUNNING:
            fixed = truth.job.size is GangSize.FIXED_AT_START
            sizes = Counter({slot.role: slot.ordinal + 1 for slot in sorted(truth.planned)})
            counts = [sizes[at] if fixed else role.count for at, role in enumerate(truth.job.roles)]
            slots = [Slot(at, ordinal) for at, count in enumerate(counts) for ordinal in range(count)]
            if more := [slot for slot in slots if slot not in truth.planned]:
                self.reopen(truth, more)

    def release_one(self, truth: Truth, run: int) -> None:
        """End one of the job's pods earlier than the others."""
        if self.current(truth, run) and truth.phase is Phase.RUNNING and len(truth.bound) > 1:
            slot = max(truth.bound)
            truth.bound.remove(slot)
            del truth.planned[slot]
            self.tell(truth.job.id, Released(truth.job.id, (slot,)))

    def finish(self, truth: Truth, run: int) -> None:
        if self.current(truth, run) and truth.phase is Phase.RUNNING:
            self.done.add(truth.job.id)
            del self.jobs[truth.job.id]
            self.tell(truth.job.id, Finished(truth.job.id))

    def withdraw(self, job: str) -> None:
        if job in self.jobs:
            self.done.add(job)
            del self.jobs[job]
            self.tell(job, Finished(job))

    def refuse(self, truth: Truth, why: str) -> None:
        truth.phase = Phase.QUEUED
        for slots in (truth.planned, truth.bound, truth.open):
            slots.clear()
        not_before_s = self.now_s() + self.seed.uniform(1, 30) if self.seed.random() < 0.7 else 0.0
        reason = Reason(code=ReasonCode.BACKOFF, text=why)
        self.tell(truth.job.id, Refused(truth.job.id, truth.attempt, reason, not_before_s))
        # the scheduler runs a cycle at that time
        self.later(max(0.0, not_before_s - self.now_s()) + 0.01, lambda: None)

    def create_pods(self, truth: Truth, run: int) -> None:
        if not self.current(truth, run) or truth.phase in {Phase.QUEUED, Phase.STOPPING}:
            return
        if self.chance("start_refused"):
            self.refuse(truth, "a pod was not created")
            return
        slots = [Slot(at, n) for at, role in enumerate(truth.job.roles) for n in range(role.count)]
        self.reopen(truth, slots)

    def place(self, job: str, placements: tuple[Placement, ...]) -> None:
        truth = self.jobs.get(job)
        if truth is None:
            return
        for role, ordinal, node, devices in placements:
            slot = Slot(role, ordinal)
            if slot not in truth.open:
                continue  # the job was refused or has finished, and the message about it is not delivered yet
            self.must_match(truth, role, node)
            truth.open.remove(slot)
            truth.planned[slot], truth.devices[slot] = node, devices
            if not truth.gang or truth.phase is Phase.RUNNING:
                self.later(self.seed.uniform(0.1, 3), self.binding(truth, truth.run, slot))

    def binding(self, truth: Truth, run: int, slot: Slot) -> Callable[[], None]:
        def act() -> None:
            if not self.current(truth, run) or truth.phase in {Phase.QUEUED, Phase.STOPPING}:
                return
            if slot not in truth.planned or slot in truth.bound:
                return
            if not self.bind(truth, slot):
                self.reopen(truth, [slot])
            elif truth.phase is Phase.STARTING and enough(truth.job, truth.bound):
                self.started(truth)

        return act

    # Restart

    def listed(self) -> list[Event]:
        """Report the whole state, in the order of a restart; undelivered messages are dropped."""
        self._era += 1
        self._inbox.clear()
        for truth in self.jobs.values():
            if truth.phase is Phase.QUEUED:
                truth.attempt = 0  # starts are counted from the restart
        events: list[Event] = [NodeSeen(node) for node in self.nodes.values()]
        events += [FlavorSeen(flavor) for flavor in self.flavors.values()]
        events += [ReservationSeen(reservation) for reservation in self.reservations.values()]
        events += [QueueSeen(queue) for queue in self.queues.values()]
        events += [OutcomeTold(job, Outcome.SUCCEEDED) for job in sorted(self.done)]
        events += [Occupied(pod, node, requests) for pod, (node, requests) in self.foreign.items()]
        started = [truth for truth in self.jobs.values() if truth.phase is not Phase.QUEUED]
        events += [self.adoption(truth) for truth in started]
        return events + [Submitted(truth.job) for truth in self.jobs.values() if truth.phase is Phase.QUEUED]

    def adoption(self, truth: Truth) -> Adopted:
        """Return the event that reports a started gang after a restart. If no pod of the gang is bound yet, all its
        pods may be reported as open."""
        if truth.gang and truth.phase is Phase.STARTING and not truth.bound and self.seed.random() < 0.5:
            truth.open |= set(truth.planned)
            truth.planned.clear()
        placements = tuple(
            Placement(*slot, node, truth.devices.get(slot, ())) for slot, node in sorted(truth.planned.items())
        )
        wanting = tuple(sorted(truth.open))
        return Adopted(truth.job, truth.attempt, truth.phase, placements, wanting, truth.started_s, truth.flavors)
