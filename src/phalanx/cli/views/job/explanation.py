"""Find the explanation of a job, for `phalanx explain` and `phalanx.explain`.

The explanation comes from the scheduler, or this process computes it from a snapshot (`explained`). A job that Phalanx
does not schedule has no explanation (`not_scheduled`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.cli.cluster.jobs.finding import FoundJob, kind_word
from phalanx.cli.cluster.numbers.fetching import fetch_page, fetch_rows
from phalanx.cli.views.entry_view import last_entry
from phalanx.cli.views.job.job_view import MANY_JOBS, JobTableRow
from phalanx.client.connection import Connection, Object
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import JOB, QUEUE, option
from phalanx.kube.read.workload.object_types import FieldTypeError, check_object
from phalanx.ledger.entry import JobEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The explanation of a job whose objects exist. `text`: the page as text. `record`: the page for `--json`.
    `unused`: the job's options that have no effect in this cluster. `states`: for an array, state -> number of tasks.
    `before`: the job's entry in the ledger, with its earlier states and reasons."""

    row: JobTableRow
    text: str
    record: Mapping[str, Any]
    unused: Sequence[str]
    states: Counter[str]
    before: JobEntry


async def explained(connection: Connection, found: FoundJob, ledger: str | None) -> Explained | None:
    """Return the explanation of a job; None if the job has ended and only the ledger has it, or if the scheduler does
    not schedule it.

    If the scheduler serves pages to this user and has more than `MANY_JOBS` jobs, the page comes from the scheduler.
    Otherwise this process computes the page; such a page also has the likely interval of the job's start. Raises
    PhalanxError."""
    if found.entry is not None and found.entry.end_s is not None:
        return None
    served = await fetch_rows(connection, found.namespace, finished=True)
    if served is not None and served["live"] > MANY_JOBS:
        rows = msgspec.convert(served["items"], list[JobTableRow])
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
    from phalanx.cli.cluster.live_state.look import look
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


def row_of(found: FoundJob, rows: Sequence[JobTableRow]) -> JobTableRow | None:
    """Return the row of the found job; for an array or a gang, the row of its first waiting member."""
    # a gang that is defined by labels of another scheduler has no object with the name of the gang
    if found.entry is not None:
        return next((row for row in rows if row.id == found.entry.job), None)
    for row in rows:
        if (row.name.removeprefix("pod:"), kind_word(row.kind)) == (found.name, found.kind):
            return row
    gangs = {option(member.obj["metadata"], JOB) for member in found.members}
    names = {*gangs, *(member.name for member in found.members)} - {None}
    members = [row for row in rows if row.name.removeprefix("pod:") in names]
    return next((row for row in members if row.state == "queued"), None) or next(iter(members), None)


def row_of_pods(
    found: FoundJob, rows: Sequence[JobTableRow], pods: Mapping[str, Collection[str]]
) -> JobTableRow | None:
    """Return the row of the gang to which the found pods belong. The function also finds gangs that are defined by
    labels of another scheduler. `pods`: job -> the uids of its pods."""
    uids = {member.obj["metadata"]["uid"] for member in found.members}
    return next((row for row in rows if not uids.isdisjoint(pods.get(row.id, ()))), None)


def _states(found: FoundJob, rows: Sequence[JobTableRow], row: JobTableRow) -> Counter[str]:
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


def not_scheduled(found: FoundJob) -> PhalanxError:
    """Return the error for a job whose object exists, but which Phalanx does not schedule."""
    if fault := invalid_field(found):
        return PhalanxError(f"{found.kind} {found.id} is invalid, so Phalanx does not start it: {fault}.")
    obj = found.members[0].obj
    labels = obj["metadata"].get("labels") or {}
    why = "" if QUEUE in labels else f": it has no label {QUEUE}, so Phalanx ignores it"
    if said := _last_message(obj):
        why += f". Its status says: {said.removesuffix('.')}"
    return PhalanxError(f"{found.kind} {found.id} exists, but Phalanx does not schedule it{why}.")


def invalid_field(found: FoundJob) -> str:
    """Return the error about a field of the job's objects with a wrong type; "" if there is none."""
    for member in found.members:
        try:
            check_object(member.kind, member.obj)
        except FieldTypeError as error:
            return str(error)
    return ""


def _last_message(obj: Object) -> str:
    """Return the newest message of the object's conditions. The operator of the object reports problems of the job in
    these conditions."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    told = [(one.get("lastTransitionTime") or "", one["message"]) for one in conditions if one.get("message")]
    return str(max(told, default=("", ""))[1])
