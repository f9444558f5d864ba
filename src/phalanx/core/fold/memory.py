"""The *memory* of a cycle: results that the next cycle can use. The decision of a cycle, also defined in this module,
consists of a plan and the memory.

`core.cycle.plan` writes the memory of a cycle, and only this module applies it to the cluster state. The memory saves
time and keeps reasons up to date. It does not change which jobs start: without the memory, the next cycle makes the
same decisions (`tests/core/test_decisions_follow_from_the_state.py`)."""

from __future__ import annotations

from typing import NamedTuple

from phalanx.core.fold import job_dependencies
from phalanx.model.job import Phase
from phalanx.model.plan import Action, FirstReservation, Plan
from phalanx.model.reason import Reason
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.pending.placement_class import PlacementClassKey
from phalanx.state.pending.request_class import Request, RequestClassKey, Search


class RequestClassReport(NamedTuple):
    """The last report about one request class. `blocker`: the kind of obstacle, such as `Blocker.CAPACITY`. `reason`:
    the reason; None if the reason of the placement class applies."""

    blocker: int
    reason: Reason | None = None


class Memory(NamedTuple):
    """The memory of one cycle.

    `version`: the version of the state on which the cycle decided. If an event has changed the state since the
        decision, the memory is not applied.
    `received`: requests that the cycle has added to a request class. `waiting_for_event`: requests that are not checked
        again before an event that concerns their job.
    `waiting_until`: requests that wait until a given time. `reports`: the obstacle and reason that each request class
    has reported.
    `explained`: the reason of each placement class without capacity. `disproved`: placement classes whose stored reason
        is no longer true. `stale`: placement class -> the new value of `PlacementClass.stale`. `renewed`: whether the
        reasons of all classes are up to date.
    `failed`: placement classes that were closed because a trial placement failed, although the free amounts were
    enough.
    `first`: the first backfill reservation.
    `searched`: failed searches for victims. `has_postponed`: whether searches for victims or starts were postponed to
    the next cycle.
    `exceeding`: queue -> the time since which its usage exceeds its limit (seconds since the epoch). Pods of such a
        queue may be evicted."""

    version: int
    received: tuple[Request, ...] = ()
    waiting_for_event: tuple[Request, ...] = ()
    waiting_until: tuple[tuple[Request, float], ...] = ()
    reports: tuple[tuple[RequestClassKey, RequestClassReport], ...] = ()
    explained: tuple[tuple[PlacementClassKey, Reason], ...] = ()
    disproved: tuple[PlacementClassKey, ...] = ()
    stale: tuple[tuple[PlacementClassKey, int], ...] = ()
    renewed: bool = False
    failed: tuple[PlacementClassKey, ...] = ()
    first: FirstReservation | None = None
    searched: tuple[tuple[RequestClassKey, Search], ...] = ()
    has_postponed: bool = False
    exceeding: tuple[tuple[str, float], ...] = ()

    def begin(self, cluster: Cluster) -> None:
        """Remove the requests that wait for an event from the pending requests. The caller does this before it applies
        the actions of the plan. One of these actions may be the event for which a request waits, and then it adds the
        request again."""
        for request in self.waiting_for_event:
            cluster.pending.leave(request)
        cluster.pending.changed = cluster.tree.eased = False
        cluster.pending.renews = cluster.pending.renews and not self.renewed

    def fold(self, cluster: Cluster) -> None:
        """Apply the rest of the memory to the state. The caller does this after it has applied the actions of the
        plan."""
        pending = cluster.pending
        for request, again_s in self.waiting_until:
            pending.wait_until(request, again_s)
        classes = pending.placement_classes.of_key
        for placement_key in self.disproved:
            pending.placement_classes.explain(placement_key, None)
        for placement_key, stale in self.stale:
            if (found := classes.get(placement_key)) is not None:
                found.stale = stale
        for placement_key, reason in self.explained:
            pending.placement_classes.explain(placement_key, reason)
        for key, report in self.reports:
            pending.note_report(key, report.blocker, report.reason)
        for key, search in self.searched:
            pending.remember(key, search)
        pending.placement_classes.failed.update({classes[each]: None for each in self.failed if each in classes})
        pending.unreported.clear()
        pending.reserved, cluster.exceeding = self.first, dict(self.exceeding)
        if self.has_postponed:
            pending.changed = True
        if cluster.dependencies.arrays:
            note_arrays(cluster, self)


class Decision(NamedTuple):
    """The decision of one cycle. `plan`: the actions to carry out in the cluster. `memory`: the results for the next
    cycle; None if there are none."""

    plan: Plan
    memory: Memory | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        return self.plan.actions


def note_arrays(cluster: Cluster, memory: Memory) -> None:
    """Record which waiting jobs are now candidates for a start and so count against the cap of their array. If a job
    stops being a candidate, the next job of its array may become one. A nominated job remains a candidate, although it
    is in no request class. A job that has just started on its nominated nodes remains a candidate, too."""
    relations = cluster.dependencies
    for request in memory.received:
        if request.job not in cluster.jobs or request not in cluster.pending.request_class_of:
            continue
        if job_dependencies.contends(cluster.jobs[request.job]):
            relations.work(cluster.jobs[request.job].job)
        else:
            relations.passed[request.job] = None
    for request in (*memory.waiting_for_event, *(request for request, _ in memory.waiting_until)):
        record = cluster.jobs[request.job]
        if request.slot is None and record.phase is Phase.QUEUED and not record.nominated:
            relations.rest(record.job)
            relations.passed[request.job] = None
    passed, relations.passed = relations.passed, {}
    for name in passed:
        pass_turn(cluster, cluster.jobs[name])


def pass_turn(cluster: Cluster, record: JobRecord) -> None:
    """If the job waits for something other than the cap of its array, let the next job of the array become a candidate
    in its place. If the job is in a request class, also add it to `Pending.hopeless`. Such a job cannot start at
    present, and the cap must be checked again before it starts."""
    pending, name = cluster.pending, record.job.id
    if Request(name) in pending.request_class_of:
        pending.hopeless[Request(name)] = None
    if not job_dependencies.waits_for_turn(record) and (
        following := job_dependencies.next_of_array(cluster, record.job)
    ):
        pending.refresh(Request(following))
