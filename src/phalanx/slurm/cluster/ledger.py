"""The ledger, read without what takes long to import.

Rows of the ledger that the API server shows (`GET /slurm/v1/ledger`), in a database of the command's own.

The ledger of `phalanx up` is a file of root's. Users get the rows that they may see (`shown`). A command runs its
statements on a copy of these rows in memory, as it would run them on the ledger.

The ledger as commands read it: SQLite by Python's own module, or PostgreSQL by its driver alone.

A command has no time for SQLAlchemy, which takes longer to import than most commands run. The statements here are those
that both databases understand; values are always passed apart from the text.

Select the rows and fields of a ledger that a user may see: the same that Slurm shows if PrivateData is unset.

The scheduler, which writes the ledger, answers `GET /slurm/v1/ledger` with it. The API server has added the user's
name, and whether that user may see everything. Rows of other users' jobs contain only the public fields (`fields`)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api, Refused, Unreachable
from phalanx.slurm.options import say

PATH = "/slurm/v1/ledger"
JOB_COLUMNS = (
    "id", "user_name", "group_name", "queue", "account", "qos", "submit_s", "eligible_s", "requested", "state",
    "waits_for", "end_s", "exit_code", "signal", "cause", "number", "words",
)  # fmt: skip
START_COLUMNS = ("job_id", "at_s", "state", "end_s", "nodes", "allocated", "reason")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a ledger that a command needs. `since_s`: leave out jobs that ended before this time (seconds since
    the epoch). `user`: only jobs of this user; "": of all users. `numbers`: only jobs with these numbers; empty: all
    jobs."""

    since_s: float = 0.0
    user: str = ""
    numbers: tuple[int, ...] = ()

    @property
    def query(self) -> dict[str, str]:
        said = {"since": repr(self.since_s) if self.since_s else "", "user": self.user, "numbers": spans(self.numbers)}
        return {name: text for name, text in said.items() if text}


def spans(numbers: Sequence[int]) -> str:
    """Return numbers as spans: `3-5,9`. So a thousand consecutive numbers, as of an array's tasks, stay short."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in found)


class Rows(msgspec.Struct):
    """The rows of an answer. `truncated`: True if these are only the newest rows."""

    jobs: list[list[Any]]
    starts: list[list[Any]]
    truncated: bool = False


def fetch(api: Api, part: Part) -> tuple[Any, bool]:
    """Return a connection to a database with the rows, and whether there are more. Raises Refused, Unreachable."""
    import sqlite3

    rows = msgspec.json.decode(api.call("GET", PATH, **part.query), type=Rows)
    connection = sqlite3.connect(":memory:")
    for table, columns, content in (("job", JOB_COLUMNS, rows.jobs), ("start", START_COLUMNS, rows.starts)):
        connection.execute(f"CREATE TABLE ledger_{table} ({', '.join(columns)})")
        marks = ",".join("?" * len(columns))
        connection.executemany(f"INSERT INTO ledger_{table} VALUES ({marks})", _of_length(content, len(columns)))  # noqa: S608 (names of ours)
    connection.execute("CREATE INDEX start_job ON ledger_start (job_id)")
    return connection, rows.truncated


def _of_length(content: Sequence[Sequence[Any]], count: int) -> list[Sequence[Any]]:
    return [row for row in content if len(row) == count]


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


MOST_ROWS = 50_000
_MOST_SPANS = 500
_AT_ONCE = 500
_OF_STEPS = frozenset({"name", "tasks", "cpus", "nodes", "layout", "start_s", "end_s", "code", "signal", "cancelled",
                       "cpu_s", "peak_kib", "components"})  # fmt: skip
_COLUMN = {name: at for at, name in enumerate(JOB_COLUMNS)}

Object = dict[str, Any]


def rows(url: str, query: Mapping[str, str], fields: Collection[str]) -> Object:
    """Return the rows, or a Status with the error. `query`: the fields of `Part`, and the API server's `asker` and
    `all`."""
    try:
        where, values = _where(query)
    except ValueError as error:
        return _status(400, "BadRequest", str(error))
    try:
        with Book.at(url) as book:
            return _rows(book, where, values, query, fields)
    except PhalanxError as error:
        return _status(503, "ServiceUnavailable", str(error))


def _where(query: Mapping[str, str]) -> tuple[str, list[object]]:
    """Raises ValueError."""
    parts, values = list[str](), list[object]()
    if said := [one for one in query.get("numbers", "").split(",") if one]:
        if len(said) > _MOST_SPANS:
            raise ValueError(f"numbers: {len(said)} spans, and {_MOST_SPANS} are answered at a time")
        parts.append("(" + " OR ".join(["number BETWEEN ? AND ?"] * len(said)) + ")")
        for one in said:
            first, _, last = one.partition("-")
            values += [int(first), int(last or first)]
    if user := query.get("user", ""):
        parts.append("(group_name = ? OR user_name = ?)")
        values += [user, user]
    since_s = float(query.get("since", "0"))
    if not 0.0 <= since_s < float("inf"):
        raise ValueError("since: a time in seconds since the epoch")
    if since_s:
        parts.append("(end_s IS NULL OR end_s >= ?)")
        values.append(since_s)
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


def _rows(book: Book, where: str, values: list[object], query: Mapping[str, str], fields: Collection[str]) -> Object:
    statement = f"SELECT {', '.join(JOB_COLUMNS)} FROM ledger_job {where} ORDER BY id DESC LIMIT {MOST_ROWS + 1}"  # noqa: S608 (no values)
    found = [list(row) for row in book.rows(statement, values)]
    truncated = len(found) > MOST_ROWS
    found = found[:MOST_ROWS]
    starts: list[list[Any]] = []
    for at in range(0, len(found), _AT_ONCE):
        ids = [row[_COLUMN["id"]] for row in found[at : at + _AT_ONCE]]
        asked = f"SELECT {', '.join(START_COLUMNS)} FROM ledger_start WHERE job_id IN ({marks(ids)})"  # noqa: S608 (no values)
        starts += [list(row) for row in book.rows(asked, ids)]
    if query.get("all") != "true":
        for row in found:
            if row[_COLUMN["user_name"]] != query.get("asker", ""):
                _hide(row, fields)
    return {"jobs": found, "starts": starts, "truncated": truncated}


def _hide(row: list[Any], fields: Collection[str]) -> None:
    """Remove from the row of another user's job what only its owner may see."""
    row[_COLUMN["cause"]] = str(row[_COLUMN["cause"]] or "").partition("; its log ends:")[0]
    kept: dict[str, str] = {}
    for name, text in _decoded(row[_COLUMN["words"]]).items():
        if name == "cancelled-by":
            kept[name] = str(text)
        elif name == "job" or name.startswith("component-"):
            kept[name] = _only(text, fields)
        elif name.startswith("step."):
            kept[name] = _only(text, _OF_STEPS)
    row[_COLUMN["words"]] = msgspec.json.encode(kept).decode()


def _only(text: object, names: Collection[str]) -> str:
    return msgspec.json.encode({name: one for name, one in _decoded(text).items() if name in names}).decode()


def _decoded(text: object) -> Object:
    try:
        return msgspec.json.decode(str(text), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):  # a user may have written any text
        return {}


def _status(code: int, reason: str, message: str) -> Object:
    words = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **words}
