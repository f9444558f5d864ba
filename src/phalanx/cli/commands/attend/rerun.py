"""`phalanx rerun JOB`: the same job once more."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, Member
from phalanx.cli.cluster.jobs.standing import OVER, state_of
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.files.rendezvous import has_rendezvous, rename
from phalanx.cli.submission.job_options import SUFFIX_LETTERS
from phalanx.cli.submission.sending import create, create_service
from phalanx.cli.terminal.output import print_json
from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import JOBS, PODS
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import LIMITED, OURS, PARALLELISM, USER, WRITTEN
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS
from phalanx.kube.read.workload.batch_job import original_template

_KINDS = frozenset({JOBS, PODS, *FRAMEWORK_KINDS})
_META = ("name", "namespace", "labels", "annotations")
# Labels and annotations that controllers write.
_MADE = re.compile(r"(batch\.kubernetes\.io/|controller-uid$|job-name$|kubectl\.kubernetes\.io/last-applied)")
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
    """Submit a job that is over once more, under a new name: what its user wrote, without what a start changed.

    For example:

        phalanx rerun train
        phalanx rerun sweep/7 --name sweep-7-again

    Parameters
    ----------
    job
        The job, whose object must exist: NAME, NAMESPACE/NAME or KIND/NAME; ARRAY/INDEX; a job number of Slurm.
    name
        The new name. [default: the old one, and five letters]
    force
        Also of a job that waits or runs.
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
    """Return the object to copy. Raises PhalanxError."""
    if found.entry is not None:
        raise PhalanxError(
            f"{found.id} is gone, and the ledger has no manifest of it: submit its file again. Nothing was created."
        )
    if len(found.members) > 1:
        raise PhalanxError(f"{found.id} is of {len(found.members)} objects: rerun one of them. Nothing was created.")
    if (state := state_of(found)) not in OVER and not force:
        raise PhalanxError(f"{found.id} is {state}: --force submits a second one beside it. Nothing was created.")
    member = found.members[0]
    if number := (member.obj["metadata"].get("labels") or {}).get(_NUMBER):
        raise PhalanxError(f"{found.id} is Slurm's job {number}: `scontrol requeue {number}` runs it again.")
    if member.kind not in _KINDS:
        raise PhalanxError(f"{found.id} is a {member.kind.name} of {member.kind.group}: its own tools submit it again.")
    return member


def copy_of(member: Member, name: str) -> Object:
    """Return the object as its user wrote it, with another name."""
    obj, meta = deepcopy(member.obj), member.obj["metadata"]
    obj.pop("status", None)
    obj |= {"apiVersion": member.kind.api_version, "kind": member.kind.name}
    obj["metadata"] = {key: meta[key] for key in _META if meta.get(key)}
    for field in ("labels", "annotations"):
        if field in obj["metadata"]:
            obj["metadata"][field] = _own(obj["metadata"][field])
    if member.kind is JOBS:
        obj["spec"] = _job_spec(meta, obj["spec"])
        rename(obj, name)
    else:
        obj["metadata"]["name"] = name
    if member.kind is PODS and obj["spec"].get("schedulerName") in OURS:
        obj["spec"].pop("nodeName", None)
    return obj


def _job_spec(meta: Object, spec: Object) -> Object:
    """Return the spec of a Job without what its controller and a start wrote into it."""
    words: Mapping[str, str] = meta.get("annotations") or {}
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
    template = {key: value for key, value in original_template(meta, spec["template"]).items() if value is not None}
    template["spec"] = {key: value for key, value in template["spec"].items() if value is not None}
    own = dict(template.get("metadata") or {})
    own["labels"] = _own(own.get("labels") or {})
    own.pop("creationTimestamp", None)
    found: dict[str, Any] = {**spec, "template": {**template, "metadata": own}, "suspend": True}
    _, of, asked = words.get(PARALLELISM, "").partition(" of ")
    if of and asked.isdigit():
        found["parallelism"] = int(asked)
    _, of, limit = words.get(LIMITED, "").partition(" of ")
    if of:
        found["activeDeadlineSeconds"] = int(limit) if limit.isdigit() else None
    return {key: value for key, value in found.items() if value is not None}


def _own(words: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in words.items() if key not in {*WRITTEN, USER} and not _MADE.match(key)}
