"""A priority function decides the order of multifactor queues, whatever two jobs have in common."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold
from phalanx.model.event import PolicySeen, QueueSeen, Ticked
from phalanx.model.job import Job
from phalanx.model.plan import Start
from phalanx.model.policy import Backfill, Policy, PriorityFunction, WaitingJob
from phalanx.model.queue import Queue, QueueOrder
from phalanx.state.cluster import Cluster
from tests.core import builders as a

NOW_S = 1000.0
ROOM = 7  # pods


def newest_first(job: WaitingJob) -> float:
    return -job.waited_s


def steepest_wait(job: WaitingJob) -> float:
    return job.waited_s / (job.limit_s or 1e9) - job.nice


def by_name(job: WaitingJob) -> float:
    return float(sum(map(ord, job.id)) % 7) + sum(map(ord, job.user))


def random_jobs(count: int, seed: int) -> list[Job]:
    random = Random(seed)
    return [
        replace(
            a.job(f"job-{number}", a.role(cpu=1000), at=float(random.randrange(int(NOW_S)))),
            user=random.choice("ab"),
            nice=random.randrange(2),
            limit_s=random.choice((None, 60.0, 3600.0)),
        )
        for number in range(count)
    ]


def world(jobs: list[Job], policy: Policy) -> Cluster:
    cluster = a.cluster(a.node("n", cpu=ROOM * 1000), QueueSeen(Queue(name="default", order=QueueOrder.MULTIFACTOR)))
    fold(cluster, [PolicySeen(policy), Ticked(NOW_S)])
    for job in jobs:
        fold(cluster, [a.event(job)])
    return cluster


def seen(job: Job) -> WaitingJob:
    """The same facts, without the scheduler."""
    return WaitingJob(
        id=job.id,
        queue="default",
        user=job.user,
        group="",
        priority=0,
        nice=job.nice,
        qos="",
        pods=1,
        requests={"cpu": 1.0, "pods": 1},
        waited_s=NOW_S - job.submitted_s,
        limit_s=job.limit_s,
        estimate_s=job.limit_s,
    )


@pytest.mark.parametrize("count", [20, 400], ids=["one by one", "by columns"])
@pytest.mark.parametrize("function", [newest_first, steepest_wait, by_name])
def test_the_jobs_with_the_highest_priority_start(function: PriorityFunction, count: int) -> None:
    jobs = random_jobs(count, seed=count)
    policy = Policy(backfill=Backfill.GREEDY, priority_function=function)
    plan = decide(world(jobs, policy), policy, NOW_S)
    expected = sorted(jobs, key=lambda job: (-function(seen(job)), job.submitted_s, job.id))[:ROOM]
    assert [action.job for action in plan.actions if isinstance(action, Start)] == [job.id for job in expected]


def test_the_function_sees_what_the_job_states() -> None:
    found: list[WaitingJob] = []

    def priority(job: WaitingJob) -> float:
        found.append(job)
        return 0.0

    policy = Policy(priority_function=priority)
    job = random_jobs(1, seed=3)[0]
    decide(world([job], policy), policy, NOW_S)
    assert found[0] == seen(job)


def test_other_orders_do_not_call_it() -> None:
    def priority(job: WaitingJob) -> float:
        raise AssertionError(job)

    policy = Policy(priority_function=priority)
    cluster = world(random_jobs(20, seed=1), policy)
    fold(cluster, [QueueSeen(Queue(name="default", order=QueueOrder.FIFO))])
    assert decide(cluster, policy, NOW_S).actions
