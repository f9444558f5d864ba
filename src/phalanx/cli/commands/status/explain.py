"""`phalanx explain JOB`: why it waits, in full."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.live_state import Snapshot, look
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.terminal.output import print_json
from phalanx.cli.views.job_view import JobView, page, views, whole_record
from phalanx.client.connection import Object
from phalanx.client.kind import PODS
from phalanx.dialects.enabled import DIALECTS
from phalanx.dialects.frame.peer_reasons import Peer, word
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import JOB, QUEUE
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
    """Say all there is to say about one job: the reason why it waits, its pods, its place, who holds what it needs.

    The numbers are of this moment: the decision is made anew on what the cluster holds now, by the scheduler's own
    code, without changing anything.

    For example:

        phalanx explain train
        phalanx explain team-a/train
        phalanx explain train --as slurm
        phalanx explain train --json | jq .reason.numbers

    Parameters
    ----------
    job
        The job: a Job's name or a gang's (`phalanx.dev/job`), or NAMESPACE/NAME.
    peer
        Say besides what another scheduler would call the reason: the word of its own condition, or its reason code.
    json
        Print JSON: what `phalanx jobs --json` has of it, and more. `reason.peers` has the words of all.
    """
    async with connected(target) as connection:
        namespace = (space or Namespace()).namespace
        seen = job.partition("/")[0] if "/" in job else namespace
        snapshot = await look(connection, seen, find_ledger_of(target, os.environ))
    view = find(snapshot, job, namespace)
    if json:
        print_json(whole_record(view, snapshot))
    else:
        print(page(view, snapshot))
        if unused := without_effect(view, snapshot):
            print("without effect\n  " + "\n  ".join(unused))
        if peer is not None and view.reason is not None:
            print(as_said_by(peer, view.reason))


def without_effect(view: JobView, snapshot: Snapshot) -> list[str]:
    """Return what the job says in words of a dialect that has no effect here, and why."""
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


def find(snapshot: Snapshot, job: str, namespace: str) -> JobView:
    """Raises PhalanxError if there is no such job, with those that there are."""
    wanted = job if "/" in job else f"{namespace}/{job}"
    everything = views(snapshot, finished=True)
    for view in everything:
        if view.id in {wanted, wanted.replace("/", "/pod:", 1)}:
            return view
    here = [view.name for view in everything if view.namespace == wanted.partition("/")[0]]
    elsewhere = [view.id for view in everything if view.name == wanted.partition("/")[2]]
    known = f"Those there are: {', '.join(here[:8])}" if here else "There is none in that namespace"
    if elsewhere:
        known = f"There is {', '.join(elsewhere[:3])}"
    if wanted in snapshot.jobs:
        known = _unlisted(snapshot.jobs[wanted])
    raise PhalanxError(f"there is no job {wanted}. {known}. `phalanx jobs -A` lists them all.")


def _unlisted(job: Object) -> str:
    """Why a Job that exists is no job of its own."""
    labels = job["metadata"].get("labels") or {}
    if QUEUE not in labels:
        return f"A Job of that name exists, but it has no label {QUEUE}, so Phalanx leaves it alone"
    if gang := labels.get(JOB):
        return f"A Job of that name exists, and it is a member of the gang {gang}: `phalanx explain {gang}`"
    return "A Job of that name exists, but Phalanx does not schedule it"
