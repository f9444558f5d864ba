"""The end of a cycle: its plan, and when to look again though nothing happens.

The plan tells what starts, who gives way and who is told what, and what was found about those who wait. What is decided
may itself change for somebody what they wait for: that is looked at in the next cycle, which is to follow at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, nextafter

from phalanx.core.backfill import advance
from phalanx.core.cycle.steps import Cycle
from phalanx.core.fold import job_dependencies
from phalanx.model.job import DependencyType, Phase
from phalanx.model.plan import Action, Findings, Place, Plan, Start, Wait
from phalanx.model.reason import NEVER, Reason, ReasonCode
from phalanx.state.cluster import Cluster
from phalanx.state.nodes.pod_index import arrival_may_help
from phalanx.state.pending.line import Bid
from phalanx.state.pending.pending import KEPT, QUOTA, Deadline
from phalanx.state.pending.timers import NEVER_S


def plan(cycle: Cycle) -> Plan:
    """What the cycle decided."""
    places = [Place(job, tuple(placements)) for job, placements in cycle.state.places.items()]
    waits, parked = cycle.telling.waits, cycle.parked
    if gone := cycle.preempting.gone():  # what they were told a moment ago is not true any more
        parked = {bid: None for bid in parked if bid.job not in gone}
        waits = {job: reason for job, reason in waits.items() if job not in gone}
    told = [Wait(job, reason) for job, reason in waits.items()]
    actions: tuple[Action, ...] = (*places, *cycle.starts, *cycle.preempting.actions, *told)
    findings = Findings(
        version=cycle.pending.version,
        received=tuple(cycle.received),
        parked=tuple(parked),
        resting=tuple(cycle.resting),
        told=tuple(cycle.telling.told()),
        explained=tuple(cycle.telling.explained.items()),
        failed=tuple(cycle.state.blocked.failed) if "blocked" in cycle.state.__dict__ else (),
        first=cycle.reserving.first(),
        searched=tuple(cycle.preempting.outcomes()),
        put_off=cycle.preempting.put_off or cycle.preempting.is_due(),
    )
    return Plan(actions=actions, wake_s=wake_s(cycle), findings=findings)


def regrouped(cycle: Cycle) -> set[str]:
    """Jobs of which pods are placed now, and where these are decides where the others may go: what of them is still
    open is looked at anew."""
    return {job for job in cycle.state.places if cycle.cluster.jobs[job].gang.tree is not None}


def passes_turn(cycle: Cycle, job: str, reason: Reason) -> bool:
    """It was the job's turn in its array, and it can do nothing with it."""
    record = cycle.cluster.jobs[job]
    if record.job.array_cap is None or reason.code is ReasonCode.ARRAY_LIMIT or record.phase is not Phase.QUEUED:
        return False
    if cycle.pending.stands(Bid(job)):
        return reason.code in NEVER
    return job_dependencies.waits_for_turn(record) or cycle.cluster.dependencies.contends(record.job)


def waits_for_quota(cycle: Cycle) -> bool:
    """Whether somebody does."""
    cells = cycle.pending.cells
    told = any(told == QUOTA for told, _ in cycle.telling.cells.values())
    return told or bool(((cells.told == QUOTA) & (cells.cls >= 0)).any())


def brings_company(cycle: Cycle) -> bool:
    """Pods are placed now that a cell waits to be with, or evenly beside."""
    classes = [cycle.pending.classes[number] for number in (*cycle.pending.failed, *failed(cycle))]
    heeding = [found.combination.gang for found in classes if found is not None and found.heeds]
    if not heeding:
        return False
    jobs = [*(start.job for start in cycle.starts if start.placements), *cycle.state.places]
    kinds = {demand.kind for job in jobs for demand in cycle.cluster.jobs[job].gang.demands if demand.kind}
    shapes = (demand.shape for gang in heeding for demand in gang.demands)
    return bool(kinds) and any(arrival_may_help(shape, kind) for shape in shapes for kind in kinds)


def failed(cycle: Cycle) -> tuple[int, ...]:
    return tuple(cycle.state.blocked.failed) if "blocked" in cycle.state.__dict__ else ()


def wake_s(cycle: Cycle) -> float | None:
    """When to look again though nothing happens, seconds since the epoch."""
    times = appointments(cycle.cluster, cycle.now_s, cycle.starts, cycle.state.won)
    again_s = (*[at_s for _, at_s in cycle.resting], *[each.again_s for each in cycle.preempting.searched.values()])
    times += [at_s for at_s in again_s if cycle.now_s < at_s < NEVER_S]
    times += cycle.preempting.wake_s()
    if cycle.preempting.told and waits_for_quota(cycle):
        times.append(cycle.now_s)  # who gives way gives back quota that others wait for
    if cycle.cluster.dependencies.arrays and any(passes_turn(cycle, *each) for each in cycle.telling.waits.items()):
        times.append(cycle.now_s)  # whose turn it is then is looked at next
    if brings_company(cycle):
        times.append(cycle.now_s)  # who waits for such pods is looked at next
    if any(len(cycle.cluster.jobs[job].open) > len(cycle.state.places[job]) for job in regrouped(cycle)):
        times.append(cycle.now_s)  # the others follow next
    return min(times) if times else None


def appointments(cluster: Cluster, now_s: float, starts: Sequence[Start], won: Iterable[Bid]) -> list[float]:
    """When something comes to pass by itself, seconds since the epoch, each later than `now_s`. `starts`, `won`: the
    jobs, and requests, that start now."""
    times: list[float] = []
    if (next_s := cluster.pending.timers.next_s({Deadline(bid.job) for bid in won})) is not None:
        times.append(next_s)
    if cluster.dependencies.dependents and any(awaited(cluster, each.job) for each in starts):
        times.append(nextafter(now_s, inf))  # who waits for their start is looked at next
    if cluster.reservations:
        times += advance.boundaries_s(cluster, now_s)[:1]
    return times


def awaited(cluster: Cluster, job: str) -> bool:
    """Whether anyone waits for the job to start."""
    others = (cluster.jobs[name].job for name in cluster.dependencies.dependents.get(job, ()))
    return any(each.job == job and each.after is DependencyType.START for other in others for each in other.after)


def is_idle(cluster: Cluster, now_s: float) -> bool:
    """Whether there is nothing to decide: nothing has happened since the last plan that may let a request start, and no
    timer is due."""
    pending = cluster.pending
    if cluster.nominated or pending.fresh or pending.changed or (cluster.tree.eased and pending.lines):
        return False
    if cluster.columns.pod_index.changed and pending.failed:
        return False
    if (pending.cells.told == KEPT).any():
        return False  # whose room is kept may have it as time passes: the first is expected at another time
    next_s = pending.timers.next_s()
    return (next_s is None or next_s > now_s) and not pending.has_due_search()
