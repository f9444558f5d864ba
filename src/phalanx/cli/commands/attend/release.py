"""`phalanx release JOB...`: let held jobs start."""

from __future__ import annotations

from phalanx.cli.cluster.jobs.choosing import Filters
from phalanx.cli.cluster.target import Scope, Target
from phalanx.cli.commands.attend.hold import change


async def release(
    *jobs: str,
    filters: Filters | None = None,
    json: bool = False,
    scope: Scope | None = None,
    target: Target | None = None,
) -> None:
    """Release jobs that `phalanx hold` or `phalanx submit --hold` holds. They are pending again, and keep their
    submission time.

    For example:

        phalanx release train
        phalanx release --user ada --state held

    Parameters
    ----------
    jobs
        The jobs: NAME, NAMESPACE/NAME or KIND/NAME; ARRAY or ARRAY/INDEX; a job number of Slurm.
    json
        Print JSON: job, kind, state (queued).
    """
    await change(jobs, filters or Filters(), scope or Scope(), target, held=False, json=json)
