"""`phalanx hold JOB...`: keep jobs queued until they are released."""

from __future__ import annotations

import os
from collections.abc import Sequence

from phalanx.cli.cluster.jobs.changing import require_changeable, set_hold
from phalanx.cli.cluster.jobs.choosing import Filters, chosen, for_each
from phalanx.cli.cluster.jobs.standing import HELD, QUEUED
from phalanx.cli.cluster.target import Scope, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import note, print_json
from phalanx.cli.views.job.looking import job_states


async def hold(
    *jobs: str,
    filters: Filters | None = None,
    json: bool = False,
    scope: Scope | None = None,
    target: Target | None = None,
) -> None:
    """Keep jobs queued until `phalanx release`. A running job cannot be held.

    For example:

        phalanx hold train
        phalanx hold --user ada --state queued

    Parameters
    ----------
    jobs
        The jobs: NAME, NAMESPACE/NAME or KIND/NAME; ARRAY or ARRAY/INDEX; a job number of Slurm.
    json
        Print JSON: job, kind, state (queued or held).
    """
    await change(jobs, filters or Filters(), scope or Scope(), target, held=True, json=json)


async def change(
    names: Sequence[str], filters: Filters, scope: Scope, target: Target | None, *, held: bool, json: bool
) -> None:
    """Hold or release jobs. Raises PhalanxError, before any job is changed, if one of the jobs cannot be held or
    released."""
    async with connected(target) as connection:
        found = await chosen(
            connection,
            names,
            filters,
            scope.namespace,
            find_ledger_of(target, os.environ),
            scope.all_namespaces,
            job_states,
        )
        for job in found:
            require_changeable(job, "held" if held else "released", waits=held)
        await for_each(found, lambda job: set_hold(connection, job, held=held))
    now = HELD if held else QUEUED
    rows: list[dict[str, object]] = [{"job": job.id, "kind": job.kind, "state": now} for job in found]
    if json:
        print_json(rows)
        return
    for job in found:
        print(f"{job.kind} {job.id} {'held' if held else 'released'}")
    if not found:
        note("these options select no job; nothing was changed")
