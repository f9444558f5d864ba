"""Record each step of a job in an annotation of its Job, from which the ledger reads it.

Each step has its own annotation, so that concurrent steps do not overwrite each other. A job with very many steps has
only its first ones recorded, because each record is a call to the API server.

Detect tasks that the kernel killed because memory ran out: they ended by SIGKILL, and the count of such kills in
their cgroup rose.

If memory.oom.group is set, as kubelets do, the kernel kills the whole container instead. Then only the status of the
container shows the cause. Few imports: a daemon starts with every job."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api, Refused
from phalanx.slurm.jobs.ask import PREFIX, Amount, Count, Moment, printable

OUT_OF_MEMORY = 125  # shown like a signal, as Slurm does: 0:125
_SIGKILL = 9


class MemoryKills:
    """The kills until now."""

    def __init__(self, root: str = "/") -> None:
        self._counter = _counter(root)
        self._before = self._kills()

    def told(self, code: int) -> int:
        """Return the code of a task's end (`os.waitstatus_to_exitcode`) or, if the kernel killed the task because
        memory ran out, -OUT_OF_MEMORY."""
        return -OUT_OF_MEMORY if code == -_SIGKILL and self._kills() > self._before else code

    def _kills(self) -> int:
        return sum(int(line.split()[1]) for line in _lines(self._counter) if line.startswith("oom_kill "))


def _counter(root: str) -> str:
    """Return the file with the count of kills in this process's cgroup (cgroups(7)): of version 1 if it has the memory
    controller, otherwise of version 2."""
    for line in _lines(os.path.join(root, "proc/self/cgroup")):
        _, controllers, path = line.rstrip("\n").split(":", 2)
        if "memory" in controllers.split(","):
            place, name = "sys/fs/cgroup/memory", "memory.oom_control"
        elif not controllers:
            place, name = "sys/fs/cgroup", "memory.events"
        else:
            continue
        # A container sees its own group at the top, whatever the path says.
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


WORD = "step."  # annotation and word of the ledger: `step.` and the step's number
BATCH, FIRST_UNRECORDED = "batch", 200
_DIGITS = 10


class StepRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A step. Times are in seconds since the epoch; `end_s` is None while it runs. `code`: the highest exit code of
    its tasks. `signal`: the signal that ended that task."""

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
    pid: Amount = 0  # of srun
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
    """Return the steps by number, from annotations without their prefix, or from the annotations in the ledger."""
    found: dict[int, StepRecord] = {}
    if WORD not in "\n".join(words):  # as of most jobs, of which there are thousands
        return found
    for name, text in words.items():
        number = name.removeprefix(PREFIX).removeprefix(WORD)
        if number.isascii() and number.isdigit() and len(number) < _DIGITS and name.endswith(WORD + number):
            try:
                found[int(number)] = record = msgspec.json.decode(text, type=StepRecord)
                record.name, record.line = printable(record.name), printable(record.line)
                record.layout, record.nodes = printable(record.layout), [printable(node) for node in record.nodes]
            except msgspec.MsgspecError:
                continue  # edited by hand
    return dict(sorted(found.items()))


def claim(api: Api | None, path: str, least: int, record: StepRecord) -> int:
    """Record the begin of a step, and return its number: `least`, or the next free number, because steps may begin both
    in the job's pods and outside of them. The object's resourceVersion protects the number from concurrent writers. If
    the write fails, the step goes on without a record."""
    number = least
    while api is not None and number < FIRST_UNRECORDED:
        try:
            job = api.get(path)
            taken = read(job["metadata"].get("annotations") or {})
            number = least if least not in taken else 1 + max(taken)
            _patch(api, path, number, record, resourceVersion=job["metadata"]["resourceVersion"])
            break
        except Refused as error:
            if error.code != 409:
                break
        except PhalanxError:
            break
    return number


def _patch(api: Api, path: str, number: int, record: StepRecord, **meta: str) -> None:
    text = msgspec.json.encode(record).decode()
    api.patch(path, {"metadata": {"annotations": {f"{PREFIX}{WORD}{number}": text}, **meta}})


def write(api: Api | None, path: str, number: int, record: StepRecord) -> None:
    """Write the record of a step. `path`: the URL path of the Job. If the write fails, the step goes on without a
    record."""
    if api is None or number >= FIRST_UNRECORDED:
        return
    with suppress(PhalanxError):
        _patch(api, path, number, record)


def ended(record: StepRecord, code: int, signal: int) -> StepRecord:
    return msgspec.structs.replace(record, end_s=time.time(), code=code, signal=signal)
