"""A log that was cut, damaged or removed: the server says what is lost, and does not start before it is accepted."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.embedded.apiserver.storage.journal import DELETE, PUT, Journal, JournalRow, Prune
from phalanx.errors import PhalanxError
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.apiserver.storage.test_durability import check_all_there, write_until_killed
from tests.seeds import mostly_slow

FORMAT_1 = """
CREATE TABLE revisions (version INTEGER PRIMARY KEY, previous INTEGER NOT NULL, operation INTEGER NOT NULL,
  at REAL NOT NULL, grp TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  data BLOB NOT NULL) STRICT;
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO facts VALUES ('format', 1);
INSERT INTO revisions VALUES (1, 0, 0, 5.0, '', 'configmaps', 'ns', 'm1', x'7b7d');
"""
MAPS = "/api/v1/namespaces/default/configmaps"


def row(version: int, name: str = "", operation: int = PUT, data: bytes = b"{}") -> JournalRow:
    return JournalRow(version, 0, operation, 5.0, "", "configmaps", "ns", name or f"m{version}", data)


def killed(folder: Path, *rows: JournalRow, kept: int = 0) -> Path:
    """The database of a server that was killed; the first `kept` writes are in the file, the others in its log."""
    path = folder / "apiserver.sqlite3"
    journal = Journal(path)
    for number, one in enumerate(rows):
        if number == kept:
            journal.checkpoint()
        journal.commit([one])
    left = folder / "left"
    left.mkdir()
    for file in folder.glob("apiserver.*"):
        shutil.copy(file, left)
    journal.close()
    for file in folder.glob("apiserver.*"):
        file.unlink()
    for file in left.iterdir():
        file.rename(folder / file.name)
    assert (folder / "apiserver.sqlite3-wal").stat().st_size
    return path


def removed(log: Path) -> None:
    log.unlink()


def cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size * 2 // 3)


def emptied(log: Path) -> None:
    os.truncate(log, 0)


def damaged(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[len(content) * 2 // 3] ^= 0x10
    log.write_bytes(content)


@pytest.mark.parametrize("harm", [removed, cut, emptied, damaged])
def test_what_the_log_lost_is_said_and_the_server_does_not_start(harm: Callable[[Path], None], tmp_path: Path) -> None:
    path = killed(tmp_path, *(row(version) for version in range(1, 31)), row(31, "m3", DELETE), kept=10)
    harm(path.with_name(path.name + "-wal"))
    before = path.read_bytes()
    for _ in range(2):  # and again: saying it loses nothing more
        with pytest.raises(PhalanxError, match="--accept-loss") as refusal:
            Journal(path)
    text = str(refusal.value)
    assert "to 31, the last of 1970-01-01 00:00:05 UTC" in text
    assert "configmaps ns/m3 (deleted)" in text
    assert path.read_bytes() == before
    journal = Journal(path, accept_loss=True)
    versions = [one.version for one in journal.rows()]
    assert versions == list(range(1, len(versions) + 1))
    assert 10 <= len(versions) < 31
    assert f"{31 - len(versions)} acknowledged write" in text
    assert journal.fact("horizon", 0) == 31, "no version that somebody was told is used again"
    journal.close()
    Journal(path).close()


def test_a_log_that_is_whole_is_read_as_ever(tmp_path: Path) -> None:
    journal = Journal(killed(tmp_path, *(row(version) for version in range(1, 31)), kept=10))
    assert [one.version for one in journal.rows()] == list(range(1, 31))
    journal.close()


def test_a_database_that_was_removed_or_is_an_older_copy_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "apiserver.sqlite3"
    journal = Journal(path)
    journal.commit([row(1)])
    journal.close()
    older = path.read_bytes()
    journal = Journal(path)
    journal.commit([row(2)])
    journal.close()
    path.write_bytes(older)
    with pytest.raises(PhalanxError, match=r"1 acknowledged write is missing: resource versions 2 to 2"):
        Journal(path)
    path.unlink()
    with pytest.raises(PhalanxError, match="2 acknowledged writes are missing"):
        Journal(path)


def test_the_file_that_counts_may_not_be_removed_alone_but_a_database_of_before_has_none(tmp_path: Path) -> None:
    path = tmp_path / "apiserver.sqlite3"
    with sqlite3.connect(path) as database:  # as format 1 left it
        database.executescript(FORMAT_1)
    journal = Journal(path)
    assert list(journal.rows()) == [row(1)]
    journal.commit([row(2)])
    journal.close()
    journal = Journal(path)
    assert list(journal.rows()) == [row(1), row(2)]
    journal.close()
    path.with_suffix(".acknowledged").unlink()
    with pytest.raises(PhalanxError, match=r"apiserver\.acknowledged, which names .* does not exist"):
        Journal(path)


def test_a_row_that_was_changed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "apiserver.sqlite3"
    journal = Journal(path)
    journal.commit([row(1), row(2, data=b'{"a": 1}')])
    journal.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE revisions SET data = ? WHERE version = 2", (b'{"a": 2}',))
    with pytest.raises(PhalanxError, match="version 2 of configmaps ns/m2 is damaged"):
        list(Journal(path).rows())
    assert list(Journal(path, accept_loss=True).rows()) == [row(1)]


def test_deletions_that_leave_no_row_count_too(tmp_path: Path) -> None:
    path = tmp_path / "apiserver.sqlite3"
    journal = Journal(path)
    journal.commit([row(1)])
    journal.commit([], Prune(versions=(1,), horizon=2))
    journal.close()
    journal = Journal(path)
    assert (list(journal.rows()), journal.fact("horizon", 0)) == ([], 2)


def start(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Start a server that is expected to refuse."""
    command = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", str(data), "--port", "0", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("harm", mostly_slow([damaged, removed, cut], fast=0, sample=1))
def test_a_server_that_was_killed_under_load_and_lost_its_log(harm: Callable[[Path], None], data_dir: Path) -> None:
    server = ServerProcess.start(data_dir)
    acknowledged = asyncio.run(write_until_killed(server, 0, 0.3))
    harm(data_dir / "apiserver.sqlite3-wal")
    refused = start(data_dir)
    assert refused.returncode == 1
    assert "acknowledged write" in refused.stderr
    assert "--accept-loss" in refused.stderr
    with ServerProcess.started(data_dir, 0, "--accept-loss") as again:
        assert again.ask("POST", MAPS, {"metadata": {"name": "after"}}).code == 201
    with ServerProcess.started(data_dir) as again:
        assert again.ask("GET", f"{MAPS}/after").code == 200
        if harm is removed:
            with pytest.raises(AssertionError, match="acknowledged and gone"):
                check_all_there(again, acknowledged)
