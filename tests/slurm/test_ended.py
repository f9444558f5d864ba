"""Jobs read from the ledger: in SQLite, and in PostgreSQL by its URL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger
from phalanx.slurm.cluster.ledger import LedgerReader
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.ended import ended, recorded, recorded_of
from phalanx.slurm.jobs.view import JobInfo
from tests.ledger.test_store import postgres  # noqa: F401 - a fixture

ASK = Ask(name="wrap", user="ada", uid=1, gid=1, group="g", account="lab", partition="batch")


def entry(number: int, ask: Ask = ASK, end_s: float | None = 50.0) -> JobEntry:
    state = State.COMPLETED if end_s is not None else State.RUNNING
    start = StartEntry(at_s=20.0, state=state, end_s=end_s, nodes=("n1", "n1"), allocated={"cpu": 1000})
    return JobEntry(
        uid=str(number), job=f"default/slurm-{number}", group=ask.user, number=number, submit_s=10.0, end_s=end_s,
        state=state, words={"job": msgspec.json.encode(ask).decode()}, starts=(start,),
    )  # fmt: skip


def task(number: int, task_id: int) -> JobEntry:
    return entry(number, msgspec.structs.replace(ASK, array=100, task=task_id))


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A ledger that no test changes."""
    file = tmp_path_factory.mktemp("ledger") / "ledger.sqlite3"
    url = url_of(file) if request.param == "sqlite" else request.getfixturevalue("postgres")
    with pytest.MonkeyPatch.context() as around, Ledger.open(url) as ledger:
        around.setenv("PHALANX_LEDGER", url)
        ledger.purge(1e12)
        bob = msgspec.structs.replace(ASK, user="bob")
        ledger.put([entry(1), entry(2, bob), entry(3, end_s=None), replace(entry(4), number=None)])
        ledger.put([task(100, 1500), *(task(100 + at, at) for at in range(1, 1500)), entry(1600)])
        yield


def numbers(found: list[JobInfo]) -> list[int]:
    return [job.number for job in found]


def test_a_job_that_missed_its_deadline_was_not_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its object is deleted, as that of a cancelled job."""
    url = url_of(tmp_path / "ledger.sqlite3")
    monkeypatch.setenv("PHALANX_LEDGER", url)
    with Ledger.open(url) as ledger:
        gone = replace(entry(1), state=State.CANCELLED, starts=())
        ledger.put([replace(gone, waits_for="DeadlineMissed"), replace(gone, uid="2", number=2, waits_for="NoRoom")])
        assert [job.state for job in recorded(numbers=[1, 2])] == ["DEADLINE", "CANCELLED"]


@pytest.mark.slow
def test_it_reads_what_is_asked_for(written: None) -> None:
    [one] = recorded(numbers=[1])
    assert (one.ask, one.state, one.start_s, one.end_s, one.nodes) == (ASK, "COMPLETED", 20.0, 50.0, ("n1",))
    assert numbers(recorded(user="bob")) == [2]
    assert numbers(recorded(since_s=60.0)) == [3]
    assert numbers(recorded(until_s=5.0)) == []
    assert numbers(ended(numbers=[1, 3])) == [1]


@pytest.mark.slow
def test_an_array_is_read_with_all_its_tasks_and_nothing_else_is(written: None) -> None:
    assert numbers(recorded_of([100, 2])) == [2, *range(100, 1600)]
    assert numbers(recorded_of([101])) == [101]
    assert recorded_of([]) == []


def test_reading_changes_nothing(written: None) -> None:
    with LedgerReader.open() as ledger, pytest.raises(PhalanxError, match="the ledger cannot be read"):
        ledger.rows("DELETE FROM ledger_start WHERE at_s = ?", [20.0])
    assert numbers(recorded(numbers=[1])) == [1]


@pytest.mark.parametrize(
    ("url", "words"),
    [("mysql://u@h/x", "is not supported"),
     ("postgresql://u:secret@127.0.0.1:1/x", "127.0.0.1:1/x cannot be reached")],
)  # fmt: skip
def test_what_cannot_be_read_is_said_without_its_password(
    url: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHALANX_LEDGER", url)
    with pytest.raises(PhalanxError, match=words) as error:
        LedgerReader.open()
    assert "secret" not in str(error.value)


def test_a_ledger_without_tables_has_no_rows(tmp_path: Path) -> None:
    """The scheduler makes the file first, and its tables a moment later."""
    (tmp_path / "ledger.sqlite3").touch()
    with LedgerReader.at(f"sqlite:///{tmp_path / 'ledger.sqlite3'}") as ledger:
        assert ledger.rows("SELECT id FROM ledger_job WHERE number = ?", [1]) == []
        with pytest.raises(PhalanxError, match="no such table: other"):
            ledger.rows("SELECT id FROM other")


def test_the_ledger_has_no_job_of_a_number_that_is_too_large(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ledger.sqlite3")
    with Ledger.open(url) as written:
        written.put([entry(1)])
    with LedgerReader.at(url) as ledger:
        assert ledger.rows("SELECT number FROM ledger_job WHERE number IN (?, ?)", [10**20, 1]) == [(1,)]


def test_a_job_whose_node_was_taken_down_ends_with_node_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = url_of(tmp_path / "ledger.sqlite3")
    monkeypatch.setenv("PHALANX_LEDGER", url)
    one = entry(1)
    words = {**one.words, "cancelled-by": "node"}
    with Ledger.open(url) as ledger:
        ledger.put([replace(one, state=State.CANCELLED, signal=15, words=words)])
        [job] = recorded(numbers=[1])
    assert (job.state, job.reason, job.exit_code, job.signal) == ("NODE_FAIL", "NodeDown", 0, 0)
