"""`phalanx explain JOB`: explain in full why a job waits."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, recorded
from phalanx.cli.cluster.numbers.fetching import fetch_reason
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import counted, print_json
from phalanx.cli.views.entry_view import changes, record
from phalanx.cli.views.entry_view import page as page_of
from phalanx.cli.views.job import job_view
from phalanx.cli.views.job.explanation import Explained, explained, invalid_field, not_scheduled
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import EVENTS
from phalanx.client.moment import write_moment
from phalanx.clusters.workers.reach import cluster_of
from phalanx.dialects.frame.peer_reasons import Peer, word
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry
from phalanx.model.reason import ReasonCode

_WARNINGS = 5  # the maximum number of warnings that are printed for a job in another cluster


async def explain(
    job: str,
    /,
    *,
    target: Target | None = None,
    space: Namespace | None = None,
    peer: Annotated[Peer | None, Parameter(name="--as")] = None,
    json: bool = False,
) -> None:
    """Explain one job: why it waits, its pods, its position, and which jobs hold the resources that it needs.

    The numbers are current: the scheduler's own code decides again on the cluster's present state. Nothing is changed.

    For example:

        phalanx explain train
        phalanx explain team-a/train
        phalanx explain vcjob/claimant
        phalanx explain sweep/7
        phalanx explain train --as slurm
        phalanx explain train --json | jq .reason.numbers

    Parameters
    ----------
    job
        The job: NAME, NAMESPACE/NAME or KIND/NAME of a Job, gang, pod, training job or Volcano Job; ARRAY/INDEX; a job
        number of Slurm. For a deleted job, its end is read from the ledger.
    peer
        Print the reason also in the terms of this other scheduler: the reason of its condition, or its reason code.
    json
        Print JSON: the fields of `phalanx jobs --json`, and more. `reason.peers` has the terms of all schedulers.
    """
    ledger = find_ledger_of(target, os.environ)
    namespace = (space or Namespace()).namespace
    async with connected(target) as connection:
        try:
            found = await Finder(connection, namespace, ledger).one(job)
            told = await explained(connection, found, ledger)
            warned = await _warnings(connection, found)
        # a user who may not list jobs may still read the numbers that the scheduler publishes
        except PhalanxError:
            if await _explain_by_numbers(connection, namespace, job, json=json):
                return
            raise
    if told is None:
        if invalid_field(found):
            raise not_scheduled(found)
        _print_ended(found.entry or _recorded(found, ledger), json)
        return
    if json:
        reasons = [{"at": write_moment(change.at_s), "code": change.code} for change in told.before.reasons]
        print_json({**told.record, "reasons_before": reasons, "warnings": warned})
        return
    _print_page(found, told, warned, peer)


def _print_page(found: FoundJob, told: Explained, warned: Sequence[str], peer: Peer | None) -> None:
    if told.states and len(found.members) > 1:
        states = ", ".join(f"{count} {state}" for state, count in told.states.items())
        print(f"{found.kind} {found.id}, {counted(told.states.total(), 'task')}: {states}\n")
    print(told.text)
    if warned:
        print("warnings\n  " + "\n  ".join(warned))
    if lines := changes(told.before):
        print("before\n  " + "\n  ".join(lines))
    if told.unused:
        print("without effect\n  " + "\n  ".join(told.unused))
    if peer is not None and (reason := told.record["reason"]) is not None:
        print(as_said_by(peer, ReasonCode(reason["code"]), reason["numbers"]))


async def _warnings(connection: Connection, found: FoundJob) -> list[str]:
    """Return the last warnings about a job that was sent to another cluster. They include the warnings in the other
    cluster about the job's pods. The list is empty if the user may not list Events."""
    objects = [member.obj for member in found.members]
    if not cluster_of(objects):
        return []
    meta, listed = objects[0]["metadata"], list[Object]()
    with suppress(ApiRefusal):
        selector = f"involvedObject.uid={meta['uid']}"
        listed = (await connection.list(EVENTS, meta["namespace"], fieldSelector=selector))["items"]
    events = sorted(
        (one for one in listed if one.get("type") == "Warning"), key=lambda one: str(one.get("lastTimestamp"))
    )
    return [f"{one.get('reason')}: {one.get('message')}" for one in events[-_WARNINGS:]]


async def _explain_by_numbers(connection: Connection, namespace: str, job: str, *, json: bool) -> bool:
    """Print the reason and the numbers that the scheduler publishes for the job's owner. Return False if it publishes
    none."""
    space, _, name = job.rpartition("/")
    numbers = await fetch_reason(connection, space or namespace, name)
    if numbers is None:
        return False
    if json:
        print_json(numbers)
    else:
        print("\n".join(job_view.page(numbers, time.time())))
    return True


def as_said_by(peer: Peer, code: ReasonCode, numbers: Mapping[str, object]) -> str:
    said = word(code, peer, numbers)
    return f"as {peer} says it\n  " + (said if isinstance(said, str) else f"it has no term for this: {said.why}")


def _recorded(found: FoundJob, ledger: str | None) -> JobEntry:
    """Return the job's last entry in the ledger. Raises PhalanxError if there is none."""
    from phalanx.ledger.store import Ledger, LedgerError

    if ledger is not None:
        with suppress(LedgerError), Ledger.open(ledger, read_only=True) as book:
            if entries := recorded(book, found.id, found.namespace):
                return entries[-1]
    raise not_scheduled(found)


def _print_ended(entry: JobEntry, json: bool) -> None:
    now_s = time.time()
    if json:
        print_json(record(entry, now_s))
    else:
        print(page_of(entry, now_s))
