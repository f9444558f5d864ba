"""A ledger in a database: SQLite in the data directory, or PostgreSQL by its URL.

A write stores whole entries in one transaction. The write replaces the row of each job (key: uid) and of each start
(key: the time at which the start was decided). So a write with an unknown outcome can be repeated. `put` does not
change ended jobs, so an older entry cannot reopen them.

SQLite runs in WAL mode with synchronous=FULL. So committed entries survive kill -9 and a power failure, and readers do
not wait for the writer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, Row, and_, create_engine, delete, event, make_url, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DataError, SQLAlchemyError

from phalanx.errors import PhalanxError
from phalanx.ledger.entry import ARRAY, FILE, LIVE, OBJECT, JobEntry, ReasonEntry, StartEntry, State
from phalanx.ledger.schema import JOBS, STARTS, upgrade
from phalanx.ledger.selection import Selection

_INT32 = 2**31 - 1  # the largest number that PostgreSQL can store in the column `pods`
_AT_ONCE = 500  # the maximum number of jobs in one statement
_RENEWED = (
    "state",
    "end_s",
    "nodes",
    "allocated",
    "reason",
    "preemptor",
    "rule",
)  # the columns of a start that later writes of the start may change
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite"}


class LedgerError(PhalanxError):
    """Raised if the database cannot be reached, read or written."""


class UnstorableError(PhalanxError):
    """Raised if an entry has a value that the database cannot store. Another attempt would fail too."""


class Ledger:
    """An open ledger, used as `with Ledger.open(url) as ledger`. Only one thread at a time may call its methods."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._insert = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert

    @classmethod
    def open(cls, url: str, *, read_only: bool = False) -> Ledger:
        """Open the ledger at `url`: `sqlite:///FILE` or `postgresql://USER@HOST/NAME`. Unless `read_only` is set,
        create missing tables and run missing migrations. Raises LedgerError."""
        ledger = cls(_engine(url, read_only))
        if not read_only:
            with _database_errors(url), ledger._engine.begin() as connection:
                upgrade(connection)
        return ledger

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    # --- writing ----------------------------------------------------------------------------------------------------

    def put(self, entries: Sequence[JobEntry]) -> None:
        """Write the entries in one transaction. Raises LedgerError and UnstorableError. After LedgerError, either no
        entry was written, or it is unknown whether the entries were written. After UnstorableError, no entry was
        written."""
        with _database_errors(self._engine.url.render_as_string()), self._engine.begin() as connection:
            for at in range(0, len(entries), _AT_ONCE):
                self._put(connection, entries[at : at + _AT_ONCE])

    def _put(self, connection: Connection, entries: Sequence[JobEntry]) -> None:
        rows = self._insert(JOBS).values([_job_row(entry) for entry in entries])
        changed = {column.name: rows.excluded[column.name] for column in JOBS.c if column.name not in ("id", "uid")}
        still_live = JOBS.c.state.in_([*LIVE])
        connection.execute(rows.on_conflict_do_update(index_elements=["uid"], set_=changed, where=still_live))
        found = connection.execute(select(JOBS.c.uid, JOBS.c.id).where(JOBS.c.uid.in_([one.uid for one in entries])))
        ids: dict[str, int] = {row.uid: row.id for row in found}
        starts = [_start_row(ids[entry.uid], start) for entry in entries for start in entry.starts]
        if starts:
            begun = self._insert(STARTS).values(starts)
            renewed = {name: begun.excluded[name] for name in _RENEWED}
            key, ongoing = ["job_id", "at_s"], STARTS.c.end_s.is_(None)
            connection.execute(begun.on_conflict_do_update(index_elements=key, set_=renewed, where=ongoing))

    def purge(self, before_s: float) -> int:
        """Delete the jobs that ended before `before_s` (seconds since the epoch); return their number. Each transaction
        deletes only a few hundred jobs, so that a concurrent writer waits only briefly."""
        count = 0
        while True:
            with _database_errors(self._engine.url.render_as_string()), self._engine.begin() as connection:
                old = select(JOBS.c.id).where(JOBS.c.end_s < before_s).order_by(JOBS.c.end_s).limit(_AT_ONCE)
                ids = list(connection.execute(old).scalars())
                connection.execute(delete(STARTS).where(STARTS.c.job_id.in_(ids)))
                connection.execute(delete(JOBS).where(JOBS.c.id.in_(ids)))
            count += len(ids)
            if len(ids) < _AT_ONCE:
                return count

    # --- reading ----------------------------------------------------------------------------------------------------

    def live(self) -> list[JobEntry]:
        """Return the jobs that have not ended."""
        return list(self.jobs(Selection(states=tuple(sorted(LIVE)))))

    def ended(self, most: int) -> list[JobEntry]:
        """Return the `most` jobs that ended last, in the order of their ends. Raises LedgerError."""
        last = select(JOBS.c.end_s).where(JOBS.c.end_s.is_not(None)).order_by(JOBS.c.end_s.desc()).limit(1).offset(most)
        with _database_errors(self._engine.url.render_as_string()), self._engine.connect() as connection:
            since_s = connection.execute(last).scalar_one_or_none()
        found = [entry for entry in self.jobs(Selection(since_s=since_s)) if entry.end_s is not None]
        return sorted(found, key=lambda entry: entry.end_s or 0.0)[-most:]

    def jobs(self, selection: Selection | None = None) -> Iterator[JobEntry]:
        """Yield the selected jobs in the order of their submission. Raises LedgerError."""
        asked = select(JOBS).where(*_conditions(selection or Selection())).order_by(JOBS.c.submit_s, JOBS.c.id)
        with _database_errors(self._engine.url.render_as_string()), self._engine.connect() as connection:
            for rows in connection.execute(asked).partitions(_AT_ONCE):
                ids = [row.id for row in rows]
                starts: dict[int, list[StartEntry]] = {}
                ordered = select(STARTS).where(STARTS.c.job_id.in_(ids)).order_by(STARTS.c.job_id, STARTS.c.at_s)
                for row in connection.execute(ordered):
                    starts.setdefault(row.job_id, []).append(_start(row))
                yield from (_job(row, starts.get(row.id, ())) for row in rows)


