"""What a shim leaves behind, whole or not at all, and by what a process is known again."""

from __future__ import annotations

import json
import os
from typing import Any


def write_whole(path: str, value: dict[str, Any]) -> None:
    """Write the file durably with all of `value`, or not at all."""
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
    """Return the id of this boot of the machine, another one after each (proc_sys_kernel(5))."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
