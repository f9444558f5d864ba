"""The expected ends of running jobs, and of the jobs that this cycle has granted. Reservations are computed from these
ends.

A running job is expected to end at its time limit. A job without a time limit is expected never to end. A preempted job
is expected to end at once. A nominated job is treated as if it already ran on the nodes to which it is nominated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from phalanx.core.backfill import advance
from phalanx.core.backfill.shadow_time import (
    Free,
    HeldCapacity,
    Release,
    ReleaseBlock,
    free_by_row,
    held_by_job,
    held_by_placements,
    held_by_slots,
    held_without,
)
from phalanx.core.placement.draft import Draft
from phalanx.model.job import Phase, Placement, Slot
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord, nominated_placements, time_limit_s
from phalanx.state.pending.request_class import Request
from phalanx.state.running import LEAVING_S

Grant: TypeAlias = tuple[Request, Gang, Sequence[Placement]]

INFINITE_S = float("inf")
WHEN = itemgetter(0)
NOTHING = HeldCapacity(np.zeros(0, np.intp), {})


class CycleEnds:
    """The expected ends of running jobs, and of the jobs that this cycle has granted.

    `given`: a list of (request, gang, placements) for the grants of the cycle and the nominations. The cycle appends
    each further grant to the list.
    `leaving`: jobs of which this cycle preempts all pods. `shrunk`: job -> the slots that the job loses in this
    cycle."""

    def __init__(self, cluster: Cluster, now_s: float, given: list[Grant]) -> None:
        self.cluster, self.now_s, self.given = cluster, now_s, given
        self.leaving: dict[str, None] = {}
        self.shrunk: dict[str, list[Slot]] = {}
        self._granted: list[tuple[float, Gang, Sequence[Placement]]] = []
        self._foreseen = False  # True if at least one granted job has a known end
        self._at_last: Free = {}
        # The numbers of grants, of leaving jobs and of shrunk slots when `_at_last` was last updated.
        self._known = (0, 0, 0)

    @property
    def granted(self) -> list[tuple[float, Gang, Sequence[Placement]]]:
        """Return (expected end, gang, placements) of each grant of the cycle."""
        known, jobs = self._granted, self.cluster.jobs
        if len(known) < len(self.given):
            new = self.given[len(known) :]
            ends = [(self.of(jobs[request.job], request), gang, placements) for request, gang, placements in new]
            self._foreseen = self._foreseen or any(end_s < INFINITE_S for end_s, _, _ in ends)
            known += ends
        return known

    def leave(self, job: str, slots: Sequence[Slot] = ()) -> None:
        """Record that the job is preempted, so that it is expected to end at once. `slots`: the preempted slots; empty
        for the whole job."""
        if slots:
            self.shrunk.setdefault(job, []).extend(slots)
        else:
            self.leaving[job] = None
            if any(
                request.job == job for request, _, _ in self.given
            ):  # the job was started in this cycle: remove its grant
                self.given[:] = [each for each in self.given if each[0].job != job]
                self._granted = []

    def partly_leaving(self) -> dict[str, set[Slot]]:
        """Return a mapping: job -> the slots whose pods terminate while other pods of the job continue to run. The
        forecast treats such pods as if they ended now (rule R13)."""
        jobs = self.cluster.jobs
        found = {job: set(jobs[job].leaving) for job in self.cluster.leaving if jobs[job].phase is not Phase.STOPPING}
        for job, slots in self.shrunk.items():
            found.setdefault(job, set()).update(slots)
        return found

    def anyone_ends(self) -> bool:
        """Return whether the end of at least one job can be foreseen. If not, the cycle makes no reservation."""
        if self.cluster.ends.order or self.cluster.reservations or self.anyone_leaves_now():
            return True
        return bool(self.granted) and self._foreseen

    def anyone_leaves_now(self) -> bool:
        """Return whether pods terminate now, or a running job has exceeded its time limit. The forecast already counts
        the capacity of such pods as free. If there are none, forecast and nodes have the same free capacity now.
        Suppose that in this case the forecast has capacity for a job now, but the job cannot be placed on the nodes.
        Then another cause than missing amounts blocks the job, so its start cannot be foreseen."""
        leaving = self.cluster.ends.order[:1]
        is_overdue = bool(leaving) and leaving[0][0] <= self.now_s
        return is_overdue or bool(self.cluster.leaving or self.leaving or self.shrunk)

    def free_at_last(self, draft: Draft) -> Free:
        """Return the free amounts of each row after the end of all jobs with a foreseeable end. The result is
        cached."""
        granted, leaving = self.granted, (len(self.leaving), sum(map(len, self.shrunk.values())))
        if not self._at_last or self._known[1:] != leaving or len(granted) < self._known[0]:
            self._at_last = free_by_row(draft)
            if ending := [held for end_s, held in self.releases() if end_s < INFINITE_S]:
                ReleaseBlock(ending).add_to(self._at_last, len(ending))
        else:
            for end_s, gang, placements in granted[self._known[0] :]:
                if end_s == INFINITE_S:
                    held_by_placements(self.cluster.columns, gang, placements).add_to(self._at_last, -1)
        self._known = len(granted), *leaving
        return self._at_last

    def of(self, record: JobRecord, request: Request) -> float:
        """Return the expected end of the job (seconds since the epoch), assuming that the request is granted now."""
        limit_s = record.job.limit_s
        if limit_s is None and (limit_s := time_limit_s(self.cluster, record.job)) is None:
            return INFINITE_S
        since_s = self.now_s if request.slot is None else record.started_s
        end_s = since_s + limit_s
        return end_s if end_s > self.now_s else self.now_s

    def in_order(self) -> Sequence[tuple[float, str]]:
        """Return (expected end in seconds since the epoch, job) of the running jobs, sorted."""
        order, leaving = self.cluster.ends.order, self.leaving
        if not leaving:
            return order
        return [(LEAVING_S, job) for job in leaving] + [each for each in order if each[1] not in leaving]

    def releases(self) -> Iterator[Release]:
        """Yield (time, released capacity), sorted by time, for the ends of running jobs and of jobs granted in this
        cycle. The start and the end of each advance reservation are also yielded, with an empty released capacity."""
        cluster, known, partly = self.cluster, self.cluster.ends.derived, self.partly_leaving()
        found = (
            (end_s, held_without(cluster, job, partly[job]))
            if job in partly
            else (end_s, known.get(job) or held_by_job(cluster, job))
            for end_s, job in self.in_order()
        )
        more = [(LEAVING_S, held_by_slots(cluster, job, slots)) for job, slots in partly.items()]
        more += [
            (end_s, held_by_placements(cluster.columns, gang, placements))
            for end_s, gang, placements in self.granted
            if end_s < INFINITE_S
        ]
        more += [(at_s, NOTHING) for at_s in advance.boundaries_s(cluster, self.now_s)]
        return merge(found, sorted(more, key=WHEN), key=WHEN) if more else found


def nominated_gangs(cluster: Cluster) -> Iterator[Grant]:
    """Yield (request, gang, placements) of each nomination. Nominated jobs count as running jobs."""
    for job in cluster.nominated:
        record = cluster.jobs[job]
        slot = None if record.phase is Phase.QUEUED else next(iter(record.nominated))
        yield Request(job, slot), record.gang, nominated_placements(record)