def _conditions(asked: Selection) -> Iterator[ColumnElement[bool]]:
    if asked.since_s is not None:
        yield or_(JOBS.c.end_s.is_(None), JOBS.c.end_s >= asked.since_s)
    if asked.until_s is not None:
        yield JOBS.c.submit_s <= asked.until_s
    if asked.ended_before_s is not None:
        yield JOBS.c.end_s < asked.ended_before_s
    for column, values in (
        (JOBS.c.user_name, asked.users),
        (JOBS.c.queue, asked.queues),
        (JOBS.c.state, asked.states),
        (JOBS.c.job, asked.jobs),
        (JOBS.c.number, asked.numbers),
    ):
        if values:
            yield column.in_(values)
    if asked.made:
        yield or_(*(_made(name) for name in asked.made))
    if asked.arrays:
        yield or_(*(_is_task(name) for name in asked.arrays))
    if asked.accounts:
        path = "/" + JOBS.c.account + "/"
        yield or_(*(path.contains(f"/{account}/", autoescape=True) for account in asked.accounts))
    if asked.numbered:
        yield JOBS.c.number.is_not(None)


def _is_task(array: str) -> ColumnElement[bool]:
    """Return the SQL condition that selects the tasks of the array `namespace/name`."""
    namespace, _, own = array.partition("/")
    return and_(
        JOBS.c.job.startswith(f"{namespace}/", autoescape=True),
        JOBS.c.words.contains(f'"{ARRAY}":"{own}"', autoescape=True),
    )


def _made(name: str) -> ColumnElement[bool]:
    """Return the SQL condition that selects the jobs whose users created an object with the name `namespace/name`."""
    namespace, _, own = name.partition("/")
    named = and_(
        JOBS.c.job.startswith(f"{namespace}/", autoescape=True),
        JOBS.c.words.contains(f'"{OBJECT}":"', autoescape=True),
        JOBS.c.words.contains(f'/{own}"', autoescape=True),
    )
    return or_(JOBS.c.job.in_([name, f"{namespace}/pod:{own}"]), named)


