"""`phalanx backup` and `restore`: a cluster in one file while it runs, and as it was; nothing is half replaced."""

from __future__ import annotations

import io
import json
import sqlite3
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.embedded.apiserver.storage.journal import DELETE, PUT, Journal, JournalRow
from tests.cli.upstart import started, until

from .test_app import call


def cluster(folder: Path, *names: str) -> Path:
    """The data directory of a cluster that has these objects, and had one more."""
    folder.mkdir(parents=True)
    journal = Journal(folder / "apiserver.sqlite3")
    rows = [
        JournalRow(at, 0, PUT, 0.0, "", "pods", "default", name, b"{}") for at, name in enumerate((*names, "gone"), 1)
    ]
    journal.commit([*rows, JournalRow(100, len(rows), DELETE, 0.0, "", "pods", "default", "gone", b"{}")])
    journal.close()
    (folder / "tokens.csv").write_text("secret,admin\n")
    return folder


def names(folder: Path) -> list[str]:
    with sqlite3.connect(folder / "apiserver.sqlite3") as database:
        return [row[0] for row in database.execute("SELECT name FROM revisions ORDER BY version")]


def test_a_cluster_goes_into_a_file_and_comes_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, file, there = cluster(tmp_path / "here", "a", "b"), tmp_path / "b.tar.gz", tmp_path / "there"
    assert call(monkeypatch, "backup", str(file), "--data", str(here)) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert call(monkeypatch, "restore", str(file), "--data", str(there)) == 0
    assert "2 objects" in capsys.readouterr().err
    assert names(there) == names(here)
    assert (there / "tokens.csv").read_text() == "secret,admin\n"
    assert stat.S_IMODE((there / "tokens.csv").stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"here", "there", "b.tar.gz"}, "nothing is left beside them"


def test_what_was_there_is_kept_and_its_log_does_not_meet_the_new_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, there = tmp_path / "b.tar.gz", cluster(tmp_path / "there", "new")
    assert call(monkeypatch, "backup", str(file), "--data", str(cluster(tmp_path / "here", "old"))) == 0
    killed = Journal(there / "apiserver.sqlite3")  # a log is left, as of a server that was killed
    killed.commit([JournalRow(200, 0, PUT, 0.0, "", "pods", "default", "newer", b"{}")])
    assert (there / "apiserver.sqlite3-wal").stat().st_size
    (there / "held").write_bytes((there / "apiserver.sqlite3-wal").read_bytes())
    database = (there / "apiserver.sqlite3").read_bytes()
    killed.close()
    (there / "apiserver.sqlite3").write_bytes(database)
    (there / "held").rename(there / "apiserver.sqlite3-wal")
    assert call(monkeypatch, "restore", str(file), "--data", str(there)) == 1, "not without --replace"
    assert call(monkeypatch, "restore", str(file), "--data", str(there), "--replace") == 0
    assert names(there)[:1] == ["old"]
    [replaced] = there.glob("replaced-*")
    assert "newer" in names(replaced)


def other_member(archive: tarfile.TarFile) -> None:
    archive.addfile(tarfile.TarInfo("../escaped"), io.BytesIO())


def a_link(archive: tarfile.TarFile) -> None:
    link = tarfile.TarInfo("tokens.csv")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    archive.addfile(link)


def no_objects(archive: tarfile.TarFile) -> None:
    archive.addfile(tarfile.TarInfo("tokens.csv"), io.BytesIO())


def damaged(archive: tarfile.TarFile) -> None:
    data = b"SQLite format 3\0" + b"x" * 5000
    member = tarfile.TarInfo("apiserver.sqlite3")
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("fill", [other_member, a_link, no_objects, damaged])
def test_what_is_no_backup_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fill: Callable[[tarfile.TarFile], None]
) -> None:
    file, there = tmp_path / "b.tar.gz", cluster(tmp_path / "there", "a")
    with tarfile.open(file, "w:gz") as archive:
        fill(archive)
    before = names(there)
    assert call(monkeypatch, "restore", str(file), "--data", str(there), "--replace") == 1
    assert names(there) == before
    assert not (tmp_path / "escaped").exists()
    assert not list(there.glob("replaced-*"))
    assert not list(there.glob(".restore-*"))


def test_a_file_cut_short_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, there = tmp_path / "b.tar.gz", tmp_path / "there"
    assert call(monkeypatch, "backup", str(file), "--data", str(cluster(tmp_path / "here", "a"))) == 0
    file.write_bytes(file.read_bytes()[:-200])
    assert call(monkeypatch, "restore", str(file), "--data", str(there)) == 1
    assert not (there / "apiserver.sqlite3").exists()


def test_refusals_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "b.tar.gz"
    for words, said in (
        (("backup", str(file), "--data", str(tmp_path / "nowhere")), "there is no cluster in"),
        (("backup", str(tmp_path / "no" / "b.tar.gz")), "there is no folder"),
        (("restore", str(file), "--data", str(tmp_path / "there")), "cannot be restored"),
    ):
        assert call(monkeypatch, *words) == 1
        assert said in capsys.readouterr().err
    file.write_text("mine")
    assert call(monkeypatch, "backup", str(file), "--data", str(cluster(tmp_path / "here"))) == 1
    assert "--replace" in capsys.readouterr().err
    assert file.read_text() == "mine"


@pytest.mark.long
def test_a_running_cluster_is_backed_up_and_goes_on_from_there(tmp_path: Path) -> None:
    data, file = tmp_path / "data", str(tmp_path / "b.tar.gz")

    def states(out: str) -> dict[str, str]:
        return {job["name"]: job["state"] for job in json.loads(out or "[]")}

    with started(data, "--local-cpu", "2", "--stop-pods") as up:
        assert up.phalanx("submit", "--name", "first", "--cpu", "1", "--", "true").returncode == 0
        until(lambda: states(up.phalanx("jobs", "--finished", "--json").stdout).get("first") == "complete")
        assert up.phalanx("submit", "--name", "waits", "--cpu", "1", "--hold", "--", "true").returncode == 0
        assert up.phalanx("backup", file, "--data", str(data)).returncode == 0
        up.kubectl("delete", "job", "waits")
        refused = up.phalanx("restore", file, "--data", str(data), "--replace")
        assert refused.returncode == 1
        assert "in use by another" in refused.stderr
    done = up.phalanx("restore", file, "--data", str(data), "--replace")
    assert done.returncode == 0, done.stderr
    with started(data, "--local-cpu", "2", "--stop-pods") as up:
        until(lambda: "waits" in states(up.phalanx("jobs", "--json").stdout))
        assert "first" in up.phalanx("history").stdout
