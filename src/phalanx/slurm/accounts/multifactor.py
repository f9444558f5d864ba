"""Compute Slurm's multifactor priority (priority/multifactor): the sum of factors from 0 to 1, each times its weight.

    priority = site + age·W + assoc·W + fair share·W + job size·W + partition·W + QOS·W + Σ TRES·W - nice

Source: https://slurm.schedmd.com/priority_multifactor.html; compared with the output of a real Slurm 22.05
(tests/core/order/slurm). The priority is rounded down to an integer. The priority of a held job is 0; that of any other
job is at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from phalanx.slurm.cluster.site import Site, Weights
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.nodes import NodeInfo

MOST = 4294967295  # the highest priority


class Factors(Struct, frozen=True, kw_only=True):
    """The factors of a job's priority, each from 0 to 1."""

    age: float = 0.0
    assoc: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    tres: dict[str, float] = {}
    nice: int = 0


def job_size(nodes: int, cpus: int, all_nodes: int, all_cpus: int, limit_min: int | None, weights: Weights) -> float:
    """Return the job size factor: the mean of the job's fraction of all nodes and its fraction of all CPUs. With the
    flag SMALL_RELATIVE_TO_TIME it is the larger of both fractions, divided by the time limit in minutes; 0 without a
    limit."""
    if not all_nodes or not all_cpus:
        return 0.0
    found = (nodes / all_nodes + cpus / all_cpus) / 2
    if weights.relative_to_time:
        found = 0.0 if limit_min is None else max(nodes / all_nodes, cpus / all_cpus) / max(1, limit_min)
    return 1.0 - found if weights.favor_small else found


def factors_of(ask: Ask, here: Site, every: Sequence[NodeInfo], fair_share: float, age_s: float) -> Factors:
    """Return the factors of a pending job. `every`: all nodes of the cluster. `fair_share`: the fair-share factor of
    the job's user. `age_s`: the seconds since the job became eligible."""
    weights, partition = here.weights, here.partition(ask.partition)
    within = [one for one in every if partition is None or not partition.nodes or one.name in partition.nodes]
    asked = {"cpu": ask.cpus, "mem": ask.total_mib, "node": ask.node_count, "gres/gpu": ask.total_gpus}
    there = {
        "cpu": sum(one.cpus for one in within), "mem": sum(one.memory_mib for one in within), "node": len(within),
        "gres/gpu": sum(one.gpus for one in within),
    }  # fmt: skip
    ranks = [one.priority for one in here.qos.values()]
    return Factors(
        age=min(1.0, age_s / weights.max_age_s) if weights.max_age_s else 0.0,
        fair_share=fair_share,
        job_size=job_size(ask.node_count, ask.cpus, len(every), sum(one.cpus for one in every), ask.limit_min, weights),
        partition=_part(partition.priority if partition is not None else 0, [one.priority for one in here.all]),
        qos=_part(here.qos[ask.qos].priority if ask.qos in here.qos else 0, ranks),
        tres={name: asked[name] / there[name] if there.get(name) else 0.0 for name in weights.tres if name in asked},
        nice=ask.nice,
    )


def _part(value: int, every: Sequence[int]) -> float:
    most = max(every, default=0)
    return value / most if most else 0.0


def rank(ask: Ask, here: Site, every: Sequence[NodeInfo]) -> tuple[float, float]:
    """Return the job's priority at submission without its nice value, and the increase of the priority for each second
    of waiting. The fair-share factor is not included, because it changes. Both are 0 if the site has no weights."""
    weights = here.weights
    if not weights.any:
        return 0.0, 0.0
    factors = factors_of(ask, here, every, 0.0, 0.0)
    found = sum(weighted(factors, weights).values()) + sum(tres(factors, weights).values())
    return max(found, 1.0), weights.age / weights.max_age_s if weights.max_age_s else 0.0


def weighted(factors: Factors, weights: Weights) -> dict[str, float]:
    """Return each factor times its weight, by the factor's name. TRES factors and the nice value are not included."""
    return {
        "age": factors.age * weights.age,
        "assoc": factors.assoc * weights.assoc,
        "fair_share": factors.fair_share * weights.fair_share,
        "job_size": factors.job_size * weights.job_size,
        "partition": factors.partition * weights.partition,
        "qos": factors.qos * weights.qos,
    }


def tres(factors: Factors, weights: Weights) -> dict[str, float]:
    return {name: weight * factors.tres.get(name, 0.0) for name, weight in weights.tres.items()}


def total(factors: Factors, weights: Weights) -> float:
    """Return the priority before it is rounded down to an integer. It is at least 1 and at most `MOST`."""
    found = sum(weighted(factors, weights).values()) + sum(tres(factors, weights).values()) - factors.nice
    return max(1.0, min(found, float(MOST)))


def priority(factors: Factors, weights: Weights) -> int:
    return int(total(factors, weights))
