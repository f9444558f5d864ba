"""Take job numbers and read the dependencies of jobs. A job number is a small integer that is unique in its cluster.

The API server of `phalanx up` assigns the numbers (`POST /slurm/v1/numbers`). So no user can use up all numbers, and a
Job can only have a number that was assigned to its user.

On other API servers, the ConfigMap `kube-system/phalanx-slurm-number` has the next number. A command adds the number of
tasks to it, and names the resourceVersion in the write. If several commands write at the same time, the API server
accepts the first write, and the other commands try again. As in Slurm, a number that was taken but not used is never
used again.

A dependency such as `afterok:12:13,afterany:14_3` becomes an annotation for the scheduler, with the names of Jobs and a
condition for each."""

from __future__ import annotations

import re
import time

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import JOBS, ApiClient, RequestRefused
from phalanx.slurm.cluster.site import PATH
from phalanx.slurm.jobs.ask import ARRAY
from phalanx.slurm.jobs.names import name_of, path_of

NAME = "phalanx-slurm-number"
_KEY = "next"
_DRAW, _NOT_SERVED = "/slurm/v1/numbers", (403, 404, 405)
_TRIES = 200


def take(api: ApiClient, count: int, first: int) -> int:
    """Take `count` consecutive numbers, and return the first of them. `first`: the first number of a new cluster.
    Raises PhalanxError."""
    try:
        drawn = msgspec.json.decode(api.call("POST", _DRAW, count=str(count)), type=dict[str, int])
        return drawn["first"]
    except RequestRefused as error:
        if error.code not in _NOT_SERVED:
            raise
    for tried in range(_TRIES):
        found = api.find(f"{PATH}/{NAME}")
        try:
            if found is None:
                api.create(PATH, _body(first + count))
                return first
            number = max(int((found.get("data") or {}).get(_KEY, first)), first)
            api.replace(f"{PATH}/{NAME}", {**_body(number + count), "metadata": found["metadata"]})
            return number
        except RequestRefused as error:
            if error.code != 409:
                raise
            import random

            time.sleep(random.uniform(0.0, 0.002 * min(tried + 1, 20)))
    raise PhalanxError("no job number was free: too many jobs are submitted at once. Nothing was submitted: try again.")


def _body(number: int) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {_KEY: str(number)}}


_KINDS = {"after": "start", "afterany": "any", "afterok": "ok", "afternotok": "not-ok", "aftercorr": "ok"}
_JOB = re.compile(r"(\d+)(?:_(\d+))?(?:\+(\d+))?")
PROBLEM = "Job dependency problem"


class DependencyError(PhalanxError):
    """An error in a dependency, with Slurm's message."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The dependencies of a job. `after`: the value of the annotation `phalanx.dev/after`. `either`: True if one
    satisfied dependency is enough. `singleton`: True if no other job of the user with the same name may run. `shown`:
    the text that squeue shows while the job is pending."""

    after: str = ""
    either: bool = False
    singleton: bool = False
    shown: str = ""


def read(api: ApiClient, text: str, task: int | None = None, own: int | None = None) -> Needs:
    """Return the dependencies that the value of --dependency names. `task`: the array index of the job, for aftercorr.
    `own`: the number of the job, if it is not a new job. Raises DependencyError."""
    if not text:
        return Needs()
    after: list[str] = []
    shown: list[str] = []
    singleton = False
    for part in text.replace("?", ",").split(","):
        kind, _, jobs = part.partition(":")
        if kind == "singleton" and not jobs:
            singleton = True
            shown.append("singleton(unfulfilled)")
            continue
        if kind == "expand" or kind.startswith("afterburst"):
            raise DependencyError("Requested operation not supported on this system")
        if kind.isdecimal() and not jobs:
            kind, jobs = "afterany", kind
        if kind not in _KINDS or not jobs:
            raise DependencyError(PROBLEM)
        for job in jobs.split(":"):
            names = _names(api, job, kind, task, own)
            after += [f"{name}:{_KINDS[kind]}" for name in names]
            if names:
                shown.append(f"{kind}:{job}(unfulfilled)")
    return Needs(
        after=",".join(after), either="?" in text, singleton=singleton, shown=("?" if "?" in text else ",").join(shown)
    )


def _names(api: ApiClient, job: str, kind: str, task: int | None, own: int | None) -> list[str]:
    """Return the names of the Jobs with a job id from a dependency; empty if the job does not exist any longer. `kind`:
    the kind of the dependency, such as afterok."""
    found = _JOB.fullmatch(job)
    # `12+1` is a component, and is refused; in `after`, `+1` is a number of minutes
    if found is None or (found[3] and kind != "after"):
        raise DependencyError(PROBLEM)
    number = int(found[1])
    if number == own:
        raise DependencyError(PROBLEM)
    tasks = api.get(JOBS, labelSelector=f"{ARRAY}={number}")["items"]
    # The components of a heterogeneous job form one gang with this name.
    if any("phalanx.dev/job" in one["metadata"]["labels"] for one in tasks):
        return [name_of(number)]
    if tasks:
        wanted = int(found[2]) if found[2] else task if kind == "aftercorr" else None
        from phalanx.slurm.jobs.view import task_of

        return [one["metadata"]["name"] for one in tasks if wanted is None or task_of(one) == wanted]
    if api.find(path_of(number)) is not None:
        return [name_of(number)]
    if own is not None:  # with scontrol update, a dependency on an unknown number is never satisfied
        return [name_of(number)]
    return []  # as in Slurm, such a dependency of a new job counts as satisfied (measured with Slurm 22.05)
