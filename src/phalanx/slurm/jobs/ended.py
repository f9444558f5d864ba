"""Jobs whose objects are gone: what the ledger knows of them. And how one job ended.

The ledger is read by SQLite's own module where it is a file: a command has no time for more. Elsewhere by `Ledger`.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.steps import records
from phalanx.slurm.jobs.view import Job, jobs

_COLUMNS = "id, number, state, words, submit_s, eligible_s, end_s, exit_code, signal, waits_for"

_STARTS = "SELECT job_id, at_s, end_s, nodes, state FROM ledger_start"


def ledger_file() -> Path | None:
    """The ledger beside the kubeconfig, or in the default directory; None: it is elsewhere, or there is none."""
    if os.environ.get("PHALANX_LEDGER"):
        url = os.environ["PHALANX_LEDGER"]
        return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    data_home = os.environ.get("XDG_DATA_HOME", "")
    own = Path(data_home) / "phalanx" if data_home.startswith("/") else Path(os.environ.get("HOME") or "/") / ".phalanx"
    kubeconfig = os.environ.get("KUBECONFIG", "").partition(":")[0]
    places = [Path(kubeconfig).parent] if kubeconfig else []
    return next((file for place in (*places, own) if (file := place / "ledger.sqlite3").exists()), None)


def ended(since_s: float | None = None, numbers: Sequence[int] | None = None) -> list[Job]:
    """Jobs that are over, by number. `since_s`: only those that ended later. Raises PhalanxError."""
    return [job for job in recorded(since_s, numbers) if not job.live]


def recorded(since_s: float | None = None, numbers: Sequence[int] | None = None) -> list[Job]:
    """All jobs with a number that the ledger knows."""
    file = ledger_file()
    if file is None:
        return []
    where, values = ["number IS NOT NULL"], list[float]()
    if since_s is not None:
        where.append("(end_s IS NULL OR end_s >= ?)")
        values.append(since_s)
    if numbers is not None:
        where.append(f"number IN ({_marks(numbers)})")
        values += numbers
    of_jobs = f"SELECT {_COLUMNS} FROM ledger_job WHERE {' AND '.join(where)} ORDER BY number"  # noqa: S608 (no values)
    starts: dict[int, list[tuple[float, float | None, str, str]]] = {}
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5) as connection:
            rows = connection.execute(of_jobs, values).fetchall()
            for at in range(0, len(rows), 500):
                ids = [row[0] for row in rows[at : at + 500]]
                asked = f"{_STARTS} WHERE job_id IN ({_marks(ids)}) ORDER BY at_s"
                for job, *start in connection.execute(asked, ids):
                    starts.setdefault(job, []).append(tuple(start))
    except sqlite3.Error as error:
        raise PhalanxError(f"the ledger {file} cannot be read: {error}") from None
    found = (_job(row, starts.get(row[0], [])) for row in rows)
    return [job for job in found if job is not None]


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _job(row: Sequence[object], starts: list[tuple[float, float | None, str, str]]) -> Job | None:
    _, number, state, words, submit_s, eligible_s, end_s, exit_code, signal, _ = row
    try:
        said = msgspec.json.decode(str(words), type=dict[str, str])
        ask = msgspec.json.decode(said["job"], type=Ask)
    except (msgspec.MsgspecError, KeyError):
        return None
    assert isinstance(number, int)
    job = Job(number=number, ask=ask, state=str(state), submit_s=ask.submit_s or float(str(submit_s)))
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
    if state == "TIMEOUT":
        job.exit_code, job.signal, job.reason = 0, 0, "TimeLimit"
    if state == "FAILED":
        job.reason = "NonZeroExitCode"
    if state == "CANCELLED" and starts and not job.signal and not job.exit_code:
        job.signal = 15
    return job


def ending(api: Api, number: int) -> int | None:
    """The exit code of a job that has ended, 1 if a signal or another did it; None: it has not."""
    [*found] = [job for job in jobs(api, [number]) if job.number == number]
    if not found:
        found = ended(None, [number]) if ledger_file() is not None else []
        if not found:
            return None if ledger_file() is not None and not _gone(number) else 1
    job = found[0]
    if job.live:
        return None
    return 0 if job.state == "COMPLETED" else (job.exit_code or 1) if not job.signal else 1


_missed: dict[int, float] = {}


def _gone(number: int) -> bool:
    """The ledger may be a moment behind: five seconds are more than that."""
    return time.monotonic() - _missed.setdefault(number, time.monotonic()) > 5.0
