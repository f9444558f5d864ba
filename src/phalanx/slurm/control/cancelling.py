"""Cancel jobs. First the id of the user who cancels is written on the Job, for the ledger (the accounting database).
Then the Job is deleted.

The Jobs of all tasks of an array own one Secret. After each deletion of a task, the garbage collector would remove one
owner from the Secret. These updates would take most of the time of cancelling a large array. So this module first
removes all cancelled tasks except one from the owners of the Secret. The remaining task is deleted last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from phalanx.slurm.cluster.api import SECRETS, ApiClient, RequestRefused, for_each
from phalanx.slurm.jobs.ask import CANCELLED
from phalanx.slurm.jobs.names import name_of, path_of, secret_of
from phalanx.slurm.jobs.view import JobInfo

_MANY = 16  # from this number of cancelled tasks of an array on, the owners of its Secret are removed first
OnRefusal = Callable[[JobInfo, RequestRefused], None]


def cancel_all(api: ApiClient, targets: Sequence[JobInfo], refused: OnRefusal, *, now: bool, by: str = "") -> None:
    """Cancel the jobs `targets`. `refused`: a function that is called with each job that the server refuses to delete,
    and with the error. `now`: True to end the pods without a grace period between SIGTERM and SIGKILL. `by`: the user
    id to record; "" for the user id of the caller. Raises Unreachable."""
    last = {job.number for job in _left_to_one(api, targets)}

    def cancel(connection: ApiClient, job: JobInfo) -> None:
        try:
            _cancel(connection, job, now=now, by=by or str(os.getuid()))
        except RequestRefused as error:
            if error.code != 404:
                refused(job, error)

    for_each(api, [job for job in targets if job.number not in last], cancel)
    for_each(api, [job for job in targets if job.number in last], cancel)


def _cancel(api: ApiClient, job: JobInfo, *, now: bool, by: str) -> None:
    api, path = api.within(job.namespace), path_of(job.number, job.ask)
    api.patch(path, {"metadata": {"annotations": {CANCELLED: by}}})
    # Foreground deletion keeps a running Job until its pods have ended. Until the pods have ended, the nodes stay
    # charged to the job, and the exit code can be read.
    policy = "Background" if job.state == "PENDING" else "Foreground"
    grace = {"gracePeriodSeconds": "0"} if now else {}
    api.delete(path, propagationPolicy=policy, **grace)


def _left_to_one(api: ApiClient, targets: Sequence[JobInfo]) -> list[JobInfo]:
    """For each array with many cancelled tasks, remove all of these tasks except one from the owners of the array's
    Secret. Return the tasks that are still owners; they must be deleted last."""
    arrays: dict[tuple[str, int], list[JobInfo]] = {}
    for job in targets:
        if job.ask.array is not None:
            arrays.setdefault((job.namespace, job.ask.array), []).append(job)
    return [tasks[-1] for tasks in arrays.values() if len(tasks) >= _MANY and _leave(api, tasks)]


def _leave(api: ApiClient, tasks: Sequence[JobInfo]) -> bool:
    """Remove all tasks of `tasks` except the last from the owners of the array's Secret. Return False if the server
    refuses, because the user may not change the Secret, or because another writer has changed it."""
    api, path = api.within(tasks[0].namespace), f"{SECRETS}/{secret_of(tasks[0].number, tasks[0].ask)}"
    targets = {name_of(job.number, job.ask) for job in tasks[:-1]}
    try:
        meta = api.get(path)["metadata"]
        stay = [owner for owner in meta.get("ownerReferences") or () if owner["name"] not in targets]
        api.patch(path, {"metadata": {"resourceVersion": meta["resourceVersion"], "ownerReferences": stay}})
    except RequestRefused:
        return False
    return True
