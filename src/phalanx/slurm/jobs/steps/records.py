"""Record each step of a job in an annotation of its Job. The ledger, the accounting database, reads the annotation.

Each step has its own annotation, so that concurrent steps do not overwrite each other. Only the first 200 steps of a
job are recorded, because each record is a call to the API server.

The module also detects tasks that the kernel killed because memory ran out. The kernel is assumed to have killed a task
if SIGKILL ended the task and the count of memory kills in its cgroup rose.

Kubelets set memory.oom.group; then the kernel kills the whole container, and only the status of the container shows the
cause. The module has few imports, because each job starts a daemon that imports it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.jobs.ask import PREFIX, Amount, Count, Moment, printable

OUT_OF_MEMORY = 125  # as in Slurm, this number is shown instead of the number of a signal: 0:125
_SIGKILL = 9


class MemoryKills:
    """A counter of the memory kills in this process's cgroup. It counts from the creation of this object on."""

    def __init__(self, root: str = "/") -> None:
        self._counter = _counter(root)
        self._before = self._kills()

    def told(self, code: int) -> int:
        """Return the exit code of a task, or -OUT_OF_MEMORY if the kernel killed the task because memory ran out.
        `code`: the task's result of `os.waitstatus_to_exitcode`."""
        return -OUT_OF_MEMORY if code == -_SIGKILL and self._kills() > self._before else code

    def _kills(self) -> int:
        return sum(int(line.split()[1]) for line in _lines(self._counter) if line.startswith("oom_kill "))


def _counter(root: str) -> str:
    """Return the path of the file with the count of memory kills in this process's cgroup (cgroups(7)). The file is one
    of cgroup version 1 if version 1 has the memory controller, otherwise one of version 2. Return "" if there is no
    such file."""
    for line in _lines(os.path.join(root, "proc/self/cgroup")):
        _, controllers, path = line.rstrip("\n").split(":", 2)
        if "memory" in controllers.split(","):
            place, name = "sys/fs/cgroup/memory", "memory.oom_control"
        elif not controllers:
            place, name = "sys/fs/cgroup", "memory.events"
        else:
            continue
        # Inside a container, the cgroup of the container is the root of the mount, even if the path in /proc names a
        # deeper cgroup.
        for folder in (path.lstrip("/"), ""):
            if os.path.exists(found := os.path.join(root, place, folder, name)):
                return found
    return ""


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.readlines()
    except OSError:
        return []


WORD = "step."  # the name of the annotation, and of the field in the ledger, is `step.` and the step's number
BATCH, FIRST_UNRECORDED = "batch", 200
_DIGITS = 10


class StepRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The record of a step. Times are in seconds since the epoch; `end_s` is None while the step runs. `code`: the
    highest exit code of the step's tasks. `signal`: the number of the signal if a signal ended the task with this code.
    `cpu_s`: the CPU time of all tasks, in seconds. `peak_kib`: the largest memory use of a task. `line`: the command
    line of srun."""

    name: str = ""
    tasks: Count = 1
    cpus: Count = 1
    nodes: list[str] = []
    layout: str = "Block"
    start_s: Moment = 0.0
    end_s: Moment | None = None
    code: Amount = 0
    signal: Amount = 0
    cancelled: str = ""  # the uid of the user who cancelled the step
    cpu_s: Moment | None = None
    peak_kib: Amount | None = None
    line: str = ""
    pid: Amount = 0  # the process id of srun
    components: tuple[int, ...] = (0,)  # the components of a heterogeneous job that the step runs on

    @property
    def state(self) -> str:
        if self.cancelled:
            return "CANCELLED"
        if self.end_s is None:
            return "RUNNING"
        if self.signal == OUT_OF_MEMORY:
            return "OUT_OF_MEMORY"
        return "CANCELLED" if self.signal else "FAILED" if self.code else "COMPLETED"

    @property
    def status(self) -> str:
        return f"{self.code}:{self.signal}"


def read(words: Mapping[str, str]) -> dict[int, StepRecord]:
    """Return the records of steps by step number. `words`: the annotations of a Job, or the fields of an entry in the
    ledger; the names of these fields have no prefix."""
    found: dict[int, StepRecord] = {}
    if WORD not in "\n".join(words):  # most jobs have no steps; this test is faster than the loop
        return found
    for name, text in words.items():
        number = name.removeprefix(PREFIX).removeprefix(WORD)
        if number.isascii() and number.isdigit() and len(number) < _DIGITS and name.endswith(WORD + number):
            try:
                found[int(number)] = record = msgspec.json.decode(text, type=StepRecord)
                record.name, record.line = printable(record.name), printable(record.line)
                record.layout, record.nodes = printable(record.layout), [printable(node) for node in record.nodes]
            except msgspec.MsgspecError:
                continue  # a user changed the annotation
    return dict(sorted(found.items()))


def claim(api: ApiClient | None, path: str, least: int, record: StepRecord) -> int:
    """Write the record of a step that begins, and return the number of the step. The number is `least`, or the next
    free number if another step has taken `least`, because srun may start steps inside and outside of the job's pods at
    the same time. The write names the Job's resourceVersion, so that two steps cannot get the same number. If the write
    fails, the step runs without a record. `path`: the URL path of the Job."""
    number = least
    while api is not None and number < FIRST_UNRECORDED:
        try:
            job = api.get(path)
            taken = read(job["metadata"].get("annotations") or {})
            number = least if least not in taken else 1 + max(taken)
            _patch(api, path, number, record, resourceVersion=job["metadata"]["resourceVersion"])
            break
        except RequestRefused as error:
            if error.code != 409:
                break
        except PhalanxError:
            break
    return number


def _patch(api: ApiClient, path: str, number: int, record: StepRecord, **meta: str) -> None:
    text = msgspec.json.encode(record).decode()
    api.patch(path, {"metadata": {"annotations": {f"{PREFIX}{WORD}{number}": text}, **meta}})


def write(api: ApiClient | None, path: str, number: int, record: StepRecord) -> None:
    """Write the record of a step. `path`: the URL path of the Job. If the write fails, the step continues without this
    record."""
    if api is None or number >= FIRST_UNRECORDED:
        return
    with suppress(PhalanxError):
        _patch(api, path, number, record)


def ended(record: StepRecord, code: int, signal: int) -> StepRecord:
    return msgspec.structs.replace(record, end_s=time.time(), code=code, signal=signal)
