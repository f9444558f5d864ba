"""The end of a cycle: its plan, and when to look again though nothing happens.

The plan tells what starts, who gives way and who is told what, and what was found about those who wait. What is decided
may itself change for somebody what they wait for: that is looked at in the next cycle, which is to follow at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.core.cycle.appointment import appointments
from phalanx.core.fold import job_dependencies
from phalanx.model.job import Phase
from phalanx.model.plan import Action, Findings, Place, Plan, Wait
from phalanx.model.reason import NEVER, Reason, ReasonCode
from phalanx.state.nodes.pod_index import arrival_may_help
from phalanx.state.pending.line import Bid

if TYPE_CHECKING:
    from phalanx.core.cycle.steps import Cycle


def plan(cycle: Cycle) -> Plan:
    """What the cycle decided."""
    places = [Place(job, tuple(placements)) for job, placements in cycle.places.items()]
    joined, parked, waits = cycle.joined, cycle.parked, cycle.waits
    if gone := cycle.preempting.gone():  # what they were told a moment ago is not true any more
        joined = {bid: each for bid, each in joined.items() if bid.job not in gone}
        parked = {bid: None for bid in parked if bid.job not in gone}
        waits = {job: reason for job, reason in waits.items() if job not in gone}
    if places and (bound := regrouped(cycle)):
        joined = {bid: each for bid, each in joined.items() if bid.slot is None or bid.job not in bound}
    told = [Wait(job, reason) for job, reason in waits.items()]
    actions: tuple[Action, ...] = (*places, *cycle.starts, *cycle.preempting.actions, *told)
    findings = Findings(
        version=cycle.waiting.version,
        joined=tuple(joined.values()),
        parked=tuple(parked),
        resting=tuple(cycle.resting),
        asleep=(*cycle.asleep, *cycle.crowds.told.values()),
        still=tuple(cycle.still),
        quiet=tuple(cycle.crowds.quiet()),
        looked=cycle.lookahead.looked,
        first=cycle.lookahead.first(),
        hunting=tuple(cycle.preempting.hunters(stirred=bool(places or cycle.starts or cycle.preempting.actions))),
        again=tuple(cycle.preempting.again_s.items()),
    )
    return Plan(actions=actions, wake_s=wake_s(cycle), findings=findings)


def regrouped(cycle: Cycle) -> set[str]:
    """Jobs of which pods are placed now, and where these are decides where the others may go: what of them is still
    open is looked at anew."""
    return {job for job in cycle.places if cycle.cluster.jobs[job].gang.tree is not None}


def passes_turn(cycle: Cycle, job: str, reason: Reason) -> bool:
    """It was the job's turn in its array, and it can do nothing with it."""
    record = cycle.cluster.jobs[job]
    if record.job.array_cap is None or reason.code is ReasonCode.ARRAY_LIMIT or record.phase is not Phase.QUEUED:
        return False
    if Bid(job) in cycle.joined or cycle.waiting.line_of(job):
        return reason.code in NEVER
    return job_dependencies.waits_for_turn(record) or cycle.cluster.dependencies.contends(record.job)


def bars_anyone(cycle: Cycle) -> bool:
    """Whether somebody waits for quota."""
    return bool(
        cycle.waiting.bars or any(each.tolls for each in cycle.asleep) or any(each.room is None for each in cycle.still)
    )


def brings_company(cycle: Cycle) -> bool:
    """Pods are placed now that a line waits to be with, or evenly beside."""
    if not (heeding := [*cycle.waiting.heeding.lines, *[each.line for each in cycle.asleep if each.heeds]]):
        return False
    jobs = [*(start.job for start in cycle.starts if start.placements), *cycle.places]
    kinds = {demand.kind for job in jobs for demand in cycle.cluster.jobs[job].gang.demands if demand.kind}
    shapes = (demand.shape for key in heeding for demand in key.gang.demands)
    return bool(kinds) and any(arrival_may_help(shape, kind) for shape in shapes for kind in kinds)


def wake_s(cycle: Cycle) -> float | None:
    """When to look again though nothing happens, seconds since the epoch."""
    times = appointments(cycle.cluster, cycle.now_s, cycle.starts, cycle.won)
    again_s = (*[at_s for _, at_s in cycle.resting], *cycle.preempting.again_s.values())
    times += [at_s for at_s in again_s if at_s is not None and at_s > cycle.now_s]
    times += cycle.preempting.wake_s()
    if cycle.preempting.told and bars_anyone(cycle):
        times.append(cycle.now_s)  # who gives way gives back quota that others wait for
    if cycle.cluster.dependencies.arrays and any(passes_turn(cycle, *each) for each in cycle.waits.items()):
        times.append(cycle.now_s)  # whose turn it is then is looked at next
    if brings_company(cycle):
        times.append(cycle.now_s)  # who waits for such pods is looked at next
    if any(len(cycle.cluster.jobs[job].open) > len(cycle.places[job]) for job in regrouped(cycle)):
        times.append(cycle.now_s)  # the others follow next
    return min(times) if times else None
