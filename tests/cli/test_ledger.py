"""`cli/commands/status/ledger.py`: jobs of the ledger in tables and archives, and their deletion."""

from __future__ import annotations

import csv
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from phalanx.cli.commands.status.history import HistorySelection
from phalanx.cli.commands.status.ledger import archive, export, load, purge
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry, url_of
from phalanx.ledger.store import Ledger
from tests.ledger.test_store import ENDED, JOB, RUNNING

EVER = HistorySelection(since="1970-01-01T00:00Z")
OLD = replace(ENDED, uid="old", job="default/old", words={"comment": 'a "quoted", text\nof two lines'})
LATER = replace(ENDED, uid="later", job="default/later", end_s=4e9)
EMPTY = JobEntry(uid="empty", job="default/empty", submit_s=5.0)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    found = url_of(tmp_path / "ledger.sqlite3")
    with Ledger.open(found) as book:
        book.put([OLD, LATER, RUNNING, EMPTY])
    monkeypatch.chdir(tmp_path)
    return found


def known(url: str) -> set[str]:
    with Ledger.open(url, read_only=True) as book:
        return {entry.uid for entry in book.jobs()}


def table(file: Path) -> dict[str, dict[str, str]]:
    with file.open(newline="") as lines:
        return {row["uid"]: row for row in csv.DictReader(lines)}


def test_csv_has_a_row_for_each_selected_job(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    export(Path("all.csv"), asked=EVER, database=url)
    rows = table(Path("all.csv"))
    assert rows.keys() == {"old", "later", RUNNING.uid, "empty"}
    assert rows["old"]["words"] == 'comment=a "quoted", text\nof two lines'
    assert (rows["empty"]["started"], rows["empty"]["exit_code"]) == ("", "")
    assert capsys.readouterr().err == "all.csv: 4 jobs\n"
    export(Path("one.csv"), asked=replace(EVER, user=("nobody",)), database=url)
    assert table(Path("one.csv")) == {}
    assert Path("one.csv").read_text().splitlines()[0] == Path("all.csv").read_text().splitlines()[0]


def test_without_a_selection_the_last_week_is_exported(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(url) as book:
        book.put([replace(JOB, uid="new", submit_s=time.time() - 60, end_s=time.time())])
        book.purge(1e6)
    export(Path("week.csv"), database=url)
    assert "old" not in table(Path("week.csv"))
    assert "new" in table(Path("week.csv"))


def test_the_ending_of_the_file_chooses_the_format(url: str) -> None:
    for name in ("jobs", "jobs.xls", "csv"):
        with pytest.raises(PhalanxError, match=r"FILE\.csv or FILE\.parquet"):
            export(Path(name), asked=EVER, database=url)
        assert not Path(name).exists()


def test_parquet_needs_pyarrow(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    before = set(Path().iterdir())
    with pytest.raises(PhalanxError, match=r"pip install 'phalanx\[parquet\]'"):
        export(Path("all.parquet"), asked=EVER, database=url)
    assert set(Path().iterdir()) == before


def test_parquet_has_types_and_missing_values(url: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    export(Path("all.parquet"), asked=EVER, database=url)
    rows = {row["uid"]: row for row in parquet.read_table("all.parquet").to_pylist()}
    assert rows["old"]["submitted"].timestamp() == OLD.submit_s
    assert rows["old"]["exit_code"] == 3
    assert rows["old"]["exact_end"] is True
    assert (rows["empty"]["started"], rows["empty"]["ended"], rows["empty"]["exit_code"]) == (None, None, None)
    export(Path("all.csv"), asked=EVER, database=url)
    assert list(rows["old"]) == Path("all.csv").read_text().splitlines()[0].split(",")


def test_a_table_that_cannot_be_written_leaves_no_file(url: str) -> None:
    before = set(Path().iterdir())
    with pytest.raises(PhalanxError, match=r"none/all\.csv cannot be written: No such file or directory"):
        export(Path("none/all.csv"), asked=EVER, database=url)
    Path("folder.csv").mkdir()
    with pytest.raises(PhalanxError, match=r"folder\.csv cannot be written: Is a directory"):
        export(Path("folder.csv"), asked=EVER, database=url)
    assert set(Path().iterdir()) - before == {Path("folder.csv")}


def test_jobs_move_into_an_archive_and_back(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    everyone = known(url)
    archive(Path("old.jsonl.gz"), before="2001-01-01", database=url)
    assert known(url) == everyone - {"old"}
    for _ in range(2):  # a job that the ledger has is not changed
        load(Path("old.jsonl.gz"), database=url)
        assert known(url) == everyone
    assert capsys.readouterr().err.splitlines() == [
        "old.jsonl.gz: 1 job, no longer in the ledger",
        *["in the ledger: 1 job of old.jsonl.gz"] * 2,
    ]


@pytest.mark.parametrize(
    ("file", "before", "complaint"),
    [
        ("there", "2001-01-01", r"there exists already\. Nothing was written"),
        ("new", "2h", r"--before 2h is less than a day ago\. Nothing was written"),
        ("new", "2999-01-01", "is less than a day ago"),
        ("new", "yesterday", "--before 'yesterday' is not a time in the past"),
        ("none/new", "2001-01-01", r"none/new cannot be written: .*Nothing was purged"),
    ],
)
def test_an_archive_is_refused_before_jobs_are_deleted(url: str, file: str, before: str, complaint: str) -> None:
    Path("there").write_text("precious")
    everyone = known(url)
    with pytest.raises(PhalanxError, match=complaint):
        archive(Path(file), before=before, database=url)
    assert known(url) == everyone
    assert Path("there").read_text() == "precious"
    assert not Path("new").exists()


def test_a_file_that_is_no_archive_is_not_loaded(url: str) -> None:
    Path("text").write_text("{}")
    for name in ("text", "none"):
        with pytest.raises(PhalanxError, match=f"{name} is not an archive of a ledger"):
            load(Path(name), database=url)


def test_purged_jobs_need_a_confirmation(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    everyone = known(url)
    with pytest.raises(PhalanxError, match=r"Nothing was changed\. Add --yes"):
        purge(before="2001-01-01", database=url)
    assert known(url) == everyone
    purge(before="2001-01-01", yes=True, database=url)
    assert known(url) == everyone - {"old"}
    assert capsys.readouterr().err == "deleted from the ledger: 1 job\n"
    purge(before="2001-01-01", yes=True, database=url)
    assert capsys.readouterr().err == "deleted from the ledger: 0 jobs\n"


def test_a_day_begins_in_the_time_zone_of_the_machine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help says so; `phalanx history --since` reads a day in the same way."""
    midnight_s = 978307200.0  # 2001-01-01T00:00Z
    with Ledger.open(url) as book:
        book.put([replace(ENDED, uid="between", end_s=midnight_s + 1800)])
    monkeypatch.setenv("TZ", "Etc/GMT+1")  # one hour behind UTC: the day begins at 01:00Z
    time.tzset()
    try:
        purge(before="2001-01-01", yes=True, database=url)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "between" not in known(url)


def test_the_ledger_of_the_environment_is_the_default(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_LEDGER", url)
    purge(before="2001-01-01", yes=True)
    assert "old" not in known(url)
