"""The true state of a job in the simulated cluster, and the events that describe the whole cluster to a scheduler that
has just started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from phalanx.model.event import Adopted, Event, NodeSeen, OutcomeTold, QueueSeen, ReservationSeen, Submitted
from phalanx.model.job import Job, Outcome, Phase, Placement, Slot
from phalanx.model.node import Node, Reservation
from phalanx.model.queue import Queue
from phalanx.simulator.schedule import Fate


class UnfinishedJob:
    """A submitted job that has not ended.

    `number`: increased by each start or stop of the job. `plan`: increased by each newly planned end. A change that was
    planned under a lower number is outdated and ignored.
    `limit_s`: the time limit with which the scheduler plans: the limit of the job or, if the job has no limit, the
    limit of its queue.
    `rate`: how many seconds of work the job does in a second: 1 if all its pods are placed, less if pods are missing.
    `worked_s`: the work, in seconds, that the job had done until `since_s`. `kept_s`: the saved part of `worked_s`.
    `fruitless`: how often failures of nodes have stopped the job since its work was last saved.
    `ends_s`: the planned end of the job. `ticket`: the position of the planned end among happenings of the same time on
    the agenda."""

    __slots__ = (
        *(
            "attempt",
            "began_s",
            "corrections",
            "ends_s",
            "fate",
            "fruitless",
            "job",
            "kept_s",
            "limit_s",
            "number",
            "open",
            "phase",
            "placed",
            "plan",
        ),
        *("pods", "rate", "since_s", "ticket", "worked_s"),
    )

    def __init__(self, job: Job, fate: Fate) -> None:
        self.job, self.fate = job, fate
        self.phase = Phase.QUEUED
        self.attempt = self.number = self.plan = self.corrections = self.ticket = self.fruitless = 0
        self.pods = sum(role.count for role in job.roles)
        self.placed: tuple[Placement, ...] = ()
        self.open: dict[Slot, None] = {}
        self.limit_s = job.limit_s
        self.began_s = self.since_s = self.worked_s = self.kept_s = self.rate = self.ends_s = 0.0

    # --- transitions ------------------------------------------------------------------------------------------------

    def start(self, attempt: int, placements: tuple[Placement, ...], now_s: float) -> None:
        self.attempt, self.number = attempt, self.number + 1
        self.phase, self.placed, self.since_s = Phase.STARTING, placements, now_s

    def run(self, now_s: float) -> None:
        """Record that the job begins to run, because all required pods run."""
        self.phase, self.began_s, self.since_s = Phase.RUNNING, now_s, now_s

    def add(self, placements: Iterable[Placement]) -> None:
        """Add placed pods to the job; their slots are no longer open."""
        self.placed = (*self.placed, *placements)
        for placement in placements:
            self.open.pop(Slot(placement.role, placement.ordinal), None)

    def release(self, slots: Iterable[Slot]) -> None:
        """Remove the pods in these slots."""
        gone = set(slots)
        self.placed = tuple(placed for placed in self.placed if (placed.role, placed.ordinal) not in gone)

    def open_missing(self) -> tuple[Slot, ...]:
        """If the job is elastic, open its slots that have no node; the scheduler may place pods in open slots. Return
        the opened slots."""
        missing = self.missing()
        self.open.update(dict.fromkeys(missing))
        return missing

    def stop(self) -> None:
        """Stop all pods, and queue the job again. All changes that were planned for the job become outdated."""
        self.outdate()
        self.phase, self.placed, self.rate = Phase.QUEUED, (), 0.0
        self.open.clear()

    def outdate(self) -> None:
        """Make all changes that are planned for the job outdated, so that they will have no effect."""
        self.number, self.plan = self.number + 1, self.plan + 1

    # --- questions --------------------------------------------------------------------------------------------------

    def left_s(self) -> float:
        """Return the remaining work, in seconds of run time with all pods."""
        return self.fate.work_s - self.worked_s

    def has_minimum(self) -> bool:
        return all(
            sum(placed.role == at for placed in self.placed) >= role.minimum for at, role in enumerate(self.job.roles)
        )

    def pace(self) -> float:
        """Return the fraction of the job's pods that are placed."""
        return 1.0 if len(self.placed) == self.pods else len(self.placed) / self.pods

    def expect(self, limit_s: float) -> None:
        """Set a new estimate of the job's total run time (`limit_s`), with which the scheduler plans."""
        self.job, self.limit_s = replace(self.job, limit_s=limit_s), limit_s

    def stop_s(self) -> float | None:
        """Return the run time after which the job is stopped: the limit that its user requested or, without a requested
        limit, the limit of its queue; None if neither exists."""
        return self.fate.task.stop_s if self.job.limit_s is not None else self.limit_s

    def slots(self) -> list[Slot]:
        """Return the slots of all pods of the job."""
        return [Slot(at, ordinal) for at, role in enumerate(self.job.roles) for ordinal in range(role.count)]

    def missing(self) -> tuple[Slot, ...]:
        """Return the slots of an elastic job that have no node and are not open."""
        if self.pods == len(self.placed) + len(self.open) or not self.job.size.grows:
            return ()
        has = {Slot(placed.role, placed.ordinal) for placed in self.placed} | self.open.keys()
        return tuple(slot for slot in self.slots() if slot not in has)

    def adoption(self) -> Adopted:
        return Adopted(self.job, self.attempt, self.phase, self.placed, tuple(self.open), self.began_s)


def everything(
    nodes: Iterable[Node],
    queues: Sequence[Queue],
    reservations: Sequence[Reservation],
    jobs: Iterable[UnfinishedJob],
    outcomes: Mapping[str, Outcome],
    groups: Iterable[Event] = (),
) -> Sequence[Event]:
    """Return the events that describe the whole cluster: node groups (`groups`), nodes, queues, reservations, started
    jobs, pending jobs, and the outcomes of jobs on which pending jobs depend."""
    started = [live for live in jobs if live.phase is not Phase.QUEUED]
    waiting = [live.job for live in jobs if live.phase is Phase.QUEUED]
    awaited = dict.fromkeys(after.job for job in waiting for after in job.after)
    return (
        *groups,
        *(NodeSeen(node) for node in nodes),
        *(QueueSeen(queue) for queue in queues),
        *(ReservationSeen(reservation) for reservation in reservations),
        *(live.adoption() for live in started),
        *(OutcomeTold(job, outcomes[job]) for job in awaited if job in outcomes),
        *(Submitted(job) for job in waiting),
    )
