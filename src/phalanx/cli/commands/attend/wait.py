"""`phalanx wait JOB...`: wait until jobs run or have ended, and exit with their exit code."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.choosing import for_each
from phalanx.cli.cluster.jobs.finding import Finder, FoundJob
from phalanx.cli.cluster.jobs.output import Followed
from phalanx.cli.cluster.jobs.standing import RUNNING, STUCK, TIMED_OUT, Standing, recorded_standing
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import note, print_json
from phalanx.client.connection import Connection
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError


async def wait(
    job: str,
    /,
    *jobs: str,
    condition: Annotated[Literal["done", "running"], Parameter(name="--for")] = "done",
    limit: Annotated[str, Parameter(name="--timeout")] = "",
    json: bool = False,
    space: Namespace | None = None,
    target: Target | None = None,
) -> int:
    """Wait until jobs have ended, or until they run. The exit code is that of the job; of several jobs, the highest.

    The exit code is 0 for a job that succeeded, 124 for a job that reached its time limit, and 1 for a deleted job. If
    the job has already ended, the command returns at once; it also finds deleted jobs in the ledger. If a job is stuck,
    the command prints the cause once and goes on waiting.

    For example:

        phalanx wait train && phalanx logs train
        phalanx wait sweep --timeout 2h
        phalanx wait server --for running

    Parameters
    ----------
    job
        The job: NAME, NAMESPACE/NAME or KIND/NAME; ARRAY or ARRAY/INDEX; a job number of Slurm.
    jobs
        More jobs.
    condition
        The condition to wait for: `done` (the job has ended) or `running`.
    limit
        The longest time to wait: 90s, 30m, 2h. After that the exit code is 124, as of timeout(1). [default: no limit]
    json
        Print JSON: job, state, exit_code (null if the job has not ended), why.
    """
    limit_s = _length_s(limit)
    async with connected(target) as connection:
        finder = Finder(connection, (space or Namespace()).namespace, find_ledger_of(target, os.environ))
        found = await finder.all((job, *jobs))
        try:
            async with asyncio.timeout(limit_s):
                ends = await for_each(found, lambda one: _end(connection, one, condition == "running"))
        except TimeoutError:
            note(f"phalanx: after {limit}, {', '.join(map(str, found))} did not reach the condition")
            return TIMED_OUT
    if json:
        print_json([_record(one, end) for one, end in zip(found, ends, strict=True)])
    else:
        for one, end in zip(found, ends, strict=True):
            note(f"phalanx: {one.kind} {one.id} is {end.state}" + (f": {end.why}" if end.exit_code else ""))
    return max(end.exit_code or 0 for end in ends)


async def _end(connection: Connection, job: FoundJob, running: bool) -> Standing:
    if job.entry is not None:
        return recorded_standing(job.entry)
    told = False
    async with Followed(connection, job) as followed:
        while True:
            now = followed.standing
            if now.over or (running and now.state == RUNNING):
                return now
            if now.state == STUCK and not told:
                note(f"phalanx: {job.kind} {job.id} is stuck: {now.why}. The wait goes on.")
                told = True
            await followed.change()


def _length_s(text: str) -> float | None:
    try:
        return duration_s(text) if text else None
    except Misread as error:
        raise PhalanxError(f"--timeout {text!r}: write for example 90s, 30m or 2h.") from error


def _record(job: FoundJob, end: Standing) -> dict[str, Any]:
    return {"job": job.id, "state": end.state, "exit_code": end.exit_code, "why": end.why}
