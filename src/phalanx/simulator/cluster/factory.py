"""Create pods at a limited rate, for several jobs at a time, as the controllers of a real cluster do.

kube-controller-manager creates pods at a limited rate (`--kube-api-qps`), and its Job controller works on several
jobs at a time (`--concurrent-job-syncs`), so pods of several jobs are created alternately. The simulated controllers
create `batch` pods at a time, on average `per_s` per second. The controllers work on the first `side_by_side` jobs of
their queue, and create one pod for each of these jobs in turn. When all pods of a job exist, the next job of the
queue takes its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from phalanx.model.event import Event, Opened
from phalanx.model.job import Slot
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.listing import UnfinishedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    per_s: float = 30.0
    side_by_side: int = 100
    batch: int = 10

    @property
    def every_s(self) -> float:
        return self.batch / self.per_s


class Made(NamedTuple):
    """A created pod. `number`: the value of `UnfinishedJob.number` when the creation of the job's pods was requested.
    `last`: whether this is the last pod of the job."""

    job: str
    number: int
    slot: Slot
    last: bool


class Factory:
    """The queue of pods that the controllers must still create. `orders`: the number of pods in the queue."""

    def __init__(self, creation: Creation) -> None:
        self.creation, self.orders = creation, 0
        self._begun: deque[tuple[str, int, deque[Slot]]] = deque()
        self._waiting: deque[tuple[str, int, deque[Slot]]] = deque()

    def order(self, job: str, number: int, slots: Sequence[Slot]) -> None:
        self.orders += len(slots)
        self._waiting.append((job, number, deque(slots)))

    def make(self) -> Iterator[Made]:
        for _ in range(min(self.creation.batch, self.orders)):
            while self._waiting and len(self._begun) < self.creation.side_by_side:
                self._begun.append(self._waiting.popleft())
            job, number, slots = self._begun.popleft()
            slot = slots.popleft()
            self.orders -= 1
            if slots:
                self._begun.append((job, number, slots))
            yield Made(job, number, slot, not slots)


class PodController:
    """Creates the pods of started jobs. `creation`: the rate at which pods are created; None if all are created at
    once. `live`: the jobs, by id. `tell`: a function that takes an event about a job, and returns the events that reach
    the scheduler at once. `ready`: a function that is called when a job was started with placements and all of its pods
    exist."""

    def __init__(
        self,
        creation: Creation | None,
        agenda: Agenda[Any],
        live: Mapping[str, UnfinishedJob],
        tell: Callable[[str, Event], Sequence[Event]],
        ready: Callable[[UnfinishedJob], None],
    ) -> None:
        self._factory = None if creation is None else Factory(creation)
        self._agenda, self._live, self._tell, self._ready = agenda, live, tell, ready

    @property
    def is_slow(self) -> bool:
        return self._factory is not None

    def create(self, live: UnfinishedJob) -> None:
        """Create the pods of a job that has just started. If the job has no placements, its slots are reported to the
        scheduler as open, and the scheduler then places the pods."""
        if self._factory is None:
            self._agenda.put(self._agenda.now_s, AgendaKind.POD, partial(self._open_all, live, live.number))
            return
        if not self._factory.orders:
            self._expect_some(self._factory)
        placed = [Slot(placement.role, placement.ordinal) for placement in live.placed]
        self._factory.order(live.job.id, live.number, placed or live.slots())

    def _expect_some(self, factory: Factory) -> None:
        at_s = self._agenda.now_s + factory.creation.every_s
        self._agenda.put(at_s, AgendaKind.POD, partial(self._create_some, factory))

    def _open_all(self, live: UnfinishedJob, number: int) -> Sequence[Event]:
        if live.number != number:
            return ()
        live.open = dict.fromkeys(live.slots())
        return self._tell(live.job.id, Opened(live.job.id, tuple(live.open)))

    def _create_some(self, factory: Factory) -> Sequence[Event]:
        events: list[Event] = []
        for job, number, slot, last in factory.make():
            live = self._live.get(job)
            if live is None or live.number != number:
                continue  # the job has ended or was stopped, so no pod is created
            if not live.placed or slot not in {(placed.role, placed.ordinal) for placed in live.placed}:
                live.open[slot] = None
                events += self._tell(job, Opened(job, (slot,)))
            elif last and live.has_minimum():
                self._ready(live)
        if factory.orders:
            self._expect_some(factory)
        return events
