"""The file: every kept revision of every object, one row each, in one append-only SQLite table.

A row is a revision: the object as one write left it, under the resource version of that write. The newest row of a
name is the live object (or its deletion); older rows are the past that watches resume from. So one insert does the
work of both "update the object" and "append to the log", always at the end of the B-tree, and the live state is
simply "the newest row of each name" when the server starts. Rows leave when the history that needs them is trimmed:
`Prune` names them, and the same transaction moves the horizon, the version that the kept past begins after.

Durability: WAL with synchronous=FULL, so a commit returns when the rows are on the disk. Rows of one batch go in as
few multi-row INSERTs (sizes are powers of two, so a handful of prepared statements serve all): a statement is one
round trip through the interpreter lock, and the event loop holds that lock most of the time under load.

All methods block. `store.py` calls them on one thread, one at a time.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from phalanx.errors import PhalanxError

PUT, DELETE = 0, 1
_FORMAT = 1
_LARGEST_INSERT = 512
_COLUMNS = 9
_FREE = ("freelist_count", "page_size")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS revisions (
  version INTEGER PRIMARY KEY,  -- the resourceVersion of the write
  previous INTEGER NOT NULL,    -- the version that this write replaced, 0 for none
  operation INTEGER NOT NULL,   -- 0 put, 1 delete
  at REAL NOT NULL,             -- seconds since the epoch
  grp TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  data BLOB NOT NULL            -- the object as JSON; of a deletion, its last state
) STRICT;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""


class Row(NamedTuple):
    """A revision, in the order of the table's columns. A tuple, because one is made for every write."""

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
    """Rows that no live object and no kept event needs any more, and the version that the past now begins after."""

    versions: Sequence[int]
    horizon: int


class Journal:
    """An open database. `close` it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spare_bytes = 0  # within the file, as of the last checkpoint
        try:
            # The database holds secrets; its WAL takes over its mode.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise PhalanxError(
                f"cannot open the database {path}: {error}. The API server cannot start from it. If the disk is "
                "full, free some space; if the file is damaged, move it away (the server then starts empty) or "
                "restore a copy."
            ) from error

    def _prepare(self) -> None:
        # The file is found damaged now, with a clear message, rather than in the middle of somebody's write.
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(f"the file is damaged ({verdict})")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA wal_autocheckpoint = 4000")
        self._db.execute("PRAGMA journal_size_limit = 67108864")
        # Freed pages are not overwritten with zeros, as Debian's library does by default: on a full disk the log would
        # have no room for them, and what was deleted could not be let go.
        self._db.execute("PRAGMA secure_delete = FAST")
        self._db.executescript(_SCHEMA)
        found = self.fact("format", _FORMAT)
        if found != _FORMAT:
            raise sqlite3.DatabaseError(f"its format is {found}, this program writes format {_FORMAT}")
        self._db.execute("INSERT OR REPLACE INTO facts VALUES ('format', ?)", (_FORMAT,))

    def fact(self, name: str, default: int) -> int:
        """A number kept beside the revisions: `horizon`, `format`."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else default

    def note(self, name: str, value: int) -> None:
        """Keep a number; durable when this returns."""
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def rows(self) -> Iterator[Row]:
        """Every kept revision, oldest first."""
        found = self._db.execute(
            "SELECT version, previous, operation, at, grp, plural, namespace, name, data "
            "FROM revisions ORDER BY version"
        )
        return map(Row._make, found)

    def live(self) -> int:
        """How many objects there are."""
        # A bare column beside max() is of the row that has the maximum (sqlite.org/lang_select.html#bareagg).
        found = self._db.execute(
            "SELECT count(*) FROM (SELECT operation, max(version) FROM revisions "
            "GROUP BY grp, plural, namespace, name) WHERE operation = ?",
            (PUT,),
        )
        (count,) = found.fetchone()
        return int(count)

    def commit(self, rows: Sequence[Row], prune: Prune | None = None) -> None:
        """Put the rows on the disk, all or none. Raises sqlite3.Error; then nothing was changed."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            if prune is not None:
                self._prune(prune)  # first: what it frees can be used
            self._insert(rows)
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def checkpoint(self) -> None:
        """Give back the log's room, and count what is free within the file. A disk that has no room for it changes
        nothing."""
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (pages,), (page_bytes,) = (self._db.execute(f"PRAGMA {one}").fetchone() for one in _FREE)
            self.spare_bytes = pages * page_bytes

    def _insert(self, rows: Sequence[Row]) -> None:
        start = 0
        while start < len(rows):
            count = min(_LARGEST_INSERT, 1 << ((len(rows) - start).bit_length() - 1))
            values: list[object] = []
            for row in rows[start : start + count]:
                values += row
            marks = ",".join(["(" + ",".join("?" * _COLUMNS) + ")"] * count)
            self._db.execute(f"INSERT INTO revisions VALUES {marks}", values)  # noqa: S608 (only question marks)
            start += count

    def _prune(self, prune: Prune) -> None:
        versions = "[" + ",".join(map(str, prune.versions)) + "]"
        self._db.execute("DELETE FROM revisions WHERE version IN (SELECT value FROM json_each(?))", (versions,))
        self._db.execute("INSERT OR REPLACE INTO facts VALUES ('horizon', ?)", (prune.horizon,))

    def close(self) -> None:
        self._db.close()
