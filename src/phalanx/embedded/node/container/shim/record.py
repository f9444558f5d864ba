"""The files of a shim. This module defines the type of the specification that the shim reads, and a function that
writes the shim's other files atomically. A process is identified by its pid and its start time."""

from __future__ import annotations

import json
import os
from typing import TypedDict


class ShimMount(TypedDict, total=False):
    """A mount, as `attempt.Mount` describes it."""

    source: str
    target: str
    read_only: bool
    below: str
    by_user: bool
    kind: str
    no_links: bool


class ShimRoot(TypedDict, total=False):
    """The root of an image, as `attempt.Root` describes it."""

    stage: str
    layers: list[str]
    upper: str
    work: str
    user: str
    user_id: int
    group_id: int
    read_only: bool
    devices: list[tuple[str, str]]


class ShimProcess(TypedDict):
    """A process of the machine. `start`: its start time in clock ticks since boot."""

    pid: int
    start: int


class ShimSpec(TypedDict, total=False):
    """The fields of STEM.spec.json that the shim reads. The agent writes the file from `attempt.RunSpec`, which
    describes the fields. `pid`: the process whose namespaces a command enters (`program.enter`)."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    mounts: list[ShimMount]
    host_name: str
    user_namespace: bool
    cgroup_procs: list[str]
    oom_files: list[str]
    peak_files: list[str]
    user: int | None
    group: int | None
    groups: list[int]
    confined: bool
    processes_of: ShimProcess | None
    root: ShimRoot | None
    capabilities: list[int] | None
    no_new_rights: bool
    memory_limit_bytes: int
    oom_score: int
    stdin: bool
    tty: bool
    pid: int


def write_whole(path: str, value: dict[str, object]) -> None:
    """Write `value` durably to the file. After a crash, the file has either the whole value or its earlier content."""
    handle = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def start_ticks(pid: int) -> int:
    """Return the start time of the process in clock ticks since boot (proc(5), field 22). Together with the pid it
    identifies a process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def boot_id() -> str:
    """Return the id of the machine's present boot. The id changes at each boot (proc_sys_kernel(5))."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
