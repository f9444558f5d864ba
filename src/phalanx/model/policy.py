"""The scheduling policy of the whole cluster, as data. In addition, each queue has its own settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from phalanx.model.node import Topology
from phalanx.model.pod import Shape
from phalanx.model.queue import Weights


class Backfill(StrEnum):
    """The rule that protects waiting jobs from being delayed by jobs that are later in the job order."""

    GREEDY = "greedy"  # there is no protection: every job that fits starts
    EASY = "easy"  # the first job that finds no capacity is not delayed by later jobs
    CONSERVATIVE = "conservative"  # none of the jobs that find no capacity is delayed by later jobs


class BackfillOrder(StrEnum):
    """The order in which jobs are tried after the first job that got a reservation."""

    QUEUE = "queue"  # the queue's order
    SHORTEST = "shortest"  # shortest estimate first (EASY-SJBF)
    # like SHORTEST; if a job sets no estimate, an estimate is computed from the run times of similar jobs
    SHORTEST_LEARNED = "shortest-learned"


class ScoringStrategy(StrEnum):
    """The rule that chooses one of the nodes on which a pod fits. If several nodes are equally good, the first of them
    in the node table is chosen."""

    PACK = "pack"  # the fullest node
    SPREAD = "spread"  # the emptiest node
    FRAGMENTATION = "fragmentation"  # the node whose fragmentation grows least (FGD, ATC'23)
    LOAD = "load"  # the node with the lowest measured usage
    # the node with the least capacity left: the mean of cpu and devices, in whole percent of the largest node
    BEST_FIT = "best-fit"
    # the node with the lowest dot product of free and requested amounts (Tetris in FGD's paper)
    DOT_PRODUCT = "dot-product"
    DEVICE_PACKING = "device-packing"  # first a node whose shared devices suffice, then a used node
    DEVICE_CLUSTERING = "device-clustering"  # a node with pods that request the same number of devices
    RANDOM = "random"  # pseudo-random, but the same for the same cluster state
    # the node on which the fewest devices become fragmented or stranded (Phalanx's own score)
    FEWEST_LOST = "fewest-lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityWeights:
    """The weights of Slurm's multifactor priority. Each factor of a job is between 0 and 1. `max_age_s`: the age at
    which the age factor is 1. `size_relative_to_time`: whether the size is divided by the time limit in minutes
    (SMALL_RELATIVE_TO_TIME). `size_full_time_s`: only used if `size_relative_to_time` is True. A job that requests the
    whole cluster and has this time limit has the size 1. (In Slurm this limit is always one minute.)"""

    age: float = 0.0
    size: float = 0.0
    fair_share: float = 0.0
    queue: float = 0.0
    qos: float = 0.0
    resources: Weights = ()
    max_age_s: float = 7 * 86400.0
    qos_values: Weights = ()  # QOS -> its priority
    small_first: bool = False
    size_relative_to_time: bool = False
    size_full_time_s: float = 60.0


class FairShareFormula(StrEnum):
    """The Slurm formula by which the fair-share factor is computed from usage."""

    FAIR_TREE = "fair-tree"
    CLASSIC = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """The data of a waiting job that a priority function gets.

    `id`: `namespace/name`. `qos`, `nice`: the QOS and the nice value, as in Slurm. `priority`: the value of the job's
    PriorityClass.
    `pods`: the number of pods of its minimum.
    `requests`: resource -> the amount that the pods of its minimum request together, with `cpu` in cores, `memory` in
    bytes, and other resources as plain numbers.
    `waited_s`: the time since the submission of the job, or since its begin time if that is later (seconds).
    `limit_s`: the time limit of the job or, if it has none, of its queue; None if there is no limit.
    `estimate_s`: the expected run time if it is known, otherwise the time limit; None if neither is known."""

    id: str
    queue: str
    user: str
    group: str
    priority: int
    nice: int
    qos: str
    pods: int
    requests: Mapping[str, float]
    waited_s: float
    limit_s: float | None
    estimate_s: float | None


class PriorityFunction(Protocol):
    """A function in Python that returns the priority of a waiting job; jobs with higher priorities are tried first. The
    function must always return the same priority for the same job."""

    def __call__(self, job: WaitingJob, /) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy of the whole cluster.

    `default_queue`: the queue of jobs that name no queue; empty if there is no such queue.
    `backfill_depth`: with conservative backfill, the largest number of reservations in a cycle.
    `typical`: expected pod shapes with their frequencies, which are used to score nodes by fragmentation; if empty, the
    pods of the known jobs are used.
    `factors`: the weights of `MULTIFACTOR` queues.
    `priority_function`: a function that computes the priorities in `MULTIFACTOR` queues instead of the weighted sum of
    factors.
    `half_life_s`: the time after which past usage counts only half; 0 if usage never decays.
    `billing`: the price of one unit of each resource per second. Past usage is the sum of the prices of all amounts
    that were held."""

    default_queue: str = "default"
    backfill: Backfill = Backfill.EASY
    backfill_order: BackfillOrder = BackfillOrder.QUEUE
    backfill_depth: int = 500
    score: ScoringStrategy = ScoringStrategy.PACK
    typical: tuple[tuple[Shape, float], ...] = ()
    topologies: tuple[Topology, ...] = ()
    factors: PriorityWeights = PriorityWeights()
    priority_function: PriorityFunction | None = None
    fair_share: FairShareFormula = FairShareFormula.FAIR_TREE
    half_life_s: float = 7 * 86400.0
    billing: Weights = (("cpu", 0.001),)
