"""The ledger as commands read it: SQLite by Python's own module, or PostgreSQL by its driver alone.

A command has no time for SQLAlchemy, which takes longer to import than most commands run. The statements here are those
that both databases understand; values are always passed apart from the text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api, Refused, Unreachable
from phalanx.slurm.cluster.ledger.fetched import PATH, Part, fetch
from phalanx.slurm.options import say

_ALL = Part()
_POSTGRESQL = ("postgresql://", "postgres://")


_SERVED = "api:"  # the rows that the API server shows


def ledger_url() -> str:
    """Return the URL of the ledger: $PHALANX_LEDGER, else the ledger beside $KUBECONFIG, else the ledger of the default
    directory, else the view of the API server. "": there is no ledger."""
    return _local() or (_SERVED if _is_served() else "")


@cache
def _is_served() -> bool:
    try:
        Api.open().call("GET", PATH, numbers="0")
    except (Refused, Unreachable):
        return False
    return True


def _local() -> str:
    if said := os.environ.get("PHALANX_LEDGER", ""):
        return said
    data_home = os.environ.get("XDG_DATA_HOME", "")
    own = Path(data_home) / "phalanx" if data_home.startswith("/") else Path(os.environ.get("HOME") or "/") / ".phalanx"
    kubeconfig = os.environ.get("KUBECONFIG", "").partition(":")[0]
    places = [Path(kubeconfig).parent] if kubeconfig else []
    found = next((file for place in (*places, own) if os.access(file := place / "ledger.sqlite3", os.R_OK)), None)
    return f"sqlite:///{found}" if found is not None else ""


class Book:
    """A ledger, open for reading. Use as `with Book.open() as book`. Its errors are PhalanxErrors that name it."""

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection, self._mark = connection, mark

    @classmethod
    def open(cls, part: Part = _ALL) -> Book:
        """Open the ledger. `part`: the rows to fetch, if the ledger comes over the network. Raises PhalanxError if
        there is no ledger, or if it cannot be reached."""
        url = ledger_url()
        if not url:
            raise PhalanxError("there is no ledger here: set PHALANX_LEDGER or KUBECONFIG (docs/guide/slurm.md)")
        if url == _SERVED:
            connection, is_truncated = fetch(Api.open(), part)
            if is_truncated:
                say("The ledger has more jobs in this time; only the newest of them are read")
            return cls(connection, "?")
        return cls.at(url)

    @classmethod
    def at(cls, url: str) -> Book:
        """Raises PhalanxError."""
        if url.startswith("sqlite:///"):
            return cls(_sqlite(url.removeprefix("sqlite:///")), "?")
        if url.startswith(_POSTGRESQL):
            return cls(_postgresql(url), "%s")
        scheme = url.partition(":")[0]
        raise PhalanxError(
            f"the ledger {scheme}:… is not understood: write sqlite:///FILE or postgresql://USER@HOST/NAME"
        )

    def __enter__(self) -> Book:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def asked(self, word: str) -> str:
        """Return the SQL expression for the option `word` of a job in table `j`. `word` must come from this code, never
        from a user."""
        if self._mark == "?":
            return f"COALESCE(json_extract(json_extract(j.words, '$.job'), '$.{word}'), '')"
        return f"COALESCE((j.words::json ->> 'job')::json ->> '{word}', '')"

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT with a `?` for each value. A ledger has no rows before the scheduler has made its
        tables. Raises PhalanxError."""
        errors = _errors(self._mark)
        try:
            cursor = self._connection.cursor()
            cursor.execute(statement.replace("?", self._mark), tuple(values))
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found
        except errors as error:
            if str(error).startswith("no such table: ledger_"):
                return []
            raise PhalanxError(f"the ledger cannot be read: {str(error).partition(chr(10))[0]}") from None


def marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _errors(mark: str) -> tuple[type[Exception], ...]:
    """Return the exceptions of the database driver that uses these placeholders, without importing the other driver."""
    if mark == "?":
        import sqlite3

        return (sqlite3.Error,)
    import psycopg

    return (psycopg.Error,)


def _sqlite(file: str) -> Any:
    import sqlite3

    try:
        return sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)
    except sqlite3.Error as error:
        raise PhalanxError(f"the ledger {file} cannot be read: {error}") from None


def _postgresql(url: str) -> Any:
    import psycopg

    try:
        return psycopg.connect(url, connect_timeout=5, options="-c default_transaction_read_only=on")
    except psycopg.Error as error:
        where = url.partition("://")[2].rpartition("@")[2]  # without user and password
        cause = str(error).strip().partition("\n")[0]
        raise PhalanxError(f"the ledger {where} cannot be reached: {cause}") from None
