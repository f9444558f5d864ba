"""Compute the *shadow time* of a gang: its earliest start, from the expected ends of running jobs.

The computation starts from the free amounts of the cycle's draft. A running job is expected to release its capacity at
its time limit (`state.running.ExpectedEnds`). A job without a limit never releases it, and a job beyond its limit
releases it now. The free capacity at a later time is not stored: it is the present free capacity plus all releases up
to that time. To find the first time at which a count shows enough capacity, the releases are summed in blocks
(`ReleaseBlock`). Each block has twice as many releases as the block before it.

The forecast only considers amounts. Pod affinity and named devices are checked against the pods that run at present."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from phalanx.core.placement.draft import SHUT, Draft
from phalanx.core.placement.filters import matching
from phalanx.lazy import lazy
from phalanx.model.job import Placement, Slot
from phalanx.model.pod import MAX_AMOUNT, PODS, Amounts
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from phalanx.state.nodes.table import NodeTable

Free: TypeAlias = dict[str, NDArray[np.int64]]  # resource -> the free amount of each row

# the number of releases in the first block; each further block has twice as many as the block before it
FIRST_BLOCK = 16
PLENTY = np.iinfo(np.int64).max


@dataclass(frozen=True)
class HeldCapacity:
    """The capacity that a job holds. `rows`: the rows of its nodes, each row once. `amounts`: resource -> the amount on
    each of these rows."""

    rows: NDArray[np.intp]
    amounts: dict[str, NDArray[np.int64]]

    @lazy
    def in_all(self) -> dict[str, int]:
        """Return a mapping: resource -> the total amount on all rows."""
        return {resource: int(amounts.sum()) for resource, amounts in self.amounts.items()}

    def add_to(self, free: Free, sign: int) -> None:
        """Add the held amounts to `free` (`sign` 1), or subtract them (`sign` -1)."""
        for resource, amounts in self.amounts.items():
            if resource in free:
                free[resource][self.rows] += sign * amounts


Release: TypeAlias = tuple[float, HeldCapacity]


def held_capacity(columns: NodeTable, gang: Gang, where: Iterable[tuple[int, str]]) -> HeldCapacity:
    """Return the capacity that pods of the gang hold. `where`: (role, node) of each pod."""
    rows: dict[int, int] = {}
    held: dict[str, dict[int, int]] = {}
    asks = [demand.asks for demand in gang.demands]
    for role, node in where:
        row = columns.row_of[node]
        at = rows.setdefault(row, len(rows))
        for resource, amount in asks[role]:
            of = held.setdefault(resource, {})
            of[at] = of.get(at, 0) + amount
    return HeldCapacity(
        np.fromiter(rows, np.intp, len(rows)),
        {resource: _dense(of, len(rows)) for resource, of in held.items()},
    )


def _dense(of: dict[int, int], count: int) -> NDArray[np.int64]:
    amounts = np.zeros(count, np.int64)
    for at, amount in of.items():
        amounts[at] = amount
    return amounts


def held_by_placements(columns: NodeTable, gang: Gang, placements: Sequence[Placement]) -> HeldCapacity:
    """Return the capacity that pods with these placements hold."""
    return held_capacity(columns, gang, ((each.role, each.node) for each in placements))


def held_by_job(cluster: Cluster, job: str) -> HeldCapacity:
    """Return the capacity that a started job holds. The result is cached until the job's placements change."""
    known: HeldCapacity | None = cluster.ends.derived.get(job)
    if known is None:
        record = cluster.jobs[job]
        known = held_capacity(cluster.columns, record.gang, ((slot.role, at) for slot, at in record.placements.items()))
        cluster.ends.derived[job] = known
    return known


def held_by_slots(cluster: Cluster, job: str, slots: Collection[Slot]) -> HeldCapacity:
    """Return the capacity that the slots `slots` of a started job hold."""
    record = cluster.jobs[job]
    where = ((slot.role, node) for slot, node in record.placements.items() if slot in slots)
    return held_capacity(cluster.columns, record.gang, where)


