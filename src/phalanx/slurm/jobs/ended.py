"""Read jobs from the ledger, the accounting database. The ledger also has the jobs whose objects were deleted. Derive
the end state of a job.

In the ledger, the column `group_name` of a Slurm job has the name of the job's user, even if another user created the
Job object.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from signal import SIGKILL

import msgspec

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.ledger import LedgerReader, Part, ledger_url, marks
from phalanx.slurm.jobs.ask import NODE_FAILED, parse_ask
from phalanx.slurm.jobs.steps import records
from phalanx.slurm.jobs.view import BY_SIGNAL, REASONS, JobInfo, jobs

_COLUMNS = "id, number, state, words, submit_s, eligible_s, end_s, exit_code, signal, waits_for, cause, group_name"

_OUT_OF_MEMORY = ("out of memory (OOM)", "OOMKilled")  # the texts of Phalanx's node agents and of kubelets
_TASKS_AT_ONCE = 1000
_COMPONENTS = 16  # a missing number may be that of a component; then the job has one of the 15 numbers before it
_STARTS = "SELECT job_id, at_s, end_s, nodes, state FROM ledger_start"


def ended(since_s: float | None = None, numbers: Sequence[int] | None = None) -> list[JobInfo]:
    """Return jobs that have ended, from the ledger, sorted by number. `since_s`: only jobs that ended at this time or
    later. `numbers`: only jobs with these numbers. Raises PhalanxError."""
    return [job for job in recorded(since_s, numbers) if not job.live]


def recorded(
    since_s: float | None = None, numbers: Sequence[int] | None = None, user: str = "", until_s: float | None = None
) -> list[JobInfo]:
    """Return the Slurm jobs in the ledger; by default all jobs of all users. `since_s`: only jobs that have not ended,
    or that ended at this time or later. `until_s`: only jobs that were submitted until this time."""
    if not ledger_url():
        return []
    where, values = ["number IS NOT NULL"], list[object]()
    if until_s is not None:
        where.append("submit_s <= ?")
        values.append(until_s)
    if user:
        where.append("group_name = ?")
        values.append(user)
    if numbers is not None:
        where.append(f"number IN ({marks(numbers)})")
        values += numbers
    of_jobs = f"SELECT {_COLUMNS} FROM ledger_job WHERE {' AND '.join(where)}"  # noqa: S608 (no values)
    if since_s is not None:  # each half of the UNION uses an index; one query with OR would read every row
        of_jobs = f"{of_jobs} AND end_s >= ? UNION ALL {of_jobs} AND end_s IS NULL"
        values = [*values, since_s, *values]
    of_jobs += " ORDER BY number"
    starts: dict[int, list[tuple[float, float | None, str, str]]] = {}
    with LedgerReader.open(Part(since_s=since_s or 0.0, user=user, numbers=tuple(numbers or ()))) as ledger:
        rows = ledger.rows(of_jobs, values)
        for at in range(0, len(rows), 500):
            ids = [row[0] for row in rows[at : at + 500]]
            asked = f"{_STARTS} WHERE job_id IN ({marks(ids)}) ORDER BY at_s"
            for job, at_s, end_s, nodes, state in ledger.rows(asked, ids):
                starts.setdefault(job, []).append((at_s, end_s, nodes, state))
    return [job for row in rows for job in _components(row, starts.get(row[0], []))]


def recorded_of(numbers: Sequence[int]) -> list[JobInfo]:
    """Return the jobs in the ledger with these numbers. The number of an array selects all of its tasks; the tasks have
    the numbers after it."""
    found = {job.number: job for job in recorded(numbers=list(numbers))} if numbers else {}
    if missing := [number for number in numbers if number not in found]:
        # The missing numbers may be components of heterogeneous jobs: the ledger has one entry for all components,
        # under the number of the first component.
        before = sorted({number - back for number in missing for back in range(1, min(number, _COMPONENTS))})
        found |= {job.number: job for job in recorded(numbers=before) if job.number in missing}
    for array in [job for job in found.values() if job.ask.array == job.number]:
        first = array.number + 1
        while True:
            some = recorded(numbers=range(first, first + _TASKS_AT_ONCE))
            found |= {job.number: job for job in some if job.base == array.number}
            first += _TASKS_AT_ONCE
            if not any(job.base == array.number for job in some):
                break
    return [found[number] for number in sorted(found)]


def _components(row: Sequence[object], starts: list[tuple[float, float | None, str, str]]) -> list[JobInfo]:
    """Return the job of a ledger entry. For a heterogeneous job, return all its components."""
    first = _job(row, starts)
    if first is None:
        return []
    found, words = [first], msgspec.json.decode(str(row[3]), type=dict[str, str])
    steps = first.steps
    first.steps = {number: step for number, step in steps.items() if 0 in step.components}
    for at in range(1, first.ask.het_size):
        try:
            ask = parse_ask(words[f"component-{at}"])
        except (msgspec.MsgspecError, KeyError):
            continue
        own = {number: step for number, step in steps.items() if at in step.components}
        found.append(msgspec.structs.replace(first, number=first.number + at, ask=ask, steps=own))
    return found


def _job(row: Sequence[object], starts: list[tuple[float, float | None, str, str]]) -> JobInfo | None:
    _, number, state, words, submit_s, eligible_s, end_s, exit_code, signal, waited_for, cause, group = row
    try:
        said = msgspec.json.decode(str(words), type=dict[str, str])
        ask = parse_ask(said["job"])
    except (msgspec.MsgspecError, KeyError):
        return None
    assert isinstance(number, int)
    ask.user = str(group or ask.user)  # the admission policy checks the column's value, but not `ask.user`
    job = JobInfo(number=number, ask=ask, state=str(state), submit_s=ask.submit_s or float(str(submit_s)))
    job.eligible_s = eligible_s if isinstance(eligible_s, float) else None
    job.end_s = end_s if isinstance(end_s, float) else None
    job.signal = signal if isinstance(signal, int) else 0
    job.exit_code = exit_code if isinstance(exit_code, int) else 0
    job.cancelled_by, job.steps = said.get("cancelled-by", ""), records.read(said)
    job.restarts = max(ask.restarts, len(starts) - 1)
    job.past = [(at_s, end_s) for at_s, end_s, _, ended in starts if ended in ("REQUEUED", "PREEMPTED")]
    if starts and state != "PENDING":
        job.start_s = starts[-1][0]
        job.nodes = tuple(dict.fromkeys(msgspec.json.decode(starts[-1][2], type=list[str])))
    if state == "CONFIGURING":
        job.state = "RUNNING"
    if state == "CANCELLED" and job.cancelled_by == NODE_FAILED:
        job.state, job.reason, job.exit_code, job.signal = "NODE_FAIL", "NodeDown", 0, 0
        return job
    if state == "TIMEOUT":
        job.exit_code, job.signal, job.reason = 0, 0, "TimeLimit"
    if state == "FAILED":
        job.reason = BY_SIGNAL if job.signal else "NonZeroExitCode"
        how = str(cause).partition("; its log ends:")[0]
        if job.signal == SIGKILL and any(word in how for word in _OUT_OF_MEMORY):
            job.out_of_memory()
    if state in ("CANCELLED", "PENDING") and not starts:
        job.reason = REASONS.get(str(waited_for), "None")
        job.held = job.reason.startswith("JobHeld")
        if job.reason == "DeadLine":
            job.state = "DEADLINE"
    if state == "CANCELLED" and starts and not job.signal and not job.exit_code:
        job.signal = 15
    return job


def ending(api: ApiClient, number: int) -> int | None:
    """Return the exit code of the job with this number; 1 if the job ended by a signal or another cause, or if no
    record of it exists. Return None while the job has not ended."""
    [*found] = [job for job in jobs(api, [number]) if job.number == number]
    if not found:
        found = ended(None, [number]) if ledger_url() else []
        if not found:
            return None if ledger_url() and not _gone(number) else 1
    job = found[0]
    if job.live:
        return None
    return 0 if job.state == "COMPLETED" else (job.exit_code or 1) if not job.signal else 1


_missed: dict[int, float] = {}


def _gone(number: int) -> bool:
    """Return True if the job is missing in the ledger, and this process first looked for it more than five seconds ago.
    A new job appears in the ledger within this time."""
    return time.monotonic() - _missed.setdefault(number, time.monotonic()) > 5.0
