"""Job arrays: one Job for each task, under one name.

The Job of task 7 of array `sweep` is `sweep-7`. The label `phalanx.dev/array` holds them together, and its cap says how
many run at a time.
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
NAME = "PHALANX_ARRAY_NAME"  # variable of the environment of each task


def tasks_of(job: Object, text: str) -> Iterator[Object]:
    """Yield the Job of each task. `text`: 1-1000, 1,3,5, 0-31:4, with %20 for 20 at a time. Raises PhalanxError."""
    body, percent, cap = text.partition("%")
    try:
        array = read_array(text, 1 << 30)
        if percent and (not cap.isdigit() or int(cap) < 1):
            raise ArrayError(text)
    except ArrayError:
        raise PhalanxError(
            f"--array {text!r}: write for instance 1-1000, 1,3,5 or 0-31:4, with %20 for 20 tasks at a time. "
            "Nothing was created."
        ) from None
    if len(array.tasks) > MOST_TASKS:
        raise PhalanxError(f"--array {body}: at most {MOST_TASKS:,} tasks. Nothing was created.")
    name = job["metadata"]["name"]
    if len(f"{name}-{array.tasks[-1]}") > _NAME_CHARS:
        raise PhalanxError(f"--name {name}: with the number of its tasks it is longer than {_NAME_CHARS} characters.")
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
