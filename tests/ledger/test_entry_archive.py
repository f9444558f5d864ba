"""Entries in files of their own, and `phalanx ledger`: exported, archived, purged and loaded again."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry, read_archive, url_of, write_archive
from phalanx.ledger.store import Ledger
from tests.ledger.test_store import ENDED, RUNNING

OLD = replace(ENDED, uid="old", number=7, words={"comment": 'it\'s "so"\n100 %'})
LATER = replace(ENDED, uid="later", end_s=4e9)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with Ledger.open(url_of(tmp_path / "ledger.sqlite3")) as ledger:
        ledger.put([OLD, LATER, RUNNING])
    return tmp_path / "ledger.sqlite3"


def call(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PHALANX_LEDGER": url_of(file)}
    command = [sys.executable, "-m", "phalanx.cli.app", "ledger", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=file.parent)


def known(file: Path) -> set[str]:
    with Ledger.open(url_of(file), read_only=True) as ledger:
        return {entry.uid for entry in ledger.jobs()}


def test_what_is_written_is_read_back_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl.gz"
    assert write_archive(file, [OLD, RUNNING]) == 2
    assert list(read_archive(file)) == [OLD, RUNNING]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def entries() -> list[JobEntry]:
        raise PhalanxError("the database is away")

    with pytest.raises(PhalanxError):
        write_archive(tmp_path / "a", (one for made in [entries] for one in made()))
    with pytest.raises(PhalanxError, match=r"Nothing was purged"):
        write_archive(tmp_path / "no" / "a", [OLD])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no gzip", b"\x1f\x8b\x08\x00junk"])
def test_what_is_no_archive_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x"
    write_archive(file, [OLD])
    file.write_bytes(content or file.read_bytes()[:-20])
    with pytest.raises(PhalanxError, match="is not an archive of a ledger"):
        list(read_archive(file))


@pytest.mark.slow
def test_old_jobs_move_into_an_archive_and_back(file: Path) -> None:
    archive = file.parent / "old.jsonl.gz"
    done = call(file, "archive", str(archive), "--before", "2001-01-01")
    assert done.returncode == 0, done.stderr
    assert known(file) == {"later", RUNNING.uid}
    again = call(file, "archive", str(archive), "--before", "2001-01-01")
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    assert "less than a day ago" in call(file, "archive", "other", "--before", "2h").stderr
    assert call(file, "load", str(archive)).returncode == 0
    with Ledger.open(url_of(file), read_only=True) as ledger:
        assert [entry for entry in ledger.jobs() if entry.uid == "old"] == [OLD]


@pytest.mark.slow
def test_purging_needs_a_yes(file: Path) -> None:
    before = known(file)
    assert "Add --yes" in call(file, "purge", "--before", "2001-01-01").stderr
    assert known(file) == before
    assert call(file, "purge", "--before", "2001-01-01", "--yes").returncode == 0
    assert known(file) == before - {"old"}


@pytest.mark.slow
def test_jobs_become_tables(file: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("all.csv", "all.parquet"):
        assert call(file, "export", name, "--since", "1970-01-01").returncode == 0
    with (file.parent / "all.csv").open(newline="") as lines:
        rows = {row["uid"]: row for row in csv.DictReader(lines)}
    table = {row["uid"]: row for row in parquet.read_table(file.parent / "all.parquet").to_pylist()}
    assert rows.keys() == table.keys() == {"old", "later", RUNNING.uid}
    assert (rows["old"]["number"], rows["old"]["submitted"]) == ("7", "1970-01-01T00:01:40Z")
    assert (table["old"]["number"], table["old"]["submitted"].timestamp()) == (7, 100.0)
    assert table["old"]["words"] == rows["old"]["words"]
    assert table["old"]["cpu_hours"] == float(rows["old"]["cpu_hours"]) > 0
    assert table[RUNNING.uid]["ended"] is None
    refused = call(file, "export", "all.xls")
    assert (refused.returncode, "FILE.csv or FILE.parquet" in refused.stderr) == (1, True)
