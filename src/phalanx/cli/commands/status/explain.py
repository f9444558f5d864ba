"""`phalanx explain JOB`: why it waits, in full."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, kind_word, recorded
from phalanx.cli.cluster.live_state import Snapshot, look
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import counted, print_json
from phalanx.cli.views.entry_view import changes, record
from phalanx.cli.views.entry_view import page as page_of
from phalanx.cli.views.job_view import JobView, page, views, whole_record
from phalanx.cli.views.page.past import last_entry
from phalanx.client.kind import PODS
from phalanx.client.moment import write_moment
from phalanx.dialects.enabled import DIALECTS
from phalanx.dialects.frame.peer_reasons import Peer, word
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import JOB, QUEUE, option
from phalanx.ledger.entry import JobEntry
from phalanx.ledger.store import Ledger, LedgerError
from phalanx.model.reason import Reason


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
        number of Slurm. The end of a deleted job is read from the ledger.
    peer
        Print the reason also in the terms of another scheduler: the reason of its condition, or its reason code.
    json
        Print JSON: the fields of `phalanx jobs --json`, and more. `reason.peers` has the terms of all schedulers.
    """
    namespace = (space or Namespace()).namespace
    ledger = find_ledger_of(target, os.environ)
    async with connected(target) as connection:
        found = await Finder(connection, namespace, ledger).one(job)
        snapshot = await look(connection, found.namespace, ledger) if found.entry is None else None
    view = view_of(found, snapshot) if snapshot is not None else None
    if snapshot is None or view is None:
        entry = found.entry or _recorded(found, ledger)
        _print_ended(entry, json)
        return
    if len(found.members) > 1 and view.id != found.id and not json:
        print(_array_line(found, snapshot))
    before = _before(ledger, view.id)
    if json:
        reasons = [{"at": write_moment(change.at_s), "code": change.code} for change in before.reasons]
        print_json({**whole_record(view, snapshot), "reasons_before": reasons})
    else:
        print(page(view, snapshot))
        if told := changes(before):
            print("before\n  " + "\n  ".join(told))
        if unused := without_effect(view, snapshot):
            print("without effect\n  " + "\n  ".join(unused))
        if peer is not None and view.reason is not None:
            print(as_said_by(peer, view.reason))


def _array_line(found: FoundJob, snapshot: Snapshot) -> str:
    """Return how many tasks of an array are in which state."""
    names = {member.name for member in found.members}
    states = Counter(
        view.state
        for view in views(snapshot, finished=True)
        if view.namespace == found.namespace and view.name in names
    )
    said = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{found.kind} {found.id}, {counted(len(names), 'task')}: {said}\n"


def _before(ledger: str | None, job: str) -> JobEntry:
    """Return what the ledger has of the job; nothing, if it cannot be read now."""
    with suppress(LedgerError):
        if ledger is not None and (found := last_entry(ledger, job)) is not None:
            return found
    return JobEntry(uid="", job=job)


def without_effect(view: JobView, snapshot: Snapshot) -> list[str]:
    """Return the settings of a dialect on the job's objects that have no effect here, with the reason for each."""
    gang = snapshot.gangs.get(view.id)
    found: dict[str, None] = {}
    jobs = [(job.adapter.kind, job.key) for job in gang.jobs.values()] if gang is not None else []
    pods = [(PODS, pod.key) for pod in gang.pods.values() if pod.owner is None] if gang is not None else []
    for kind, key in (*jobs, *pods):
        if (obj := snapshot.objects.get(kind, {}).get(key)) is not None:
            found |= dict.fromkeys(text for each in DIALECTS.values() for text in each.notes(kind.name, obj))
    return list(found)


def as_said_by(peer: Peer, reason: Reason) -> str:
    said = word(reason.code, peer, reason.numbers)
    return f"as {peer} says it\n  " + (said if isinstance(said, str) else f"it has no word: {said.why}")


def view_of(found: FoundJob, snapshot: Snapshot) -> JobView | None:
    """Return the view of a job that was found; None if the scheduler does not know the job, or not any more."""
    everything = [view for view in views(snapshot, finished=True) if view.namespace == found.namespace]
    for view in everything:
        if (view.name.removeprefix("pod:"), kind_word(view.kind)) == (found.name, found.kind):
            return view
    gangs = {option(member.obj["metadata"], JOB) for member in found.members}
    names = {*gangs, *(member.name for member in found.members)} - {None}
    waiting = [view for view in everything if view.name.removeprefix("pod:") in names]
    return next((view for view in waiting if view.state == "queued"), None) or next(iter(waiting), None)


def _recorded(found: FoundJob, ledger: str | None) -> JobEntry:
    """Return what the ledger has of the job. Raises PhalanxError if the ledger has nothing."""
    if ledger is not None:
        with suppress(LedgerError), Ledger.open(ledger, read_only=True) as book:
            if entries := recorded(book, found.id, found.namespace):
                return entries[-1]
    labels = found.members[0].obj["metadata"].get("labels") or {}
    why = "" if QUEUE in labels else f": it has no label {QUEUE}, so Phalanx leaves it alone"
    raise PhalanxError(f"{found.kind} {found.id} exists, but Phalanx does not schedule it{why}.")


def _print_ended(entry: JobEntry, json: bool) -> None:
    now_s = time.time()
    if json:
        print_json(record(entry, now_s))
    else:
        print(page_of(entry, now_s))
