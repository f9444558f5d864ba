"""Multifactor priority, against what a real Slurm (22.05.8) computed.

tests/core/order/slurm/sprio_*: `sprio -l`, `sprio -n` and `scontrol show job` of a cluster with 8 nodes, 512 cpus and
2048000 MB,
partitions batch (10) and high (30), classes fast (100) and slow (10). Jobs that were over when a capture was taken show
the priority that they were submitted with: fair share 1 for users without usage, and 0 for those that Slurm did not
yet know, or whose account has no shares.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from phalanx.core.fold.fold import fold
from phalanx.core.order.multifactor import (
    MultifactorPriority,
    PriorityFactors,
    age,
    fraction,
    size,
    weighted_sum,
)
from phalanx.fair_tree import PARENT
from phalanx.model.event import Event, QueueSeen, UsageTold
from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.policy import Policy, PriorityWeights
from phalanx.model.queue import Limits, Queue, QueueOrder
from tests.core import builders as a
from tests.test_fair_tree import shares_of

SLURM = Path(__file__).parent / "slurm"
FACTORS = PriorityWeights(
    age=1000, fair_share=100_000, size=500, queue=2000, qos=3000, resources=(("cpu", 200), ("memory", 100))
)
NODES, CPUS, MEMORY_MB = 8, 512, 2_048_000
QUEUE, QOS = {"batch": 10, "high": 30}, {"fast": 100, "slow": 10, "normal": 0}
PENDING = ("fairtree_1", "classic_1")
SUBMITTED_UNKNOWN = {2, 3, 4, 5}  # before Slurm's first pass over their users
WITHOUT_SHARES = {17}  # of account e


HIGHEST = 2**32 - 1  # Slurm's priorities are unsigned integers of 32 bits


def shown(priority: float) -> int:
    """The priority as Slurm shows it; the lowest of a job that is not held is 1."""
    return max(1, min(int(priority), HIGHEST))


def parts(*, nodes: int, cpus: int, memory_mb: float, queue: str, qos: str, **more: float) -> PriorityFactors:
    asked = (("cpu", fraction(cpus, CPUS)), ("memory", fraction(memory_mb, MEMORY_MB)))
    return PriorityFactors(
        size=more.pop("size", size(fraction(nodes, NODES), fraction(cpus, CPUS))),
        queue=fraction(QUEUE[queue], 30),
        qos=fraction(QOS[qos], 100),
        resources=asked,
        **more,
    )


def jobs(capture: str) -> dict[int, dict[str, str]]:
    """What `scontrol show job` says of each, by id."""
    found = {}
    for block in re.split(r"^(?=JobId=)", (SLURM / f"sprio_{capture}.txt").read_text(), flags=re.M)[1:]:
        said = dict(re.findall(r"(\w+)=(\S*)", block))
        found[int(said["JobId"])] = said | dict(re.findall(r"(\w+)=([^,\s]*)", said["TRES"]))
    return found


def memory_mb(text: str) -> float:
    """`4000M`, `62.50G`."""
    return float(text[:-1]) * {"M": 1, "G": 1024}[text[-1]]


def table(capture: str, after: str, columns: int) -> dict[int, list[str]]:
    """The rows of numbers behind the line that begins so, by job."""
    lines = (SLURM / f"sprio_{capture}.txt").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(after))
    split = (line.split() for line in lines[start + 1 :])
    rows = {int(row[0]): row for row in split if len(row) == columns and row[0].isdigit()}
    assert rows
    return rows


def parts_of(capture: str, job: int, said: dict[str, str], row: list[str]) -> PriorityFactors:
    of_user = {user: standing.factor for (_, user), standing in shares_of(capture).items() if user}
    taken = datetime.fromisoformat((SLURM / f"sprio_{capture}.txt").read_text().split("Z\n")[0])
    waited_s = (taken - datetime.fromisoformat(said["SubmitTime"])).total_seconds()
    # Slurm computes the ages anew every few seconds, and a restart before the second capture made it see the job with
    # --exclusive as large as the nodes that it takes whole.
    exclusive = {"size": 1.0} if (capture, job) == ("classic_1", 8) else {}
    return parts(
        nodes=int(said["NumNodes"].split("-")[0]),
        cpus=int(said["cpu"]),
        memory_mb=memory_mb(said["mem"]),
        queue=row[1],
        qos=said["QOS"],
        fair_share=of_user[row[2]] or 0.0,
        age=age(0.0 if capture == "fairtree_1" else waited_s - 7, FACTORS.max_age_s),
        **exclusive,
    )


@pytest.mark.parametrize("capture", PENDING)
def test_waiting_jobs_have_the_priority_and_the_columns_that_sprio_printed(capture: str) -> None:
    said = jobs(capture)
    for job, row in table(capture, "          JOBID PARTITION     USER", 13).items():
        of_job = parts_of(capture, job, said[job], row)
        assert shown(weighted_sum(of_job, FACTORS, nice=float(row[11]))) == int(row[3]), job
        columns = [of_job.age * 1000, 0, of_job.fair_share * 100_000, of_job.size * 500]
        columns += [of_job.queue * 2000, of_job.qos * 3000]
        assert [f"{number:.0f}" for number in columns] == row[5:11]
        tres = dict(of_job.resources)
        assert row[12] == f"cpu={tres['cpu'] * 200:.0f},mem={tres['memory'] * 100:.0f}"


@pytest.mark.parametrize("capture", PENDING)
def test_their_factors_are_what_sprio_printed_normalised(capture: str) -> None:
    said, users = jobs(capture), table(capture, "          JOBID PARTITION     USER", 13)
    for job, row in table(capture, "== normalized", 11).items():
        of_job = parts_of(capture, job, said[job], users[job])
        factors = [of_job.age, 0, of_job.fair_share, of_job.size, of_job.queue, of_job.qos]
        assert [f"{number:.7f}" for number in factors] == row[4:10]
        tres = dict(of_job.resources)
        assert row[10] == f"cpu={tres['cpu']:.2f},mem={tres['memory']:.2f}"
        priority = weighted_sum(of_job, FACTORS, nice=float(users[job][11]))
        assert f"{priority / HIGHEST:.14f}"[:10] == row[3]  # the sum before it is made whole, and cut, not rounded


@pytest.mark.parametrize("capture", sorted(path.stem.removeprefix("sprio_") for path in SLURM.glob("sprio_*.txt")))
def test_finished_jobs_keep_the_priority_they_were_submitted_with(capture: str) -> None:
    for job, said in jobs(capture).items():
        if said["JobState"] != "COMPLETED":
            continue
        of_job = parts(
            nodes=int(said["NumNodes"]),
            cpus=int(said["cpu"]),
            memory_mb=memory_mb(said["mem"]),
            queue="batch",
            qos=said["QOS"],
            fair_share=0.0 if job in SUBMITTED_UNKNOWN | WITHOUT_SHARES else 1.0,
        )
        assert shown(weighted_sum(of_job, FACTORS)) == int(said["Priority"]), job


def test_squeue_shows_the_priority_over_the_highest_there_is() -> None:
    for capture in PENDING:
        for line in (SLURM / f"sprio_{capture}.txt").read_text().splitlines():
            if found := re.search(r" PENDING (\d+) (0\.\d{14}) ", line):
                assert f"{int(found[1]) / HIGHEST:.14f}" == found[2]


def a_job(name: str, *roles: Role, at: float = 0.0, queue: str = "default", **said: Any) -> Job:
    return replace(a.job(name, *(roles or (a.role(),)), queue=queue, at=at), **said)


FACTORED = Queue(name="default", order=QueueOrder.MULTIFACTOR, accounts=(("ann", 3.0), ("eve", 1.0)))


def priority(policy: Policy, job: str, *news: Node | Job | Event, now_s: float = 0.0) -> float:
    book = a.cluster(QueueSeen(FACTORED), *news)
    return MultifactorPriority(book, policy, now_s).of(book.jobs[job])


def test_age_counts_from_when_the_job_may_begin() -> None:
    policy = Policy(factors=PriorityWeights(age=100, max_age_s=1000))
    early, late = a_job("early", at=100), a_job("late", at=100, begin_s=400.0)
    assert priority(policy, "early", early, now_s=600) == 50
    assert priority(policy, "late", late, now_s=600) == 20
    assert priority(policy, "late", late, now_s=300) == 0
    assert priority(policy, "early", early, now_s=1e9) == 100


def test_a_job_is_as_large_as_the_fewest_nodes_that_could_hold_it() -> None:
    nodes = [a.node(f"n{number}", cpu=4000) for number in range(4)]
    wide = a_job("wide", a.role(count=4, cpu=3000))  # 12 cpus of 16: on 3 nodes of 4 at least
    assert priority(Policy(factors=PriorityWeights(size=100)), "wide", wide, *nodes) == 75
    assert priority(Policy(factors=PriorityWeights(size=100, small_first=True)), "wide", wide, *nodes) == 25
    assert priority(Policy(factors=PriorityWeights(resources=(("cpu", 100.0),))), "wide", wide, *nodes) == 75


def test_size_relative_to_time_is_the_greatest_part_for_each_minute_of_the_limit() -> None:
    nodes = [a.node(f"n{number}", cpu=4000) for number in range(4)]
    hour = a_job("hour", a.role(count=4, cpu=1000), limit_s=3600.0)  # a node of four
    said = PriorityWeights(size=6000, size_relative_to_time=True)
    assert priority(Policy(factors=said), "hour", hour, *nodes) == pytest.approx(25)
    assert priority(Policy(factors=said), "hour", replace(hour, limit_s=30.0), *nodes) == 1500  # a minute at least
    assert priority(Policy(factors=said), "hour", replace(hour, limit_s=None), *nodes) == 0
    small = replace(said, small_first=True)
    assert priority(Policy(factors=small), "hour", hour, *nodes) == pytest.approx(6000 - 25)
    capped = replace(said, size_full_time_s=7200.0)  # a quarter of the cluster counts 1 with half an hour or less
    limits_s = (10.0, 1800.0, 3600.0, 18000.0)
    sizes = [priority(Policy(factors=capped), "hour", replace(hour, limit_s=each), *nodes) for each in limits_s]
    assert sizes == pytest.approx([6000, 6000, 3000, 600])
    limited = replace(FACTORED, per_job=Limits(wall_s=3600.0))
    assert priority(Policy(factors=said), "hour", replace(hour, limit_s=None), *nodes, QueueSeen(limited)) == 25


def test_fair_share_is_that_of_the_user_in_the_queue() -> None:
    policy = Policy(factors=PriorityWeights(fair_share=100))
    past = [UsageTold("default", "ann", 600.0, 0.0), UsageTold("default", "eve", 400.0, 0.0)]
    news: list[Job | Event] = [*past, a_job("anns", user="ann"), a_job("eves", user="eve")]
    assert priority(policy, "anns", *news) == 100
    assert priority(policy, "eves", *news) == 50
    unnamed = a_job("unnamed", queue="", user="eve")
    assert priority(policy, "unnamed", unnamed, *past) == 50  # the default queue takes it


def test_a_user_that_stands_in_for_the_queue_comes_first() -> None:
    book = a.cluster(QueueSeen(Queue(name="default", accounts=(("ann", PARENT),))))
    fold(book, [UsageTold("default", user, 100.0, 0.0) for user in ("ann", "eve")])
    priorities = MultifactorPriority(book, Policy(factors=PriorityWeights(fair_share=1)), 0.0)
    assert priorities.fair_share(a_job("j", user="ann")) == 1.0
    assert priorities.fair_share(a_job("j", user="eve")) == 0.5


def test_a_priority_class_and_nice_count_as_they_are() -> None:
    assert priority(Policy(), "j", a_job("j", priority=7, nice=3)) == 4


def test_an_empty_cluster_and_queues_without_priority_divide_nothing_by_nothing() -> None:
    policy = Policy(factors=PriorityWeights(size=1, queue=1, qos=1, resources=(("gpu", 1.0),), age=1, max_age_s=0))
    assert priority(policy, "j", a_job("j", a.role(gpu=2), qos="unheard-of")) == 1.0  # the age alone
