"""Carry out the core's decisions about a gang: start it, place more of its pods, shrink it, or preempt it. The module
also undoes a start in another cluster that cannot run the gang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.kube.gang.departure import TakeBack
from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.requeue import leave_preempted, take_back
from phalanx.kube.gang.lifecycle.stages import Running, StartedParts, Starting, Waiting
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.model.event import Refused, Released
from phalanx.model.job import Placement, Slot
from phalanx.model.plan import Preempt, Shrink, Start
from phalanx.model.reason import Reason, ReasonCode


def start(gang: GangLifecycle, decided: Start, *, whole: bool) -> None:
    """Carry out a start: write the record of the start on the gang's Jobs and resume them. The Job controllers then
    create the pods, and the pods wait at the bind barrier until enough of them can be bound. `whole`: True if all pods
    of the gang's minimum must start together."""
    spec, effects = gang.state.spec if isinstance(gang.state, Waiting) else None, gang.effects
    if spec is None or spec.job.blocked is not None:
        changed = Reason(code=ReasonCode.BACKOFF, text="it changed while it was planned")
        effects.emit_event(Refused(gang.id, decided.attempt, changed, effects.now_s() + 1.0))
        return
    parts = parts_of(gang, GangStart.planned(effects, gang.objects, spec, decided, gang=whole))
    effects.drop_wait_reason(gang.id)  # before the start, because reasons of a started gang are about single pods
    gang.enter(Starting(parts=parts, held=spec.gated))
    if whole:
        parts.elastic.grant([len(row.seats) for row in parts.start.seats.rows])
    if not spec.gated:
        if spec.updates:
            parts.seating.update(spec.updates)
        resume_jobs(gang, parts)


def parts_of(gang: GangLifecycle, start: GangStart) -> StartedParts:
    """Create the objects that handle one start of this gang, such as its seats (places for pods) and its bind
    barrier."""
    return StartedParts.of(start, lambda request: leave_preempted(gang, start, request))


def resume_jobs(gang: GangLifecycle, parts: StartedParts) -> None:
    """Resume the gang's Jobs. If any Job cannot be resumed, the start is undone."""

    def resumed(answer: WriteOutcome, text: str) -> None:
        if gang.state.parts is not parts or not isinstance(gang.state, Starting):
            return
        parts.start.since_s = gang.effects.now_s()
        if answer is WriteOutcome.REFUSED:
            refused = Reason(code=ReasonCode.BACKOFF, text=f"its Job could not be resumed: {text}")
            take_back(gang, parts, TakeBack(refused))
        elif answer is WriteOutcome.CHANGED:
            changed = Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text="it changed while it was started")
            take_back(gang, parts, TakeBack(changed))

    parts.resume_jobs(resumed)


def place(gang: GangLifecycle, placements: Sequence[Placement]) -> None:
    """Store the nodes of these placements in seats (places for pods) that have no node yet. If a seat no longer exists,
    report to the core that its node is not needed."""
    if gang.state.parts is None:
        for placement in placements:
            gang.effects.emit_event(Released(gang.id, (Slot(placement.role, placement.ordinal),)))
        return
    gang.state.parts.seating.place(placements)
    gang.state.parts.elastic.fill(Slot(role, ordinal) for role, ordinal, _, _ in placements)


def preempt(gang: GangLifecycle, decided: Preempt) -> None:
    """Carry out a preemption. Ignore the decision if the gang is already leaving its nodes or has ended. In both cases,
    the end of its start is reported to the core anyway."""
    if isinstance(gang.state, Starting | Running):
        gang.state.parts.preemption.preempt(decided)


def shrink(gang: GangLifecycle, decided: Shrink) -> None:
    if isinstance(gang.state, Starting | Running):
        gang.state.parts.elastic.shrink(decided)


def give_back(gang: GangLifecycle, attempt: int, why: Reason, avoid_s: Mapping[str, float]) -> None:
    """Undo the start with the number `attempt`, because the cluster to which the gang was sent cannot run it.
    `avoid_s`: a map from a cluster to the seconds for which the gang is not sent to that cluster."""
    if gang.elsewhere is None or gang.elsewhere.attempt != attempt or gang.state.parts is None:
        return
    now_s = gang.effects.now_s()
    gang.history.left_out |= {cluster: now_s + for_s for cluster, for_s in avoid_s.items()}
    take_back(gang, gang.state.parts, TakeBack(why, evicts=bool(gang.state.parts.start.bare_pods())))
