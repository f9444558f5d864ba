"""Slurm's multifactor priority, digit by digit as a real Slurm 22.05 printed it (weights and nodes as there)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.accounts.multifactor import factors_of, job_size
from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import Partition, Qos, Site, Weights
from phalanx.slurm.commands.jobs import sprio
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.nodes import NodeInfo
from phalanx.slurm.jobs.view import JobInfo

GOLDEN = Path(__file__).parents[1] / "core" / "order" / "slurm"
WEIGHTS = Weights(
    age=1000, assoc=100, fair_share=100000, job_size=500, partition=2000, qos=3000, tres={"cpu": 200.0, "mem": 100.0}
)
SITE = Site(
    partitions=[Partition(name="batch", default=True, priority=10), Partition(name="high", priority=30)],
    qos={"normal": Qos(), "fast": Qos(priority=100), "slow": Qos(priority=10)},
    weights=WEIGHTS,
)
NODES = [NodeInfo(name=f"n{at}", cpus=64, memory_mib=256000, gpus=0, ready=True, drained=False) for at in range(1, 9)]
# how long the jobs had waited; jobs that are not equal here, and why (docs/guide/slurm.md)
CAPTURES: dict[str, tuple[float, dict[int, str]]] = {
    "fairtree_1": (0.0, {}),
    "classic_1": (39.0, {8: "after slurmctld began anew it counted all CPUs of an exclusive job's nodes as its size"}),
}
EMPTY = [
    "classic_2_nested",
    "depthoblivious_2_nested",
    "fairtree_2_nested",
    "fairtree_3_allzero",
    "fairtree_4_exacttie",
]


def job(number: int, user: str, partition: str, nodes: int, cpus: int, memory_mib: int, qos: str, nice: int) -> JobInfo:
    ask = Ask(name="j", user=user, uid=1, gid=1, group="g", account=user[0], partition=partition, qos=qos, nodes=nodes,
              tasks=cpus, memory_mib=memory_mib // nodes, nice=nice)  # fmt: skip
    return JobInfo(number=number, ask=ask, state="PENDING", eligible_s=0.0)


JOBS = [
    job(6, "a1", "batch", 1, 4, 4000, "normal", 0),
    job(7, "a2", "high", 2, 128, 2000, "normal", 0),
    job(8, "b1", "batch", 8, 8, 8000, "fast", 0),
    job(9, "b2", "batch", 1, 1, 1000, "slow", 50),
    job(10, "b2", "batch", 1, 64, 64000, "normal", 0),
]


def test_every_capture_of_sprio_is_compared() -> None:
    assert {path.stem for path in GOLDEN.glob("sprio_*.txt")} == {f"sprio_{name}" for name in [*CAPTURES, *EMPTY]}


def test_a_job_ages_until_it_is_old_enough_and_one_that_is_held_has_none() -> None:
    half = factors_of(JOBS[0].ask, SITE, NODES, 0.0, WEIGHTS.max_age_s / 2)
    old = factors_of(JOBS[0].ask, SITE, NODES, 0.0, WEIGHTS.max_age_s * 3)
    assert (half.age, old.age) == (0.5, 1.0)
    held = JobInfo(number=1, ask=JOBS[0].ask, state="PENDING", held=True)
    assert sprio.PriorityLine(held, old, WEIGHTS).priority == 0


def test_size_relative_to_time_is_the_greater_part_for_each_minute_of_the_limit() -> None:
    """By the formula in Slurm's documentation and source; no real Slurm was asked."""
    found, told = read_conf("PriorityWeightJobSize=6000\nPriorityFlags=SMALL_RELATIVE_TO_TIME\n")
    assert [one.taken for one in told] == [True, True]

    def size(limit_min: int | None, weights: Weights = found.weights) -> float:
        return job_size(2, 16, 8, 512, limit_min, weights)  # a quarter of the nodes, less of the CPUs

    assert (size(60), size(1), size(0), size(None)) == (0.25 / 60, 0.25, 0.25, 0.0)
    assert size(60, msgspec.structs.replace(found.weights, favor_small=True)) == 1.0 - 0.25 / 60


def test_weights_come_from_the_slurm_conf() -> None:
    found, told = read_conf("PriorityWeightAge=7\nPriorityWeightTRES=CPU=200,Mem=1\nPriorityMaxAge=1-0\nFoo=1\n")
    assert found.weights == Weights(age=7, tres={"cpu": 200.0, "mem": 1.0}, max_age_s=86400)
    assert [(one.text, one.became) for one in told if not one.taken] == [("Foo=1", "it has no effect in Phalanx")]
    with pytest.raises(PhalanxError, match="line 1: PriorityWeightAge=many: many is not a whole number"):
        read_conf("PriorityWeightAge=many\n")