# --- rows -----------------------------------------------------------------------------------------------------------


def _job_row(entry: JobEntry) -> dict[str, object]:
    same = ("uid", "job", "kind", "queue", "account", "qos", "priority", "submit_s", "eligible_s", "limit_s", "pods")
    rest = ("waits_for", "end_s", "exact_end", "exit_code", "signal", "cause", "number")
    return {
        **{name: _storable(getattr(entry, name)) for name in (*same, *rest)},
        "pods": min(entry.pods, _INT32),  # a job's roles together may have more pods than this limit
        "user_name": _storable(entry.user),
        "group_name": _storable(entry.group),
        "state": str(entry.state),
        "requested": _json(entry.requested),
        "words": _json(entry.words),
        "reasons": _json(entry.reasons),
    }


def _storable(value: object) -> object:
    """Return the value without the characters that PostgreSQL cannot store in text columns."""
    return value.replace("\0", "") if isinstance(value, str) else value


def _job(row: Row[object], starts: Iterable[StartEntry]) -> JobEntry:
    said = {name: value for name, value in row._mapping.items() if name not in ("id", "user_name", "group_name")}
    return JobEntry(
        **{
            **said,
            "user": row.user_name,
            "group": row.group_name,
            "state": State(row.state),
            "requested": msgspec.json.decode(row.requested),
            "words": msgspec.json.decode(row.words),
            "reasons": msgspec.json.decode(row.reasons, type=tuple[ReasonEntry, ...]),
            "starts": tuple(starts),
        }
    )


def _start_row(job: int, start: StartEntry) -> dict[str, object]:
    return {
        "job_id": job,
        "at_s": start.at_s,
        "state": str(start.state),
        "end_s": start.end_s,
        "nodes": _json(start.nodes),
        "allocated": _json(start.allocated),
        "reason": _storable(start.reason),
        "preemptor": start.by,
        "rule": start.rule,
        "backfilled": start.backfilled,
    }


def _start(row: Row[object]) -> StartEntry:
    return StartEntry(
        at_s=row.at_s,
        state=State(row.state),
        end_s=row.end_s,
        nodes=tuple(msgspec.json.decode(row.nodes)),
        allocated=msgspec.json.decode(row.allocated),
        reason=row.reason,
        by=row.preemptor,
        rule=row.rule,
        backfilled=bool(row.backfilled),
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# --- the database ---------------------------------------------------------------------------------------------------


class _database_errors:  # noqa: N801 - used as a statement
    """Convert an error of the database to a LedgerError that names the database without its password."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (DataError, OverflowError, UnicodeError)):
            raise UnstorableError(str(getattr(error, "orig", None) or error).partition("\n")[0]) from error
        if isinstance(error, SQLAlchemyError):
            cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
            raise LedgerError(f"the ledger {_shown(self._url)} cannot be used: {cause}") from error


def _shown(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)


def _engine(url: str, read_only: bool) -> Engine:
    try:
        parsed = make_url(url)
        driver = _DRIVERS[parsed.drivername]
    except (ArgumentError, KeyError):
        scheme = url.partition(":")[0]
        raise LedgerError(
            f"the ledger {scheme}:… is not a valid URL: write sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    if driver != "sqlite":
        return create_engine(parsed.set(drivername=driver), connect_args={"connect_timeout": 5}, pool_pre_ping=True)
    file = Path(parsed.database or "")
    if read_only and not file.exists():
        raise LedgerError(f"there is no ledger {file}: `phalanx up` keeps one in its data directory, as {FILE}")
    if not read_only:
        _private(file)
    engine = create_engine(parsed)
    event.listen(engine, "connect", _prepare)
    # By default, the driver begins a transaction only before the first statement that changes data, and not before a
    # CREATE. A migration would then not be atomic.
    event.listen(engine, "begin", lambda it: it.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE"))
    return engine


def _private(file: Path) -> None:
    """Create the file with mode 0600 before SQLite creates it, so other users can never read it."""
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise LedgerError(f"the ledger {file} cannot be written: {error.strerror}") from error


def _prepare(connection: Any, _: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=5000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
