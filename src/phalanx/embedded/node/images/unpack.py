"""Unpack a tar archive from an untrusted author below a folder.

The first part opens files below a folder with untrusted content. Links and `..` cannot lead out of the folder, because
they are resolved as in a container whose root is the folder (openat2(2)).

The second part unpacks the archive.

- No file or link is made outside the folder: `..` is refused, and links are followed only inside the folder (the first
  part).
- Device files are not created, because a container has its own /dev. They are counted.
- The size, number and names of unpacked files are bounded, because an archive of some kilobytes can expand to
  terabytes. The size of the archive's headers is bounded too, because they are read into memory.

A layer of an image names deleted files of lower layers by special file names (OCI image-spec, layer.md, Whiteouts).
These names are converted into the whiteouts of overlayfs."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from phalanx.embedded.node.container.shim.syscalls import IN_ROOT, NO_MAGICLINKS, make_resolved, open_resolved
from phalanx.errors import PhalanxError

_HOW = IN_ROOT | NO_MAGICLINKS
_DEEPEST = 128  # the maximum depth of nested folders
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def folder(path: Path) -> Iterator[int]:
    """Open the folder for this context, and yield its file descriptor. Raises OSError."""
    handle = os.open(path, FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def open_inside(root: int, path: str, flags: int = os.O_RDONLY | os.O_CLOEXEC) -> int:
    """Return a file descriptor of the file or folder `path` below `root`. Raises OSError."""
    return open_resolved(root, path, _HOW, flags)


def folder_inside(root: int, parts: tuple[str, ...]) -> int:
    """Return a file descriptor of a folder below `root`. Create the folder and the folders above it if they are
    missing. Raises OSError."""
    if len(parts) > _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, f"more than {_DEEPEST} folders deep", "/".join(parts)[:200])
    path = "/".join(parts) or "."
    try:
        return open_resolved(root, path, _HOW, FOLDER)
    except FileNotFoundError:
        return make_resolved(root, path, _HOW)


def read_bounded(root: int, path: str, most_bytes: int) -> bytes:
    """Return the whole content of a small file below `root`. Raises OSError, PhalanxError."""
    with os.fdopen(open_inside(root, path), "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise PhalanxError(f"{path} has more than {most_bytes} bytes, which is more than any image needs")
    return data


# --- unpacking --------------------------------------------------------------------------------------------------------

_PIECE_BYTES = 1 << 20
_HEADER_BYTES = 1 << 20  # the maximum size of long names and extended headers
_LOOK_BYTES = 256 << 20  # the free disk space is checked after this many written bytes
_KEPT_FREE = 20  # 1/20 of the disk must stay free
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_LARGE_ID = 1 << 31
_EXTENDED = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True, kw_only=True)
class Allowance:
    """The bytes and files that may still be unpacked; all archives of an image share one allowance. `devices`: the
    number of skipped device files."""

    bytes_left: int = 64 << 30
    files_left: int = 2_000_000
    devices: int = 0
    unlooked_bytes: int = 0

    def take_file(self) -> None:
        """Count a file. Raises PhalanxError if the limit is exceeded."""
        self.files_left -= 1
        if self.files_left < 0:
            raise PhalanxError("it has too many files. Nothing was imported; allow more with --most-files")

    def take_bytes(self, count: int, target: Path) -> None:
        """Count `count` bytes. Raises PhalanxError if the limit is exceeded or the disk of `target` is nearly full."""
        self.bytes_left -= count
        self.unlooked_bytes -= count
        if self.bytes_left < 0:
            raise PhalanxError("it is larger than allowed. Nothing was imported; allow more with --most-bytes")
        if self.unlooked_bytes < 0:
            self.unlooked_bytes = _LOOK_BYTES
            found = shutil.disk_usage(target)
            if found.free < found.total // _KEPT_FREE:
                raise PhalanxError(f"the disk of {target} is nearly full. Nothing was imported; free some space on it")


class _Counted:
    """A stream whose bytes are counted and hashed while they are read."""

    def __init__(self, source: IO[bytes], allowance: Allowance, target: Path) -> None:
        self._source, self._allowance, self._target = source, allowance, target
        self.hash = hashlib.sha256()

    def read(self, size: int = _PIECE_BYTES) -> bytes:
        piece = self._source.read(size)
        self.hash.update(piece)
        self._allowance.take_bytes(len(piece), self._target)
        return piece


class _Header(tarfile.TarInfo):
    """A member of an archive whose headers have a bounded size. The reader of Python's library would read headers of
    any size into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> object:
        if self.type in _EXTENDED and self.size > _HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]  # typeshed does not declare the method


def unpack(source: IO[bytes], target: Path, allowance: Allowance, *, layer: bool) -> str:
    """Unpack the archive, and return its SHA-256 in hex. `layer`: True for a layer of an image, with whiteouts. Raises
    PhalanxError."""
    counted = _Counted(source, allowance, target)
    try:
        with folder(target) as root, tarfile.open(fileobj=counted, mode="r|", tarinfo=_Header) as archive:  # type: ignore[call-overload]  # typeshed leaves tarinfo out of streams
            files = _Files(root, allowance, target, layer=layer)
            while (member := archive.next()) is not None:
                archive.members = []  # otherwise the archive keeps all members in memory
                allowance.take_file()
                files.make(member, archive)
        while counted.read():
            pass
    except (tarfile.TarError, EOFError, ValueError, RecursionError) as error:
        raise PhalanxError(f"the archive cannot be read: {error}. Nothing was imported") from error
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        raise PhalanxError(f"the archive cannot be unpacked: {what}{error.strerror or error}") from error
    return counted.hash.hexdigest()


