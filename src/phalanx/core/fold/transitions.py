"""The legal transitions between the phases of a job, in one table.

A row has a phase, an event or action, and the next phase. `STAYS`: the job stays in its phase. `GONE`: the job has
ended. `LATE`: the event is ignored because it arrives too late. Events arrive in several streams without a common
order, so the state may already include a later event. A transition that is not in the table is illegal. It is caused by
a defect in the sender of the event or action."""

from __future__ import annotations

from typing import Final, TypeAlias

from phalanx.model.event import Finished, Opened, Refused, Released, Started, Submitted
from phalanx.model.job import Phase
from phalanx.model.plan import Nominate, Place, Preempt, Shrink, Start, Wait

STAYS: Final = "stays"
LATE: Final = "late"
GONE: Final = "gone"

Transition: TypeAlias = (
    Submitted | Opened | Released | Started | Refused | Finished | Start | Place | Wait | Preempt | Shrink | Nominate
)
NextPhase: TypeAlias = Phase | str

TRANSITIONS: Final[dict[tuple[Phase, type[Transition]], NextPhase]] = {
    (Phase.QUEUED, Submitted): STAYS,
    (Phase.QUEUED, Wait): STAYS,
    (Phase.QUEUED, Start): Phase.STARTING,
    (Phase.QUEUED, Nominate): STAYS,
    (Phase.QUEUED, Finished): GONE,
    (Phase.QUEUED, Started): LATE,
    (Phase.QUEUED, Refused): LATE,
    (Phase.QUEUED, Opened): LATE,
    (Phase.QUEUED, Released): LATE,
    (Phase.STARTING, Submitted): LATE,
    (Phase.STARTING, Wait): STAYS,
    (Phase.STARTING, Opened): STAYS,
    (Phase.STARTING, Place): STAYS,
    (Phase.STARTING, Preempt): Phase.STOPPING,
    (Phase.STARTING, Shrink): STAYS,
    (Phase.STARTING, Nominate): STAYS,
    (Phase.STARTING, Released): STAYS,
    (Phase.STARTING, Started): Phase.RUNNING,
    (Phase.STARTING, Refused): Phase.QUEUED,
    (Phase.STARTING, Finished): GONE,
    (Phase.RUNNING, Submitted): LATE,
    (Phase.RUNNING, Wait): STAYS,
    (Phase.RUNNING, Opened): STAYS,
    (Phase.RUNNING, Place): STAYS,
    (Phase.RUNNING, Preempt): Phase.STOPPING,
    (Phase.RUNNING, Shrink): STAYS,
    (Phase.RUNNING, Nominate): STAYS,
    (Phase.RUNNING, Released): STAYS,
    (Phase.RUNNING, Started): LATE,
    (Phase.RUNNING, Refused): Phase.QUEUED,
    (Phase.RUNNING, Finished): GONE,
    (Phase.STOPPING, Submitted): LATE,
    (Phase.STOPPING, Nominate): STAYS,
    (Phase.STOPPING, Wait): STAYS,
    (Phase.STOPPING, Opened): STAYS,
    (Phase.STOPPING, Released): STAYS,
    (Phase.STOPPING, Started): LATE,
    (Phase.STOPPING, Refused): Phase.QUEUED,
    (Phase.STOPPING, Finished): GONE,
}


class IllegalTransition(Exception):
    """An event or action that is not in the table for the present phase of the job. This indicates a defect."""


def transition(job: str, phase: Phase, attempt: int, by: Transition) -> NextPhase:
    """Return the next phase of a job after the event or action `by`. `phase`: the present phase of the job. `attempt`:
    the number of starts of the job so far.

    Raises `IllegalTransition` if the transition is not in the table. The message lists the legal events and actions."""
    kind = type(by)
    if isinstance(by, (Started, Refused)) and by.attempt != attempt:
        if by.attempt < attempt:
            return LATE
        raise IllegalTransition(f"job {job!r} was started {attempt} times; {kind.__name__} answers start {by.attempt}")
    if isinstance(by, Start) and by.attempt != attempt + 1:
        raise IllegalTransition(f"job {job!r} was started {attempt} times; its next start is not number {by.attempt}")
    outcome = TRANSITIONS.get((phase, kind))
    if outcome is None:
        legal = ", ".join(each.__name__ for at, each in TRANSITIONS if at is phase)
        raise IllegalTransition(f"job {job!r} is {phase}; {kind.__name__} is not legal here (legal: {legal})")
    return outcome
