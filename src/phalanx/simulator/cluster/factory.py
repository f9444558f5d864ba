"""The rate at which the simulated controllers create pods, for several jobs at a time.

kube-controller-manager creates pods at a limited rate (`--kube-api-qps`), and its Job controller works on several jobs
at a time (`--concurrent-job-syncs`), so their pods are created alternately. Here `batch` pods are created at a time, on
average `per_s` per second, one for each of the first `side_by_side` jobs in turn. When a job has all its pods, the next
job takes its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from phalanx.model.job import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    per_s: float = 30.0
    side_by_side: int = 100
    batch: int = 10

    @property
    def every_s(self) -> float:
        return self.batch / self.per_s


class Made(NamedTuple):
    """A created pod. `number`: the number of the job's start. `last`: the job now has all its pods."""

    job: str
    number: int
    slot: Slot
    last: bool


class Factory:
    """The pods that wait for their creation, at a bounded rate. `orders`: their number."""

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
