"""`phalanx snapshot`: the file that is written, and files that are not written over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phalanx.cli.commands.study import snapshot as command
from phalanx.cli.commands.study.snapshot import snapshot, write
from phalanx.errors import PhalanxError


def test_a_snapshot_is_its_users_alone_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "now.jsonl"
    (tmp_path / ".now.jsonl.part").write_text("left over")
    write(file, {"at": 1})
    assert file.read_bytes().endswith(b"\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["now.jsonl"]


def test_where_it_cannot_be_written_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, step: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command, "append", full)
    with pytest.raises(PhalanxError, match="cannot be written: No space left on device"):
        write(tmp_path / "now.jsonl", {})
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_there_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(PhalanxError, match="exists already"):
        asyncio.run(snapshot(tmp_path / "notes"))
    with pytest.raises(PhalanxError):  # it is no recording
        asyncio.run(snapshot(tmp_path / "notes", replace=True))
    with pytest.raises(PhalanxError, match="there is no folder"):
        asyncio.run(snapshot(tmp_path / "none" / "now.jsonl"))
    assert (tmp_path / "notes").read_text() == "mine"
