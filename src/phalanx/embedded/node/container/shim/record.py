"""Write the files of a shim atomically, and identify a process by its pid and its start time."""

from __future__ import annotations

import json
import os


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
