"""`phalanx cancel JOB...`: end running jobs, and remove waiting jobs from the queue."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.changing import cancel_job, require_whole
from phalanx.cli.cluster.jobs.choosing import Filters, chosen, for_each
from phalanx.cli.cluster.jobs.finding import FoundJob
from phalanx.cli.cluster.jobs.standing import OVER, state_of
from phalanx.cli.cluster.target import Scope, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import counted, note, print_json
from phalanx.cli.views.job.looking import job_states
from phalanx.errors import PhalanxError

_UNASKED = 10  # the maximum number of jobs that are cancelled without a question
_SHOWN = 5


async def cancel(
    *jobs: str,
    filters: Filters | None = None,
    yes: Annotated[bool, Parameter(alias="-y")] = False,
    dry_run: bool = False,
    json: bool = False,
    scope: Scope | None = None,
    target: Target | None = None,
) -> None:
    """Cancel jobs: stop running jobs, and remove waiting jobs from the queue.

    The objects of the job are deleted. Its record stays in the ledger, and on one machine (`phalanx up`) its output is
    kept too. Ended jobs are not changed. More than ten jobs at once are cancelled only if you confirm it, or with
    --yes.

    For example:

        phalanx cancel train
        phalanx cancel sweep/7 team-a/train 12
        phalanx cancel --user ada --state queued --state stuck
        phalanx cancel --queue research --dry-run

    Parameters
    ----------
    jobs
        The jobs: NAME, NAMESPACE/NAME or KIND/NAME; ARRAY or ARRAY/INDEX; a job number of Slurm.
    yes
        Ask no question.
    dry_run
        Print which jobs would be cancelled, and cancel nothing.
    json
        Print JSON: job, kind, state (before the command), cancelled.
    """
    scope = scope or Scope()
    async with connected(target) as connection:
        found = await chosen(
            connection,
            jobs,
            filters or Filters(),
            scope.namespace,
            find_ledger_of(target, os.environ),
            scope.all_namespaces,
            job_states,
        )
        for job in found:
            require_whole(job, "end", "cancel")
        targets = [job for job in found if state_of(job) not in OVER]
        if len(targets) > _UNASKED and not yes and not dry_run:
            await _ask(targets)
        states = {str(job): state_of(job) for job in found}
        if not dry_run:
            await for_each(targets, lambda job: cancel_job(connection, job))
    _tell(found, targets, states, dry_run=dry_run, json=json)


async def _ask(targets: Sequence[FoundJob]) -> None:
    """Ask the user at the terminal whether to cancel these jobs. Raises PhalanxError unless the user answers yes."""
    shown = ", ".join(str(job) for job in targets[:_SHOWN])
    text = f"{counted(len(targets), 'job')} ({shown} and {len(targets) - _SHOWN} more)"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PhalanxError(
            f"this would cancel {text}: add --yes to do so, or --dry-run to list them. Nothing was cancelled."
        )
    if (await asyncio.to_thread(_answer, f"phalanx: cancel {text}? [y/N] ")) not in {"y", "yes"}:
        raise PhalanxError("nothing was cancelled.")


def _answer(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower()
    except EOFError:
        return ""


def _tell(
    found: Sequence[FoundJob], targets: Sequence[FoundJob], states: dict[str, str], *, dry_run: bool, json: bool
) -> None:
    if json:
        rows: list[dict[str, object]] = [
            {"job": job.id, "kind": job.kind, "state": states[str(job)], "cancelled": job in targets and not dry_run}
            for job in found
        ]
        print_json(rows)
        return
    for job in found:
        if job not in targets:
            note(f"{job.kind} {job} is {states[str(job)]} already")
        elif dry_run:
            print(f"{job.kind} {job} ({states[str(job)]}) would be cancelled")
        else:
            print(f"{job.kind} {job} cancelled")
    if not found:
        note("these options select no job; nothing was cancelled")
