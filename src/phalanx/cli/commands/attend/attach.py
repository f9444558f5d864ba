"""`phalanx attach JOB`: follow an existing job. `phalanx run` follows the job that it creates in the same way."""

from __future__ import annotations

import os

from phalanx.cli.cluster.jobs.finding import Finder
from phalanx.cli.cluster.jobs.standing import OVER, recorded_standing, standing, state_of
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.commands.attend.logs import LineOptions, follow_output
from phalanx.cli.commands.work.run import follow
from phalanx.cli.files.manifest import has_terminal
from phalanx.cli.terminal.conversation import is_at_terminal
from phalanx.cli.terminal.output import note, print_json_line
from phalanx.client.kind import JOBS


async def attach(
    job: str,
    /,
    *,
    space: Namespace | None = None,
    target: Target | None = None,
    json: bool = False,
) -> int:
    """Follow a job: wait until it starts, show its output from the beginning, and exit with its exit code.

    Use this command to return to a job after its terminal, ssh session or `phalanx run` has ended. After Ctrl-C you are
    asked whether to delete the Job; only `yes` deletes it. A job of `phalanx run -it` is connected with this terminal
    from then on.

    For example:

        phalanx run --detach --name train -- python train.py
        phalanx attach train
        phalanx attach team-a/train
        phalanx attach train --json | tail -n 1

    Parameters
    ----------
    job
        The job: NAME, NAMESPACE/NAME or KIND/NAME; JOB/INDEX for one of its pods; ARRAY/INDEX; a job number of Slurm.
    json
        When the job has ended, print a last line with JSON about it: job, state, exit_code, why.
    """
    async with connected(target) as connection:
        ledger = find_ledger_of(target, os.environ)
        found = await Finder(connection, (space or Namespace()).namespace, ledger).one(job)
        if found.kind == "job" and found.members and not found.part and found.members[0].kind is JOBS:
            made = found.members[0].obj
            return await follow(connection, made, json=json, interactive=is_at_terminal() and has_terminal(made))
        if found.entry is not None:
            end = recorded_standing(found.entry)
        elif state_of(found) in OVER:
            end = standing(found.members, ())
        else:
            end = await follow_output(connection, found, LineOptions())
    if json:
        print_json_line({"job": found.id, "state": end.state, "exit_code": end.exit_code, "why": end.why})
    elif end.exit_code:
        note(f"phalanx: {found.kind} {found.id} {end.state}: {end.why or f'exit code {end.exit_code}'}")
    return end.exit_code or 0
