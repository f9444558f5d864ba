"""Lines that are decided together, as crowds or by their strict queue's head, are decided as if each contended by
itself: two books are told the same, one decides crowds from the first line on, the other never."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import pytest

from phalanx.core.cycle import crowds, steps
from phalanx.core.decide import decide
from phalanx.core.fold import fold
from phalanx.model.event import Event, Finished, NodeSeen, QueueSeen, Started, Submitted, Ticked
from phalanx.model.job import Job, Phase, Role
from phalanx.model.node import Node
from phalanx.model.plan import Action, Start, Wait
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import Queue, QueueOrder, Quota
from phalanx.report.invariants import check_invariants
from phalanx.state.cluster import Cluster
from phalanx.state.queue_tree import QueueTree
from tests.seeds import mostly_slow

CYCLES = 40


class World:
    """Few nodes, few shapes, many queues of one order (in others it matters for the rest of the queue whether a line
    that cannot start takes part); jobs come, run and go."""

    # With time limits no queue is strict: whether backfill lets those behind its head start depends on who is awake.
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.shapes = [
            Shape(requests=amounts({"cpu": random.choice([1, 2, 3]) * 1000, "memory": random.choice([1, 2, 4])}))
            for _ in range(6)
        ]
        self.policy = Policy(backfill=random.choice([Backfill.EASY, Backfill.EASY, Backfill.GREEDY]))
        self.order = random.choice([QueueOrder.PRIORITY, QueueOrder.FIFO])
        self.timed = random.random() < 0.8
        self.submitted = 0

    def listed(self) -> list[Event]:
        random = self.random
        has = amounts({"cpu": 4000, "memory": 8, "pods": 10})
        inner = [self.queue(f"in-{n}", parent="in-0" if n else "") for n in range(3)]
        leaves = [self.queue(f"q-{n}", parent=random.choice(inner).name) for n in range(8)]
        self.queues = [queue.name for queue in (*inner, *leaves)]
        nodes = [NodeSeen(Node(name=f"n-{n}", allocatable=has)) for n in range(random.randint(2, 6))]
        return [*map(QueueSeen, (*inner, *leaves)), *nodes]

    def queue(self, name: str, parent: str) -> Queue:
        random = self.random
        quotas: tuple[Quota, ...] = ()
        if random.random() < 0.2:
            quotas = (Quota(limit=(("cpu", random.choice([4000, 8000])),)),)
        return Queue(
            name=name, parent=parent, order=self.order, strict=not self.timed and random.random() < 0.15, quotas=quotas
        )

    def job(self) -> Submitted:
        random = self.random
        self.submitted += 1
        size = random.choice([1, 1, 2, 3, 6])
        role = Role(name="w", count=size, minimum=size, shape=random.choice(self.shapes))
        limit_s = random.choice([None, 20.0, 50.0, 200.0]) if self.timed else None
        name = f"j{self.submitted}"
        queue, priority = random.choice(self.queues), random.choice([0, 0, 0, 1, 5])
        job = Job(id=name, queue=queue, roles=(role,), priority=priority, limit_s=limit_s, submitted_s=self.submitted)
        return Submitted(job)

    def events(self, cluster: Cluster, now_s: float) -> list[Event]:
        random, jobs = self.random, cluster.jobs
        over = [name for name, each in jobs.items() if each.phase is Phase.RUNNING and random.random() < 0.2]
        given_up = [name for name, each in jobs.items() if each.phase is Phase.QUEUED and random.random() < 0.02]
        new = [self.job() for _ in range(random.choice([0, 1, 2, 8]) if len(jobs) < 80 else 0)]
        return [Ticked(now_s), *map(Finished, (*over, *given_up)), *new]


def step(cluster: Cluster, events: list[Event], policy: Policy, now_s: float) -> list[Action]:
    fold.fold(cluster, events)
    plan = decide(cluster, policy, now_s)
    fold.fold_plan(cluster, plan)
    check_invariants(cluster)
    fold.fold(cluster, [Started(each.job, each.attempt) for each in plan.actions if isinstance(each, Start)])
    return [action for action in plan.actions if not isinstance(action, Wait)]


@contextmanager
def crowds_from(lines: int, arenas: int = crowds.FEW_ARENAS) -> Iterator[None]:
    """Crowds are decided together if they have so many lines, kept in order if there are more arenas; and no reason is
    explained anew."""
    with (
        patch.object(crowds, "FEW", lines),
        patch.object(crowds, "FEW_ARENAS", arenas),
        patch.object(crowds, "EXPLAINED", 0),
        patch.object(steps, "EXPLAINED", 0),
    ):
        yield


@contextmanager
def each_is_examined() -> Iterator[None]:
    """Of a strict queue all lines take part, and whoever is short of quota is told why anew."""
    with (
        patch.object(QueueTree, "closed_in_order", lambda tree: {}),
        patch.object(steps.Cycle, "lacks_quota_still", lambda self, key: False),
    ):
        yield


@pytest.mark.parametrize("seed", mostly_slow(range(40), fast=8))
def test_together_or_each_by_itself(seed: int) -> None:
    world, together, apart = World(seed), Cluster(), Cluster()
    events = world.listed()
    for number in range(CYCLES):
        now_s = 10.0 * number
        with crowds_from(0, arenas=seed % 2):
            found = step(together, events, world.policy, now_s)
        with crowds_from(10**9), each_is_examined():
            assert step(apart, events, world.policy, now_s) == found, f"cycle {number}"
        assert together.waiting.sleepers.first == apart.waiting.sleepers.first
        events = world.events(together, now_s + 10.0)


@pytest.mark.parametrize("nodes", [[], [Node(name="bare", allocatable=())]], ids=["no node", "a node of nothing"])
def test_a_crowd_waits_where_there_is_nothing_to_count(nodes: list[Node]) -> None:
    """As a scheduler finds it that is there before its nodes, or after the last of them."""
    cluster, policy = Cluster(), Policy(backfill=Backfill.GREEDY)
    shapes = [Shape(requests=amounts({"cpu": 1000 * cpu})) for cpu in range(1, 9)]
    roles = [(Role(name="", count=count, minimum=count, shape=shape),) for shape in shapes for count in (1, 2)]
    jobs = [
        Job(id=f"j{n}", queue="q", priority=n % 3, submitted_s=n, limit_s=float(n), roles=roles[n % len(roles)])
        for n in range(60)
    ]
    events = [QueueSeen(Queue(name="q", order=QueueOrder.FIFO)), *map(NodeSeen, nodes), *map(Submitted, jobs)]
    with crowds_from(0):
        assert step(cluster, events, policy, 100.0) == []
        room = NodeSeen(Node(name="last", allocatable=amounts({"cpu": 3000, "pods": 10})))
        assert len(step(cluster, [room], policy, 101.0)) == 2
