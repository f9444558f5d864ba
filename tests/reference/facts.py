"""The facts that a cycle reads, as plain values: nodes, queues, jobs with their pods, nominations, and the time.

Amounts are tuples, one number for each resource of `Facts.resources`. Jobs have one role. The judge takes a copy of the
facts and changes it, decision by decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from phalanx.model.job import GangSize, Job, Phase
from phalanx.model.queue import Queue

from .tree import Amounts, Tree

Nodes = dict[str, Amounts]
HOUR_S = 3600.0


@dataclass(slots=True)
class Work:
    """A job that has not ended. Pods are named by their ordinals.

    `asks`: the amounts that one pod requests.
    `pods`: ordinal -> node, terminating pods included.
    `leaving`: the ordinals of terminating pods above the minimum.
    `open`: the ordinals of pods that request a node.
    `nominated`: ordinal -> node.
    `rank`: the age of the nomination; the oldest has the smallest rank.
    `size`: the number of pods with which a fixed-at-start job was started, which is its minimum from then on; 0: not
    started.
    `is_new`: whether the job was started in this cycle.
    `surplus`: ordinal -> node, for the pods above the minimum with which the job was started.
    `has_grown`: whether a running job got pods in this cycle.
    `imagined`: the ordinals of pods that the plan does not show.
    """

    job: Job
    queue: str
    asks: Amounts
    phase: Phase = Phase.QUEUED
    pods: dict[int, str] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    nominated: dict[int, str] = field(default_factory=dict)
    rank: int = 0
    until_s: float = 0.0
    started_s: float = 0.0
    not_before_s: float = 0.0
    short_since_s: float | None = None
    preempted: int = 0
    size: int = 0
    is_new: bool = False
    surplus: dict[int, str] = field(default_factory=dict)
    has_grown: bool = False
    imagined: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        return self.size or self.job.roles[0].count

    @property
    def minimum(self) -> int:
        """Return the number of pods that the job needs to run."""
        return self.size or self.job.roles[0].minimum

    @property
    def is_started(self) -> bool:
        """Return whether the job runs and is not being preempted."""
        return self.phase in (Phase.STARTING, Phase.RUNNING)

    @property
    def is_elastic(self) -> bool:
        return self.job.size is GangSize.ELASTIC

    def kept(self) -> dict[int, str]:
        """Return the pods that are not terminating."""
        if self.phase is Phase.STOPPING:
            return {}
        return {ordinal: node for ordinal, node in self.pods.items() if ordinal not in self.leaving}

    def spare(self) -> int:
        """Return how many pods the job has above its minimum (R12: a fixed-at-start job has none)."""
        return max(0, len(self.kept()) - self.minimum) if self.is_started else 0

    def missing(self) -> int:
        """Return how many open slots are replacements (R2): as many as the job has pods below its minimum. A nominated
        pod is not missing."""
        wanted = len(self.open - self.nominated.keys())
        return min(wanted, max(0, self.minimum - len(self.kept()) - len(self.nominated)))

    def charged(self) -> int:
        """Return the number of pods that the queue is charged for (R3)."""
        if self.phase is Phase.STOPPING:
            return 0
        return len(self.kept()) + len(self.nominated) + (self.missing() if self.is_started else 0)


@dataclass(slots=True)
class Facts:
    """The facts of one cycle.

    `nodes`: the nodes that may take pods, with their amounts.
    `capacity`: the total amounts.
    `preempted_at`: queue -> the times of preemptions.
    `given_back`: queue -> quota that victims returned in this cycle. Other requests may use it from the next cycle
    on."""

    now_s: float
    nodes: Nodes
    queues: dict[str, Queue]
    tree: Tree
    capacity: Amounts
    works: dict[str, Work]
    preempted_at: dict[str, list[float]] = field(default_factory=dict)
    has_reservations: bool = True
    given_back: dict[str, Amounts] = field(default_factory=dict)

    def copy(self) -> Facts:
        works = {
            name: replace(
                work,
                pods=dict(work.pods),
                leaving=set(work.leaving),
                open=set(work.open),
                nominated=dict(work.nominated),
                surplus=dict(work.surplus),
                imagined=set(work.imagined),
            )
            for name, work in self.works.items()
        }
        stamps = {queue: list(times) for queue, times in self.preempted_at.items()}
        return replace(self, works=works, preempted_at=stamps, given_back=dict(self.given_back))

    @property
    def zero(self) -> Amounts:
        return (0,) * len(self.capacity)

    def started(self) -> list[Work]:
        return [work for work in self.works.values() if work.is_started]


def plus(left: Amounts, right: Amounts, count: int = 1) -> Amounts:
    return tuple(a + count * b for a, b in zip(left, right, strict=True))


def total(amounts: Iterable[Amounts], zero: Amounts) -> Amounts:
    for each in amounts:
        zero = plus(zero, each)
    return zero


def times(amounts: Amounts, count: int) -> Amounts:
    return tuple(each * count for each in amounts)
