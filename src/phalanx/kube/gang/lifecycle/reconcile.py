"""Take the next step of a gang, which depends on the gang's stage: declare the gang to the core, resume its Jobs when
its dialect allows the start, bind its pods, or wait until its pods are gone."""

from __future__ import annotations

from phalanx.kube.gang.departure import TakeBack
from phalanx.kube.gang.lifecycle import interruptions
from phalanx.kube.gang.lifecycle.deadlines import StartDeadlines, earliest_s
from phalanx.kube.gang.lifecycle.decisions import resume_jobs
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.requeue import finish, requeue_if_left, take_back
from phalanx.kube.gang.lifecycle.stages import Leaving, Running, StartedParts, Starting, Waiting
from phalanx.kube.gang.seats.bind_barrier import Readiness
from phalanx.kube.gang.spec.gang_spec import GangDefaults, claim_on, gang_spec
from phalanx.model.event import Finished, NodesNoted, Started, Submitted
from phalanx.model.job import Phase


def advance(gang: GangLifecycle, defaults: GangDefaults) -> None:
    """Reconcile the gang with its present objects and with its deadlines."""
    gang.wake_s = 0.0
    match gang.state:
        case Starting(held=True) as starting:
            _await_gate(gang, starting, defaults)
        case Starting(parts=parts) | Running(parts=parts):
            _advance_start(gang, parts, defaults)
        case Leaving() as leaving:
            requeue_if_left(gang, leaving)
        case Waiting():
            pass
    if isinstance(gang.state, Waiting):  # also if the gang was requeued just now
        _declare(gang, gang.state, defaults)


def _declare(gang: GangLifecycle, waiting: Waiting, defaults: GangDefaults) -> None:
    """Submit to the core the job that the gang's members form now, unless the core already has the same job. If no
    member is left, report the end of the gang."""
    members, known = gang.objects.waiting(), waiting.spec
    if not members.everyone:
        if known is not None:
            gang.effects.emit_event(Finished(gang.id, gang.objects.outcome))
        waiting.spec = None
        return
    spec = waiting.spec = gang.history.avoiding(gang_spec(members, defaults), gang.effects.now_s())
    if known is None or spec.job != known.job:
        gang.effects.emit_event(Submitted(spec.job))
    if spec.note != (known.note if known is not None else ("", False)):
        gang.effects.emit_event(NodesNoted(gang.id, *spec.note))
    if gang.history.left_out:
        gang.wake_s = earliest_s(gang.wake_s, *gang.history.left_out.values())


def _await_gate(gang: GangLifecycle, starting: Starting, defaults: GangDefaults) -> None:
    """Resume the gang's Jobs once its dialect opens the gate (in Kueue: once all admission checks are ready). The core
    has already granted the gang's nodes and quota."""
    parts, members = starting.parts, gang.objects.waiting()
    if gang.objects.idle:
        finish(gang, parts)
        return
    claim = claim_on(members, defaults) if members.everyone else None
    if (drained := interruptions.drain_reason(claim)) is not None:
        take_back(gang, parts, TakeBack(drained))
    elif _lost_a_member(gang, parts) or (claim is not None and claim.gate is not None):
        return
    elif (forbidden := interruptions.forbidden_cluster(parts, claim)) is not None:
        take_back(gang, parts, forbidden)
    else:
        starting.held = False
        parts.start.since_s = gang.effects.now_s()
        if claim is not None:
            parts.seating.update(claim.updates)
        resume_jobs(gang, parts)
        _advance_start(gang, parts, defaults)


def _advance_start(gang: GangLifecycle, parts: StartedParts, defaults: GangDefaults) -> None:
    """Continue a start whose Jobs are resumed: match new pods with the nodes that are planned for them, bind the pods
    when the bind barrier opens, and resize the elastic Jobs."""
    if gang.objects.idle:
        finish(gang, parts)
        return
    if (end := interruptions.interruption(parts, gang.resized, defaults)) is not None:
        take_back(gang, parts, end)
        return
    if _lost_a_member(gang, parts):
        return
    _seat_pods(gang, parts)
    if parts.elastic.shrinking.leaving:
        parts.elastic.shrinking.end()
    parts.barrier.advance()
    if isinstance(gang.state, Starting) and _is_bound(parts):
        _run(gang, parts, defaults)
    gang.wake_s = parts.elastic.advance()
    if isinstance(gang.state, Starting | Running):
        gang.wake_s = _check_time(gang, gang.state, defaults)


def _lost_a_member(gang: GangLifecycle, parts: StartedParts) -> bool:
    """Undo the start if a needed member was deleted before all pods are bound. A start with bound bare pods continues.
    Return True if the start is being undone."""
    loss = interruptions.loss(parts) if isinstance(gang.state, Starting) else None
    if loss is None:
        return False
    take_back(gang, parts, loss)
    return not isinstance(gang.state, Starting)


def _seat_pods(gang: GangLifecycle, parts: StartedParts) -> None:
    """Assign new pods to seats (places for pods, with planned nodes), and remove seats that the Jobs no longer need. If
    the gang runs in another cluster, send new bare pods to that cluster."""
    pods = parts.seating.seat_pods()
    for pod in pods:
        if isinstance(gang.state, Running) and gang.state.readiness.see(pod):
            gang.history.forgive()
    parts.seating.fit(parts.elastic.seats_of)
    if isinstance(gang.state, Running):
        for pod in parts.start.unsent_pods():  # pods that were created after the gang was sent
            parts.send_pod(pod, lambda answer, text: None)


def _is_bound(parts: StartedParts) -> bool:
    bound = parts.start.record.cluster or (parts.barrier.gate_open and parts.start.seats.started())
    return bool(bound) and not parts.start.resuming


def _run(gang: GangLifecycle, parts: StartedParts, defaults: GangDefaults) -> None:
    """Record that all pods of the minimum are bound. If the queue limits the time until all pods are ready, that time
    begins now."""
    timed = defaults.start_timeout_s(parts.start.spec.job.queue) is not None and parts.start.record.gang
    is_watched = timed and not parts.start.record.cluster
    unready = [uid for uid, pod in gang.objects.pods.items() if not pod.ready] if is_watched else ()
    gang.enter(Running(parts=parts, readiness=Readiness(gang.effects.now_s(), unready)))
    parts.start.phase, gang.history.failures = Phase.RUNNING, 0
    gang.effects.emit_event(Started(gang.id, parts.start.record.attempt))
    parts.start.report_bound()


def _check_time(gang: GangLifecycle, started: Starting | Running, defaults: GangDefaults) -> float:
    """Undo the start if a deadline has passed. Return the time of the next deadline, or `gang.wake_s` if that is
    earlier (both in seconds since the epoch). Return 0 if neither is set."""
    deadlines = StartDeadlines(started, gang.history, defaults, gang.wake_s)
    for overdue in deadlines.overdue():
        take_back(gang, started.parts, overdue)
        if not started.parts.start.going_on:
            break
    return deadlines.wake_s
