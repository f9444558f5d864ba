"""Three indexes of running jobs: columns of their pods, a sorted list of their expected ends, and the jobs that hold
the largest amounts.

*Columns.* Preemption examines all running pods at once: which pods may be preempted, and on which nodes. `RunningPods`
has one entry for each job, role and node, and one row for each job with the fields that decide whether it may be
preempted. The columns are computed from the job records when they are first needed; so if no queue may preempt jobs,
they are never computed. Later, only the records of changed jobs are read again (`touch` marks them). The old entries of
a changed job are emptied, and its new entries are appended. When half of the entries are empty, the empty entries are
removed.

*Expected ends.* A job with a time limit ends at the latest when the limit has passed. The end of a job without a limit
is unknown. A job that is being stopped is expected to end at once. A job is inserted into the sorted list when it
starts and removed when it ends, so that no decision has to sort the running jobs. The object with this list
(`ExpectedEnds`) also has the run times of finished jobs, which forecasts use.

*Largest consumers.* The reason of a waiting job names the jobs that hold most of the missing resource. To find these
jobs without reading all running jobs, there is a heap of (-amount, job) for each resource. It is created when the
largest consumers of the resource are first requested. When a job's amount changes, a new entry is added; outdated
entries are removed when they reach the top of the heap. If most entries of a heap are outdated, the heap is dropped and
is created again on the next request.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from phalanx.model.job import Job, Slot
from phalanx.model.pod import Amount
from phalanx.state.classes import Demand
from phalanx.state.nodes.attributes import extended
from phalanx.state.run_times import RunTimes

FIRST = 64
Ints = NDArray[np.int64]


class RunningPods:
    """The columns of running pods.

    Columns of the entries: the row of the node, the numbers of the job and of the demand, the index of the role, the
    number of pods, whether the pods are stopping (`leaving`), and how many of the pods could be evicted without
    breaking the gang (`spare`).

    Columns of the jobs, by job number: the priority, the number of the queue, the times of start and submission, the
    fields `preemptible` and `last_victim` of the job, the interval of checkpoints (`checkpoint_s`, 0 without
    checkpoints), and a number that is computed from the job's name (`tie`). The number `tie` decides between equal
    victims, so that the choice does not depend on the order in which jobs were added."""

    def __init__(self) -> None:
        self.touched: dict[str, None] = {}
        self.ids: list[str] = []
        self.number_of: dict[str, int] = {}
        self.queues: list[str] = []
        self.demands: list[Demand] = []
        self.used = 0
        self.empty = 0
        self._queue_numbers: dict[str, int] = {}
        self._demand_numbers: dict[Demand, int] = {}
        self._amounts: dict[str, Ints] = {}
        self._costs: dict[str, NDArray[np.float64]] = {}
        self._entries: dict[str, NDArray[Any]] = {
            name: np.zeros(FIRST, np.int64) for name in ("row", "job", "role", "demand", "pods", "leaving", "spare")
        }
        self._jobs: dict[str, NDArray[Any]] = {
            **{name: np.zeros(FIRST, np.int64) for name in ("priority", "queue", "preemptible", "last_victim")},
            **{name: np.zeros(FIRST, np.float64) for name in ("started_s", "submitted_s", "checkpoint_s")},
            "tie": np.zeros(FIRST, np.int64),
        }
        self._written: list[tuple[int, ...]] = []  # entries that `settle` will add to the columns
        self._told: list[tuple[Any, ...]] = []  # rows of jobs that `settle` will write
        self._of: dict[int, list[int]] = {}  # job number -> indexes of its entries
        self._vacant: list[int] = []
        self._movable: Ints | None = None

    def touch(self, job: str) -> None:
        """Record that the pods of the job have changed."""
        self.touched[job] = None

    def entry(self, name: str) -> NDArray[Any]:
        """Return the column `name` of the entries."""
        return self._entries[name][: self.used]

    def of_jobs(self, name: str) -> NDArray[Any]:
        """Return the column `name` of the jobs, by job number. For a number that no job has at present, the column has
        a meaningless value."""
        return self._jobs[name][: len(self.ids)]

    def movable(self) -> Ints:
        """Return the job number of each entry with pods that are not terminating."""
        if self._movable is None:
            self._movable = self.entry("job")[(self.entry("pods") > 0) & (self.entry("leaving") == 0)]
        return self._movable

    def entries_of(self, number: int) -> list[int]:
        """Return the indexes of the entries of the job with that number."""
        return self._of.get(number, [])

    def amounts(self, resource: str) -> Ints:
        """Return an array: number of a demand -> the amount of the resource that one pod requests."""
        known = self._amounts.get(resource)
        if known is None or len(known) < len(self.demands):
            known = np.array([demand.amounts.get(resource, 0) for demand in self.demands], np.int64)
            self._amounts[resource] = known
        return known

    def costs(self, resource: str) -> NDArray[np.float64]:
        """Return an array: number of a demand -> the amount of the resource that a queue is charged for one pod."""
        known = self._costs.get(resource)
        if known is None or len(known) < len(self.demands):
            known = np.array([float(dict(demand.costs).get(resource, 0)) for demand in self.demands], np.float64)
            self._costs[resource] = known
        return known

    def queue_number(self, queue: str) -> int:
        """Return the number of the queue; assign one if it has none."""
        number = self._queue_numbers.get(queue)
        if number is None:
            number = self._queue_numbers[queue] = len(self.queues)
            self.queues.append(queue)
        return number

    def forget(self, job: str) -> None:
        """Remove the job, because it has no pods left."""
        number = self.number_of.pop(job, None)
        if number is not None:
            self._empty(number)
            self._of.pop(number, None)
            self._vacant.append(number)

    def write(
        self,
        job: Job,
        queue: str,
        demands: tuple[Demand, ...],
        placed: Mapping[Slot, int],
        leaving: Collection[Slot] = (),
        started_s: float = 0.0,
        spare: Sequence[int] = (),
    ) -> None:
        """Write the pods of the job. `placed`: slot -> row; `spare`: for each role, the number of pods that could
        be evicted without breaking the gang. The columns only change when `settle` is called. Between two calls
        of `settle`, a job may be written at most once."""
        number = self._number(job.id)
        self._empty(number)
        about = (
            self.queue_number(queue),
            job.preemptible,
            job.last_victim,
            started_s,
            job.submitted_s,
            job.checkpoint_s or 0.0,
        )
        self._told.append((number, clamped_priority(job.priority), *about, crc32(job.id.encode())))
        counted: dict[tuple[int, int, bool], int] = {}
        for slot, row in placed.items():
            key = (slot[0], row, slot in leaving)
            counted[key] = counted.get(key, 0) + 1
        first = self.used + len(self._written)
        self._of[number] = list(range(first, first + len(counted)))
        for (role, row, going), pods in counted.items():
            above = 0 if going or not spare else min(pods, spare[role])
            self._written.append((row, number, role, self._demand_number(demands[role]), pods, going, above))

    def settle(self) -> None:
        """Bring the columns up to date: add the pods and jobs that `write` has received since the last call
        of `settle`."""
        self._movable = None
        if self._told:
            numbers, *values = zip(*self._told, strict=True)
            self._told.clear()
            at = np.array(numbers)
            for column, told in zip(self._jobs.values(), values, strict=True):
                column[at] = told
        if self._written:
            added = np.array(self._written, np.int64)
            self._written.clear()
            first, self.used = self.used, self.used + len(added)
            if self.used > len(self._entries["row"]):
                self._entries = {name: extended(column, 2 * self.used) for name, column in self._entries.items()}
            for at_column, column in enumerate(self._entries.values()):
                column[first : self.used] = added[:, at_column]
        self._pack()

    def _pack(self) -> None:
        """If half of the entries are empty, remove the empty entries."""
        if self.empty * 2 <= self.used or self.empty < FIRST:
            return
        kept = self.entry("pods").nonzero()[0]
        for name, column in self._entries.items():
            packed = np.zeros(max(FIRST, 2 * len(kept)), np.int64)
            packed[: len(kept)] = column[kept]
            self._entries[name] = packed
        self.used, self.empty, self._of = len(kept), 0, {number: [] for number in self._of}
        for at, number in enumerate(self.entry("job").tolist()):
            self._of[number].append(at)

    def _number(self, job: str) -> int:
        number = self.number_of.get(job)
        if number is None:
            if self._vacant:
                number = self._vacant.pop()
                self.ids[number] = job
            else:
                number = len(self.ids)
                self.ids.append(job)
                if number >= len(self._jobs["priority"]):
                    self._jobs = {name: extended(column, 2 * len(column)) for name, column in self._jobs.items()}
            self.number_of[job] = number
        return number

    def _demand_number(self, demand: Demand) -> int:
        number = self._demand_numbers.get(demand)
        if number is None:
            number = self._demand_numbers[demand] = len(self.demands)
            self.demands.append(demand)
        return number

    def _empty(self, number: int) -> None:
        for at in self._of.get(number, ()):
            self._entries["pods"][at] = 0
            self.empty += 1


def clamped_priority(priority: int) -> int:
    """Return the number nearest to the priority that a column can store. (A priority may be any integer.)"""
    return max(-(2**62), min(2**62, priority))


LEAVING_S = float("-inf")


class ExpectedEnds:
    """The expected ends of running jobs.

    `order`: (expected end in seconds since the epoch, job), sorted. If an end is in the past, the job is overdue.
    `derived`: job -> a result that another module has computed from the job's pods; removed when these pods change.
    `foreseen`: a result that another module has computed from all ends; removed when any end changes.
    `run_times`: the run times of finished jobs."""

    __slots__ = ("derived", "foreseen", "of", "order", "run_times")

    def __init__(self) -> None:
        self.order: list[tuple[float, str]] = []
        self.of: dict[str, float] = {}
        self.derived: dict[str, Any] = {}
        self.foreseen: Any = None
        self.run_times = RunTimes()

    def set(self, job: str, end_s: float) -> None:
        """Set the expected end of the job. `end_s`: seconds since the epoch; `LEAVING_S` for a job that is expected to
        end at once."""
        if job in self.of:
            self.drop(job)
        self.foreseen = None
        self.of[job] = end_s
        insort(self.order, (end_s, job))

    def drop(self, job: str) -> None:
        """Remove the job, because it has ended or its end is unknown."""
        end_s = self.of.pop(job, None)
        if end_s is not None:
            self.foreseen = None
            del self.order[bisect_left(self.order, (end_s, job))]
            self.derived.pop(job, None)

    def copy(self) -> ExpectedEnds:
        other = ExpectedEnds()
        other.order, other.of, other.run_times = list(self.order), dict(self.of), self.run_times.copy()
        return other


@dataclass(eq=False)
class LargestConsumers:
    """The amounts that jobs hold of each resource. The class finds the jobs that hold most.

    `held`: resource -> job -> amount that the job holds."""

    held: dict[str, dict[str, Amount]] = field(default_factory=dict)
    _heaps: dict[str, list[tuple[Amount, str]]] = field(default_factory=dict, init=False, repr=False)

    def change(self, job: str, costs: Iterable[tuple[str, Amount]], pods: int) -> None:
        """Add the costs of `pods` pods to the amounts of the job; a negative number subtracts them. `costs`: the costs
        of one pod."""
        for resource, amount in costs:
            held, heap = self.held.setdefault(resource, {}), self._heaps.get(resource)
            if now := held.get(job, 0) + amount * pods:
                held[job] = now
            else:
                held.pop(job, None)
            if heap is not None and now:
                heappush(heap, (-now, job))
                if len(heap) > 4 * len(held) + 64:
                    del self._heaps[resource]  # most entries are outdated

    def largest(self, resource: str, count: int) -> list[tuple[str, Amount]]:
        """Return the `count` jobs that hold most of the resource, as (job, amount), the largest amount first. Jobs with
        equal amounts are sorted by name."""
        held, heap = self.held.get(resource, {}), self._heaps.get(resource)
        if heap is None:
            heap = self._heaps[resource] = [(-amount, job) for job, amount in held.items()]
            heapify(heap)
        found: list[tuple[Amount, str]] = []
        while heap and len(found) < count:
            entry = heappop(heap)
            if held.get(entry[1]) == -entry[0] and entry not in found:
                found.append(entry)
        for entry in found:
            heappush(heap, entry)
        return [(job, -amount) for amount, job in found]

    def copy(self) -> LargestConsumers:
        other = LargestConsumers()
        other.held = {resource: dict(held) for resource, held in self.held.items()}
        return other
