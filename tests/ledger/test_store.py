"""A ledger in SQLite and in PostgreSQL: written once, read by what is asked, upgraded, refused."""

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
from phalanx.ledger.entry import JobEntry, ReasonEntry, StartEntry, State, url_of
from phalanx.ledger.schema import MIGRATIONS, upgrade
from phalanx.ledger.selection import Selection
from phalanx.ledger.store import Ledger, LedgerError
from tests.ledger.postgresql import postgresql

JOB = JobEntry(
    uid="u1",
    job="default/train",
    user="ada",
    queue="vision",
    account="company/research/vision",
    submit_s=100.0,
    requested={"cpu": 4000},
    words={"comment": 'it\'s "so" 100 % — ✓'},
)
RUNNING = replace(
    JOB,
    state=State.RUNNING,
    starts=(StartEntry(at_s=110.25, state=State.RUNNING, nodes=("n1", "n2"), allocated={"cpu": 4000}),),
)
ENDED = replace(
    RUNNING,
    state=State.FAILED,
    end_s=130.5,
    exit_code=3,
    starts=(replace(RUNNING.starts[0], state=State.FAILED, end_s=130.5),),
)


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


def test_what_is_written_is_read_again(ledger: Ledger) -> None:
    for entry in (JOB, RUNNING, ENDED):
        ledger.put([entry])
        assert list(ledger.jobs()) == [entry]


def test_writing_twice_changes_nothing(ledger: Ledger) -> None:
    ledger.put([ENDED, replace(JOB, uid="u2", state=State.CANCELLED, end_s=3.0)])
    before = list(ledger.jobs())
    ledger.put([ENDED])
    assert list(ledger.jobs()) == before


def test_an_ended_job_is_not_opened_by_an_older_view_of_it(ledger: Ledger) -> None:
    ledger.put([ENDED])
    ledger.put([RUNNING])
    assert list(ledger.jobs()) == [ENDED]


def test_the_live_ones_are_those_that_have_not_ended(ledger: Ledger) -> None:
    second = replace(RUNNING, uid="u2", job="default/other")
    ledger.put([ENDED, second])
    assert ledger.live() == [second]
    ledger.put([replace(second, state=State.COMPLETED, end_s=140.0)])


def test_more_jobs_than_a_statement_takes(ledger: Ledger) -> None:
    many = [replace(ENDED, uid=f"u{number}", submit_s=float(number)) for number in range(1201)]
    ledger.put(many)
    assert list(ledger.jobs()) == many


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (Selection(), {"a", "b", "c"}),
        (Selection(users=("ada",)), {"a", "b"}),
        (Selection(queues=("vision",)), {"a"}),
        (Selection(accounts=("research",)), {"a", "b"}),
        (Selection(accounts=("resear",)), set()),
        (Selection(accounts=("res_arch",)), set()),  # no pattern
        (Selection(states=(State.FAILED,)), {"a", "b"}),
        (Selection(since_s=131.0), {"c"}),
        (Selection(since_s=120.0, until_s=125.0), {"a", "b"}),
        (Selection(until_s=99.0), set()),
        (Selection(numbers=(7,)), {"b"}),
        (Selection(numbered=True), {"b"}),
        (Selection(arrays=("default/sweep",)), {"b"}),
        (Selection(arrays=("default/swee", "other/sweep")), set()),
        (Selection(jobs=("default/train",), users=("bob",)), {"c"}),
    ],
)
def test_what_is_asked_for(ledger: Ledger, asked: Selection, found: set[str]) -> None:
    ledger.put(
        [
            replace(ENDED, uid="a"),
            replace(ENDED, uid="b", queue="text", account="company/research/text", number=7,
                    words={"task-of": "sweep"}),
            replace(JOB, uid="c", user="bob", queue="ops", account="ops", submit_s=130.0, state=State.CANCELLED,
                    end_s=200.0),
        ]
    )  # fmt: skip
    assert {entry.uid for entry in ledger.jobs(asked)} == found


def test_purging_forgets_what_ended_before(ledger: Ledger) -> None:
    later = replace(ENDED, uid="u2", end_s=500.0)
    ledger.put([ENDED, later])
    assert ledger.purge(400.0) == 1
    assert list(ledger.jobs()) == [later]


def test_purging_forgets_more_than_one_statement_takes(ledger: Ledger) -> None:
    ledger.put([replace(ENDED, uid=str(number)) for number in range(1201)])
    assert ledger.purge(400.0) == 1201
    assert list(ledger.jobs()) == []


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3"
    with Ledger.open(url_of(file)) as ledger:
        ledger.put([JOB])
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


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


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u@h/x", "the ledger mysql:… is not understood"),
        ("nonsense", "is not understood"),
        ("sqlite:////nowhere/at/all.db", "cannot be written"),
        ("postgresql://u:secret@127.0.0.1:1/x", r"postgresql://u:\*\*\*@127.0.0.1:1/x"),
    ],
)
def test_what_cannot_be_is_said_without_its_password(url: str, words: str) -> None:
    with pytest.raises(LedgerError, match=words) as error:
        Ledger.open(url)
    assert "secret" not in str(error.value)


def test_reading_makes_none(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(url_of(tmp_path / "ledger.sqlite3"), read_only=True)
    assert not list(tmp_path.iterdir())
