"""Which step of a job has which number, and how many of the job's CPUs steps hold.

The steps of a job on one node are processes of one user in one pod, so a directory of that user is enough: a file that
is locked (flock(2)) while it is read and written. Each entry names the process of its step. An entry whose process no
longer exists holds nothing, so a step may die at any time.
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
    """Other steps hold the requested CPUs, and the caller does not wait for them any longer."""


class _Book(msgspec.Struct):
    """The content of the file. `next`: the number of the next step. `held`: process id of a step -> CPUs that it
    holds."""

    next: int = 0
    held: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one job. `cpus`: the CPUs of its allocation."""

    folder: Path
    cpus: int

    @classmethod
    def of(cls, job: str, cpus: int) -> Steps:
        """Raises PhalanxError if somebody else made the directory."""
        tmp = os.environ.get("TMPDIR") or ""
        if not os.path.isdir(tmp):
            tmp = "/tmp"  # noqa: S108 - below: whose the folder is, and that none but he may write
        folder = Path(tmp) / f"phalanx-slurm-steps-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        seen = folder.lstat()
        if seen.st_uid != os.getuid() or seen.st_mode & 0o077:
            raise PhalanxError(f"{folder} belongs to somebody else: steps cannot be counted there")
        return cls(folder / job, cpus)

    @classmethod
    def forget(cls, job: str) -> None:
        """Remove the file of an earlier job with the same number, which another cluster may have had. So each job
        begins with step 0."""
        with suppress(FileNotFoundError):
            cls.of(job, 1).folder.unlink()

    def begin(self, cpus: int, wait_s: float | None) -> int:
        """Return the number of a new step that holds `cpus` CPUs until `end`. Wait at most `wait_s` for other steps to
        release them (None: without limit). Raises Busy."""
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
        """Give the next step a higher number than this one, which another process has used."""
        with self._book() as book:
            book.next = max(book.next, number + 1)

    def end(self) -> None:
        with self._book() as book:
            book.held.pop(str(os.getpid()), None)

    @contextmanager
    def _book(self) -> Iterator[_Book]:
        file = os.open(self.folder, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            content = os.pread(file, 1 << 20, 0)
            book = msgspec.json.decode(content, type=_Book) if content else _Book()
            book.held = {pid: cpus for pid, cpus in book.held.items() if Path(f"/proc/{pid}").exists()}
            yield book
            os.ftruncate(file, 0)
            os.pwrite(file, msgspec.json.encode(book), 0)
        finally:
            os.close(file)
