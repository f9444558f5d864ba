"""Slurm's multifactor priority, digit by digit as a real Slurm 22.05 printed it (weights and nodes as there)."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import Partition, Qos, Site, Weights
from phalanx.slurm.commands.jobs import sprio
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.nodes import Node
from phalanx.slurm.jobs.view import Job

GOLDEN = Path(__file__).parent / "golden"
WEIGHTS = Weights(
    age=1000, assoc=100, fair_share=100000, job_size=500, partition=2000, qos=3000, tres={"cpu": 200.0, "mem": 100.0}
)
SITE = Site(
    partitions=[Partition(name="batch", default=True, priority=10), Partition(name="high", priority=30)],
    qos={"normal": Qos(), "fast": Qos(priority=100), "slow": Qos(priority=10)},
    weights=WEIGHTS,
)
NODES = [Node(name=f"n{at}", cpus=64, memory_mib=256000, gpus=0, ready=True, drained=False) for at in range(1, 9)]
SHARES = {("a", "a1"): 0.2, ("a", "a2"): 0.4, ("b", "b1"): 0.8, ("b", "b2"): 0.6}


def job(number: int, user: str, partition: str, nodes: int, cpus: int, memory_mib: int, qos: str, nice: int) -> Job:
    ask = Ask(name="j", user=user, uid=1, gid=1, group="g", account=user[0], partition=partition, qos=qos, nodes=nodes,
              tasks=cpus, memory_mib=memory_mib // nodes, nice=nice)  # fmt: skip
    return Job(number=number, ask=ask, state="PENDING", eligible_s=0.0)


JOBS = [
    job(6, "a1", "batch", 1, 4, 4000, "normal", 0),
    job(7, "a2", "high", 2, 128, 2000, "normal", 0),
    job(8, "b1", "batch", 8, 8, 8000, "fast", 0),
    job(9, "b2", "batch", 1, 1, 1000, "slow", 50),
    job(10, "b2", "batch", 1, 64, 64000, "normal", 0),
]


def printed(form: str) -> list[str]:
    lines = [sprio.Line(job, sprio.factors(job, SITE, NODES, SHARES, 0.0), WEIGHTS) for job in JOBS]
    shown = [sprio._filled(form, lambda letter, line=line: sprio._FIELDS[letter][1](line)) for line in lines]  # type: ignore[misc]
    return [sprio._filled(form, lambda letter: sprio._FIELDS[letter][0]), *shown]


def test_sprio_prints_what_slurm_printed() -> None:
    text = (GOLDEN / "slurm_sprio_fairtree_1.txt").read_text().split("\n")
    weights = [sprio._form({}, WEIGHTS)]
    assert sprio._filled(weights[0], lambda letter: sprio._FIELDS[letter][0]) == text[1]
    assert sprio._filled(weights[0], lambda letter: sprio._weight(letter, WEIGHTS)) == text[2]
    assert printed(sprio.LONG) == text[3:9]
    at = text.index("== normalized (-n)")
    assert printed(sprio.NORMAL) == text[at + 1 : at + 7]


def test_a_job_ages_until_it_is_old_enough_and_one_that_is_held_has_none() -> None:
    half = sprio.factors(JOBS[0], SITE, NODES, SHARES, WEIGHTS.max_age_s / 2)
    old = sprio.factors(JOBS[0], SITE, NODES, SHARES, WEIGHTS.max_age_s * 3)
    assert (half.age, old.age) == (0.5, 1.0)
    held = Job(number=1, ask=JOBS[0].ask, state="PENDING", held=True)
    assert sprio.Line(held, old, WEIGHTS).priority == 0


def test_weights_come_from_the_slurm_conf() -> None:
    found, told = read_conf("PriorityWeightAge=7\nPriorityWeightTRES=CPU=200,Mem=1\nPriorityMaxAge=1-0\nFoo=1\n")
    assert found.weights == Weights(age=7, tres={"cpu": 200.0, "mem": 1.0}, max_age_s=86400)
    assert [(one.text, one.became) for one in told if not one.taken] == [("Foo=1", "no meaning here")]
    with pytest.raises(PhalanxError, match="line 1: PriorityWeightAge=many: many is no whole number"):
        read_conf("PriorityWeightAge=many\n")
