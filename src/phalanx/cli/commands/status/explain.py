"""`phalanx explain JOB`: explain in full why a job waits."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, kind_word, recorded
from phalanx.cli.cluster.numbers.fetching import fetch_page, fetch_reason, fetch_rows
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import counted, print_json
from phalanx.cli.views.entry_view import changes, last_entry, record
from phalanx.cli.views.entry_view import page as page_of
from phalanx.cli.views.job import job_view
from phalanx.cli.views.job.job_view import MANY_JOBS, JobRow
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import EVENTS
from phalanx.client.moment import write_moment
from phalanx.clusters.workers.reach import cluster_of
from phalanx.dialects.frame.peer_reasons import Peer, word
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import JOB, QUEUE, option
from phalanx.ledger.entry import JobEntry
from phalanx.model.reason import ReasonCode

_WARNINGS = 5  # the largest number of warnings that are printed for a job in another cluster


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
        # a user who may not list jobs may still be allowed to read the figures that the scheduler publishes
        except PhalanxError:
            if await _explain_by_numbers(connection, namespace, job, json=json):
                return
            raise
    if told is None:
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
    """Return the last warnings about a job that was sent to another cluster, with that cluster's warnings about its
    pods. The list is empty if the user may not list Events."""
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
    """Print the reason and the figures that the scheduler publishes for the job's owner. Return False if it publishes
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The explanation of a job whose objects exist. `text`: the page as text. `record`: the page for `--json`.
    `unused`: the job's options that have no effect in this cluster. `states`: for an array, state -> number of tasks.
    `before`: the job's entry in the ledger, with its earlier states and reasons."""

    row: JobRow
    text: str
    record: Mapping[str, Any]
    unused: Sequence[str]
    states: Counter[str]
    before: JobEntry


async def explained(connection: Connection, found: FoundJob, ledger: str | None) -> Explained | None:
    """Return the explanation of a job; None if the job has ended and only the ledger has it, or if the scheduler does
    not schedule it.

    If the scheduler serves pages to this user and has more than `MANY_JOBS` jobs, the page comes from the scheduler.
    Otherwise this process computes the page, and then the page also has the likely interval of the job's start. Raises
    PhalanxError."""
    if found.entry is not None and found.entry.end_s is not None:
        return None
    served = await fetch_rows(connection, found.namespace, finished=True)
    if served is not None and served["live"] > MANY_JOBS:
        rows = msgspec.convert(served["items"], list[JobRow])
        row = row_of(found, rows)
        if row is not None and (page := await fetch_page(connection, row.id)) is not None:
            states = _states(found, rows, row)
            return Explained(
                row=row,
                text=page["text"],
                record=page["record"],
                unused=page["unused"],
                states=states,
                before=msgspec.convert(page["entry"], JobEntry | None) or JobEntry(uid="", job=row.id),
            )
    return await _computed(connection, found, ledger)


async def _computed(connection: Connection, found: FoundJob, ledger: str | None) -> Explained | None:
    from phalanx.cli.cluster.live_state import look
    from phalanx.cli.views.job.job_page import page, whole_record
    from phalanx.cli.views.job.reading import views
    from phalanx.cli.views.job.served import without_effect

    snapshot = await look(connection, found.namespace, ledger)
    known = {view.id: view for view in views(snapshot, found.namespace, finished=True)}
    rows = [view.row(None, snapshot.now_s) for view in known.values()]
    pods = {gang.id: gang.objects.pods for gang in snapshot.gangs.values()}
    if (row := row_of(found, rows) or row_of_pods(found, rows, pods)) is None:
        return None
    view = known[row.id]
    return Explained(
        row=row,
        text=page(view, snapshot),
        record=whole_record(view, snapshot),
        unused=without_effect(view.id, snapshot),
        states=_states(found, rows, row),
        before=_before(ledger, row.id),
    )


def row_of(found: FoundJob, rows: Sequence[JobRow]) -> JobRow | None:
    """Return the row of the found job; for an array or a gang, the row of its first waiting member."""
    if found.entry is not None:  # a gang that another scheduler's labels define has no object with its name
        return next((row for row in rows if row.id == found.entry.job), None)
    for row in rows:
        if (row.name.removeprefix("pod:"), kind_word(row.kind)) == (found.name, found.kind):
            return row
    gangs = {option(member.obj["metadata"], JOB) for member in found.members}
    names = {*gangs, *(member.name for member in found.members)} - {None}
    members = [row for row in rows if row.name.removeprefix("pod:") in names]
    return next((row for row in members if row.state == "queued"), None) or next(iter(members), None)


def row_of_pods(found: FoundJob, rows: Sequence[JobRow], pods: Mapping[str, Collection[str]]) -> JobRow | None:
    """Return the row of the gang to which the found pods belong. This finds gangs that another scheduler's labels
    define. `pods`: the uids of each job's pods."""
    uids = {member.obj["metadata"]["uid"] for member in found.members}
    return next((row for row in rows if not uids.isdisjoint(pods.get(row.id, ()))), None)


def _states(found: FoundJob, rows: Sequence[JobRow], row: JobRow) -> Counter[str]:
    """Return state -> number of tasks, for an array; empty for other jobs."""
    names = {member.name for member in found.members}
    return Counter(each.state for each in rows if each.name in names) if row.id != found.id else Counter()


def _before(ledger: str | None, job: str) -> JobEntry:
    """Return the job's last entry in the ledger; an empty entry if the ledger has none or cannot be read."""
    if ledger is None:
        return JobEntry(uid="", job=job)
    from phalanx.ledger.store import LedgerError

    with suppress(LedgerError):
        if (found := last_entry(ledger, job)) is not None:
            return found
    return JobEntry(uid="", job=job)


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


def not_scheduled(found: FoundJob) -> PhalanxError:
    """Return the error for a job whose object exists, but which Phalanx does not schedule."""
    obj = found.members[0].obj
    labels = obj["metadata"].get("labels") or {}
    why = "" if QUEUE in labels else f": it has no label {QUEUE}, so Phalanx leaves it alone"
    if said := _last_message(obj):
        why += f". Its status says: {said.removesuffix('.')}"
    return PhalanxError(f"{found.kind} {found.id} exists, but Phalanx does not schedule it{why}.")


def _last_message(obj: Object) -> str:
    """Return the newest message of the object's conditions. The operator of the object reports problems of the job
    there."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    told = [(one.get("lastTransitionTime") or "", one["message"]) for one in conditions if one.get("message")]
    return str(max(told, default=("", ""))[1])


def _print_ended(entry: JobEntry, json: bool) -> None:
    now_s = time.time()
    if json:
        print_json(record(entry, now_s))
    else:
        print(page_of(entry, now_s))
