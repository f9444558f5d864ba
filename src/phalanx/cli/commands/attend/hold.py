"""`phalanx hold JOB...`: keep jobs queued until they are released."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from phalanx.cli.cluster.jobs.choosing import Filters, chosen, for_each
from phalanx.cli.cluster.jobs.finding import FoundJob
from phalanx.cli.cluster.jobs.standing import HELD, OVER, QUEUED, state_of
from phalanx.cli.cluster.target import Scope, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import note, print_json
from phalanx.client.connection import Connection
from phalanx.client.kind import JOBS, PODS
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import HOLD
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS

_KINDS = frozenset({JOBS, PODS, *FRAMEWORK_KINDS})


async def hold(
    *jobs: str,
    filters: Filters | None = None,
    json: bool = False,
    scope: Scope | None = None,
    target: Target | None = None,
) -> None:
    """Keep jobs queued until `phalanx release`. A job that runs cannot be held.

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
    """Hold or release jobs. Raises PhalanxError, before anything is changed, for one that cannot be."""
    async with connected(target) as connection:
        found = await chosen(
            connection, names, filters, scope.namespace, find_ledger_of(target, os.environ), scope.all_namespaces
        )
        for job in found:
            _require_waiting(job, held=held)
        await for_each(found, lambda job: _write(connection, job, held=held))
    now = HELD if held else QUEUED
    rows: list[dict[str, Any]] = [{"job": job.id, "kind": job.kind, "state": now} for job in found]
    if json:
        print_json(rows)
        return
    for job in found:
        print(f"{job.kind} {job.id} {'held' if held else 'released'}")
    if not found:
        note("no job is chosen by these options; nothing was changed")


def _require_waiting(job: FoundJob, *, held: bool) -> None:
    verb = "held" if held else "released"
    if job.part:
        raise PhalanxError(
            f"{job} is a part of job {job.id}, and jobs start whole: name {job.id}. Nothing was changed."
        )
    if (state := state_of(job)) in OVER:
        raise PhalanxError(f"{job.id} is {state}: it cannot be {verb}. Nothing was changed.")
    if held and state not in {QUEUED, HELD}:
        raise PhalanxError(f"{job.id} is {state}, and only jobs that wait can be held. Nothing was changed.")
    if wrong := next((one for one in job.members if one.kind not in _KINDS), None):
        raise PhalanxError(
            f"{job.id} is a {wrong.kind.name} of {wrong.kind.group}, which has no word for it. Nothing was changed."
        )


async def _write(connection: Connection, job: FoundJob, *, held: bool) -> None:
    for member in job.members:
        meta: dict[str, Any] = {"annotations": {HOLD: "true" if held else None}}
        if HOLD in (member.obj["metadata"].get("labels") or {}):  # a label counts before an annotation
            meta["labels"] = {HOLD: None}
        await connection.patch(member.kind, member.name, {"metadata": meta}, job.namespace)
