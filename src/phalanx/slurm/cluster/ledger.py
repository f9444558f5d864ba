"""Read the ledger, the accounting database. This module imports only modules with a short import time.

The ledger of `phalanx up` is a file that only root can read. For other users, the API server returns the rows that the
user may see (`GET /slurm/v1/ledger`). A command copies these rows to a database in its memory, and runs the same SQL
statements on it.

A ledger is an SQLite file or a PostgreSQL database. Commands use the drivers directly, because the import of SQLAlchemy
takes longer than most commands run. The statements use only SQL that both databases support. Values are always passed
as parameters, never as a part of the statement.

The function `rows` selects the rows and fields that a user may see, as Slurm does if PrivateData is not set. The
scheduler calls `rows` for each `GET /slurm/v1/ledger`, which the API server forwards to it. The API server adds two
fields to the query: the name of the user, and `all=true` if this user may see all fields. Rows of other users' jobs
contain only public fields."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import ApiClient, RequestRefused, Unreachable
from phalanx.slurm.options import say

PATH = "/slurm/v1/ledger"
JOB_COLUMNS = (
    "id", "user_name", "group_name", "queue", "account", "qos", "submit_s", "eligible_s", "requested", "state",
    "waits_for", "end_s", "exit_code", "signal", "cause", "number", "words",
)  # fmt: skip
START_COLUMNS = ("job_id", "at_s", "state", "end_s", "nodes", "allocated", "reason")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a ledger that a command needs. `since_s`: jobs that ended before this time (seconds since the epoch)
    are left out. `user`: read only jobs of this user; "": of all users. `numbers`: read only jobs with these numbers;
    empty: all jobs."""

    since_s: float = 0.0
    user: str = ""
    numbers: tuple[int, ...] = ()

    @property
    def query(self) -> dict[str, str]:
        said = {"since": repr(self.since_s) if self.since_s else "", "user": self.user, "numbers": spans(self.numbers)}
        return {name: text for name, text in said.items() if text}


def spans(numbers: Sequence[int]) -> str:
    """Return the numbers as a list of ranges, such as `3-5,9`. The tasks of a large array have consecutive numbers, so
    this text is short."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in found)


class Rows(msgspec.Struct):
    """The rows of a response. `jobs`, `starts`: rows with the columns JOB_COLUMNS and START_COLUMNS. `truncated`: True
    if older rows were left out."""

    jobs: list[list[Any]]
    starts: list[list[Any]]
    truncated: bool = False


def fetch(api: ApiClient, part: Part) -> tuple[object, bool]:
    """Return a connection to a database in memory with the rows that the API server sent, and True if older rows were
    left out. Raises RequestRefused, Unreachable."""
    import sqlite3

    rows = msgspec.json.decode(api.call("GET", PATH, **part.query), type=Rows)
    connection = sqlite3.connect(":memory:")
    for table, columns, content in (("job", JOB_COLUMNS, rows.jobs), ("start", START_COLUMNS, rows.starts)):
        connection.execute(f"CREATE TABLE ledger_{table} ({', '.join(columns)})")
        marks = ",".join("?" * len(columns))
        connection.executemany(f"INSERT INTO ledger_{table} VALUES ({marks})", _of_length(content, len(columns)))  # noqa: S608 (names of ours)
    connection.execute("CREATE INDEX start_job ON ledger_start (job_id)")
    return connection, rows.truncated


def _of_length(content: Sequence[Sequence[object]], count: int) -> list[Sequence[object]]:
    return [row for row in content if len(row) == count]


_ALL = Part()
_INT64 = 2**63 - 1  # the largest number in the database
_POSTGRESQL = ("postgresql://", "postgres://")


_SERVED = "api:"  # the URL of the ledger that the API server serves


def ledger_url() -> str:
    """Return the URL of the first ledger that exists: $PHALANX_LEDGER; the file ledger.sqlite3 in the directory of
    $KUBECONFIG; this file in the default directory; the ledger that the API server serves. Return "" if there is no
    ledger."""
    return _local() or (_SERVED if _is_served() else "")


@cache
def _is_served() -> bool:
    try:
        ApiClient.open().call("GET", PATH, numbers="0")
    except (RequestRefused, Unreachable):
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


class LedgerReader:
    """A ledger that is open for reading. Use it as `with LedgerReader.open() as ledger`. All errors are PhalanxErrors
    whose texts name the ledger."""

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection, self._mark = connection, mark

    @classmethod
    def open(cls, part: Part = _ALL) -> LedgerReader:
        """Open the ledger. `part`: the rows that are needed; from the API server, only these rows are fetched. Raises
        PhalanxError if there is no ledger, or if it cannot be reached."""
        url = ledger_url()
        if not url:
            raise PhalanxError("no ledger was found: set PHALANX_LEDGER or KUBECONFIG (docs/guide/slurm.md)")
        if url == _SERVED:
            connection, is_truncated = fetch(ApiClient.open(), part)
            if is_truncated:
                say("The ledger has more jobs in this period; only the newest jobs are shown")
            return cls(connection, "?")
        return cls.at(url)

    @classmethod
    def at(cls, url: str) -> LedgerReader:
        """Open the ledger at this URL. Raises PhalanxError."""
        if url.startswith("sqlite:///"):
            return cls(_sqlite(url.removeprefix("sqlite:///")), "?")
        if url.startswith(_POSTGRESQL):
            return cls(_postgresql(url), "%s")
        scheme = url.partition(":")[0]
        raise PhalanxError(
            f"a ledger with the scheme {scheme}: is not supported: write sqlite:///FILE or postgresql://USER@HOST/NAME"
        )

    def __enter__(self) -> LedgerReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def asked(self, word: str) -> str:
        """Return the SQL expression for the field `word` of the job's request (`jobs.ask`), for the table alias `j`.
        `word` becomes a part of the statement, so it must never come from a user."""
        if self._mark == "?":
            return f"COALESCE(json_extract(json_extract(j.words, '$.job'), '$.{word}'), '')"
        return f"COALESCE((j.words::json ->> 'job')::json ->> '{word}', '')"

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT statement, which has a `?` for each value. If the scheduler has not created the
        tables yet, return an empty list. Raises PhalanxError."""
        errors = _errors(self._mark)
        try:
            cursor = self._connection.cursor()
            # SQLite has no larger numbers, and no job has this number.
            known = (min(one, _INT64) if isinstance(one, int) else one for one in values)
            cursor.execute(statement.replace("?", self._mark), tuple(known))
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found
        except errors as error:
            if str(error).startswith("no such table: ledger_"):
                return []
            raise PhalanxError(f"the ledger cannot be read: {str(error).partition(chr(10))[0]}") from None


def marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _errors(mark: str) -> tuple[type[Exception], ...]:
    """Return the exception classes of the database driver whose placeholder is `mark`. The other driver is not
    imported."""
    if mark == "?":
        import sqlite3

        return (sqlite3.Error,)
    import psycopg

    return (psycopg.Error,)


def _sqlite(file: str) -> object:
    import sqlite3

    try:
        return sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)
    except sqlite3.Error as error:
        raise PhalanxError(f"the ledger {file} cannot be read: {error}") from None


def _postgresql(url: str) -> object:
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
    """Return the response to `GET /slurm/v1/ledger`: the rows, or a Status object with the error. `url`: the URL of the
    ledger. `query`: the fields of `Part`, and two fields of the API server: `asker`, the name of the user, and `all`,
    which is `true` if the user may see all fields. `fields`: the fields of a job's request that every user may see."""
    try:
        where, values = _where(query)
    except ValueError as error:
        return _status(400, "BadRequest", str(error))
    try:
        with LedgerReader.at(url) as ledger:
            return _rows(ledger, where, values, query, fields)
    except PhalanxError as error:
        return _status(503, "ServiceUnavailable", str(error))


def _where(query: Mapping[str, str]) -> tuple[str, list[object]]:
    """Return the WHERE clause for the query, and its values. Raises ValueError."""
    parts, values = list[str](), list[object]()
    if said := [one for one in query.get("numbers", "").split(",") if one]:
        if len(said) > _MOST_SPANS:
            raise ValueError(f"numbers: {len(said)} ranges; at most {_MOST_SPANS} are allowed in a request")
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


def _rows(
    ledger: LedgerReader, where: str, values: list[object], query: Mapping[str, str], fields: Collection[str]
) -> Object:
    statement = f"SELECT {', '.join(JOB_COLUMNS)} FROM ledger_job {where} ORDER BY id DESC LIMIT {MOST_ROWS + 1}"  # noqa: S608 (no values)
    found = [list(row) for row in ledger.rows(statement, values)]
    truncated = len(found) > MOST_ROWS
    found = found[:MOST_ROWS]
    starts: list[list[object]] = []
    for at in range(0, len(found), _AT_ONCE):
        ids = [row[_COLUMN["id"]] for row in found[at : at + _AT_ONCE]]
        asked = f"SELECT {', '.join(START_COLUMNS)} FROM ledger_start WHERE job_id IN ({marks(ids)})"  # noqa: S608 (no values)
        starts += [list(row) for row in ledger.rows(asked, ids)]
    if query.get("all") != "true":
        for row in found:
            if row[_COLUMN["user_name"]] != query.get("asker", ""):
                _hide(row, fields)
    return {"jobs": found, "starts": starts, "truncated": truncated}


def _hide(row: list[object], fields: Collection[str]) -> None:
    """Remove from a row the fields that only the owner of the job may see. `fields`: the fields of the job's request
    that every user may see."""
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
    except (msgspec.MsgspecError, RecursionError):  # a user wrote the text, so it may have any form
        return {}


def _status(code: int, reason: str, message: str) -> Object:
    words = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **words}
