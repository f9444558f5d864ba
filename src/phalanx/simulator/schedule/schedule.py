"""The result of a run: the start, end and allocations of each job.

There is one `Fate` per task, in the trace's order, and one `Stint` for each span of time in which a job held the same
pods on the same nodes. All measures are computed from these after the run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from phalanx.model.job import Outcome, Placement
from phalanx.model.node import Node, Topology
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason
from phalanx.simulator.workload.workload import Task, Workload

MICROSECONDS = 1_000_000


class Fate:
    """The result of one task.

    `work_s`: the required run time with all its pods (a disturbance may lengthen it).
    `ran_s`: the run time that was not lost, until its end or its user's limit.
    `start_s`, `end_s`: its first start and its end; None if it never started, or never ended.
    `lost_s`: the run time that was lost by preemptions and failures. `preemptions`: how often it was preempted as a
    whole.
    `cascade`: the length of the chain of preemptions at its last preemption, itself included.
    `told`: its last reported reason to wait. `reason`: its reason to wait at the end of the run; empty if it does not
    wait."""

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
    """A span of time in which a task held the same pods. `works`: the task ran; otherwise it missed pods, or its pods
    were starting."""

    task: int
    start_s: float
    end_s: float
    placements: Sequence[Placement]
    works: bool


class Rental(NamedTuple):
    """A node of a node group that was paid for: `price_per_hour` from `start_s` to `end_s`."""

    node: Node
    price_per_hour: float
    start_s: float
    end_s: float


@dataclass(slots=True, kw_only=True)
class Schedule:
    """The result of a run.

    `queues`, `topologies`: the queues and topologies of the run.
    `cascades`: for each preemption, the length of the chain of preemptions up to it.
    `rentals`: the nodes of node groups that were paid for.
    `passes`: the number of scheduling passes. `decisions_s`: the time of each decision.
    `wall_s`: the elapsed time of the run on this machine. `peak_rss_bytes`: the peak memory of its process by then.
    `interrupted`: the run was stopped before its end."""

    workload: Workload
    policy: str
    estimates: str
    seed: int
    fates: Sequence[Fate]
    stints: Sequence[Stint]
    queues: Sequence[Queue] = ()
    default_queue: str = ""
    topologies: Sequence[Topology] = ()
    rentals: Sequence[Rental] = ()
    passes: int = 0
    decisions_s: Sequence[float] = ()
    cascades: Sequence[int] = ()
    wall_s: float = 0.0
    peak_rss_bytes: int = 0
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes that the cluster had at any time."""
        rented = {rental.node.name: rental.node for rental in self.rentals}
        return (*self.workload.nodes, *rented.values())

    def finished(self) -> Iterator[Fate]:
        return (fate for fate in self.fates if fate.end_s is not None)

    def sha256(self) -> str:
        """Return the hash of the schedule: of a line `id start end` for every task in the trace's order, with times in
        whole microseconds and `-` for never. Equal schedules have equal hashes on every machine and Python version."""
        found = hashlib.sha256()
        for fate in self.fates:
            found.update(f"{fate.task.job.id} {instant(fate.start_s)} {instant(fate.end_s)}\n".encode())
        return found.hexdigest()


def instant(at_s: float | None) -> str:
    return "-" if at_s is None else str(round(at_s * MICROSECONDS))
