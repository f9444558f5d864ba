"""Small random worlds: a few nodes, a tree of queues, and jobs that are submitted, run, are preempted and terminate
slowly. Each seed is one world. It plays through the real loop, and its trace can be played again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from phalanx.model.event import (
    Adopted,
    Event,
    Finished,
    NodeGone,
    NodeSeen,
    Opened,
    QueueSeen,
    Refused,
    Released,
    Started,
    Submitted,
)
from phalanx.model.job import GangSize, Job, Phase, Placement, Role, Slot
from phalanx.model.node import Node
from phalanx.model.plan import Place, Plan, Preempt, Shrink, Start
from phalanx.model.pod import Shape
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import (
    BorrowingPolicy,
    Bounds,
    Queue,
    QueueOrder,
    QueuePreemption,
    Quota,
    ReclaimFloor,
    ReclaimWithinCohort,
    Strategy,
    VictimOrder,
    WithinQueue,
)
from phalanx.state.cluster import Cluster

from .replay import Turn

TWO = 1_000_000  # the first seed of the worlds in which queues guarantee memory as well
THREE = 3_000_000  # the first seed of the worlds in which inner queues have the orders `tiered` and `fill` as well
ORDERS = (QueueOrder.PRIORITY, QueueOrder.FIFO, QueueOrder.FAIR)
CPU, GIB = 1000, 2**30


@dataclass
class World:
    """A world during a play. `later`: future events with their times. `is_busy`: False once no event comes from
    outside. From then on the next cycle runs at the time of the next event, or when the plan requests it (`wake_s`)."""

    seed: int
    random: Random = field(init=False)
    policy: Policy = field(init=False)
    now_s: float = 10.0
    later: list[tuple[float, Event]] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    queues: list[Queue] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    preempted: Counter[str] = field(default_factory=Counter)
    wake_s: float = 0.0
    is_busy: bool = True

    def __post_init__(self) -> None:
        random = self.random = Random(self.seed)
        self.policy = Policy(backfill=random.choice([Backfill.EASY, Backfill.EASY, Backfill.GREEDY]))
        self.has_limits = random.random() < 0.5
        self.has_memory = random.random() < 0.3 or self.seed >= TWO
        self.leave_s = random.choice([0.0, 5.0, 5.0, 30.0, 900.0])
        self.recreates, self.loses = random.random() < 0.5, random.random() < 0.4
        self.elastic, self.fixed = random.choice([0.0, 0.3, 0.7]), random.choice([0.0, 0.0, 0.3])
        self.priorities = random.choice([[0], [0, 0, 1, 5], [0, 1, 2]])
        self.cycles = random.choice([3, 5, 8, 12])

    # The contents of a world

    def first_turn(self) -> Turn:
        random, events = self.random, list[Event]()
        for number in range(random.choice([1, 2, 2, 3, 3, 4])):
            self.nodes[f"n{number}"] = self.node(f"n{number}")
        events += [NodeSeen(node) for node in self.nodes.values()]
        self.queues = self.tree()
        events += [QueueSeen(queue) for queue in self.queues]
        left = {name: dict(node.allocatable) for name, node in self.nodes.items()}
        for _ in range(random.choice([0, 1, 2, 4])):
            if (adopted := self.adopted(left)) is not None:
                events.append(adopted)
        return Turn(events, self.now_s)

    def node(self, name: str) -> Node:
        has = {"cpu": self.random.randint(2, 8) * CPU, "memory": self.random.randint(2, 8) * GIB, "pods": 110}
        return Node(name=name, allocatable=tuple(sorted(has.items())))

    def tree(self) -> list[Queue]:
        """Return one to five queues in a tree. The guarantees of children fit into those of their parents."""
        random = self.random
        names = [f"q{number}" for number in range(random.choice([1, 2, 2, 3, 4]))]
        parents: dict[str, str] = {}
        if self.seed >= THREE:  # most queues are below the first and compete there
            names = [f"q{number}" for number in range(random.choice([3, 4, 5]))]
        for at, name in enumerate(names):
            parents[name] = random.choice(["", "", *names[:at]]) if random.random() < 0.6 else ""
            if self.seed >= THREE and at:
                parents[name] = random.choice(["q0", "q0", "q0", names[at - 1]])
        guaranteed = {name: random.choice([None, None, 1, 2, 3, 4]) for name in names}
        for name in names:  # the guarantee of an inner queue is at least the sum of its children's
            if guaranteed[name] is not None and name in parents.values():
                below = [each for each in names if name in self.above(parents, each)]
                guaranteed[name] = (guaranteed[name] or 0) + sum(guaranteed[each] or 0 for each in below)
        queues = [self.queue(name, parents[name], guaranteed[name]) for name in names]
        queues = queues if self.seed < TWO else list(self.with_memory(queues))[::-1]
        return queues if self.seed < THREE else [self.with_priority(queue, parents.values()) for queue in queues]

    def with_priority(self, queue: Queue, inner: Collection[str]) -> Queue:
        """Return the queue with a priority; most inner queues get the order `tiered` or `fill`."""
        random, order = self.random, queue.order
        if queue.name in inner and random.random() < 0.8:
            order = random.choice([QueueOrder.TIERED, QueueOrder.FILL])
        return replace(queue, order=order, priority=random.choice([0, 0, 1, 2]), fenced=random.random() < 0.2)

    def with_memory(self, queues: list[Queue]) -> Iterator[Queue]:
        """Yield the queues, the last first. Some of them get a guarantee, a limit, or a lending limit of memory as
        well."""
        random, due = self.random, dict[str, int]()
        for queue in reversed(queues):
            below = sum(due[each.name] for each in queues if each.parent == queue.name)
            amount = random.choice([None, None, 0, 1, 2, 4])
            due[queue.name] = below + (amount or 0)
            quota = queue.quotas[0] if queue.quotas else Quota()
            if amount is not None:
                has = due[queue.name]
                quota = replace(quota, guaranteed=(*quota.guaranteed, ("memory", has * GIB)))
                if random.random() < 0.2:
                    quota = replace(quota, lend=(*quota.lend, ("memory", random.randint(0, has) * GIB)))
            if random.random() < 0.2:
                most = due[queue.name] + random.randint(2, 6)
                quota = replace(quota, limit=(*quota.limit, ("memory", most * GIB)))
            yield replace(queue, quotas=() if quota == Quota() else (quota,))

    def above(self, parents: dict[str, str], name: str) -> list[str]:
        found = []
        while parents[name]:
            name = parents[name]
            found.append(name)
        return found

    def queue(self, name: str, parent: str, guaranteed: int | None) -> Queue:
        random = self.random
        by_right: Bounds = () if guaranteed is None else (("cpu", guaranteed * CPU),)
        lend: Bounds = ()
        if guaranteed and random.random() < 0.25:
            lend = (("cpu", random.randint(0, guaranteed) * CPU),)
        limit: Bounds = ()
        if random.random() < 0.2:
            limit = (("cpu", ((guaranteed or 0) + random.randint(2, 6)) * CPU),)
        borrow = BorrowingPolicy.ALL
        if guaranteed and random.random() < 0.15:
            borrow = random.choice([BorrowingPolicy.NONE, BorrowingPolicy.PREEMPTIBLE])
        has_quota = bool(by_right or lend or limit)
        return Queue(
            name=name,
            parent=parent,
            quotas=(Quota(guaranteed=by_right, limit=limit, lend=lend),) if has_quota else (),
            order=random.choice(ORDERS),
            strict=random.random() < 0.15,
            weight=random.choice([1.0, 1.0, 1.0, 2.0, 0.5]),
            borrow=borrow,
            preemption=self.preemption(),
        )

    def preemption(self) -> QueuePreemption:
        random = self.random
        if random.random() < 0.15:
            return QueuePreemption()
        down_to = random.choice([ReclaimFloor.GUARANTEE, ReclaimFloor.FAIR_SHARE])
        borrowing = down_to is ReclaimFloor.GUARANTEE and random.random() < 0.3
        return QueuePreemption(
            within=random.choice(list(WithinQueue)),
            reclaim=random.choice([*ReclaimWithinCohort, ReclaimWithinCohort.ANY]),
            down_to=down_to,
            strategy=random.choice(list(Strategy)),
            victims=random.choice(list(VictimOrder)),
            borrowing=borrowing,
            borrowing_threshold=random.choice([None, 1]) if borrowing else None,
            min_run_s=random.choice([0.0, 0.0, 0.0, 20.0]),
            hourly_budget=random.choice([None, None, None, 2]),
            delay_s=random.choice([0.0, 0.0, 0.0, 0.0, 15.0]),
        )

    def leaves(self) -> list[str]:
        parents = {queue.parent for queue in self.queues}
        return [queue.name for queue in self.queues if queue.name not in parents]

    def job(self) -> Job:
        random = self.random
        count = random.choice([1, 1, 2, 2, 3, 4])
        elastic, fixed = random.random() < self.elastic, random.random() < self.fixed
        asks = {"cpu": random.choice([1, 1, 2, 3]) * CPU}
        if self.has_memory and (self.seed < TWO or random.random() < 0.8):
            asks["memory"] = random.choice([1, 1, 2, 3]) * GIB
        role = Role(
            name="worker",
            count=count,
            minimum=random.randint(1, count) if elastic or fixed else count,
            shape=Shape(requests=tuple(sorted(asks.items()))),
        )
        job = Job(
            id=f"j{len(self.jobs)}",
            queue=random.choice(self.leaves()),
            roles=(role,),
            priority=random.choice(self.priorities),
            submitted_s=self.now_s + len(self.jobs) / 100,
            size=GangSize.FIXED_AT_START if fixed and not elastic else GangSize.ELASTIC,
            limit_s=random.choice([None, 20.0, 60.0, 200.0]) if self.has_limits else None,
            preemptible=random.random() > 0.1,
            preempts=random.random() > 0.1,
        )
        self.jobs[job.id] = job
        return job

    def adopted(self, left: dict[str, dict[str, int]]) -> Adopted | None:
        """Return a job that already runs, if nodes have capacity for it."""
        job = self.job()
        asks, placements, role = dict(job.roles[0].shape.requests), list[Placement](), job.roles[0]
        for ordinal in range(role.count):
            nodes = [name for name, has in left.items() if all(has[each] >= more for each, more in asks.items())]
            if nodes:
                node = self.random.choice(nodes)
                for each, more in asks.items():
                    left[node][each] -= more
                placements.append(Placement(0, ordinal, node))
        if len(placements) < role.minimum:
            for placement in placements:
                for each, more in asks.items():
                    left[placement.node][each] += more
            del self.jobs[job.id]
            return None
        taken = {placement.ordinal for placement in placements}
        rest = tuple(Slot(0, each) for each in range(role.count) if each not in taken)
        is_elastic = job.size is GangSize.ELASTIC
        return Adopted(job, 1, Phase.RUNNING, tuple(placements), rest if is_elastic else (), self.now_s - 5.0)

    # What happens

    def apply(self, plan: Plan) -> None:
        """Carry out a plan: pods start at once or later, and preempted pods terminate after a while."""
        self.wake_s = float("inf") if plan.wake_s is None else plan.wake_s
        for action in plan.actions:
            match action:
                case Start(job, attempt, placements):
                    at_s = self.now_s + self.random.choice([0.0, 0.0, 3.0])
                    self.later.append((at_s, Started(job, attempt)))
                    taken = {each.ordinal for each in placements}
                    rest = [Slot(0, each) for each in range(self.jobs[job].roles[0].count) if each not in taken]
                    if rest and self.jobs[job].size is GangSize.ELASTIC:
                        self.later.append((at_s, Opened(job, tuple(rest))))
                case Preempt(job, attempt, _, reason):
                    self.preempted[job] += 1
                    self.later.append((self.now_s + self.leave_s, Refused(job, attempt, reason)))
                case Shrink(job, slots):
                    gone_s = self.now_s + self.leave_s
                    self.later.append((gone_s, Released(job, tuple(slots))))
                    if self.recreates:
                        self.later.append((gone_s + 1.0, Opened(job, tuple(slots))))
                case Place():
                    pass

    def turn(self, cluster: Cluster) -> Turn:
        """Return the events before the next cycle, and the time of the cycle."""
        random = self.random
        if self.is_busy:
            self.now_s += random.choice([0.0, 1.0, 5.0, 15.0])
        else:
            times = [at_s for at_s, _ in self.later if at_s > self.now_s]
            self.now_s = min([*times, max(self.now_s, self.wake_s)] if times else [self.now_s + 1.0])
        due = [event for at_s, event in self.later if at_s <= self.now_s]
        self.later = [each for each in self.later if each[0] > self.now_s]
        events = [event for event in due if self.is_sensible(cluster, event)]
        return Turn(events + (self.surprises(cluster) if self.is_busy else []), self.now_s)

    def is_sensible(self, cluster: Cluster, event: Event) -> bool:
        """Return whether a delayed event is still true for the job."""
        match event:
            case Started(job) | Refused(job) | Released(job):
                return job in cluster.jobs
            case Opened(job, slots):
                record = cluster.jobs.get(job)
                return (
                    record is not None
                    and record.phase in (Phase.STARTING, Phase.RUNNING)
                    and not any(slot in record.open for slot in slots)
                    and all(cluster.columns.node(record.placements.get(slot, "")) is None for slot in slots)
                )
        return True

    def lost_pods(self, cluster: Cluster, node: str) -> list[Event]:
        """Return the events about the pods of a lost node. Sometimes these events come only later."""
        events = list[Event]()
        for name, record in cluster.jobs.items():
            slots = tuple(slot for slot, on in record.placements.items() if on == node)
            if slots and record.phase in (Phase.STARTING, Phase.RUNNING):
                events.append(Opened(name, slots))
        if self.random.random() < 0.15:
            self.later += [(self.now_s + 20.0, event) for event in events]
            return []
        return events

    def surprises(self, cluster: Cluster) -> list[Event]:
        random, events = self.random, list[Event]()
        for name, record in cluster.jobs.items():
            if record.phase is Phase.RUNNING and random.random() < 0.08:
                events.append(Finished(name))
            elif record.phase is Phase.RUNNING and record.placements and self.loses and random.random() < 0.08:
                slot = random.choice(sorted(record.placements))
                if slot not in record.leaving and not record.size:
                    events.append(Opened(name, (slot,)))
            elif record.phase is Phase.QUEUED and random.random() < 0.02:
                events.append(Finished(name))
        if self.loses and random.random() < 0.1:
            name = random.choice(sorted(self.nodes))
            if cluster.columns.node(name) is None:
                events.append(NodeSeen(self.nodes[name]))
            else:
                events += [NodeGone(name), *self.lost_pods(cluster, name)]
        if len(cluster.jobs) < 9:
            events += [Submitted(self.job()) for _ in range(random.choice([0, 0, 1, 1, 2]))]
        return events
