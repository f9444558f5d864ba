"""`phalanx attach JOB`: follow a Job that is there already, as `phalanx run` follows the one that it made."""

from __future__ import annotations

from phalanx.cli.cluster.target import Namespace, Target, connected
from phalanx.cli.commands.work.run import follow
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS
from phalanx.errors import PhalanxError


async def attach(
    job: str,
    /,
    *,
    space: Namespace | None = None,
    target: Target | None = None,
    json: bool = False,
) -> int:
    """Follow a Job: wait until it starts, show its output from the beginning, end with its exit code.

    Use it after the end of a terminal, of an ssh session or of `phalanx run`. Ctrl-C asks whether to delete the Job;
    every answer but yes leaves it running.

    For example:

        phalanx attach train
        phalanx attach team-a/train
        phalanx attach train --json | tail -n 1

    Parameters
    ----------
    job
        The Job: NAME or NAMESPACE/NAME.
    json
        When it is over, print a line of JSON about it as the last one: job, state, exit_code, why.
    """
    namespace, _, name = job.rpartition("/")
    namespace = namespace or (space or Namespace()).namespace
    async with connected(target) as connection:
        try:
            found = await connection.get(JOBS, name, namespace)
        except ApiRefusal as error:
            if error.code != 404:
                raise
            raise PhalanxError(
                f"there is no Job {namespace}/{name}. `phalanx jobs --finished` shows the jobs, `phalanx history` "
                "those whose objects are gone."
            ) from error
        return await follow(connection, found, json=json)
