"""Continue the starts that an earlier process of the scheduler made, or undo them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phalanx.kube.gang.lifecycle import interruptions
from phalanx.kube.gang.lifecycle.decisions import parts_of, resume_jobs
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.requeue import take_back
from phalanx.kube.gang.lifecycle.stages import Running, StartedParts, Starting
from phalanx.kube.gang.recorded_starts import UnfinishedStart, past_run, unfinished_start
from phalanx.kube.gang.seats.bind_barrier import Readiness
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.recall import recall_seats
from phalanx.kube.gang.seats.seat_table import GangSeats
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.kube.read.records import RecordKey
from phalanx.model.event import OutcomeTold
from phalanx.model.job import Phase

PAST_RUNS = 5000  # when a scheduler starts, it reports the run times of at most this many ended jobs


def recover(gangs: Sequence[GangLifecycle], defaults: GangDefaults, key: RecordKey | None) -> Iterator[None]:
    """Report to the core the state in which an earlier process left the gangs. The generator yields once for each gang,
    so that the caller can do other work in between. First report data about ended jobs: the outcomes on which other
    jobs depend, and the run times of the latest jobs. Then report the starts of the earlier process: gangs with a pod
    on a node first, then the other started gangs, each group sorted by start time. `key`: the key that signs the
    records of starts; None to accept records without a signature."""
    begun: list[tuple[tuple[bool, float, str], GangLifecycle, UnfinishedStart]] = []
    over: list[tuple[float, str, GangLifecycle]] = []
    for gang in gangs:
        yield
        now_s, hold_s = gang.effects.now_s(), gang.effects.timeouts.hold_s
        if gang.objects.over:
            gang.effects.emit_event(OutcomeTold(gang.id, gang.objects.outcome))
            over.append((max((job.ended_s for job in gang.objects.jobs.values()), default=0.0), gang.id, gang))
        if (start := unfinished_start(gang.objects, defaults, now_s, hold_s, key)) is not None:
            is_unbound = not any(pod.node for pod in gang.objects.pods.values())
            begun.append(((is_unbound, start.record.at_s, gang.id), gang, start))
    for _, _, gang in sorted(over, key=lambda each: each[:2])[-PAST_RUNS:]:
        yield
        if (run := past_run(gang.objects, defaults)) is not None:
            gang.effects.emit_event(run)
    for _, gang, start in sorted(begun, key=lambda each: each[0]):
        yield
        adopt(gang, start)


def adopt(gang: GangLifecycle, begun: UnfinishedStart) -> None:
    """Take over a start of an earlier process: match its pods with the planned nodes again, and report the started job
    to the core."""
    seats = GangSeats(begun.spec.job.roles, begun.spec.sources)
    parts = parts_of(gang, GangStart(gang.effects, gang.objects, begun.spec, begun.record, seats))
    recall_seats(parts.start, parts.barrier, parts.elastic)
    if parts.start.record.cluster or (parts.barrier.gate_open and seats.started()):
        unready = [uid for uid, pod in gang.objects.pods.items() if pod.node and pod.phase == "Pending"]
        gang.enter(Running(parts=parts, readiness=Readiness(gang.effects.now_s(), unready)))
        parts.start.phase = Phase.RUNNING
    else:
        gang.enter(Starting(parts=parts))
    _go_on(gang, parts, begun)


def _go_on(gang: GangLifecycle, parts: StartedParts, begun: UnfinishedStart) -> None:
    """Report the state of the recorded start to the core. Then continue this start, continue its preemption, or undo
    it."""
    short = interruptions.missing_pods(parts) if isinstance(gang.state, Starting) else None
    if not begun.leaving and short is None:
        parts.start.emit_full_state()
        resume_jobs(gang, parts)
    elif begun.mark is not None:
        parts.start.emit_full_state(Phase.STOPPING)
        parts.preemption.resume(begun.mark)
    else:
        parts.start.emit_full_state(None if parts.start.bare_pods() else Phase.STOPPING)
        take_back(gang, parts, short or interruptions.OF_BEFORE)
