"""The policy of the whole cluster, as data. Each queue has settings of its own beside it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from phalanx.model.node import Topology
from phalanx.model.pod import Shape
from phalanx.model.queue import Weights


class Backfill(StrEnum):
    """How far jobs that find no capacity are protected from those behind them."""

    GREEDY = "greedy"  # nothing: whatever fits, starts
    EASY = "easy"  # the first that finds no room is not delayed by those behind it
    CONSERVATIVE = "conservative"  # none that finds no room is delayed by those behind it


class BackfillOrder(StrEnum):
    """In which order jobs are tried behind a reservation."""

    QUEUE = "queue"  # as the queue is ordered
    SHORTEST = "shortest"  # shortest estimate first (EASY-SJBF)
    SHORTEST_LEARNED = "shortest-learned"  # the same; who states no estimate, by how long jobs like it ran


class ScoringStrategy(StrEnum):
    """Which of the nodes that fit is taken. Ties go to the node with the smallest row."""

    PACK = "pack"  # the fullest
    SPREAD = "spread"  # the emptiest
    FRAGMENTATION = "fragmentation"  # where fragmentation grows least (FGD, ATC'23)
    LOAD = "load"  # the least used in truth, where that is known
    BEST_FIT = "best-fit"  # the least cpu and devices left, in whole hundredths
    DOT_PRODUCT = "dot-product"  # the least product of what is free and what is asked (as FGD's paper has Tetris)
    DEVICE_PACKING = "device-packing"  # shared devices first, then used nodes, then empty ones
    DEVICE_CLUSTERING = "device-clustering"  # beside pods that ask as many devices
    RANDOM = "random"  # as good as by chance, but the same for the same book
    FEWEST_LOST = "fewest-lost"  # where fragmented devices, and those without cpu, grow least: ours


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityWeights:
    """The weights of Slurm's multifactor priority. All factors lie between 0 and 1; `max_age_s` is the age that counts
    1. `size_relative_to_time`: the size counts for each minute of the time limit (SMALL_RELATIVE_TO_TIME)."""

    age: float = 0.0
    size: float = 0.0
    fair_share: float = 0.0
    queue: float = 0.0
    qos: float = 0.0
    resources: Weights = ()
    max_age_s: float = 7 * 86400.0
    qos_values: Weights = ()  # QOS-like class -> its priority
    small_first: bool = False
    size_relative_to_time: bool = False


class FairShareFormula(StrEnum):
    """By which formula of Slurm usage becomes a fair-share factor."""

    FAIR_TREE = "fair-tree"
    CLASSIC = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy of the whole cluster.

    `default_queue`: takes jobs that name none, if set.
    `backfill_depth`: so many jobs without capacity are considered for conservative backfill in a cycle.
    `typical`: which pods are to be expected and how often, for scores by fragmentation; empty: as those of the known
        jobs.
    `factors`: the weights of `MULTIFACTOR` queues.
    `half_life_s`: past usage counts half after that long; 0: usage never decays.
    `billing`: what an amount of a resource costs a second, for usage."""

    default_queue: str = "default"
    backfill: Backfill = Backfill.EASY
    backfill_order: BackfillOrder = BackfillOrder.QUEUE
    backfill_depth: int = 500
    score: ScoringStrategy = ScoringStrategy.PACK
    typical: tuple[tuple[Shape, float], ...] = ()
    topologies: tuple[Topology, ...] = ()
    factors: PriorityWeights = PriorityWeights()
    fair_share: FairShareFormula = FairShareFormula.FAIR_TREE
    half_life_s: float = 7 * 86400.0
    billing: Weights = (("cpu", 0.001),)
