"""How long jobs ran that are over, as the scheduler is told when it starts.

Forecasts learn from them (`state.history.run_times`). Their objects may be gone for long; the ledger still has them. It
does not have the roles of a job, only what all of its pods asked: a job of equal pods is known again by its kind, any
other by its user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from phalanx.ledger.entry import JobEntry, State
from phalanx.model.event import Event, QueueSeen, RunTold
from phalanx.model.job import Job, Role
from phalanx.model.pod import PODS, Shape, amounts

MOST = 5_000  # runs that are told
_RAN = frozenset({State.COMPLETED, State.FAILED, State.TIMEOUT, State.CANCELLED})


def past_runs(entries: Iterable[JobEntry]) -> Iterator[RunTold]:
    """Yield how long these jobs ran, of those that ran to an end that was seen."""
    for entry in entries:
        ran = entry.exact_end and entry.starts and entry.starts[-1].state in _RAN
        if ran and (run_s := entry.elapsed_s(entry.starts[-1].at_s)) > 0:
            yield RunTold(_job(entry), run_s)


def with_past_runs(events: Sequence[Event], runs: Sequence[RunTold]) -> Sequence[Event]:
    """Return the first events of a world with these runs among them: when queues are known, whose limits count, and
    before the runs that the world tells itself, which are newer. What it tells is not told twice."""
    known = {event.job.id for event in events if isinstance(event, RunTold)}
    at = max((at for at, event in enumerate(events, 1) if isinstance(event, QueueSeen)), default=0)
    return [*events[:at], *(run for run in runs if run.job.id not in known), *events[at:]]


def _job(entry: JobEntry) -> Job:
    pods = max(1, entry.pods)
    each = {name: amount // pods for name, amount in entry.requested.items()}
    shape = Shape(requests=amounts({**each, PODS: 1}))
    role = Role(name="", count=pods, minimum=pods, shape=shape)
    return Job(id=entry.job, queue=entry.queue, roles=(role,), user=entry.user, limit_s=entry.limit_s)
