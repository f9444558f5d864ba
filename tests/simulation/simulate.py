"""One seeded run: a workload, the disturbances that the seed switches on, and what must hold.

After every fold `core.check` holds. After every cycle nothing that fits is left waiting. When the disturbances have
ended and all is quiet, the book equals the world and every job that could ever run has run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import contextmanager, nullcontext
from random import Random
from unittest.mock import patch

from phalanx import loop
from phalanx.core import cycle, gang, packing
from phalanx.core import fold as folding
from phalanx.core.check import check
from phalanx.core.draft import Draft
from phalanx.model import watching
from phalanx.model.cluster import Cluster, Record
from phalanx.model.event import Event
from phalanx.model.job import Job, Phase, Role
from phalanx.model.node import Node, Taint
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.shape import Operator, Requirement, Shape, Toleration, amounts
from tests.core.brute import gang_fits

from .world import World

POLICY = Policy()
DISTURBANCES = {
    "late": 0.4,
    "twice": 0.2,
    "pod_refused": 0.05,
    "start_refused": 0.15,
    "node_lost": 0.3,
    "restart": 0.15,
    "jump": 0.1,
    "foreign": 0.5,
    "facts": 0.2,
}
QUIET_AFTER_S = 1300.0
STEPS = 3000


class Unfair(AssertionError):
    """A job waits though it would fit, or never ran though it could."""


def simulate(seed: int) -> str:
    """Run it; the hash of all that was decided. Raises what it finds wrong."""
    random = Random(seed)
    chances = {name: chance for name, chance in DISTURBANCES.items() if random.random() < 0.6}
    run = Run(World(random, chances))
    with checked_folds(), narrow() if seed % 2 else nullcontext():
        run.play()
    return hashlib.sha256("\n".join(run.world.log).encode()).hexdigest()


@contextmanager
def narrow():
    """Small blocks and chunks, and hardly a reason renewed: what only large clusters meet is met by small ones too."""
    with (
        patch.object(cycle, "EXPLAINED", 0),
        patch.object(packing, "CHUNK", 2),
        patch.object(watching, "BATCH", 4),
    ):
        yield


@contextmanager
def checked_folds():
    """`core.check` after every fold of the loop, also between its events and its plan."""
    fold, fold_plan = folding.fold, folding.fold_plan

    def fold_checked(cluster: Cluster, news: Iterable[Event]) -> None:
        fold(cluster, news)
        check(cluster)

    def plan_checked(cluster: Cluster, plan) -> None:
        fold_plan(cluster, plan)
        check(cluster)

    with patch.object(loop, "fold", fold_checked), patch.object(loop, "fold_plan", plan_checked):
        yield


class Run:
    def __init__(self, world: World) -> None:
        self.world, self.random = world, world.seed
        self.cluster = Cluster()
        self.quiet = False
        self.feasible: set[str] = set()
        self.wake_s: float | None = None

    def play(self) -> None:
        self.build()
        for _ in range(STEPS):
            if not self.world.advance():
                break
            if not self.quiet:
                self.disturb()
            if not self.world.silent() or self.wake_is_due():
                self.step(self.world.events())
        else:
            raise Unfair(f"no end after {STEPS} steps: {[*self.world.jobs]}")
        self.settle()

    def wake_is_due(self) -> bool:
        return self.wake_s is not None and self.wake_s <= self.world.now_s()

    def step(self, events: list[Event]) -> None:
        plan = loop.step(self.cluster, events, POLICY, self.world.now_s(), self.world)
        self.wake_s = plan.wake_s
        self.nothing_that_fits_waits()

    # What happens

    def build(self) -> None:
        world, random = self.world, self.random
        for queue in (Queue(name="default"), Queue(name="loose", gang=False)):
            world.queues[queue.name] = queue
        folding.fold(self.cluster, world.listed())
        for index in range(random.randint(1, 6)):
            world.add_node(self.a_node(f"n{index}"))
        for index in range(random.randint(3, 25)):
            job, run_s = self.a_job(index), random.uniform(1, 120)
            if gang_fits_empty(list(world.nodes.values()), job):
                self.feasible.add(job.id)
            world.later(random.uniform(0, 200), lambda job=job, run_s=run_s: world.submit(job, run_s))
        world.later(QUIET_AFTER_S - world.clock_s, self.make_quiet)

    def a_node(self, name: str) -> Node:
        random = self.random
        room = {
            "cpu": random.choice([2000, 4000, 8000]),
            "memory": random.choice([4, 8, 16]),
            "pods": random.choice([3, 110]),
        }
        room["gpu"] = random.choice([0, 0, 2])
        taints = (Taint("gpu", "yes"),) if room["gpu"] and random.random() < 0.5 else ()
        labels = (("zone", random.choice("ab")),)
        return Node(name=name, allocatable=amounts(room), labels=labels, taints=taints)

    def a_job(self, index: int) -> Job:
        random = self.random
        loose = random.random() < 0.2
        # Pod by pod, jobs that need several pods can block each other for ever; here one is enough for them.
        count = 1 if loose else random.choice([1, 1, 1, 2, 3])
        roles = tuple(self.a_role(f"r{at}", loose=loose) for at in range(count))
        return Job(
            id=f"j{index}",
            queue="loose" if loose else random.choice(["default", ""]),
            roles=roles,
            priority=random.choice([0, 0, 0, 5]),
            submitted_s=float(index),
        )

    def a_role(self, name: str, *, loose: bool) -> Role:
        random = self.random
        asks = {"cpu": random.choice([0, 500, 1000, 2000]), "memory": random.choice([0, 1, 2, 6])}
        asks["gpu"] = random.choice([0, 0, 0, 1])
        affinity = ()
        if random.random() < 0.15:
            affinity = ((Requirement("zone", random.choice([Operator.IN, Operator.NOT_IN]), ("a",)),),)
        shape = Shape(
            requests=amounts(asks),
            selector=(("zone", random.choice("ab")),) if random.random() < 0.2 else (),
            affinity=affinity,
            tolerations=(Toleration("gpu", "Exists"),) if asks["gpu"] or random.random() < 0.2 else (),
        )
        count = random.randint(1, 4)
        return Role(name=name, count=count, minimum=1 if loose else random.randint(1, count), shape=shape)

    def disturb(self) -> None:
        world, random = self.world, self.random
        if random.random() > 0.15:
            return
        if world.nodes and world.chance("node_lost"):
            name = random.choice(sorted(world.nodes))
            world.lose_node(name)
            world.later(random.uniform(5, 60), lambda: self.bring_back(name))
        if world.nodes and world.chance("foreign"):
            pod, node = f"f{random.randint(0, 5)}", random.choice(sorted(world.nodes))
            cpu = random.choice([500, 1000, 9000 if random.random() < 0.2 else 2000])
            world.vacate(pod)
            world.occupy(pod, node, amounts({"cpu": cpu, "memory": 1, "pods": 1}))
        if world.foreign and world.chance("foreign"):
            world.vacate(random.choice(sorted(world.foreign)))
        if world.nodes and world.chance("facts"):
            node = world.nodes[random.choice(sorted(world.nodes))]
            world.add_node(changed(node, unschedulable=random.random() < 0.5, ready=random.random() < 0.7))
        if world.jobs and world.chance("facts"):
            world.withdraw(random.choice(sorted(world.jobs)))
        if world.chance("jump"):
            world.jump_s += random.uniform(-40, 40)
        if world.chance("restart"):
            self.restart()

    def restart(self) -> None:
        self.cluster = Cluster()
        self.step(self.world.listed())

    def bring_back(self, name: str) -> None:
        if name not in self.world.nodes:
            self.world.add_node(changed(self.world.all_nodes[name], unschedulable=False, ready=True))

    # What must hold

    def make_quiet(self) -> None:
        """No more disturbances: all nodes are there and well, pods of others are gone."""
        self.quiet = True
        self.world.chances.clear()
        for name, node in sorted(self.world.all_nodes.items()):
            self.world.add_node(changed(node, unschedulable=False, ready=True))
            assert name in self.world.nodes
        for pod in sorted(self.world.foreign):
            self.world.vacate(pod)
        self.world.later(100.0, lambda: None)

    def nothing_that_fits_waits(self) -> None:
        """Single shapes are decided exactly; gangs of several roles are searched, which promises less."""
        draft = Draft(self.cluster.columns)
        for record in self.cluster.jobs.values():
            if self.may_start(record) and not isinstance(gang.place(draft, record.gang), gang.Shortfall):
                raise Unfair(f"{record.job.id} waits and would fit: {record.reason}")
            for slot in record.open:
                one = self.cluster.interned.one(record.job.roles[slot.role])
                if not isinstance(gang.place(draft, one), gang.Shortfall):
                    raise Unfair(f"slot {slot} of {record.job.id} waits and would fit")

    def may_start(self, record: Record) -> bool:
        queue = self.cluster.queues.get(record.job.queue or "default")
        rests = record.not_before_s > self.world.now_s()
        return record.phase is Phase.QUEUED and queue is not None and not rests and len(record.job.roles) == 1

    def settle(self) -> None:
        left = self.feasible & set(self.world.jobs)
        if left:
            raise Unfair(f"never ran, though they could: {sorted(left)}")
        for name in self.world.nodes:
            row = self.cluster.columns.row_of[name]
            book = {resource: free for resource, free in self.cluster.columns.free_of(row).items() if free}
            true = {resource: free for resource, free in self.world.free(name).items() if free}
            if book != true:
                raise Unfair(f"the book says {book} is free on {name}, the world {true}")


def gang_fits_empty(nodes: list[Node], job: Job) -> bool:
    return gang_fits(nodes, {node.name: dict(node.allocatable) for node in nodes}, job.roles)


def changed(node: Node, *, unschedulable: bool, ready: bool) -> Node:
    return Node(
        name=node.name,
        allocatable=node.allocatable,
        labels=node.labels,
        taints=node.taints,
        unschedulable=unschedulable,
        ready=ready,
    )
