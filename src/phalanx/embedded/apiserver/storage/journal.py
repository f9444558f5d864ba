"""The database file. It holds each kept revision of each object as one row of one append-only SQLite table.

A *revision* is the state of an object after one write. It is identified by the resource version of this write. The
newest row of an object's name is the live object, or records its deletion. Older rows are the history from which
watches resume. So a write needs only one insert, because the new row is both the live object and the newest entry of
the history. The insert is always at the end of the table's B-tree. When the server starts, the live state is the newest
row of each name. Rows are deleted when the history is trimmed: `Prune` names these rows. The same transaction also
moves the *horizon*, the version after which the kept history begins.

Durability: the database uses WAL with synchronous=FULL, so a commit returns when the rows are on the disk. The rows of
one batch are written with a few multi-row INSERT statements. Their sizes are powers of two, so that few statements need
to be prepared. There should be few statements, because each of them must acquire the interpreter lock, which the event
loop holds most of the time under load.

Each row has a checksum, and `acknowledged.py` records the latest acknowledged writes. When the server starts, it
reports which acknowledged writes are missing or were changed. The server continues without these writes only if the
administrator has allowed that (`accept_loss`).

All methods block. `store.py` calls them on one thread, one call at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from phalanx.embedded.apiserver.storage.acknowledged import Acknowledged, Receipt
from phalanx.errors import PhalanxError

log = logging.getLogger(__name__)

PUT, DELETE = 0, 1
_FORMAT = 2  # format 1 had no checksums
_LARGEST_INSERT = 512
_COLUMNS = 10
_LOG_BYTES = 4 * 2**20  # the space that the log gets on a full disk; one commit of deletions takes a hundredth of it
_FREE = ("freelist_count", "page_size")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS revisions (
  version INTEGER PRIMARY KEY,  -- the resourceVersion of the write
  previous INTEGER NOT NULL,    -- the version that this write replaced, 0 for none
  operation INTEGER NOT NULL,   -- 0 put, 1 delete
  at REAL NOT NULL,             -- seconds since the epoch
  grp TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  data BLOB NOT NULL,           -- the object as JSON; of a deletion, its last state
  checksum INTEGER              -- CRC-32 of the data, begun with the version; NULL in rows that format 1 wrote
) STRICT;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""


class JournalRow(NamedTuple):
    """A revision, with its fields in the order of the table's columns. It is a tuple, because tuples are created fast,
    and every write creates one."""

    version: int
    previous: int
    operation: int
    at_s: float
    group: str
    plural: str
    namespace: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """The versions of rows that are to be deleted, because no live object and no kept event needs them. `horizon`: the
    version after which the history then begins."""

    versions: Sequence[int]
    horizon: int


class Journal:
    """An open database. The caller must call `close`. `accept_loss`: True to open the database even if acknowledged
    writes are missing or damaged."""

    def __init__(self, path: Path, *, accept_loss: bool = False) -> None:
        """Open the database file, or create it. Raises PhalanxError."""
        self.path, self._accept_loss = path, accept_loss
        self.spare_bytes = 0  # the size of the free pages in the file at the last checkpoint
        try:
            # The database holds secrets, so only its owner may read it. Its WAL file gets the same mode.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
            self._prepare()
            self._acknowledged = Acknowledged(path.with_suffix(".acknowledged"))
            self._require_all()
        except (sqlite3.Error, OSError) as error:
            raise PhalanxError(
                f"cannot open the database {path}: {error}. The API server cannot start from it. If the disk is "
                "full, free some space; if the file is damaged, restore a backup (`phalanx restore --replace`), or "
                f"move {path.name} and {path.stem}.acknowledged away: the server then starts empty."
            ) from error

    def _require_all(self) -> None:
        """Check that all acknowledged writes are in the database. Raises PhalanxError if some are missing; also
        sqlite3.Error and OSError."""
        kept, at_s = self._end()
        loss = self._acknowledged.loss(kept)
        counted = self.fact("counted", 0)
        if loss is None and counted and not self._acknowledged.latest():
            self._refuse(f"{self._acknowledged.path.name}, which names the acknowledged writes, does not exist")
        if loss is not None:
            self._refuse(str(loss))
            kept = loss.last.version
            # new versions begin above all lost ones, so that no version that a client has seen is used again
            self.note("horizon", kept)
        if loss is not None or not self._acknowledged.latest():
            self._acknowledged.reset(Receipt(kept, at_s, ""))
        if not counted:
            self.note("counted", 1)

    def _end(self) -> tuple[int, float]:
        """Return the last version in the database, and the time when it was written (seconds since the epoch)."""
        row = self._db.execute("SELECT version, at FROM revisions ORDER BY version DESC LIMIT 1").fetchone()
        version, at_s = row or (0, time.time())
        return max(version, self.fact("horizon", 0)), at_s

    def _refuse(self, what: str) -> None:
        """Report that the database is damaged. Raises PhalanxError, unless the administrator accepts losses."""
        text = f"the database {self.path} is not complete: {what}"
        if not self._accept_loss:
            raise PhalanxError(
                f"{text}. The file, or its log {self.path.name}-wal, was cut, damaged or removed. The API server did "
                "not start, and nothing was changed. Put the files back, restore a backup (`phalanx restore "
                "--replace`), or start with --accept-loss to continue without the missing writes."
            )
        log.warning("%s. The server continues without them, because of --accept-loss", text)

    def _prepare(self) -> None:
        # Check the file now, so that damage is reported with a clear message and not at a user's write.
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(f"the file is damaged ({verdict})")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA wal_autocheckpoint = 4000")
        self._db.execute("PRAGMA journal_size_limit = 67108864")
        # Do not overwrite freed pages with zeros, as Debian's SQLite does by default. On a full disk the log has no
        # space for these zeros, so that deletions would fail.
        self._db.execute("PRAGMA secure_delete = FAST")
        self._db.executescript(_SCHEMA)
        found = self.fact("format", _FORMAT)
        if found == 1:
            self._db.execute("ALTER TABLE revisions ADD COLUMN checksum INTEGER")
        elif found != _FORMAT:
            raise sqlite3.DatabaseError(f"its format is {found}, this program writes format {_FORMAT}")
        self._db.execute("INSERT OR REPLACE INTO facts VALUES ('format', ?)", (_FORMAT,))

    def fact(self, name: str, default: int) -> int:
        """Return the number that `note` has stored under `name` (`horizon`, `format`); `default` if there is none."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else default

    def note(self, name: str, value: int) -> None:
        """Store a number under `name`. The number is on the disk when this method returns."""
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def rows(self) -> Iterator[JournalRow]:
        """Yield every kept revision, oldest first. Raises PhalanxError for a row whose checksum is wrong."""
        found = self._db.execute(
            "SELECT version, previous, operation, at, grp, plural, namespace, name, data, checksum "
            "FROM revisions ORDER BY version"
        )
        for *values, checksum in found:
            row = JournalRow._make(values)
            if checksum is None or checksum == _checksum(row):
                yield row
            else:
                self._refuse(f"version {row.version} of {_named(row)} is damaged")

    def live(self) -> int:
        """Return the number of live objects."""
        # SQLite takes the value of a column without an aggregate function from the row with the result of max()
        # (sqlite.org/lang_select.html#bareagg).
        found = self._db.execute(
            "SELECT count(*) FROM (SELECT operation, max(version) FROM revisions "
            "GROUP BY grp, plural, namespace, name) WHERE operation = ?",
            (PUT,),
        )
        (count,) = found.fetchone()
        return int(count)

    def commit(self, rows: Sequence[JournalRow], prune: Prune | None = None) -> None:
        """Write the rows and the prune to the disk in one transaction. Raises sqlite3.Error, after which the database
        is unchanged."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            if prune is not None:
                self._prune(prune)  # the prune is first, because the new rows can use the space that it frees
            self._insert(rows)
            self._db.execute("COMMIT")
            self._acknowledged.note(_receipts(rows, prune))
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def hold_room(self) -> None:
        """Use the disk space that was reserved for deletions: first write the log's pending pages to the database file,
        then allocate space for the log itself. The space is allocated at once, before other programs use it."""
        self.checkpoint()
        with contextlib.suppress(OSError):
            log_file = os.open(f"{self.path}-wal", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.posix_fallocate(log_file, 0, _LOG_BYTES)  # SQLite ignores frames of zeros in the log
            finally:
                os.close(log_file)

    def checkpoint(self) -> None:
        """Restart the log, whose file keeps its size on the disk, and count the free pages of the database file. If the
        disk is full, the method does nothing."""
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(RESTART)")
            (pages,), (page_bytes,) = (self._db.execute(f"PRAGMA {one}").fetchone() for one in _FREE)
            self.spare_bytes = pages * page_bytes

    def _insert(self, rows: Sequence[JournalRow]) -> None:
        start = 0
        while start < len(rows):
            count = min(_LARGEST_INSERT, 1 << ((len(rows) - start).bit_length() - 1))
            values: list[object] = []
            for row in rows[start : start + count]:
                values += row
                values.append(_checksum(row))
            marks = ",".join(["(" + ",".join("?" * _COLUMNS) + ")"] * count)
            self._db.execute(f"INSERT INTO revisions VALUES {marks}", values)  # noqa: S608 (only question marks)
            start += count

    def _prune(self, prune: Prune) -> None:
        versions = "[" + ",".join(map(str, prune.versions)) + "]"
        self._db.execute("DELETE FROM revisions WHERE version IN (SELECT value FROM json_each(?))", (versions,))
        self._db.execute("INSERT OR REPLACE INTO facts VALUES ('horizon', ?)", (prune.horizon,))

    def sync(self) -> None:
        """Sync the records of acknowledged writes to the disk, so that they survive a power cut."""
        self._acknowledged.sync()

    def close(self) -> None:
        self._db.close()
        self._acknowledged.close()


def _checksum(row: JournalRow) -> int:
    return zlib.crc32(row.data, row.version & 0xFFFFFFFF)


def _named(row: JournalRow) -> str:
    place = f"{row.namespace}/{row.name}" if row.namespace else row.name
    return f"{row.plural} {place}{' (deleted)' if row.operation == DELETE else ''}"


def _receipts(rows: Sequence[JournalRow], prune: Prune | None) -> Iterator[Receipt]:
    for row in rows:
        yield Receipt(row.version, row.at_s, _named(row))
    # On a full disk deletions leave no row. They only move the version after which the history begins.
    if prune is not None and prune.horizon > max((row.version for row in rows), default=0):
        yield Receipt(prune.horizon, time.time(), "")
