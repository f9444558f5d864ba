"""`ledger/schema.py`: ledgers of earlier programs are brought up to date, and those of newer ones refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from phalanx.errors import PhalanxError
from phalanx.ledger.entry import ReasonEntry, StartEntry, State, url_of
from phalanx.ledger.schema import MIGRATIONS, upgrade
from phalanx.ledger.store import Ledger
from tests.ledger.postgresql import postgresql
from tests.ledger.test_store import ENDED, JOB


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    url = url_of(tmp_path / "ledger.sqlite3") if request.param == "sqlite" else request.getfixturevalue("postgres")
    with Ledger.open(url) as found:
        yield found
        found.purge(1e12)


def test_one_that_a_newer_program_wrote_is_refused(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ledger.sqlite3")
    Ledger.open(url).close()
    with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
        connection.execute("UPDATE ledger_version SET version = ?", (len(MIGRATIONS) + 1,))
    with pytest.raises(PhalanxError, match=f"version {len(MIGRATIONS) + 1}"):
        Ledger.open(url)


def test_a_ledger_of_before_causes_were_kept_gets_them(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3"
    with Ledger.open(url_of(file)) as ledger:
        ledger.put([JOB])
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE ledger_job DROP COLUMN cause")
        connection.execute("UPDATE ledger_version SET version = 1")
    with Ledger.open(url_of(file)) as ledger:
        assert list(ledger.jobs()) == [JOB]
        ledger.put([replace(ENDED, cause="exit code 3")])
        assert [one.cause for one in ledger.jobs()] == ["exit code 3"]


def test_a_ledger_of_before_reasons_were_kept_gets_them(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3"
    with Ledger.open(url_of(file)) as ledger:
        ledger.put([JOB])
    with sqlite3.connect(file) as connection:
        for table, column in (("job", "reasons"), ("start", "preemptor"), ("start", "rule")):
            connection.execute(f"ALTER TABLE ledger_{table} DROP COLUMN {column}")
        connection.execute("UPDATE ledger_version SET version = 3")
    reasons = (ReasonEntry(at_s=1.0, code="NoRoom"), ReasonEntry(at_s=2.0, code="Reserved"))
    start = StartEntry(at_s=3.0, state=State.PREEMPTED, end_s=4.0, by="ns/big", rule="reclaim")
    with Ledger.open(url_of(file)) as ledger:
        assert list(ledger.jobs()) == [JOB]
        ledger.put([replace(JOB, reasons=reasons, starts=(start,))])
        [found] = ledger.jobs()
        assert (found.reasons, found.starts[-1]) == (reasons, start)


def test_a_ledger_of_before_backfills_were_marked_gets_the_mark(ledger: Ledger) -> None:
    ledger.put([ENDED])
    with ledger._engine.begin() as connection:
        connection.execute(text("ALTER TABLE ledger_start DROP COLUMN backfilled"))
        connection.execute(text("UPDATE ledger_version SET version = 4"))
        upgrade(connection)
    assert list(ledger.jobs()) == [ENDED]
    start = StartEntry(at_s=3.0, state=State.COMPLETED, end_s=4.0, backfilled=True)
    ledger.put([replace(ENDED, uid="u9", starts=(start,))])
    assert [one.starts[-1].backfilled for one in ledger.jobs()] == [False, True]


def test_a_ledger_of_before_groups_were_indexed_gets_its_index(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3"
    Ledger.open(url_of(file)).close()
    with sqlite3.connect(file) as connection:
        connection.execute("DROP INDEX ledger_job_group")
        connection.execute("UPDATE ledger_version SET version = 2")
    Ledger.open(url_of(file)).close()
    asked = "EXPLAIN QUERY PLAN SELECT id FROM ledger_job WHERE group_name = ? AND (end_s IS NULL OR end_s >= ?)"
    with sqlite3.connect(file) as connection:
        assert "ledger_job_group" in str(connection.execute(asked, ("ada", 1.0)).fetchall())


@pytest.mark.slow
def test_a_migration_that_is_killed_leaves_what_was(tmp_path: Path) -> None:
    """Its tables exist and its version does not: the migration was not one transaction."""
    file = tmp_path / "ledger.sqlite3"
    script = (
        "import os, sys\nfrom phalanx.ledger import schema\nfrom phalanx.ledger.entry import url_of\n"
        "from phalanx.ledger.store import Ledger\n"
        "made = schema.MIGRATIONS[0]\n"
        "def dying(connection):\n    made(connection)\n    os.kill(os.getpid(), 9)\n"
        "schema.MIGRATIONS = (dying,)\nLedger.open(sys.argv[1])\n"
    )
    assert subprocess.run([sys.executable, "-c", script, url_of(file)], check=False).returncode == -9
    with Ledger.open(url_of(file)) as ledger:
        ledger.put([JOB])
        assert list(ledger.jobs()) == [JOB]
