"""Remove trees of files with any content that users may have created: deeply nested folders, links, and folders without
permissions.

`shutil.rmtree` does not follow links, but it is recursive, so it fails with RecursionError for a thousand nested
folders. This module moves the subfolders of a folder to the top of the tree before it removes the folder. So the tree
becomes flat, and every operation uses a name in an open folder. If the process is root, the module does not change
permissions."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove a folder with its content, or a file. Entries that cannot be removed (a mount, an immutable file) stay,
    and so do the folders above them."""
    with suppress(OSError):
        if not path.is_dir() or path.is_symlink():
            path.unlink()
            return
        with _opened(str(path), None) as top:
            names = count()
            while _flatten(top, names):
                pass
        path.rmdir()


def _flatten(top: int, names: Iterator[int]) -> bool:
    """Remove the entries at the top, and move the entries of its folders to the top. Return True if anything
    changed."""
    done = False
    for name in os.listdir(top):
        with suppress(OSError):
            done = _remove(name, top) or _lift(name, top, names) or done
    return done


def _remove(name: str, folder: int) -> bool:
    """Remove a file or an empty folder. Return False, and do nothing, if the folder is not empty."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
    return True


def _lift(name: str, top: int, names: Iterator[int]) -> bool:
    """Empty a folder at the top of the tree, by removing or moving its entries. Return True if anything changed."""
    done = False
    with _opened(name, top) as folder:
        for inner in os.listdir(folder):
            with suppress(OSError):
                if not _remove(inner, folder):
                    _rename(inner, folder, top, names)
                done = True
    return done


def _rename(name: str, folder: int, top: int, names: Iterator[int]) -> None:
    """Move a folder to the top of the tree, under a new name that is free. Raises OSError."""
    if os.geteuid() != 0:
        with _opened(name, folder):  # moving a folder needs write permission in it, because its entry `..` changes
            pass
    while True:
        try:
            os.rename(name, f".removed-{next(names)}", src_dir_fd=folder, dst_dir_fd=top)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise


@contextmanager
def _opened(name: str, folder: int | None) -> Iterator[int]:
    """Open a folder. If this process is not root, first give the owner of the folder all rights in it. Raises
    OSError."""
    if os.geteuid() != 0:
        handle = os.open(name, _FOLDER | os.O_PATH, dir_fd=folder)
        try:
            with suppress(OSError):
                os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
    handle = os.open(name, _FOLDER | os.O_RDONLY, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)
