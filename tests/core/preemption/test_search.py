"""Preemption, compared with brute force: every job that preemption can start starts, and no victim leaves in vain."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.core.placement import gang
from phalanx.core.placement.draft import Draft
from phalanx.model.event import (
    Adopted,
    Event,
    Finished,
    NodeSeen,
    QueueSeen,
    Refused,
    Released,
    Started,
    Submitted,
    Ticked,
)
from phalanx.model.job import Job, Phase, Placement, Role
from phalanx.model.node import Node
from phalanx.model.plan import Plan, Preempt, Shrink
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption, Quota, ReclaimFloor, ReclaimWithinCohort, WithinQueue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.cluster import Cluster
from tests.invariants import check_invariants
from tests.seeds import mostly_slow

POLICY = Policy()

GONE = Reason(code=ReasonCode.PREEMPTED, text="gone")


def job(name: str, queue: str, priority: int, pods: int, minimum: int, gpus: int, at_s: float = 0.0) -> Job:
    role = Role(name="worker", count=pods, minimum=minimum, shape=Shape(requests=amounts({"gpu": gpus})))
    return Job(id=name, queue=queue, roles=(role,), priority=priority, submitted_s=at_s)


def crowded(seed: Random) -> list[Event]:
    """A few nodes, filled with gangs of random sizes and priorities, wherever they fit."""
    nodes = {f"node-{at}": seed.choice((2, 4, 8)) for at in range(seed.randint(1, 5))}
    events: list[Event] = [
        NodeSeen(Node(name=name, allocatable=amounts({"gpu": has, "pods": 110}))) for name, has in nodes.items()
    ]
    events.append(QueueSeen(Queue(name="q", preemption=QueuePreemption(within=WithinQueue.LOWER))))
    for number in range(seed.randint(1, 12)):
        pods, gpus = seed.randint(1, 3), seed.choice((1, 1, 2, 4))
        placed = []
        for ordinal in range(pods):
            fitting = [name for name, left in nodes.items() if left >= gpus]
            if fitting:
                name = seed.choice(fitting)
                nodes[name] -= gpus
                placed.append(Placement(0, ordinal, name))
        if placed:
            what = job(f"job-{number}", "q", seed.randint(0, 3), len(placed), seed.randint(1, len(placed)), gpus)
            events.append(Adopted(what, 1, Phase.RUNNING, tuple(placed), started_s=float(number)))
    return events


def fits_without(events: Iterable[Event], asked: Job, gone: Iterable[Event]) -> bool:
    cluster = Cluster()
    fold(cluster, [*events, *gone])
    draft = Draft(cluster.columns)
    role = asked.roles[0]
    least = cluster.interned.gang((Role(name="w", count=role.minimum, minimum=role.minimum, shape=role.shape),))
    return not isinstance(gang.place(draft, least), gang.PlacementShortfall)


def departures(plan: Plan) -> list[Event]:
    gone: list[Event] = [Finished(action.job) for action in plan.actions if isinstance(action, Preempt)]
    for action in plan.actions:
        if isinstance(action, Shrink):
            gone += [Released(action.job, (slot,)) for slot in action.slots]
    return gone


@pytest.mark.parametrize("number", mostly_slow(range(150), fast=40))
def test_whoever_can_be_helped_is_helped_and_nobody_goes_for_nothing(number: int) -> None:
    seed = Random(number)
    events = crowded(seed)
    minimum = seed.randint(1, 3)
    asked = job("new", "q", seed.randint(1, 4), minimum + seed.randint(0, 1), minimum, seed.choice((1, 2, 4, 8)))
    cluster = Cluster()
    fold(cluster, [*events, Submitted(asked), Ticked(100.0)])
    lower: list[Event] = [
        Finished(name)
        for name, record in cluster.jobs.items()
        if record.placements and record.job.priority < asked.priority
    ]
    plan = decide(cluster, POLICY, 100.0)
    fold_plan(cluster, plan)
    check_invariants(cluster)
    gone = departures(plan)
    assert {each.job for each in gone} <= {each.job for each in lower}
    if fits_without(events, asked, []):
        assert not gone
        return
    assert bool(gone) == fits_without(events, asked, lower)
    if gone:
        assert fits_without(events, asked, gone)
    for spared in gone:
        assert not fits_without(events, asked, [each for each in gone if each is not spared])


def world_answers(seed: Random, cluster: Cluster) -> list[Event]:
    """Continue actions that are under way, at random."""
    events: list[Event] = []
    for name, record in cluster.jobs.items():
        if seed.random() < 0.5:
            continue
        if record.phase is Phase.STARTING:
            events.append(Started(name, record.attempt))
        elif record.phase is Phase.STOPPING:
            events.append(Refused(name, record.attempt, GONE))
        elif record.leaving:
            events.append(Released(name, tuple(record.leaving)))
        elif record.phase is Phase.RUNNING and seed.random() < 0.1:
            events.append(Finished(name))
    return events


def random_tree(seed: Random) -> list[Event]:
    queues: list[Event] = []
    for number in range(seed.randint(2, 5)):
        parent = seed.choice(["", *(f"q{each}" for each in range(min(number, 2)))])
        quotas = (Quota(guaranteed=(("gpu", seed.randint(0, 4)),)),) if seed.random() < 0.6 else ()
        preemption = QueuePreemption(
            within=seed.choice(list(WithinQueue)),
            reclaim=seed.choice(list(ReclaimWithinCohort)),
            down_to=seed.choice(list(ReclaimFloor)),
            borrowing=seed.random() < 0.3,
            reclaimable=seed.random() < 0.8,
            min_run_s=seed.choice((0.0, 3.0)),
            hourly_budget=seed.choice((None, 2)),
            delay_s=seed.choice((0.0, 2.0)),
            consolidate=seed.random() < 0.4,
        )
        queues.append(QueueSeen(Queue(name=f"q{number}", parent=parent, quotas=quotas, preemption=preemption)))
    return queues


@pytest.mark.parametrize("number", mostly_slow(range(60), fast=0, sample=20))
def test_the_book_stays_exact_through_preemptions_of_all_kinds(number: int) -> None:
    seed = Random(number)
    cluster = Cluster()
    nodes = [Node(name=f"node-{at}", allocatable=amounts({"gpu": 4, "pods": 110})) for at in range(seed.randint(1, 4))]
    fold(cluster, [*map(NodeSeen, nodes), *random_tree(seed)])
    queues = list(cluster.queues)
    for cycle in range(40):
        events = world_answers(seed, cluster)
        for at in range(seed.randint(0, 2)):
            pods = seed.randint(1, 3)
            name, queue, priority = f"job-{cycle}-{at}", seed.choice(queues), seed.randint(-1, 2)
            what = job(name, queue, priority, pods, seed.randint(1, pods), seed.choice((1, 2, 4)), float(cycle))
            events.append(Submitted(what))
        fold(cluster, [Ticked(float(cycle)), *events])
        check_invariants(cluster)
        fold_plan(cluster, decide(cluster, POLICY, float(cycle)))
        check_invariants(cluster)
