"""Job arrays: create one Job for each task of an array.

The Job of task 7 of array `sweep` is `sweep-7`. The label `phalanx.dev/array` marks all Jobs of the array, and an
annotation limits how many of them run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from phalanx.cli.files.manifest import TASK
from phalanx.cli.files.rendezvous import rename
from phalanx.client.connection import Object
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import ARRAY, ARRAY_CAP
from phalanx.slurm.notation.arrays import ArrayError, read_array

MOST_TASKS = 100_000
_NAME_CHARS = 63
NAME = "PHALANX_ARRAY_NAME"  # the environment variable with the name of the array, in the pods of each task


def tasks_of(job: Object, text: str) -> Iterator[Object]:
    """Yield the Job of each task. `job`: the Job that is copied for each task. `text`: the numbers of the tasks, as
    1-1000, 1,3,5 or 0-31:4, with %20 at the end for 20 tasks at a time. Raises PhalanxError if the text is invalid."""
    body, percent, cap = text.partition("%")
    try:
        array = read_array(text, 1 << 30)
        if percent and (not cap.isdigit() or int(cap) < 1):
            raise ArrayError(text)
    except ArrayError:
        raise PhalanxError(
            f"--array {text!r}: write for example 1-1000, 1,3,5 or 0-31:4, with %20 for 20 tasks at a time. "
            "Nothing was created."
        ) from None
    if len(array.tasks) > MOST_TASKS:
        raise PhalanxError(f"--array {body}: at most {MOST_TASKS:,} tasks. Nothing was created.")
    name = job["metadata"]["name"]
    if len(f"{name}-{array.tasks[-1]}") > _NAME_CHARS:
        raise PhalanxError(
            f"--name {name}: with the number of a task the name is longer than {_NAME_CHARS} characters."
        )
    for task in array.tasks:
        yield _task(job, name, task, array.throttle)


def _task(job: Object, name: str, task: int, cap: int) -> Object:
    found = deepcopy(job)
    meta = found["metadata"]
    rename(found, f"{name}-{task}")
    meta["labels"] = {**(meta.get("labels") or {}), ARRAY: name}
    if cap:
        meta["annotations"] = {**(meta.get("annotations") or {}), ARRAY_CAP: str(cap)}
    for container in found["spec"]["template"]["spec"]["containers"]:
        own = {"name": TASK, "value": str(task)}, {"name": NAME, "value": name}
        container["env"] = [*own, *(container.get("env") or ())]
    return found
