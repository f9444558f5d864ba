"""Slurm's multifactor priority (priority/multifactor): factors from 0 to 1, times their weights, summed.

    priority = site + age·W + assoc·W + fair share·W + job size·W + partition·W + QOS·W + Σ TRES·W - nice

Source: https://slurm.schedmd.com/priority_multifactor.html; held against what a real Slurm 22.05 printed
(tests/core/order/slurm). The sum is cut to an integer; a job that is held has 0, every other one at least.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.slurm.cluster.site import Weights

MOST = 4294967295  # the greatest priority


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Each from 0 to 1."""

    age: float = 0.0
    assoc: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    tres: Mapping[str, float] = field(default_factory=dict)
    nice: int = 0


def job_size(nodes: int, cpus: int, all_nodes: int, all_cpus: int, limit_min: int | None, weights: Weights) -> float:
    """The mean of its parts of all nodes and of all CPUs; relative to time, the greater of them for each minute of its
    limit (0 without one)."""
    if not all_nodes or not all_cpus:
        return 0.0
    found = (nodes / all_nodes + cpus / all_cpus) / 2
    if weights.relative_to_time:
        found = 0.0 if limit_min is None else max(nodes / all_nodes, cpus / all_cpus) / max(1, limit_min)
    return 1.0 - found if weights.favor_small else found


def weighted(factors: Factors, weights: Weights) -> dict[str, float]:
    """Return what each factor adds, without TRES and nice."""
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
    """Return the sum before it is cut to an integer, from 1 to the greatest priority."""
    found = sum(weighted(factors, weights).values()) + sum(tres(factors, weights).values()) - factors.nice
    return max(1.0, min(found, float(MOST)))


def priority(factors: Factors, weights: Weights) -> int:
    return int(total(factors, weights))
