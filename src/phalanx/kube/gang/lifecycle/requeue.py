"""The end of a start: how the start is undone, and when the gang returns to its queue."""

from __future__ import annotations

from phalanx.kube.gang.departure import Departure, PreemptionRequest, TakeBack
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.stages import Leaving, Running, StartedParts, Starting, Waiting
from phalanx.kube.gang.lifecycle.start_history import StartHistory
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.model.event import Finished, Refused
from phalanx.model.job import Phase
from phalanx.model.reason import ReasonCode


def take_back(gang: GangLifecycle, parts: StartedParts, end: TakeBack) -> None:
    """Undo the whole start: suspend the resumed Jobs, then wait until no pod of the gang is left. Bound bare pods
    cannot be suspended, only evicted. So a gang with bound bare pods continues unchanged, unless `end.evicts` allows
    their eviction."""
    if parts.start.bare_pods() and not end.evicts:
        parts.start.since_s = gang.effects.now_s()
        return
    parts.preemption.cancel()
    departure = Departure(parts.start, end.why, evicts=end.evicts, hold=end.hold)
    if end.evicts:
        departure.report()
    requeue_if_left(gang, _depart(gang, parts, departure))


def leave_preempted(gang: GangLifecycle, start: GangStart, request: PreemptionRequest) -> None:
    """Begin the departure of the gang, after all marks of its preemption are written."""
    if not isinstance(gang.state, Starting | Running) or gang.state.parts.start is not start:
        return
    departure = Departure(start, request.why, mark=request.mark, grace_s=request.grace_s)
    departure.report()
    _depart(gang, gang.state.parts, departure)


def _depart(gang: GangLifecycle, parts: StartedParts, departure: Departure) -> Leaving:
    gang.departure, gang.resized = departure, None
    leaving = Leaving(parts=parts, departure=departure)
    gang.enter(leaving)
    parts.start.phase = Phase.STOPPING
    parts.barrier.close()
    departure.begin()
    return leaving


def requeue_if_left(gang: GangLifecycle, leaving: Leaving) -> None:
    """Return the gang to its queue if no pod of the gang is left. A preempted gang may start again at once."""
    departure, start = leaving.departure, leaving.parts.start
    departure.evict_bare()
    if not departure.left:
        return
    departure.end()
    requeued_s = 0.0
    if not departure.preempted and departure.why.code is ReasonCode.BACKOFF:
        gang.history.failures += 1
        requeued_s = gang.effects.now_s() + gang.effects.timeouts.rest_s(gang.history.failures)
    gang.effects.emit_event(Refused(gang.id, start.record.attempt, departure.why, requeued_s))
    gang.enter(Waiting(spec=start.spec))


def finish(gang: GangLifecycle, parts: StartedParts) -> None:
    """Remove the gang from the core, because none of its pods runs or will run. Terminating pods stay charged to their
    nodes until they are gone."""
    gang.effects.emit_event(Finished(gang.id, gang.objects.outcome))
    parts.preemption.cancel()
    gang.enter(Waiting())
    gang.history = StartHistory()
