"""Back up and restore the cluster of this machine as one file: its objects, its ledger, its keys and tokens.

A backup is a tar file with copies of the files. Databases are copied with `VACUUM INTO`. `VACUUM INTO` runs in one read
transaction, so the copy is consistent although the server continues to write. The copy contains no pages of deleted
rows. Running pods, their volumes and their logs are not in the backup.

A restore never leaves a half-written file. First all copies are unpacked into a temporary folder and checked. Then the
existing files are moved to `replaced-TIME/`, and each new file is renamed to its place (rename(2)), the database of
objects last. If a restore is interrupted, the user can repeat it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from phalanx.cli.local.data_directory import DataDirectory, owned
from phalanx.embedded.apiserver.storage.journal import Journal
from phalanx.errors import PhalanxError

OBJECTS, LEDGER = "apiserver.sqlite3", "ledger.sqlite3"
_DATABASES = (LEDGER, OBJECTS)
_SECRETS = ("tokens.csv", "kubelet.token", "pki/ca.crt", "pki/ca.key", "pki/sa.key", "pki/server.crt", "pki/server.key")
_NAMES = (*_SECRETS, *_DATABASES)  # a restore moves the files to their places in this order
_COUNTED = "apiserver.acknowledged"  # a restore moves this file away, and the API server writes a new one
_PUT = (*_NAMES[:-1], _COUNTED, OBJECTS)
_LEVEL = 1  # gzip's fastest level: JSON compresses well with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of a restore. `objects`: the number of restored objects. `replaced`: the folder with the files that
    the directory had before; None if the directory was empty."""

    objects: int
    replaced: Path | None


def back_up(directory: DataDirectory, file: Path) -> int:
    """Write the backup, and return its size in bytes. After an error, the file does not exist or has its old content.
    Only its owner can read the file. Raises PhalanxError."""
    if not (directory.path / OBJECTS).exists():
        raise PhalanxError(
            f"there is no cluster in {directory.path}: it has no {OBJECTS}. Nothing was written. Name its directory "
            "with --data DIR."
        )
    part = file.with_name(f".{file.name}.part")
    try:
        with _removed_on_error(part), tempfile.TemporaryDirectory(prefix=".backup-", dir=file.parent) as folder:
            with _private(part) as out:
                with tarfile.open(fileobj=out, mode="w:gz", compresslevel=_LEVEL) as archive:
                    for name in _NAMES:
                        if (source := directory.path / name).exists():
                            archive.add(_copied(source, Path(folder)) if name in _DATABASES else source, arcname=name)
                out.flush()
                os.fsync(out.fileno())
            part.replace(file)
    except (OSError, sqlite3.Error, tarfile.TarError) as error:
        raise PhalanxError(f"the backup {file} cannot be written: {error}. Nothing was kept.") from error
    return file.stat().st_size


def restore(file: Path, directory: DataDirectory, *, replace: bool = False) -> Restored:
    """Restore a backup into a data directory that no `phalanx up` uses. `replace`: True to replace a cluster in this
    directory. Raises PhalanxError. After an error, either nothing was changed, or a repeated call completes the
    restore."""
    if (directory.path / OBJECTS).exists() and not replace:
        raise PhalanxError(
            f"there is a cluster in {directory.path} already. Nothing was changed. Name another directory with --data "
            "DIR, or add --replace; then the existing files are kept in a folder of the directory."
        )
    with owned(directory, 0):
        try:
            with tempfile.TemporaryDirectory(prefix=".restore-", dir=directory.path) as folder:
                unpacked = _unpack(file, Path(folder))
                objects = _check(unpacked)
                return Restored(objects=objects, replaced=_put(unpacked, directory))
        except (OSError, sqlite3.Error, tarfile.TarError, EOFError) as error:
            raise PhalanxError(
                f"the backup {file} cannot be restored: {error}. Solve this problem, and repeat the command."
            ) from error


# --- internal ---------------------------------------------------------------------------------------------------------


def _copied(source: Path, folder: Path) -> Path:
    """Copy a database into the folder, and return the path of the copy. The copy is consistent even if other processes
    write to the database."""
    found = folder / source.name
    with contextlib.closing(sqlite3.connect(source, timeout=30.0)) as database:
        database.execute("VACUUM INTO ?", (str(found),))
    return found


def _unpack(file: Path, folder: Path) -> Path:
    """Unpack the archive into the folder, and return the folder. Raises PhalanxError if the archive has a file that is
    not part of a backup, because such a file could have any path."""
    with tarfile.open(file, mode="r:gz") as archive:
        for member in archive:
            if member.name not in _NAMES or not member.isfile():
                raise PhalanxError(
                    f"{file} is not a backup of Phalanx: it has {member.name!r} in it. Nothing was changed."
                )
            inside = archive.extractfile(member)
            assert inside is not None, "it is a file"
            target = folder / member.name
            target.parent.mkdir(mode=0o700, exist_ok=True)
            with inside, _private(target) as out:
                shutil.copyfileobj(inside, out)
    if not (folder / OBJECTS).exists():
        raise PhalanxError(f"{file} is not a backup of Phalanx: it has no {OBJECTS}. Nothing was changed.")
    return folder


def _check(folder: Path) -> int:
    """Check that no database is damaged and that this program can read them. Return the number of objects."""
    for name in _DATABASES:
        if (found := folder / name).exists():
            with contextlib.closing(sqlite3.connect(found)) as database:
                (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
                if verdict != "ok":
                    raise sqlite3.DatabaseError(f"{name} is damaged ({verdict})")
    # A backup does not contain the list of acknowledged writes, so the database cannot be compared with the list.
    journal = Journal(folder / OBJECTS, accept_loss=True)
    try:
        return journal.live()
    finally:
        journal.close()


def _put(folder: Path, directory: DataDirectory) -> Path | None:
    there = [name for name in _PUT if (directory.path / name).exists()]
    replaced = directory.path / time.strftime("replaced-%Y%m%dT%H%M%S") if there else None
    for name in there:
        if name in _DATABASES:  # write the content of the write-ahead log into the database file
            with contextlib.closing(sqlite3.connect(directory.path / name)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                database.execute("PRAGMA journal_mode = DELETE")
        assert replaced is not None, "something is there"
        kept = replaced / name
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.link(directory.path / name, kept)
    for name in _PUT:
        if (new := folder / name).exists():
            (directory.path / name).parent.mkdir(mode=0o700, exist_ok=True)
            new.replace(directory.path / name)
    return replaced


def _private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


@contextlib.contextmanager
def _removed_on_error(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise
