"""Copy the layers of an image into one tree of files, for machines without overlay mounts, and for root file systems in
a folder.

A link is copied as a link. Device files and sockets are left out.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from phalanx.embedded.node.images.unpack import Allowance

_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


def copy_tree(source: Path, target: Path, allowance: Allowance) -> None:
    """Copy the layer `source` over the tree `target`; a whiteout file deletes the file that it names. Raises OSError,
    PhalanxError."""
    _copy_status(source, target)
    with os.scandir(source) as found:
        for entry in found:
            allowance.take_file()
            _copy(Path(entry.path), target / entry.name, entry.stat(follow_symlinks=False), allowance)


def _copy(source: Path, target: Path, status: os.stat_result, allowance: Allowance) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        if _is_opaque(source) or not _is_folder(target):
            _clear(target)
        with suppress(FileExistsError):
            target.mkdir()
        copy_tree(source, target, allowance)
        return
    _clear(target)
    match kind:
        case stat.S_IFREG:
            allowance.take_bytes(status.st_size, target.parent)
            shutil.copyfile(source, target, follow_symlinks=False)
        case stat.S_IFLNK:
            target.symlink_to(os.readlink(source))
        case stat.S_IFIFO:
            os.mkfifo(target)
        case stat.S_IFCHR if status.st_rdev == 0:  # a whiteout
            return
        case _:
            allowance.devices += 1
            return
    _copy_status(source, target)


def _copy_status(source: Path, target: Path) -> None:
    status = source.lstat()
    if os.geteuid() == 0:
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=False)
    if os.geteuid() != 0 and stat.S_ISDIR(status.st_mode):
        target.chmod(stat.S_IMODE(status.st_mode) | 0o700)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _clear(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_opaque(path: Path) -> bool:
    for name in _OPAQUE:
        with suppress(OSError):
            if os.getxattr(path, name, follow_symlinks=False) == b"y":
                return True
    return False
