"""In random worlds a preemptor delays no job with a reservation: after the decision the first job can still start at
its expected time. Priority alone decides the order and the rights of preemption, so no job behind the first may preempt
the first."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from phalanx.core.backfill.ends import nominated_gangs
from phalanx.core.backfill.reservation import BackfillForecast
from phalanx.core.cycle.state import CycleState
from phalanx.core.fold.fold import fold
from phalanx.loop import step
from phalanx.model.event import NodeSeen, QueueSeen, Submitted
from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.plan import Nominate, Plan
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Backfill, Policy
from phalanx.model.queue import Queue, QueueOrder, QueuePreemption, WithinQueue
from phalanx.state.cluster import Cluster
from phalanx.state.pending.request_class import Request
from tests.invariants import check_invariants

BOOKS = 40
NOW_S = 3.0
LIMITS_S = (None, 20.0, 50.0, 100.0, 200.0)


class Nowhere:
    """Nothing comes of what is decided."""

    def apply(self, plan: Plan) -> None:
        pass


def decided(seed: int, backfill: Backfill) -> tuple[Cluster, Policy, Plan]:
    """A full cluster, and what is decided when a few more jobs come."""
    random = Random(seed)
    policy, cluster = Policy(backfill=backfill), Cluster()
    queue = Queue(name="default", order=QueueOrder.PRIORITY, preemption=QueuePreemption(within=WithinQueue.LOWER))
    room = [amounts({"cpu": 1000 * random.randint(4, 8), "pods": 110}) for _ in range(random.randint(1, 4))]
    fold(
        cluster, [QueueSeen(queue), *(NodeSeen(Node(name=f"n{at}", allocatable=each)) for at, each in enumerate(room))]
    )
    step(cluster, [*map(Submitted, jobs(random, "runs", 12, most_pods=1))], policy, 0.0, Nowhere())
    more = [*map(Submitted, jobs(random, "waits", 8, most_pods=len(room)))]
    return cluster, policy, step(cluster, more, policy, NOW_S, Nowhere())


def jobs(random: Random, name: str, count: int, *, most_pods: int) -> Iterator[Job]:
    for at in range(count):
        pods, limit_s = random.randint(1, most_pods), random.choice(LIMITS_S)
        role = Role(
            name="w", count=pods, minimum=pods, shape=Shape(requests=amounts({"cpu": 500 * random.randint(1, 8)}))
        )
        priority = random.choice([0, 1, 2, 3, 9])
        yield Job(
            id=f"{name}{at}", queue="default", roles=(role,), priority=priority, submitted_s=float(at), limit_s=limit_s
        )


def expected_s(cluster: Cluster, policy: Policy, request: Request) -> float | None:
    """When it could start as everything stands now (seconds since the epoch)."""
    request_class = cluster.pending.request_class_of.get(request)
    assert request_class is not None
    state = CycleState(cluster, policy, NOW_S)
    hold = BackfillForecast(cluster, policy, NOW_S, state.draft, [*nominated_gangs(cluster)]).hold(
        request, request_class.key.gang
    )
    return None if hold is None else hold.run.start_s


@pytest.mark.slow
@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_who_pushes_others_does_not_delay_the_first(backfill: Backfill) -> None:
    late, pushed = [], 0
    for seed in range(BOOKS):
        cluster, policy, plan = decided(seed, backfill)
        check_invariants(cluster)
        if plan.reserved is None:
            continue
        request, start_s = Request(plan.reserved.job, plan.reserved.slot), plan.reserved.at_s
        pushed += any(isinstance(action, Nominate) for action in plan.actions)
        now_s = expected_s(cluster, policy, request)
        if now_s is None or now_s > start_s:
            late.append((seed, request.job, start_s, now_s))
    assert late == []
    assert pushed > BOOKS / 10  # it was put to the test
