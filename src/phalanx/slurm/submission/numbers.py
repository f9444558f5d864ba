"""Job numbers: small integers, each unique in a cluster.

`phalanx up` assigns them (`POST /slurm/v1/numbers`): a user cannot exhaust them, and a Job can only have a number of
its user.

On other API servers the next number is in the ConfigMap `kube-system/phalanx-slurm-number`. The command increases it by
the number of tasks, with the object's resourceVersion. If several commands write at the same time, the API server
accepts the first, and the others try again. A number that was taken and not used is lost, as in Slurm.

Translate `afterok:12:13,afterany:14_3` into the scheduler's dependencies: names of Jobs, and the condition for
each."""

from __future__ import annotations

import re
import time

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import JOBS, Api, Refused
from phalanx.slurm.cluster.site import PATH
from phalanx.slurm.jobs.ask import ARRAY
from phalanx.slurm.jobs.names import name_of, path_of

NAME = "phalanx-slurm-number"
_KEY = "next"
_DRAW, _NOT_SERVED = "/slurm/v1/numbers", (403, 404, 405)
_TRIES = 200


def take(api: Api, count: int, first: int) -> int:
    """Take `count` consecutive numbers, and return the first. `first`: the first number of a new cluster. Raises
    PhalanxError."""
    try:
        drawn = msgspec.json.decode(api.call("POST", _DRAW, count=str(count)), type=dict[str, int])
        return drawn["first"]
    except Refused as error:
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
        except Refused as error:
            if error.code != 409:
                raise
            import random

            time.sleep(random.uniform(0.0, 0.002 * min(tried + 1, 20)))
    raise PhalanxError("too many submit at once: no job number could be had. Nothing was submitted; try again.")


def _body(number: int) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {_KEY: str(number)}}


_KINDS = {"after": "start", "afterany": "any", "afterok": "ok", "afternotok": "not-ok", "aftercorr": "ok"}
_JOB = re.compile(r"(\d+)(?:_(\d+))?(?:\+(\d+))?")
PROBLEM = "Job dependency problem"


class DependencyError(PhalanxError):
    """An error in a dependency, in Slurm's words."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The dependencies of a job. `after`: the value of `phalanx.dev/after`. `shown`: the text that squeue shows while
    the job waits."""

    after: str = ""
    either: bool = False
    singleton: bool = False
    shown: str = ""


def read(api: Api, text: str, task: int | None = None, own: int | None = None) -> Needs:
    """Parse the dependencies of a job. `task`: the job's array index, for aftercorr. `own`: the job's number. Raises
    DependencyError."""
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


def _names(api: Api, job: str, kind: str, task: int | None, own: int | None) -> list[str]:
    """Return the Jobs that the dependency names; none if that job has ended and is forgotten."""
    found = _JOB.fullmatch(job)
    if found is None or (found[3] and kind != "after"):  # 12+1 is a component, but for `after`: minutes
        raise DependencyError(PROBLEM)
    number = int(found[1])
    if number == own:
        raise DependencyError(PROBLEM)
    tasks = api.get(JOBS, labelSelector=f"{ARRAY}={number}")["items"]
    if any("phalanx.dev/job" in one["metadata"]["labels"] for one in tasks):  # components are one gang of that name
        return [name_of(number)]
    if tasks:
        wanted = int(found[2]) if found[2] else task if kind == "aftercorr" else None
        from phalanx.slurm.jobs.view import task_of

        return [one["metadata"]["name"] for one in tasks if wanted is None or task_of(one) == wanted]
    if api.find(path_of(number)) is not None:
        return [name_of(number)]
    if own is not None:  # a pending job may name an unknown number; such a dependency is never met
        return [name_of(number)]
    return []  # an unknown number counts as met, as in Slurm (measured, 22.05)
