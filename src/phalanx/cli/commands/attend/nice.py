"""`phalanx nice JOB... --value N`: change the priority of jobs in a queue with the order `multifactor`."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.cluster.jobs.changing import MOST_NICE, require_changeable, set_nice
from phalanx.cli.cluster.jobs.choosing import Filters, chosen, for_each
from phalanx.cli.cluster.target import Scope, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import note, print_json
from phalanx.cli.views.job.looking import job_states


async def nice(
    *jobs: str,
    value: Annotated[int, Parameter(validator=Number(gte=-MOST_NICE, lte=MOST_NICE))],
    filters: Filters | None = None,
    json: bool = False,
    scope: Scope | None = None,
    target: Target | None = None,
) -> None:
    """Set the nice value of waiting jobs. The value is subtracted from a job's priority, so a job with a higher value
    starts later.

    The nice value has an effect only in queues with the order `multifactor`. In other queues a job has the priority of
    its pods, and Kubernetes allows no change of that priority after the job was submitted.

    For example:

        phalanx nice sweep --value 500
        phalanx nice urgent --value -1000

    Parameters
    ----------
    jobs
        The jobs: NAME, NAMESPACE/NAME or KIND/NAME; ARRAY or ARRAY/INDEX; a job number of Slurm.
    value
        The nice value; 0 removes it.
    json
        Print JSON: job, kind, nice.
    """
    scope = scope or Scope()
    async with connected(target) as connection:
        ledger = find_ledger_of(target, os.environ)
        found = await chosen(
            connection, jobs, filters or Filters(), scope.namespace, ledger, scope.all_namespaces, job_states
        )
        for job in found:
            require_changeable(job, "given another priority", waits=True)
        await for_each(found, lambda job: set_nice(connection, job, value))
    if json:
        rows: list[dict[str, object]] = [{"job": job.id, "kind": job.kind, "nice": value} for job in found]
        print_json(rows)
        return
    for job in found:
        print(f"{job.kind} {job.id} has the nice value {value}")
    if not found:
        note("these options select no job; nothing was changed")
