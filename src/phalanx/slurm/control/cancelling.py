"""Cancel jobs: write the cancelling user on each Job, for the ledger, and then delete the Job.

The Secret of an array is owned by all its tasks. The garbage collector would rewrite the Secret at each deletion, with
all remaining owners, which is most of the cost of cancelling a large array. So the owners are first reduced to the
tasks that stay and to one task that is deleted last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from phalanx.slurm.cluster.api import SECRETS, Api, Refused, for_each
from phalanx.slurm.jobs.ask import CANCELLED
from phalanx.slurm.jobs.names import name_of, path_of, secret_of
from phalanx.slurm.jobs.view import Job

_MANY = 16  # cancelled tasks of one array, from which their Secret's owners are reduced first
Told = Callable[[Job, Refused], None]


def cancel_all(api: Api, going: Sequence[Job], refused: Told, *, now: bool, by: str = "") -> None:
    """Cancel the jobs. `refused`: called with each job that the server refuses to delete, and the error. `now`: True to
    end the pods without a grace period between SIGTERM and SIGKILL. `by`: the id to record as the canceller; "": the
    caller's user id. Raises Unreachable."""
    last = {job.number for job in _left_to_one(api, going)}

    def cancel(connection: Api, job: Job) -> None:
        try:
            _cancel(connection, job, now=now, by=by or str(os.getuid()))
        except Refused as error:
            if error.code != 404:
                refused(job, error)

    for_each(api, [job for job in going if job.number not in last], cancel)
    for_each(api, [job for job in going if job.number in last], cancel)


def _cancel(api: Api, job: Job, *, now: bool, by: str) -> None:
    api, path = api.within(job.namespace), path_of(job.number, job.ask)
    api.patch(path, {"metadata": {"annotations": {CANCELLED: by}}})
    # Foreground deletion keeps a running Job until its pods have ended: the Job still holds its nodes, and the exit
    # code can be read.
    policy = "Background" if job.state == "PENDING" else "Foreground"
    grace = {"gracePeriodSeconds": "0"} if now else {}
    api.delete(path, propagationPolicy=policy, **grace)


def _left_to_one(api: Api, going: Sequence[Job]) -> list[Job]:
    """Reduce the owners of the Secret of each array of which many tasks are cancelled. Return the task of each of these
    arrays that is deleted last."""
    arrays: dict[tuple[str, int], list[Job]] = {}
    for job in going:
        if job.ask.array is not None:
            arrays.setdefault((job.namespace, job.ask.array), []).append(job)
    return [tasks[-1] for tasks in arrays.values() if len(tasks) >= _MANY and _leave(api, tasks)]


def _leave(api: Api, tasks: Sequence[Job]) -> bool:
    """Remove all cancelled tasks but the last from the Secret's owners. Return False if the server refuses: the user
    may not change the Secret, or another writer changed it."""
    api, path = api.within(tasks[0].namespace), f"{SECRETS}/{secret_of(tasks[0].number, tasks[0].ask)}"
    going = {name_of(job.number, job.ask) for job in tasks[:-1]}
    try:
        meta = api.get(path)["metadata"]
        stay = [owner for owner in meta.get("ownerReferences") or () if owner["name"] not in going]
        api.patch(path, {"metadata": {"resourceVersion": meta["resourceVersion"], "ownerReferences": stay}})
    except Refused:
        return False
    return True
