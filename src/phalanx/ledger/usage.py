"""Sum the resources that jobs held, per user, account, queue or day.

Each start of a job is one row of the ledger, with the times of its beginning and its end. Only the part of the start's
time that is within the requested period counts. If a job runs past midnight (UTC), each day gets its part. The sums are
of allocated amounts, whether or not the pods used these amounts.

`past_runs` returns the run times of ended jobs. When the scheduler starts, it receives these run times from the ledger.

Forecasts learn from past runs (`state.run_times`), even if the jobs' objects were deleted long ago. The ledger has only
the sum of the requests of a job's pods, and not the job's roles. So if all pods of a past job were equal, its run is
used to predict jobs of the same kind. Otherwise the run is used only to predict jobs of the same user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from phalanx.ledger.entry import JobEntry, State
from phalanx.model.event import Event, QueueSeen, RunTold
from phalanx.model.job import Job, Role
from phalanx.model.pod import PODS, Shape, amounts

_DAY_S = 86400.0
CPU, MEMORY, GPU = "cpu", "memory", "nvidia.com/gpu"


class By(StrEnum):
    """The attribute by which the sums are grouped."""

    USER = "user"
    ACCOUNT = "account"
    QUEUE = "queue"
    DAY = "day"


@dataclass(slots=True, kw_only=True)
class Sum:
    """The sum for one user, account, queue or day. `jobs`: the number of jobs with a start in the period. `cpu_s`: core
    seconds. `gpu_s`: GPU seconds. `memory_byte_s`: bytes of memory times seconds."""

    jobs: int = 0
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    memory_byte_s: float = 0.0


def total(
    entries: Iterable[JobEntry],
    by: By,
    now_s: float,
    since_s: float | None = None,
    until_s: float | None = None,
) -> dict[str, Sum]:
    """Return the sums of the allocations within the period: name -> sum. If the sums are by day, the name is the time
    of the day's first second, in seconds since the epoch."""
    found: dict[str, Sum] = {}
    first_s, last_s = since_s or 0.0, now_s if until_s is None else min(until_s, now_s)
    for entry in entries:
        seen = set()
        for name, start, seconds in _pieces(entry, _NAMES.get(by), first_s, last_s, now_s):
            one = found.setdefault(name, Sum())
            seen.add(name)
            one.cpu_s += entry.starts[start].allocated.get(CPU, 0) / 1000 * seconds
            one.gpu_s += entry.starts[start].allocated.get(GPU, 0) * seconds
            one.memory_byte_s += entry.starts[start].allocated.get(MEMORY, 0) * seconds
        for name in seen:
            found[name].jobs += 1
    return found


_NAMES: dict[By, Callable[[JobEntry], str]] = {
    By.USER: lambda entry: entry.user,
    By.ACCOUNT: lambda entry: entry.account,
    By.QUEUE: lambda entry: entry.queue,
}


def _pieces(
    entry: JobEntry, name: Callable[[JobEntry], str] | None, first_s: float, last_s: float, now_s: float
) -> Iterator[tuple[str, int, float]]:
    """Yield (name, index of the start, seconds within the period) for each start of a job. If `name` is None, the time
    of a start is split by days, and the day is the name."""
    for number, start in enumerate(entry.starts):
        end_s = next(end for end in (start.end_s, entry.end_s, now_s) if end is not None)
        begin_s, end_s = max(start.at_s, first_s), min(end_s, last_s)
        if begin_s > end_s:
            continue
        if name is not None:
            yield name(entry), number, end_s - begin_s
            continue
        while True:
            midnight_s = (begin_s // _DAY_S + 1) * _DAY_S
            yield str(int(begin_s // _DAY_S * _DAY_S)), number, min(midnight_s, end_s) - begin_s
            if midnight_s >= end_s:
                break
            begin_s = midnight_s


MOST = 5_000  # the maximum number of runs that are reported
_RAN = frozenset({State.COMPLETED, State.FAILED, State.TIMEOUT, State.CANCELLED})


def past_runs(entries: Iterable[JobEntry]) -> Iterator[RunTold]:
    """Yield the run times of the jobs that ran and whose end a scheduler observed."""
    for entry in entries:
        ran = entry.exact_end and entry.starts and entry.starts[-1].state in _RAN
        if ran and (run_s := entry.elapsed_s(entry.starts[-1].at_s)) > 0:
            yield RunTold(_job(entry), run_s)


def with_past_runs(events: Sequence[Event], runs: Sequence[RunTold]) -> Sequence[Event]:
    """Return the first events of a world (a cluster or the simulator), with past runs inserted. The runs are inserted
    after the events about queues, because a job may get its time limit from its queue. They are inserted before the
    world's own `RunTold` events, which are newer. Runs of jobs that the world itself reports are left out."""
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
