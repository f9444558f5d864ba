"""`phalanx rerun JOB`: submit an ended job again."""

from __future__ import annotations

import os
import re
import secrets

from phalanx.cli.cluster.jobs.changing import takes_words
from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, Member
from phalanx.cli.cluster.jobs.standing import OVER, state_of
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.files.rendezvous import has_rendezvous
from phalanx.cli.submission.copying import copy_of
from phalanx.cli.submission.job_options import SUFFIX_LETTERS
from phalanx.cli.submission.sending import create, create_service
from phalanx.cli.terminal.output import print_json
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS
from phalanx.errors import PhalanxError

_NAME_CHARS = 63
_NUMBER = "slurm.phalanx.dev/number"


async def rerun(
    job: str,
    /,
    *,
    name: str = "",
    force: bool = False,
    json: bool = False,
    space: Namespace | None = None,
    target: Target | None = None,
) -> None:
    """Submit an ended job again, under a new name. The new object is the one that the user wrote, without the fields
    that the API server and controllers have changed since.

    For example:

        phalanx rerun train
        phalanx rerun sweep/7 --name sweep-7-again

    Parameters
    ----------
    job
        The job, whose object must exist: NAME, NAMESPACE/NAME or KIND/NAME; ARRAY/INDEX; a job number of Slurm.
    name
        The new name. [default: the old name with five random letters]
    force
        Submit a second job even if the first one still waits or runs.
    json
        Print the created object as JSON.
    """
    async with connected(target) as connection:
        ledger = find_ledger_of(target, os.environ)
        found = await Finder(connection, (space or Namespace()).namespace, ledger).one(job)
        member = _require_rerunnable(found, force)
        suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
        stem = re.sub(rf"-[{SUFFIX_LETTERS}]{{5}}$", "", member.name)[: _NAME_CHARS - 6]
        obj = copy_of(member, name or f"{stem}-{suffix}")
        try:
            made = await create(connection, obj, found.namespace)
            if member.kind is JOBS and has_rendezvous(made):
                await create_service(connection, made)
        except ApiRefusal as error:
            raise PhalanxError(f"{job} cannot be submitted again: {error.message}. Nothing was created.") from error
    if json:
        print_json(made)
    else:
        print(f"{found.kind} {found.namespace}/{made['metadata']['name']} created, as {found.id} was")


def _require_rerunnable(found: FoundJob, force: bool) -> Member:
    """Return the object of the job that must be copied. Raises PhalanxError if the job cannot be submitted again."""
    if found.entry is not None:
        raise PhalanxError(
            f"{found.id} was deleted, and the ledger does not contain manifests: submit its file again. Nothing was "
            "created."
        )
    if len(found.members) > 1:
        raise PhalanxError(f"{found.id} has {len(found.members)} objects: rerun one of them. Nothing was created.")
    if (state := state_of(found)) not in OVER and not force:
        raise PhalanxError(f"{found.id} is {state}: --force submits a second job beside it. Nothing was created.")
    member = found.members[0]
    if number := (member.obj["metadata"].get("labels") or {}).get(_NUMBER):
        raise PhalanxError(f"{found.id} is Slurm's job {number}: `scontrol requeue {number}` runs it again.")
    if not takes_words(member):
        raise PhalanxError(f"{found.id} is a {member.kind.name} of {member.kind.group}: its own tools submit it again.")
    return member