class _Files:
    """Creates the files, folders and links of one archive."""

    def __init__(self, root: int, allowance: Allowance, target: Path, *, layer: bool) -> None:
        self._root, self._allowance, self._target, self._layer = root, allowance, target, layer
        self._is_root = os.geteuid() == 0

    def make(self, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        parts = _parts(member.name)
        if not parts:  # the folder itself
            self._set(f"/proc/self/fd/{self._root}", member)
            return
        with self._folder(parts[:-1]) as above:
            if self._layer and parts[-1].startswith(_WHITEOUT):
                self._white_out(parts[-1], above)
                return
            match member:
                case tarfile.TarInfo(type=tarfile.DIRTYPE):
                    self._make_folder(parts[-1], above)
                case tarfile.TarInfo(type=tarfile.CHRTYPE | tarfile.BLKTYPE):
                    self._allowance.devices += 1
                    return
                case _:
                    with suppress(FileNotFoundError):
                        _make_way(parts[-1], above)
                    self._make_file(member, parts[-1], above, archive)
            if not member.islnk():
                self._set(f"/proc/self/fd/{above}/{parts[-1]}", member)

    @contextmanager
    def _folder(self, parts: tuple[str, ...]) -> Iterator[int]:
        handle = folder_inside(self._root, parts)
        try:
            yield handle
        finally:
            os.close(handle)

    def _make_folder(self, name: str, above: int) -> None:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                return
            os.unlink(name, dir_fd=above)
        os.mkdir(name, 0o755, dir_fd=above)

    def _make_file(self, member: tarfile.TarInfo, name: str, above: int, archive: tarfile.TarFile) -> None:
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=above)
        elif member.islnk():
            *folders, last = _parts(member.linkname)
            with self._folder(tuple(folders)) as beside:
                os.link(last, name, src_dir_fd=beside, dst_dir_fd=above, follow_symlinks=False)
        elif member.isfifo():
            os.mkfifo(name, 0o600, dir_fd=above)
        elif member.isreg():
            handle = os.open(name, _NEW_FILE, 0o600, dir_fd=above)
            content = archive.extractfile(member)
            assert content is not None  # a regular file always has content
            with os.fdopen(handle, "wb") as file:
                self._copy(content, file, sparse=member.issparse())
        else:
            raise tarfile.ReadError(f"{member.name[:200]} is of the unknown type {member.type!r}")

    def _copy(self, content: IO[bytes], file: IO[bytes], *, sparse: bool) -> None:
        """Copy the content of a file. The bytes of a normal file are counted while the archive is read. The holes of a
        sparse file are not in the archive, so this function counts the bytes of a sparse file."""
        while piece := content.read(_PIECE_BYTES):
            if sparse:
                self._allowance.take_bytes(len(piece), self._target)
            file.write(piece)

    def _set(self, path: str, member: tarfile.TarInfo) -> None:
        """Set the owner (only as root), the mode and the time of a file. If the process is not root, the mode is
        extended so that the user can always open the files."""
        follow = path.count("/") == 4  # a path /proc/self/fd/N is a link to an open folder
        if self._is_root:
            if not (0 <= member.uid < _LARGE_ID and 0 <= member.gid < _LARGE_ID):
                raise tarfile.ReadError(f"{member.name[:200]} has the owner {member.uid}:{member.gid}")
            os.chown(path, member.uid, member.gid, follow_symlinks=follow)
        if not member.issym():
            least = 0 if self._is_root else 0o700 if member.isdir() else 0o400
            os.chmod(path, (member.mode & 0o7777) | least)
        if capability := member.pax_headers.get("SCHILY.xattr.security.capability"):
            with suppress(OSError):  # some file systems and some users cannot set this value
                os.setxattr(path, "security.capability", capability.encode("utf-8", "surrogateescape"))
        with suppress(OSError, OverflowError):
            os.utime(path, (member.mtime, member.mtime), follow_symlinks=follow)

    def _white_out(self, name: str, above: int) -> None:
        """Create the mark of overlayfs for a deleted file, or for a folder that hides the lower layers' content."""
        if name == _OPAQUE:
            attribute = "trusted.overlay.opaque" if self._is_root else "user.overlay.opaque"
            os.setxattr(f"/proc/self/fd/{above}", attribute, b"y")
        elif not name.startswith(_WHITEOUT * 2):  # files with two prefixes are internal files of aufs
            gone = name.removeprefix(_WHITEOUT)
            if gone in ("", ".", ".."):
                raise tarfile.ReadError(f"the whiteout {name!r} names no file")
            with suppress(FileNotFoundError):
                os.unlink(gone, dir_fd=above)
            os.mknod(gone, stat.S_IFCHR, 0, dir_fd=above)


def _parts(name: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts or "\0" in name:
        raise tarfile.ReadError(f"{name[:200]!r} leads out of the archive")
    return parts


def _make_way(name: str, above: int) -> None:
    """Remove a file or an empty folder. Raises FileNotFoundError if it does not exist, and another OSError if the
    folder is not empty."""
    if stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
        os.rmdir(name, dir_fd=above)
    else:
        os.unlink(name, dir_fd=above)
