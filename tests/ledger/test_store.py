"""A ledger in SQLite and in PostgreSQL: written once, read by what is asked, upgraded, refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.ledger.accounted import LedgerWriter
from phalanx.ledger.entry import JobEntry, StartEntry, State, url_of
from phalanx.ledger.selection import Selection
from phalanx.ledger.store import Ledger, LedgerError, UnstorableError
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


@pytest.mark.parametrize("odd", [{"pods": 2**33}, {"cause": "a\0b"}, {"requested": {"memory": 2**80}}], ids=str)
def test_odd_values_are_stored_as_well_as_the_database_can(ledger: Ledger, odd: dict[str, Any]) -> None:
    ledger.put([replace(ENDED, **odd)])
    [found] = ledger.jobs()
    stored = {"pods": 2**31 - 1} if "pods" in odd else {"cause": "ab"} if "cause" in odd else odd
    assert found == replace(ENDED, **stored)


@pytest.mark.parametrize("odd", [{"priority": 2**70}, {"user": "\ud800"}], ids=str)
def test_an_entry_that_cannot_be_stored_is_left_out_and_stops_no_other(ledger: Ledger, odd: dict[str, Any]) -> None:
    bad = replace(JOB, uid="bad", **odd)
    with pytest.raises(UnstorableError):
        ledger.put([JOB, bad])
    assert list(ledger.jobs()) == []
    writer = LedgerWriter(ledger)
    assert writer.durable(writer.give([bad, JOB]), 10.0)
    assert writer.durable(writer.give([ENDED]), 10.0)
    writer.close()
    assert list(ledger.jobs()) == [ENDED]


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_purging_forgets_more_than_one_statement_takes(ledger: Ledger) -> None:
    ledger.put([replace(ENDED, uid=str(number)) for number in range(1201)])
    assert ledger.purge(400.0) == 1201
    assert list(ledger.jobs()) == []


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3"
    with Ledger.open(url_of(file)) as ledger:
        ledger.put([JOB])
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u@h/x", "the ledger mysql:… is not a valid URL"),
        ("nonsense", "is not a valid URL"),
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
