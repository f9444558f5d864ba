"""The capacity profile: for each node, the free capacity over time, with all reservations subtracted. The profile is
used for conservative backfill, in which each pending job has a reservation, and for forecasts.

Time is divided at *instants*: now, each expected end of a running job, and each start and end of a reservation. Between
two instants nothing changes. A *level* describes the time between two instants: it has the free amounts of each node
(row), with one array per resource. For each demand and level, the number of pods that fit is counted once, and updated
when the level changes. A *stretch* is a sequence of consecutive levels that lasts at least as long as the gang runs. A
few vector operations find the first stretch that may have enough capacity. The capacity of a node in a stretch is the
minimum of its free amounts over the levels of the stretch. The usual placement code then places the gang on this
capacity.

The number of levels times the number of nodes is at most about `CELLS`. If running jobs have too many different ends,
neighbouring ends are merged into the latest of them. So the expected start of a job is never too early. (Slurm's
bf_resolution has the same effect.)

For a cluster of one node (a laptop, or a workload log of one large machine), this module also has a capacity profile
that uses plain integers.

`OneNodeProfile` has the same methods as `CapacityProfile`, which is for clusters of many nodes. With one node, a level
is one number per resource, and a loop over a few hundred levels costs less than one operation on arrays. For a gang
with one role and no constraints on nodes, counting alone shows whether it fits. For any other gang, the usual placement
code is called with the amounts that stay free during the run of the gang."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx.core.backfill import advance
from phalanx.core.backfill.shadow_time import Free, HeldCapacity, Release, draft_over, held_by_placements
from phalanx.core.placement import gang as gangs
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.model.job import Job
from phalanx.state.classes import Demand, Gang
from phalanx.state.cluster import Cluster

CELLS = 1 << 20
TRIES = 256  # for each gang, placement is tried at no more than this number of start times
SPARE = 64  # when the arrays have no unused level left, they are extended by this many levels
FEW = 32  # on clusters with at most this many nodes, the counts of pods are not stored, but computed at each call


class PlannedRun(NamedTuple):
    """The expected run of a job from `start_s` to `end_s` (seconds since the epoch), and the capacity that it takes on
    each node."""

    start_s: float
    end_s: float
    held: HeldCapacity


class CapacityProfile:
    """The capacity profile of many nodes. `times[k]`: the time at which level k begins. `order[k]`: the index of level
    k in the arrays of `free`."""

    def __init__(self, cluster: Cluster, draft: Draft, now_s: float, free: Free, releases: Sequence[Release]) -> None:
        self.cluster, self.draft, self.now_s = cluster, draft, now_s
        ends = [max(now_s, end_s) for end_s, _ in releases]
        times = merged(sorted({now_s, *ends, *advance.boundaries_s(cluster, now_s)}), CELLS // max(1, len(draft)))
        self.times = np.array(times)
        self.order = np.arange(len(times))
        self.free = {
            resource: capacity_levels(column, len(times), resource, np.searchsorted(self.times, ends), releases)
            for resource, column in free.items()
        }
        self.unused: list[int] = []
        self.counts: dict[Demand, NDArray[np.int64]] = {}

    def earliest_run(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the earliest possible run of the gang, without reserving it; None if no run is found. `runs_s`: the
        run time of the gang in seconds; infinite if it has no time limit."""
        short = np.zeros(len(self.times), np.bool_)
        for demand, role in zip(gang.demands, gang.roles, strict=True):
            if role.minimum:
                short |= self.rooms(demand, self.order) < role.minimum
        times = np.append(self.times, np.inf)
        # for each stretch of levels with enough capacity, the index after its last level
        stops = np.append(short.nonzero()[0], len(self.times))
        firsts = np.append(0, stops[:-1] + 1)
        long = ((firsts < stops) & (times[stops] >= times[firsts] + runs_s)).nonzero()[0]
        stretches = zip(firsts[long].tolist(), stops[long].tolist(), strict=True)
        possible = (at for first, stop in stretches for at in range(first, stop) if times[stop] >= times[at] + runs_s)
        for at in islice(possible, TRIES):
            end_s = float(times[at]) + runs_s
            stop = max(at + 1, int(self.times.searchsorted(end_s)))
            held = placed(self.cluster, self.draft, gang, self.least(job, at, stop, end_s))
            if held is not None:
                return PlannedRun(float(times[at]), end_s, held)
        return None

    def is_short(self, gang: Gang, end_s: float) -> bool:
        """Return True if at some time before `end_s` fewer pods fit on all nodes together than the minimum of the gang.
        Precondition: the gang has only one role."""
        some = self.order[: self.level(end_s)]
        return bool(self.rooms(gang.demands[0], some).min() < gang.minimums[0])

    def take(self, run: PlannedRun) -> None:
        """Reserve the capacity of the run."""
        self.change(run.held, run.start_s, run.end_s, -1)

    def least(self, job: Job, start: int, stop: int, end_s: float) -> Free:
        """Return for each row the minimum of the free amounts over the levels from `start` to `stop`. Return 0 for rows
        that are closed to the job at some time from the first of these levels until `end_s`."""
        free = self.between(start, stop)
        shut = advance.closed_rows(self.cluster, job, float(self.times[start]), end_s)
        if shut is not None:
            for column in free.values():
                np.minimum(column, 0, out=column, where=shut)
        return free

    def beside(self, job: Job, end_s: float) -> Free:
        """Return the amounts that stay free for the job from now until `end_s` if all reservations are respected."""
        return self.least(job, 0, self.level(end_s), end_s)

    def between(self, start: int, stop: int) -> Free:
        """Return for each row the minimum of the free amounts over the levels from `start` to `stop`."""
        some = self.order[start:stop]
        return {resource: column[some].min(axis=0) for resource, column in self.free.items()}

    def level(self, end_s: float) -> int:
        """Return the index of the first level that begins at `end_s` or later; at least 1, because level 0 begins
        now."""
        return int(self.times.searchsorted(end_s)) or 1

    def change(self, held: HeldCapacity, start_s: float, end_s: float, sign: int) -> None:
        """Add (`sign` 1) or subtract (`sign` -1) the capacity `held` from `start_s` to `end_s`."""
        start, stop = self.cut(start_s), len(self.times) if end_s == float("inf") else self.cut(end_s)
        some = self.order[start:stop]
        cells = some[:, None], held.rows
        before = {demand: self.count(demand, some, held.rows) for demand in self.counts}
        for resource, amounts in held.amounts.items():
            if resource in self.free:
                self.free[resource][cells] += sign * amounts
        for demand, counts in self.counts.items():
            counts[some] += self.count(demand, some, held.rows) - before[demand]

    def cut(self, at_s: float) -> int:
        """Return the index of the level that begins at `at_s`. If no level begins at `at_s`, insert one."""
        at = int(self.times.searchsorted(at_s))
        if at < len(self.times) and self.times[at] == at_s:
            return at
        if at == 0:
            return 0
        level, like = self.spare(), self.order[at - 1]
        for column in (*self.free.values(), *self.counts.values()):
            column[level] = column[like]
        self.times, self.order = inserted(self.times, at, at_s), inserted(self.order, at, level)
        return at

    def spare(self) -> int:
        """Return an unused index for one more level in the arrays."""
        if not self.unused:
            size = len(next(iter(self.free.values())))
            self.unused = list(range(size + SPARE - 1, size - 1, -1))
            self.free = {resource: lengthened(column) for resource, column in self.free.items()}
            self.counts = {demand: lengthened(column) for demand, column in self.counts.items()}
        return self.unused.pop()

    def rooms(self, demand: Demand, some: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each level in `some` the number of pods of the demand that fit. If there are at most `FEW` nodes,
        the pods are counted at each call, because keeping stored counts up to date would take more time."""
        known = self.counts.get(demand)
        if known is None:
            rows = matching.matching(self.cluster.columns.attributes, demand.where).nonzero()[0]
            if len(self.draft) <= FEW:
                return self.count(demand, some, rows)
            places = np.arange(len(next(iter(self.free.values()))))
            known = self.counts[demand] = self.count(demand, places, rows)
        return known[some]

    def count(self, demand: Demand, some: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return for each level in `some` the number of pods of the demand that the nodes in `rows` could hold."""
        cells = some[:, None], rows[matching.matching(self.cluster.columns.attributes, demand.where)[rows]]
        most: NDArray[np.int64] | None = None
        for resource, amount in demand.asks:
            column = self.free.get(resource)
            if column is None:
                return np.zeros(len(some), np.int64)
            held = np.maximum(column[cells], 0) // amount
            most = held if most is None else np.minimum(most, held, out=most)
        assert most is not None  # every pod requests at least the resource `pods`
        total: NDArray[np.int64] = most.sum(axis=1)
        return total


def placed(cluster: Cluster, draft: Draft, gang: Gang, free: Free) -> HeldCapacity | None:
    """Place the gang on the free amounts `free`. Return the capacity that the gang takes on each node; None if it does
    not fit."""
    found = gangs.place(draft_over(draft, free), gang)
    return held_by_placements(cluster.columns, gang, found) if isinstance(found, list) else None


def merged(times: list[float], most: int) -> list[float]:
    """Merge neighbouring times into groups, and return the latest time of each group. The first time, which is now,
    stays. The number of results is about `most`."""
    step = -(-len(times) // max(2, most))
    return times if step == 1 else [times[0], *reversed(times[:0:-step])]


def capacity_levels(
    now: NDArray[np.int64], count: int, resource: str, first: NDArray[np.intp], releases: Sequence[Release]
) -> NDArray[np.int64]:
    """Return an array with the free amounts of the resource, indexed [level, row]. `now`: the amounts that are free
    now. `count`: the number of levels. `first[k]`: the first level in which the capacity of release k is free."""
    free = np.zeros((count, len(now)), np.int64)
    for at, (_, held) in zip(first.tolist(), releases, strict=True):
        if resource in held.amounts and at < count:
            free[at, held.rows] += held.amounts[resource]
    np.cumsum(free, axis=0, out=free)
    free += now
    return free


def inserted(column: NDArray[Any], at: int, value: float) -> NDArray[Any]:
    """Return the column with one value inserted. `numpy.insert` takes ten times as long for one value."""
    longer = np.empty(len(column) + 1, column.dtype)
    longer[:at], longer[at], longer[at + 1 :] = column[:at], value, column[at:]
    return longer


def lengthened(column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a copy of the column with `SPARE` unused levels at its end."""
    return np.concatenate((column, np.zeros((SPARE, *column.shape[1:]), np.int64)))


INFINITE_S = float("inf")


class Asked(NamedTuple):
    """The requests of a gang. `amounts`: for each role, (resource, amount) pairs for all pods of the role's minimum
    together. `held`: the capacity that the gang takes, if counting alone shows whether it fits; None if only a
    placement on a draft can show it."""

    amounts: tuple[tuple[str, int], ...]
    held: HeldCapacity | None


class OneNodeProfile:
    """The capacity profile of one node. Level k has the free amounts `free[resource][k]` and lasts from `times[k]`
    until `times[k + 1]`. The last level never ends.

    `surely`: resource -> the smallest free amount of any level. A gang that requests no more than these amounts fits
    into every level."""

    def __init__(self, cluster: Cluster, draft: Draft, now_s: float, free: Free, releases: Sequence[Release]) -> None:
        self.cluster, self.draft, self.row = cluster, draft, int(draft.rows[0])
        self.times = [now_s]
        self.surely = {resource: int(column[self.row]) for resource, column in free.items()}
        self.free = {resource: [amount] for resource, amount in self.surely.items()}
        self.known: dict[Gang, Asked] = {}
        for end_s, held in releases:
            if end_s > self.times[-1]:
                self.times.append(end_s)
                for column in self.free.values():
                    column.append(column[-1])
            for resource, amount in held.in_all.items():
                if resource in self.free:
                    self.free[resource][-1] += amount
        self.times.append(INFINITE_S)

    def earliest_run(self, job: Job, gang: Gang, runs_s: float) -> PlannedRun | None:
        """Return the earliest possible run of the gang, without reserving it; None if no run is found. `runs_s`: the
        run time of the gang in seconds; infinite if it has no time limit."""
        only = self.asked(gang).held
        for at in islice(self.possible(gang, runs_s), TRIES):
            start_s = self.times[at]
            end_s = start_s + runs_s
            held = only or placed(self.cluster, self.draft, gang, self.between(at, max(at + 1, self.level(end_s))))
            if held is not None:
                return PlannedRun(start_s, end_s, held)
        return None

    def asked(self, gang: Gang) -> Asked:
        """Return the requests of the gang."""
        known = self.known.get(gang)
        if known is None:
            plain = len(gang.roles) == 1 and gang.rigid and gang.simple and self.draft.ordinary(gang.demands[0])
            plain = plain and self.draft.allowed(gang.demands[0].where) is None
            each = zip(gang.demands, gang.minimums, strict=True)
            amounts = tuple((name, amount * minimum) for demand, minimum in each for name, amount in demand.asks)
            held = HeldCapacity(np.array([self.row]), {name: np.array([amount]) for name, amount in amounts})
            known = self.known[gang] = Asked(amounts, held if plain else None)
        return known

    def possible(self, gang: Gang, runs_s: float) -> Iterator[int]:
        """Yield the levels at which the gang could start: its requests fit into the free amounts of the level, and of
        all levels of the following `runs_s` seconds."""
        times, first = self.times, 0
        for stop in self.short(gang):
            while first < stop and times[stop] >= times[first] + runs_s:
                yield first
                first += 1
            first = stop + 1

    def short(self, gang: Gang) -> list[int]:
        """Return the indexes of the levels whose free amounts are too small for at least one role of the gang. One more
        entry, the number of levels, is added at the end of the list."""
        found = [[at for at, free in enumerate(levels) if free < amount] for levels, amount in self.scarce(gang)]
        short = found[0] if len(found) == 1 else sorted({at for each in found for at in each})
        return [*short, len(self.times) - 1]

    def scarce(self, gang: Gang) -> list[tuple[list[int], int]]:
        """For each role and resource, return (list of the free amounts in all levels, requested amount). Leave out
        requests that fit into every level."""
        free, surely, none = self.free, self.surely, [0] * (len(self.times) - 1)
        return [(free.get(name, none), most) for name, most in self.asked(gang).amounts if surely.get(name, 0) < most]

    def is_short(self, gang: Gang, end_s: float) -> bool:
        """Return True if at some time before `end_s` the free amounts are smaller than the gang's requests."""
        stop = self.level(end_s)
        return any(min(levels[:stop]) < amount for levels, amount in self.scarce(gang))

    def take(self, run: PlannedRun) -> None:
        """Reserve the capacity of the run."""
        self.change(run.held, run.start_s, run.end_s, -1)

    def beside(self, job: Job, end_s: float) -> Free:
        """Return the amounts that stay free for the job from now until `end_s` if all reservations are respected."""
        return self.between(0, self.level(end_s))

    def between(self, start: int, stop: int) -> Free:
        """Return for each row the minimum of the free amounts over the levels from `start` to `stop`."""
        free = {resource: column.copy() for resource, column in self.cluster.columns.free.items()}
        for resource, levels in self.free.items():
            free[resource][self.row] = min(levels[start:stop])
        return free

    def level(self, end_s: float) -> int:
        """Return the index of the first level that begins at `end_s` or later; at least 1, because level 0 begins
        now."""
        return bisect_left(self.times, end_s) or 1

    def change(self, held: HeldCapacity, start_s: float, end_s: float, sign: int) -> None:
        """Add (`sign` 1) or subtract (`sign` -1) the capacity `held` from `start_s` to `end_s`."""
        start, stop = self.cut(start_s), self.cut(end_s)
        for resource, amount in held.in_all.items():
            if resource in self.free:
                levels, more = self.free[resource], sign * amount
                changed = levels[start:stop] = [free + more for free in levels[start:stop]]
                self.surely[resource] = min([self.surely[resource], *changed])

    def cut(self, at_s: float) -> int:
        """Return the index of the level that begins at `at_s`. If no level begins at `at_s`, insert one."""
        at = bisect_left(self.times, at_s)
        if at and self.times[at] != at_s:
            self.times.insert(at, at_s)
            for levels in self.free.values():
                levels.insert(at, levels[at - 1])
        return at
