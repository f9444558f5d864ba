"""Give each step of a job its number, and record how many of the job's CPUs each step holds.

The steps of a job on one node are processes of one user in one pod. So the records are in a file in a directory of this
user. The file is locked (flock(2)) while a process reads and writes it. Each entry names the process of its step. An
entry is ignored if its process no longer exists, so the CPUs of a killed step become free.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from phalanx.errors import PhalanxError

_AGAIN_S = 0.1


class Busy(PhalanxError):
    """The error if other steps hold the requested CPUs for longer than the caller waits."""


class _StepsFile(msgspec.Struct):
    """The content of the file. `next`: the number of the next step. `held`: a mapping of the process id of a step to
    the number of CPUs that the step holds."""

    next: int = 0
    held: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class JobSteps:
    """The record of the steps of one job. `folder`: the path of the file. `cpus`: the number of CPUs of the job's
    allocation on this node."""

    folder: Path
    cpus: int

    @classmethod
    def of(cls, job: str, cpus: int) -> JobSteps:
        """Return the record of the steps of job `job`. Raises PhalanxError if the directory belongs to another user, or
        if other users may access it."""
        tmp = os.environ.get("TMPDIR") or ""
        if not os.path.isdir(tmp):
            tmp = "/tmp"  # noqa: S108 - the code below checks the owner and the mode of the folder
        folder = Path(tmp) / f"phalanx-slurm-steps-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        seen = folder.lstat()
        if seen.st_uid != os.getuid() or seen.st_mode & 0o077:
            raise PhalanxError(f"{folder} belongs to another user, or other users may access it: remove it")
        return cls(folder / job, cpus)

    @classmethod
    def forget(cls, job: str) -> None:
        """Remove the file of an earlier job with the same number, so that the steps of a new job begin with number 0.
        Such a file may come from another cluster that ran on this machine."""
        with suppress(FileNotFoundError):
            cls.of(job, 1).folder.unlink()

    def begin(self, cpus: int, wait_s: float | None) -> int:
        """Return the number of a new step that holds `cpus` CPUs until `end`. Wait at most `wait_s` seconds until other
        steps release enough CPUs; None: wait without a limit. Raises Busy."""
        until_s = None if wait_s is None else time.monotonic() + wait_s
        while True:
            with self._book() as book:
                if cpus + sum(book.held.values()) <= self.cpus or not cpus:
                    book.held[str(os.getpid())] = cpus
                    book.next += 1
                    return book.next - 1
            if until_s is not None and time.monotonic() >= until_s:
                raise Busy
            time.sleep(_AGAIN_S)

    def reach(self, number: int) -> None:
        """Make sure that the next step gets a number above `number`, which another process has used for a step."""
        with self._book() as book:
            book.next = max(book.next, number + 1)

    def end(self) -> None:
        with self._book() as book:
            book.held.pop(str(os.getpid()), None)

    @contextmanager
    def _book(self) -> Iterator[_StepsFile]:
        file = os.open(self.folder, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            content = os.pread(file, 1 << 20, 0)
            book = msgspec.json.decode(content, type=_StepsFile) if content else _StepsFile()
            book.held = {pid: cpus for pid, cpus in book.held.items() if Path(f"/proc/{pid}").exists()}
            yield book
            os.ftruncate(file, 0)
            os.pwrite(file, msgspec.json.encode(book), 0)
        finally:
            os.close(file)
