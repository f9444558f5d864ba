"""What came of a workload: when each job started and ended, and what it held meanwhile.

Results are kept per task in the trace's order (`Fate`) and per *stint*: a span of time in which a job held the same
pods on the same nodes. All measures are taken from these, after the run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from phalanx.model.job import Outcome, Placement
from phalanx.model.node import Topology
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason
from phalanx.simulator.workload.workload import Task, Workload

MICROSECONDS = 1_000_000


class Fate:
    """The fate of one task. `work_s`: how long it has to run with all its pods (a disturbance may stretch it);
    `ran_s`: how long it ran for good, to its end or to its user's limit. `start_s`, `end_s`: its first start and its
    end, None: it never did. `lost_s`: time that it ran for nothing; `preemptions`: how often it gave way whole.
    `cascade`: how long the chain of those who gave way for one another was when it last did, itself included.
    `told`: why it waited, as it was last told; `reason`: why it waits at the end, if it does."""

    __slots__ = (
        *(
            "cascade",
            "end_s",
            "index",
            "lost_s",
            "outcome",
            "preemptions",
            "ran_s",
            "reason",
            "start_s",
            "starts",
            "task",
        ),
        *("told", "work_s"),
    )

    def __init__(self, index: int, task: Task) -> None:
        self.index, self.task, self.work_s = index, task, task.run_s
        self.start_s: float | None = None
        self.end_s: float | None = None
        self.ran_s = 0.0
        self.starts = self.preemptions = self.cascade = 0
        self.lost_s = 0.0
        self.outcome: Outcome | None = None
        self.told: Reason | None = None
        self.reason = ""


class Stint(NamedTuple):
    """A task held these pods from `start_s` to `end_s`. `works`: it ran; else it lacked pods, or they came up."""

    task: int
    start_s: float
    end_s: float
    placements: Sequence[Placement]
    works: bool


@dataclass(slots=True, kw_only=True)
class Schedule:
    """`queues`, `topologies`: those under which it was played. `cascades`: at each preemption that was decided, how
    many gave way for one another. `passes`: how often the scheduler decided, and `decisions_s`: the processor time that
    each took; `wall_s`: how long the run took on this machine's clock, and `peak_rss_bytes`: the most memory that its
    process had held by then. `interrupted`: it was stopped before its end."""

    workload: Workload
    policy: str
    estimates: str
    seed: int
    fates: Sequence[Fate]
    stints: Sequence[Stint]
    queues: Sequence[Queue] = ()
    default_queue: str = ""
    topologies: Sequence[Topology] = ()
    passes: int = 0
    decisions_s: Sequence[float] = ()
    cascades: Sequence[int] = ()
    wall_s: float = 0.0
    peak_rss_bytes: int = 0
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    def finished(self) -> Iterator[Fate]:
        return (fate for fate in self.fates if fate.end_s is not None)

    def sha256(self) -> str:
        """Of a line `id start end` for every task in the trace's order, times in whole microseconds, `-` for never:
        equal for equal schedules, on every machine and Python version."""
        found = hashlib.sha256()
        for fate in self.fates:
            found.update(f"{fate.task.job.id} {instant(fate.start_s)} {instant(fate.end_s)}\n".encode())
        return found.hexdigest()


def instant(at_s: float | None) -> str:
    return "-" if at_s is None else str(round(at_s * MICROSECONDS))
