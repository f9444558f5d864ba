"""The forecast of free room: what is free on every node when, as what runs comes to its limit.

It starts from what is free in this cycle's draft. What runs gives its room back when its time limit is over (`Ends`);
without a limit never, overdue: now. Nothing is laid out in advance: the room at some time is that of now plus a prefix
of the releases, so asking for one costs one scatter-add, and the first time at which counting finds enough room is
found by doubling and halving that prefix.

Only amounts are foreseen: which pods are near which, and named devices, are as they are now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core import fit
from phalanx.core.draft import Draft
from phalanx.model.cluster import Cluster
from phalanx.model.columns import Columns
from phalanx.model.demand import Gang
from phalanx.model.job import Placement
from phalanx.model.shape import Amounts

Free: TypeAlias = dict[str, NDArray[np.int64]]  # resource -> by row

FIRST_BLOCK = 32  # releases looked at first; then twice as many each time


@dataclass(frozen=True, slots=True)
class Holding:
    """What a job holds: the rows, each once, and per resource how much on each of them."""

    rows: NDArray[np.intp]
    amounts: dict[str, NDArray[np.int64]]

    def add_to(self, free: Free, sign: int) -> None:
        for resource, amounts in self.amounts.items():
            if resource in free:
                free[resource][self.rows] += sign * amounts


Release: TypeAlias = tuple[float, Holding]


def holding(columns: Columns, gang: Gang, where: Iterable[tuple[int, str]]) -> Holding:
    """Of pods given as (role, node)."""
    rows: dict[int, int] = {}
    held: dict[str, dict[int, int]] = {}
    asks = [demand.asks for demand in gang.demands]
    for role, node in where:
        row = columns.row_of[node]
        at = rows.setdefault(row, len(rows))
        for resource, amount in asks[role]:
            of = held.setdefault(resource, {})
            of[at] = of.get(at, 0) + amount
    return Holding(
        np.fromiter(rows, np.intp, len(rows)),
        {resource: _dense(of, len(rows)) for resource, of in held.items()},
    )


def _dense(of: dict[int, int], count: int) -> NDArray[np.int64]:
    amounts = np.zeros(count, np.int64)
    for at, amount in of.items():
        amounts[at] = amount
    return amounts


def placed(columns: Columns, gang: Gang, placements: Sequence[Placement]) -> Holding:
    return holding(columns, gang, ((each.role, each.node) for each in placements))


def running(cluster: Cluster, job: str) -> Holding:
    """What a started job holds; kept until that changes."""
    known: Holding | None = cluster.ends.derived.get(job)
    if known is None:
        record = cluster.jobs[job]
        known = holding(cluster.columns, record.gang, ((slot.role, at) for slot, at in record.placements.items()))
        cluster.ends.derived[job] = known
    return known


def by_row(draft: Draft) -> Free:
    """What is free in the draft, by row; rows that it does not lay out are as in the book."""
    columns = draft.columns
    free = {resource: column.copy() for resource, column in columns.free.items()}
    for resource, column in draft.free.items():
        free[resource][draft.rows] = column
    return free


def draft_of(draft: Draft, free: Free) -> Draft:
    """A draft over other amounts of room."""
    columns = copy(draft.columns)
    columns.free = free
    return Draft(columns, draft.topologies)


def holds(columns: Columns, free: Free, gang: Gang) -> bool:
    """Whether by counting each role alone finds its minimum on nodes of so much room. Exact for one role of pods that
    ask for amounts and no more."""
    for demand, role in zip(gang.demands, gang.roles, strict=True):
        if role.minimum and count(columns, free, demand.asks, fit.matching(columns.facts, demand.where)) < role.minimum:
            return False
    return True


def count(columns: Columns, free: Free, asks: Amounts, rows: NDArray[np.bool_]) -> int:
    """How many such pods those rows hold."""
    found = fit.fitting(free, asks, rows)
    return int(fit.holds(free, asks, found).sum()) if len(found) else 0


class Timeline:
    """`free`: what is free now. `releases` are sorted by time; those that are past count from now on."""

    def __init__(self, now_s: float, free: Free, releases: Sequence[Release]) -> None:
        self.now_s, self.free, self.releases = now_s, free, releases

    def starts(self, enough: Callable[[Free], bool]) -> Iterator[tuple[float, Free]]:
        """Each time from the first on at which there is enough room, by a question that more room never answers with
        no. With all that is released at that very time; each room is its own copy."""
        at, free = self._first(enough)
        while at is not None:
            time_s = self.now_s if at == 0 else max(self.now_s, self.releases[at - 1][0])
            while at < len(self.releases) and self.releases[at][0] <= time_s:
                self._release(free, at, at + 1)
                at += 1
            yield time_s, {resource: column.copy() for resource, column in free.items()}
            if at == len(self.releases):
                return
            self._release(free, at, at + 1)
            at += 1

    def _first(self, enough: Callable[[Free], bool]) -> tuple[int | None, Free]:
        """How many releases it takes, and the room after them; None if all together are not enough."""
        low, free = 0, {resource: column.copy() for resource, column in self.free.items()}
        if enough(free):
            return 0, free
        step = FIRST_BLOCK
        while low < len(self.releases):
            high = min(low + step, len(self.releases))
            after = self._after(free, low, high)
            if enough(after):
                return self._between(free, low, high, enough)
            low, free, step = high, after, 2 * step
        return None, free

    def _between(self, free: Free, low: int, high: int, enough: Callable[[Free], bool]) -> tuple[int, Free]:
        """Not enough at `low`, whose room is `free`; enough at `high`."""
        while high - low > 1:
            middle = (low + high) // 2
            after = self._after(free, low, middle)
            if enough(after):
                high = middle
            else:
                low, free = middle, after
        return high, self._after(free, low, high)

    def _after(self, free: Free, start: int, stop: int) -> Free:
        after = {resource: column.copy() for resource, column in free.items()}
        self._release(after, start, stop)
        return after

    def _release(self, free: Free, start: int, stop: int) -> None:
        released = [held for _, held in self.releases[start:stop]]
        if len(released) == 1:
            released[0].add_to(free, 1)
            return
        for resource, column in free.items():
            parts = [(held.rows, held.amounts[resource]) for held in released if resource in held.amounts]
            if parts:
                rows, amounts = zip(*parts, strict=True)
                np.add.at(column, np.concatenate(rows), np.concatenate(amounts))
