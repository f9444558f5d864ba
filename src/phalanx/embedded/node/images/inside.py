"""Files below a folder whose content nobody vouches for: no link, no `..` leads out of it (openat2(2)).

Links are followed as the content means them, with the folder for the root; what they cannot lead to are files of the
machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phalanx.errors import PhalanxError

_OPENAT2 = 437  # the same on all architectures but Alpha
_NO_MAGICLINKS, _IN_ROOT = 0x02, 0x10
_DEEPEST = 128  # folders in folders
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@contextmanager
def folder(path: Path) -> Iterator[int]:
    """A handle on a folder. Raises OSError."""
    handle = os.open(path, FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def open_inside(root: int, path: str, flags: int = os.O_RDONLY | os.O_CLOEXEC) -> int:
    """Return a handle on what `path` is below `root`. Raises OSError."""
    how = _How(flags, 0, _IN_ROOT | _NO_MAGICLINKS)
    found = int(_libc.syscall(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return found


def folder_inside(root: int, parts: tuple[str, ...]) -> int:
    """Return a handle on a folder below `root`, which is made if it is missing, with all above it. Raises OSError."""
    if len(parts) > _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, f"more than {_DEEPEST} folders deep", "/".join(parts)[:200])
    try:
        return open_inside(root, "/".join(parts) or ".", FOLDER)
    except FileNotFoundError:
        above = folder_inside(root, parts[:-1])
    try:
        os.mkdir(parts[-1], 0o755, dir_fd=above)
    finally:
        os.close(above)
    return open_inside(root, "/".join(parts), FOLDER)


def read_bounded(root: int, path: str, most_bytes: int) -> bytes:
    """Return a whole small file below `root`. Raises OSError, PhalanxError."""
    with os.fdopen(open_inside(root, path), "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise PhalanxError(f"{path} has more than {most_bytes} bytes; an image has none so large")
    return data
