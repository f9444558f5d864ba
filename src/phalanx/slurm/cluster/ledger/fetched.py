"""Rows of the ledger that the API server shows (`GET /slurm/v1/ledger`), in a database of the command's own.

The ledger of `phalanx up` is a file of root's. Users get the rows that they may see (`shown`). A command runs its
statements on a copy of these rows in memory, as it would run them on the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from phalanx.slurm.cluster.api import Api

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