def held_without(cluster: Cluster, job: str, slots: Collection[Slot]) -> HeldCapacity:
    """Return the capacity that a started job holds, except in the slots `slots`."""
    return held_by_slots(cluster, job, {*cluster.jobs[job].placements} - {*slots})


def free_by_row(draft: Draft) -> Free:
    """Return the free amounts of each row of the node table. For nodes that are not on the draft, return the amounts in
    the cluster state. If a node is closed only for this cycle, its free amounts are returned as well, because it may be
    open later."""
    columns = draft.columns
    free = {resource: column.copy() for resource, column in columns.free.items()}
    for resource, column in draft.free.items():
        free[resource][draft.rows] = column
    free[PODS][free[PODS] < SHUT] += MAX_AMOUNT
    return free


def draft_over(draft: Draft, free: Free) -> Draft:
    """Return a new draft of the cluster's nodes, with the free amounts `free`."""
    return Draft(draft.columns.with_free(free), draft.topologies)


def has_room(columns: NodeTable, free: Free, gang: Gang) -> bool:
    """Return whether the free amounts `free` have capacity for the minimum of each role, found by counting. Each role
    is checked as if the gang had no other roles, so the result is exact only for gangs with one role and without
    constraints."""
    for demand, role in zip(gang.demands, gang.roles, strict=True):
        if (
            role.minimum
            and pods_in_rows(free, demand.asks, matching.matching(columns.attributes, demand.where)) < role.minimum
        ):
            return False
    return True


def pods_in_rows(free: Free, asks: Amounts, rows: NDArray[np.bool_]) -> int:
    """Return the number of pods with the requests `asks` that fit on the nodes of the mask `rows`."""
    found = matching.rows_that_fit(free, asks, rows)
    return int(matching.pods_held(free, asks, found).sum()) if len(found) else 0


class ReleaseTimeline:
    """The free capacity over time.

    `free`: the free amounts now.
    `releases`: the future releases, sorted by time. The iterator is read only as far as needed. A release in the past
    counts as a release at `now_s`."""

    def __init__(self, columns: NodeTable, now_s: float, free: Free, releases: Iterable[Release]) -> None:
        self.columns, self.now_s, self.free = columns, now_s, free
        self._read: list[Release] = []
        self._releases = iter(releases)

    def starts(self, gang: Gang) -> Iterator[tuple[float, Free]]:
        """Yield (time, free amounts at that time). The first time is the earliest at which the gang fits by `has_room`;
        then follow the times of all later releases. The amounts include the releases at exactly that time."""
        at, free = self._first(gang)
        while at is not None:
            time_s = self.now_s if at == 0 else max(self.now_s, self._read[at - 1][0])
            while (following := self._release(at)) is not None and following[0] <= time_s:
                following[1].add_to(free, 1)
                at += 1
            yield time_s, {resource: column.copy() for resource, column in free.items()}
            if following is None:
                return
            following[1].add_to(free, 1)
            at += 1

    def _release(self, at: int) -> Release | None:
        """Return the release with the index `at`, in the order of time; None if there are fewer releases."""
        self._read += islice(self._releases, max(0, at + 1 - len(self._read)))
        return self._read[at] if at < len(self._read) else None

    def _first(self, gang: Gang) -> tuple[int | None, Free]:
        """Return how many releases are needed so that the gang fits by `has_room`, and the free amounts after these
        releases. The number is None if all releases together are not enough."""
        low, free, step = 0, {resource: column.copy() for resource, column in self.free.items()}, FIRST_BLOCK
        if has_room(self.columns, free, gang):
            return 0, free
        while self._release(low + step - 1) is not None or low < len(self._read):
            block = ReleaseBlock([held for _, held in self._read[low : low + step]])
            taken = block.first(self.columns, free, gang)
            block.add_to(free, block.size if taken is None else taken)
            if taken is not None:
                return low + taken, free
            low, step = low + step, 2 * step
        return None, free


