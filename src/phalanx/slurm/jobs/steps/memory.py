"""Tasks that the kernel killed for want of memory: SIGKILL, and a count of their cgroup that rose.

Where the whole pod is one group to the kernel (memory.oom.group, as kubelets set it) it goes at once, and its
container's status tells. Few imports: a daemon starts with every job.
"""

from __future__ import annotations

import os

OUT_OF_MEMORY = 125  # in a signal's place, as Slurm shows it: 0:125
_SIGKILL = 9


class MemoryKills:
    """The kills until now."""

    def __init__(self, root: str = "/") -> None:
        self._counter = _counter(root)
        self._before = self._kills()

    def told(self, code: int) -> int:
        """Return a task's end (`os.waitstatus_to_exitcode`), or -OUT_OF_MEMORY."""
        return -OUT_OF_MEMORY if code == -_SIGKILL and self._kills() > self._before else code

    def _kills(self) -> int:
        return sum(int(line.split()[1]) for line in _lines(self._counter) if line.startswith("oom_kill "))


def _counter(root: str) -> str:
    """Return the file with the count of this process's group (cgroups(7)), of version 2, or of 1 where memory is in
    that."""
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
