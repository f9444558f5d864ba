"""Detect tasks that the kernel killed because memory ran out: they ended by SIGKILL, and the count of such kills in
their cgroup rose.

If memory.oom.group is set, as kubelets do, the kernel kills the whole container instead. Then only the status of the
container shows the cause. Few imports: a daemon starts with every job.
"""

from __future__ import annotations

import os

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