class ReleaseBlock:
    """Consecutive releases, stored as arrays. If a release frees
    capacity on several nodes, the arrays have one entry for each of these nodes."""

    def __init__(self, held: Sequence[HeldCapacity]) -> None:
        self.held, self.size = held, len(held)
        self.rows = np.concatenate([each.rows for each in held])
        self.ends = np.cumsum([len(each.rows) for each in held])  # for each release, the index after its last entry
        self._amounts: dict[str, NDArray[np.int64]] = {}

    def amounts(self, resource: str) -> NDArray[np.int64]:
        """Return the released amount of the resource for each entry."""
        known = self._amounts.get(resource)
        if known is None:
            each = [held.amounts.get(resource) for held in self.held]
            parts = [
                np.zeros(len(held.rows), np.int64) if a is None else a for held, a in zip(self.held, each, strict=True)
            ]
            known = self._amounts[resource] = np.concatenate(parts)
        return known

    def add_to(self, free: Free, releases: int) -> None:
        """Add the amounts of the first `releases` releases to the free amounts."""
        entries = int(self.ends[releases - 1]) if releases else 0
        for resource, column in free.items():
            np.add.at(column, self.rows[:entries], self.amounts(resource)[:entries])

    def first(self, columns: NodeTable, free: Free, gang: Gang) -> int | None:
        """Return the smallest number of releases, from the beginning of the block, after which `has_room` is True for
        the gang; None if it is False even after all releases of the block."""
        most = 0
        for demand, role in zip(gang.demands, gang.roles, strict=True):
            if role.minimum:
                rows = matching.matching(columns.attributes, demand.where)
                found = self._first_of(free, demand.asks, rows, role.minimum - pods_in_rows(free, demand.asks, rows))
                if found is None:
                    return None
                most = max(most, found)
        return most

    def _first_of(self, free: Free, asks: Amounts, allowed: NDArray[np.bool_], missing: int) -> int | None:
        """Return how many releases of the block are needed so that `missing` more pods with the requests `asks` fit on
        the rows of the mask `allowed`; None if all of them together are not enough."""
        if missing <= 0:
            return 0
        if not len(self.rows) or any(resource not in free for resource, _ in asks):
            return None
        by_row = self.rows.argsort(kind="stable")
        rows = self.rows[by_row]
        first = np.ones(len(rows), np.bool_)
        first[1:] = rows[1:] != rows[:-1]
        start = first.nonzero()[0][first.cumsum() - 1]  # for each entry, the index of the first entry with the same row
        pods = np.full(len(rows), PLENTY)
        before = pods.copy()
        for resource, ask in asks:
            held, has = self.amounts(resource)[by_row], free[resource][rows]
            run = held.cumsum()
            np.minimum(pods, (has + run - (run - held)[start]) // ask, out=pods)
            np.minimum(before, has // ask, out=before)
        pods, before = np.maximum(pods, 0), np.maximum(before, 0)
        before[1:] = np.where(first[1:], before[1:], pods[:-1])
        gained = np.zeros(len(rows), np.int64)
        gained[by_row] = np.where(allowed[rows], pods - before, 0)
        entries = int(gained.cumsum().searchsorted(missing)) + 1
        return int(self.ends.searchsorted(entries)) + 1 if entries <= len(rows) else None


@contextmanager
def limited_to(draft: Draft, kept: Free) -> Iterator[None]:
    """Return a context in which the free amounts of the draft are reduced to at most `kept`."""
    less = {}
    for name, column in draft.free.items():
        less[name] = np.maximum(column - kept[name][draft.rows], 0)
        column -= less[name]
    try:
        yield
    finally:
        for name, column in less.items():
            draft.free[name] += column
        draft.packing_order.filled.clear()
