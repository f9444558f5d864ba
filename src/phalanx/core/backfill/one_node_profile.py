"""The capacity profile of a cluster of one node, in plain integers: the machine of a log, or a laptop.

It has the methods of `core.backfill.profile`, which serves clusters of many nodes. With one node, a level is one number
per resource, and a loop over a few hundred levels costs less than one operation on arrays. For a gang of one role of
unconstrained pods, counting alone decides. Any other gang is placed by the usual code on the amounts that stay free
during its run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from phalanx.core.backfill.profile import TRIES, PlannedRun, placed
from phalanx.core.backfill.shadow_time import Free, HeldCapacity, Release
from phalanx.core.placement.draft import Draft
from phalanx.model.job import Job
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster

INFINITE_S = float("inf")


class Asked(NamedTuple):
    """The requests of a gang. `amounts`: (resource, amount) for the whole minimum of each role. `held`: the capacity of
    the gang if counting alone decides whether it fits; None if it must be placed."""

    amounts: tuple[tuple[str, int], ...]
    held: HeldCapacity | None


class OneNodeProfile:
    """The capacity profile of one node. Level k has the free amounts `free[resource][k]` and lasts from `times[k]`
    until `times[k + 1]`. The last level never ends.

    `surely`: resource -> the least free amount of all levels. A gang that requests at most this amount fits into every
    level."""

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
        """Return the earliest run of a gang with run time `runs_s` (infinite: for ever); None if none is found. Nothing
        is reserved."""
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
            plain = plain and self.draft.matching(gang.demands[0].where) is None
            each = zip(gang.demands, gang.minimums, strict=True)
            amounts = tuple((name, amount * minimum) for demand, minimum in each for name, amount in demand.asks)
            held = HeldCapacity(np.array([self.row]), {name: np.array([amount]) for name, amount in amounts})
            known = self.known[gang] = Asked(amounts, held if plain else None)
        return known

    def possible(self, gang: Gang, runs_s: float) -> Iterator[int]:
        """Yield the levels at which the gang can start by counting: this level and all levels of the next `runs_s`
        seconds have enough for it."""
        times, first = self.times, 0
        for stop in self.short(gang):
            while first < stop and times[stop] >= times[first] + runs_s:
                yield first
                first += 1
            first = stop + 1

    def short(self, gang: Gang) -> list[int]:
        """Return the levels that have too little for some role of the gang, by counting, and after them the number of
        levels."""
        found = [[at for at, free in enumerate(levels) if free < amount] for levels, amount in self.scarce(gang)]
        short = found[0] if len(found) == 1 else sorted({at for each in found for at in each})
        return [*short, len(self.times) - 1]

    def scarce(self, gang: Gang) -> list[tuple[list[int], int]]:
        """Return (free amount of each level, requested amount) for each role and resource for which some level may have
        too little."""
        free, surely, none = self.free, self.surely, [0] * (len(self.times) - 1)
        return [(free.get(name, none), most) for name, most in self.asked(gang).amounts if surely.get(name, 0) < most]

    def is_short(self, gang: Gang, end_s: float) -> bool:
        """Return whether, by counting, the free amounts are too small for the gang at some time before `end_s`."""
        stop = self.level(end_s)
        return any(min(levels[:stop]) < amount for levels, amount in self.scarce(gang))

    def take(self, run: PlannedRun) -> None:
        """Reserve the run."""
        self.change(run.held, run.start_s, run.end_s, -1)

    def beside(self, job: Job, end_s: float) -> Free:
        """Return the amounts that stay free for the job from now until `end_s`, beside all reservations."""
        return self.between(0, self.level(end_s))

    def between(self, start: int, stop: int) -> Free:
        """Return for each row the least free amounts from level `start` to `stop`."""
        free = {resource: column.copy() for resource, column in self.cluster.columns.free.items()}
        for resource, levels in self.free.items():
            free[resource][self.row] = min(levels[start:stop])
        return free

    def level(self, end_s: float) -> int:
        """Return the first level that begins at `end_s` or later, but not the level that begins now."""
        return bisect_left(self.times, end_s) or 1

    def change(self, held: HeldCapacity, start_s: float, end_s: float, sign: int) -> None:
        """Free (`sign` 1) or take (-1) capacity from `start_s` to `end_s`."""
        start, stop = self.cut(start_s), self.cut(end_s)
        for resource, amount in held.in_all.items():
            if resource in self.free:
                levels, more = self.free[resource], sign * amount
                changed = levels[start:stop] = [free + more for free in levels[start:stop]]
                self.surely[resource] = min([self.surely[resource], *changed])

    def cut(self, at_s: float) -> int:
        """Return the level that begins at this time. Insert it if there is none."""
        at = bisect_left(self.times, at_s)
        if at and self.times[at] != at_s:
            self.times.insert(at, at_s)
            for levels in self.free.values():
                levels.insert(at, levels[at - 1])
        return at
