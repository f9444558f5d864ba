"""The tables of a ledger, and the migrations from older versions.

`MIGRATIONS[n]` changes a ledger of version n to version n + 1. All migrations are run on a new ledger, so the newest
version is the number of migrations. Each migration and its version number are written in one transaction. So if the
process dies during a migration, the ledger keeps the old version. If the ledger has a newer version than this program,
the program refuses to use it.

Fields that queries use have a column and an index. Fields that are only shown are in JSON.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    false,
    inspect,
    select,
    text,
)

from phalanx.errors import PhalanxError

# SQLite assigns numbers only to an INTEGER PRIMARY KEY.
NUMBER = BigInteger().with_variant(Integer, "sqlite")

METADATA = MetaData()
VERSION = Table("ledger_version", METADATA, Column("version", Integer, nullable=False))
JOBS = Table(
    "ledger_job",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("uid", Text, nullable=False, unique=True),
    Column("job", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("group_name", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("qos", Text, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("submit_s", Float(53), nullable=False),
    Column("eligible_s", Float(53)),
    Column("limit_s", Float(53)),
    Column("pods", Integer, nullable=False),
    Column("requested", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("waits_for", Text, nullable=False),
    Column("end_s", Float(53)),
    Column("exact_end", Boolean, nullable=False),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("cause", Text, nullable=False, server_default=""),
    Column("number", BigInteger),
    Column("words", Text, nullable=False),
    Column("reasons", Text, nullable=False, server_default="[]"),
    Index("ledger_job_user", "user_name", "submit_s"),
    Index("ledger_job_end", "end_s"),
    Index("ledger_job_submit", "submit_s"),
    Index("ledger_job_number", "number"),
    Index("ledger_job_group", "group_name", "end_s"),
)
STARTS = Table(
    "ledger_start",
    METADATA,
    Column("job_id", NUMBER, ForeignKey("ledger_job.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("at_s", Float(53), primary_key=True),
    Column("state", Text, nullable=False),
    Column("end_s", Float(53)),
    Column("nodes", Text, nullable=False),
    Column("allocated", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("preemptor", Text, nullable=False, server_default=""),
    Column("rule", Text, nullable=False, server_default=""),
    Column("backfilled", Boolean, nullable=False, server_default=false()),
)


def _create(connection: Connection) -> None:
    METADATA.create_all(connection, tables=[JOBS, STARTS], checkfirst=False)


def _add_cause(connection: Connection) -> None:
    """Add the column `cause`, unless the first migration has created the table with it."""
    if "cause" not in {column["name"] for column in inspect(connection).get_columns(JOBS.name)}:
        connection.execute(text(f"ALTER TABLE {JOBS.name} ADD COLUMN cause TEXT NOT NULL DEFAULT ''"))


def _index_groups(connection: Connection) -> None:
    """Add an index by group for `sacct -u`, because the user of a Slurm job is the job's group."""
    if "ledger_job_group" not in {index["name"] for index in inspect(connection).get_indexes(JOBS.name)}:
        next(index for index in JOBS.indexes if index.name == "ledger_job_group").create(connection)


def _add_reasons(connection: Connection) -> None:
    """Add columns for the changes of a job's reason, and for the job and the rule by which a start was preempted."""
    for table, name, default in ((JOBS, "reasons", "[]"), (STARTS, "preemptor", ""), (STARTS, "rule", "")):
        if name not in {column["name"] for column in inspect(connection).get_columns(table.name)}:
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {name} TEXT NOT NULL DEFAULT '{default}'"))


def _add_backfills(connection: Connection) -> None:
    """Add the column that marks a start as a backfill."""
    if "backfilled" not in {column["name"] for column in inspect(connection).get_columns(STARTS.name)}:
        no = "0" if connection.dialect.name == "sqlite" else "false"
        connection.execute(text(f"ALTER TABLE {STARTS.name} ADD COLUMN backfilled BOOLEAN NOT NULL DEFAULT {no}"))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _create,
    _add_cause,
    _index_groups,
    _add_reasons,
    _add_backfills,
)


def upgrade(connection: Connection) -> None:
    """Bring the tables to this program's version, within the caller's transaction.

    Raises PhalanxError for a ledger that a newer program wrote."""
    if not inspect(connection).has_table(VERSION.name):
        VERSION.create(connection)
        connection.execute(VERSION.insert().values(version=0))
    version = connection.execute(select(VERSION.c.version)).scalar_one()
    if version > len(MIGRATIONS):
        raise PhalanxError(
            f"the ledger has version {version}, and this program supports versions up to {len(MIGRATIONS)}: a "
            "newer Phalanx wrote it. Nothing was changed. Use the newer Phalanx, or another ledger."
        )
    for number, migrate in enumerate(MIGRATIONS[version:], version + 1):
        migrate(connection)
        connection.execute(VERSION.update().values(version=number))
