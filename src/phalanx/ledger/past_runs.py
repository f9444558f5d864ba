"""The run times of ended jobs, which the scheduler receives from the ledger when it starts.

Forecasts learn from past runs (`state.history`), even if the jobs' objects were deleted long ago. The ledger has the
requests of all pods of a job together, not its roles. So a job of equal pods is recognised as the same kind of job;
other jobs are recognised by their user only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from phalanx.ledger.entry import JobEntry, State
from phalanx.model.event import Event, QueueSeen, RunTold
from phalanx.model.job import Job, Role
from phalanx.model.pod import PODS, Shape, amounts

MOST = 5_000  # the number of reported runs
_RAN = frozenset({State.COMPLETED, State.FAILED, State.TIMEOUT, State.CANCELLED})


def past_runs(entries: Iterable[JobEntry]) -> Iterator[RunTold]:
    """Yield the run times of the jobs that ran and whose end a scheduler observed."""
    for entry in entries:
        ran = entry.exact_end and entry.starts and entry.starts[-1].state in _RAN
        if ran and (run_s := entry.elapsed_s(entry.starts[-1].at_s)) > 0:
            yield RunTold(_job(entry), run_s)


def with_past_runs(events: Sequence[Event], runs: Sequence[RunTold]) -> Sequence[Event]:
    """Insert past runs into the first events of a world (a cluster or the simulator) and return the result. The runs
    come after all queues, because the queues' time limits matter, and before the world's own `RunTold` events, which
    are newer. A job that the world reports itself is left out."""
    known = {event.job.id for event in events if isinstance(event, RunTold)}
    at = max((at for at, event in enumerate(events, 1) if isinstance(event, QueueSeen)), default=0)
    return [*events[:at], *(run for run in runs if run.job.id not in known), *events[at:]]


def _job(entry: JobEntry) -> Job:
    pods = max(1, entry.pods)
    each = {name: amount // pods for name, amount in entry.requested.items()}
    shape = Shape(requests=amounts({**each, PODS: 1}))
    role = Role(name="", count=pods, minimum=pods, shape=shape)
    return Job(
        id=entry.job,
        queue=entry.queue,
        roles=(role,),
        submitted_s=entry.submit_s,
        user=entry.user,
        limit_s=entry.limit_s,
    )
