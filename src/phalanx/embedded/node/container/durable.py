"""Write files atomically and durably. Only their owner can read them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phalanx.errors import PhalanxError


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file `path` in one step by a file with mode 0600. When the function returns, the content is on the
    disk. Raises OSError, for example if the disk is full."""
    draft = path.with_name(path.name + ".new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(folder)
    os.close(folder)


@contextmanager
def sole_owner(folder: Path) -> Iterator[None]:
    """Hold the lock of the directory in this context, so that no other process uses the directory. The kernel releases
    the lock when the process ends, even if it is killed (flock(2)).

    Raises PhalanxError if another process has the lock, and OSError if the lock file cannot be created."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise PhalanxError(
            f"{folder} belongs to a node agent that is running. Two would end each other's pods, so this one did not "
            "start. Stop the other one, or give this one a data directory of its own."
        ) from error
    finally:
        os.close(handle)
