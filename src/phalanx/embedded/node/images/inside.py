"""Files below a folder whose content nobody vouches for: no link, no `..` leads out of it (openat2(2)).

Links are followed as the content means them, with the folder for the root; what they cannot lead to are files of the
machine.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phalanx.embedded.node.container.shim.syscalls import IN_ROOT, NO_MAGICLINKS, make_resolved, open_resolved
from phalanx.errors import PhalanxError

_HOW = IN_ROOT | NO_MAGICLINKS
_DEEPEST = 128  # folders in folders
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def folder(path: Path) -> Iterator[int]:
    """Open the folder in this context, and yield a handle on it. Raises OSError."""
    handle = os.open(path, FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def open_inside(root: int, path: str, flags: int = os.O_RDONLY | os.O_CLOEXEC) -> int:
    """Return a handle on what `path` is below `root`. Raises OSError."""
    return open_resolved(root, path, _HOW, flags)


def folder_inside(root: int, parts: tuple[str, ...]) -> int:
    """Return a handle on a folder below `root`, which is made if it is missing, with all above it. Raises OSError."""
    if len(parts) > _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, f"more than {_DEEPEST} folders deep", "/".join(parts)[:200])
    path = "/".join(parts) or "."
    try:
        return open_resolved(root, path, _HOW, FOLDER)
    except FileNotFoundError:
        return make_resolved(root, path, _HOW)


def read_bounded(root: int, path: str, most_bytes: int) -> bytes:
    """Return a whole small file below `root`. Raises OSError, PhalanxError."""
    with os.fdopen(open_inside(root, path), "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise PhalanxError(f"{path} has more than {most_bytes} bytes; an image has none so large")
    return data
