"""A decision depends on the state alone. Three variants must decide as the usual cycle does: a state without the
results of earlier cycles, a state that never gets the memory of a decision, and the other way to examine request
classes (one by one, or all at once).

`PHALANX_SEEDS` sets the seeds (`tests.seeds`): 100 without it, and 10,000 in `make fuzz`. A new random draw changes the
worlds of all seeds, so no seed is listed here. A world that fails becomes a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from unittest.mock import patch

import pytest

from phalanx.core.cycle import candidates
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.core.placement import capacity
from phalanx.model.event import Event, Finished, NodeSeen, Opened, QueueSeen, Refused, Started, Submitted, Ticked
from phalanx.model.job import Job, Phase, Role
from phalanx.model.node import Node
from phalanx.model.plan import Preempt, Start
from phalanx.model.pod import Operator, PodAffinityTerm, Requirement, Shape, amounts
from phalanx.model.policy import Backfill, BackfillOrder, Policy
from phalanx.model.queue import (
    Limits,
    Queue,
    QueueOrder,
    QueuePreemption,
    Quota,
    ReclaimFloor,
    ReclaimWithinCohort,
    WithinQueue,
)
from phalanx.state.cluster import Cluster
from tests.forgetful import decided_without_memory, decisions
from tests.invariants import check_invariants
from tests.seeds import mostly_slow, seeds

CYCLES = 25
FEW = (0, 8, 10**9)  # the bounds up to which classes are examined one by one: never, up to 8, always
# Features of some worlds, with their probability: constraints other than counting, and several roles.
CHANCES = {"delay": 0.3, "spared": 0.3, "elastic": 0.4, "roles": 0.3, "zone": 0.2, "apart": 0.3, "lost": 0.1}


class World:
    """A world of few nodes, few shapes and many queues, in which jobs arrive, run, are preempted and end. It is
    crowded: quota runs short before capacity."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.shapes = [
            Shape(requests=amounts({"cpu": random.choice([1, 2, 3]) * 1000, "memory": random.choice([1, 2, 4])}))
            for _ in range(6)
        ]
        self.policy = Policy(
            backfill=random.choice([Backfill.EASY, Backfill.EASY, Backfill.GREEDY, Backfill.CONSERVATIVE]),
            backfill_order=random.choice(list(BackfillOrder)),
        )
        self.orders = random.choice([[QueueOrder.PRIORITY], [QueueOrder.FIFO], [QueueOrder.FAIR], list(QueueOrder)])
        self.timed, self.strict = random.random() < 0.6, random.choice([0.0, 0.0, 0.2])
        self.crowded = random.random() < 0.4
        self.preempts = random.random() < (0.8 if self.crowded else 0.4)
        self.chances = {name: chance for name, chance in CHANCES.items() if random.random() < 0.4}
        self.submitted = 0

    def listed(self) -> list[Event]:
        random = self.random
        has = amounts({"cpu": 4000, "memory": 8, "pods": 10})
        inner = [self.queue(f"in-{n}", parent="in-0" if n else "") for n in range(3)]
        leaves = [self.queue(f"q-{n}", parent=random.choice(inner).name) for n in range(8)]
        self.queues = [queue.name for queue in (*inner, *leaves)]
        labels = [
            (("kubernetes.io/hostname", f"n-{n}"), ("zone", "ab"[n % 2]))
            for n in range(random.randint(2, 6) + 4 * self.crowded)
        ]
        nodes = [NodeSeen(Node(name=each[0][1], labels=each, allocatable=has)) for each in labels]
        return [*map(QueueSeen, (*inner, *leaves)), *nodes]

    def queue(self, name: str, parent: str) -> Queue:
        random, quotas = self.random, tuple[Quota, ...]()
        if random.random() < (0.6 if self.crowded else 0.2):
            quotas = (Quota(limit=(("cpu", random.choice([4000, 8000])),)),)
        elif random.random() < 0.2 and parent:
            quotas = (Quota(guaranteed=(("cpu", 1000),)),)
        hers = (("ann", Limits(running=1)),) if name.endswith("3") else ()
        per_user = (
            Limits(running=2, named=hers) if random.random() < (0.3 if self.crowded else 0.1) else Limits(named=hers)
        )
        preemption = QueuePreemption()
        if self.preempts and random.random() < 0.5:
            floor = random.choice(list(ReclaimFloor))
            preemption = QueuePreemption(
                within=WithinQueue.LOWER,
                reclaim=random.choice(list(ReclaimWithinCohort)),
                down_to=floor,
                delay_s=15.0 if self.may("delay") else 0.0,
                min_run_s=25.0 if self.may("spared") else 0.0,
            )
        return Queue(
            name=name,
            parent=parent,
            order=random.choice(self.orders),
            strict=random.random() < self.strict,
            quotas=quotas,
            per_user=per_user,
            preemption=preemption,
        )

    def job(self) -> Submitted:
        random = self.random
        self.submitted += 1
        size = random.choice([1, 1, 2, 3, 6])
        least = random.randint(1, size) if self.may("elastic") else size
        roles = [Role(name="w", count=size, minimum=least, shape=self.shape())]
        if self.may("roles"):
            roles.append(Role(name="x", count=1, minimum=1, shape=self.shape()))
        return Submitted(
            Job(
                id=f"j{self.submitted}",
                queue=random.choice(self.queues),
                user=random.choice(["ann", "bob"]),
                roles=tuple(roles),
                priority=random.choice([0, 0, 0, 1, 5]),
                limit_s=random.choice([None, 20.0, 50.0, 200.0]) if self.timed else None,
                submitted_s=self.submitted,
            )
        )

    def shape(self) -> Shape:
        shape, label = self.random.choice(self.shapes), self.random.choice("ab")
        if self.may("zone"):
            shape = replace(shape, selector=(("zone", label),))
        if self.may("apart"):
            like_it = (Requirement("is", Operator.IN, (label,)),)
            away = PodAffinityTerm("kubernetes.io/hostname", like_it)
            shape = replace(shape, labels=(("is", label),), away=(away,))
        return shape

    def may(self, name: str) -> bool:
        """Return whether the event happens this time. It never happens in a world without this feature."""
        return name in self.chances and self.random.random() < self.chances[name]

    def events(self, cluster: Cluster, now_s: float) -> list[Event]:
        random, jobs = self.random, cluster.jobs
        over = [name for name, each in jobs.items() if each.phase is Phase.RUNNING and random.random() < 0.2]
        given_up = [name for name, each in jobs.items() if each.phase is Phase.QUEUED and random.random() < 0.02]
        new = [self.job() for _ in range(random.choice([0, 1, 2, 8]) if len(jobs) < 80 else 0)]
        lost = [
            Opened(name, (self.random.choice(sorted(each.placements)),))
            for name, each in jobs.items()
            if each.phase is Phase.RUNNING and name not in over and each.placements and self.may("lost")
        ]
        return [Ticked(now_s), *lost, *map(Finished, (*over, *given_up)), *new]


