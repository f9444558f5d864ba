"""Select the rows and fields of a ledger that a user may see: the same that Slurm shows if PrivateData is unset.

The scheduler, which writes the ledger, answers `GET /slurm/v1/ledger` with it. The API server has added the user's
name, and whether that user may see everything. Rows of other users' jobs contain only the public fields (`fields`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.ledger.book import Book, marks
from phalanx.slurm.cluster.ledger.fetched import JOB_COLUMNS, START_COLUMNS

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