@contextmanager
def looked_at(few: int) -> Iterator[None]:
    """Set the bound up to which request classes, placement classes, and pairs of a demand and a node are examined one
    by one."""
    with patch.object(candidates, "FEW", few), patch.object(capacity, "FEW", few):
        yield


@pytest.mark.parametrize("seed", mostly_slow(seeds(count=100), fast=3, sample=12))
def test_every_cycle_decides_as_if_nothing_were_remembered(seed: int) -> None:
    world, cluster = World(seed), Cluster()
    events = world.listed()
    for number in range(CYCLES):
        now_s = 10.0 * number
        fold(cluster, events)
        with looked_at(FEW[seed % 3]):
            plan = decide(cluster, world.policy, now_s)
        with looked_at(FEW[(seed + 1) % 3]):
            assert decided_without_memory(cluster, world.policy, now_s) == decisions(plan), f"cycle {number}"
        fold_plan(cluster, plan)
        check_invariants(cluster)
        fold(cluster, [Started(each.job, each.attempt) for each in plan.actions if isinstance(each, Start)])
        events = world.events(cluster, now_s + 10.0)
        events += [
            Refused(each.job, each.attempt, each.reason, not_before_s=now_s + 10.0)
            for each in plan.actions
            if isinstance(each, Preempt)
        ]


@pytest.mark.parametrize("seed", mostly_slow(seeds(count=20), fast=1, sample=10))
def test_a_state_that_never_gets_the_memory_decides_the_same(seed: int) -> None:
    world, knowing, forgetful = World(seed), Cluster(), Cluster()
    events = world.listed()
    for number in range(CYCLES):
        now_s = 10.0 * number
        for cluster in (knowing, forgetful):
            fold(cluster, events)
        decision, other = decide(knowing, world.policy, now_s), decide(forgetful, world.policy, now_s)
        assert decisions(other.plan) == decisions(decision.plan), f"cycle {number}"
        fold_plan(knowing, decision)
        fold_plan(forgetful, decision.plan)
        for cluster in (knowing, forgetful):
            fold(cluster, [Started(each.job, each.attempt) for each in decision.actions if isinstance(each, Start)])
        events = world.events(knowing, now_s + 10.0)
        events += [
            Refused(each.job, each.attempt, each.reason, not_before_s=now_s + 10.0)
            for each in decision.actions
            if isinstance(each, Preempt)
        ]
