"""`cli/commands/inside/cp.py`: `phalanx cp`."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from phalanx.cli.commands.inside.cp import _extract, _inside
from phalanx.errors import PhalanxError


def test_an_archive_is_unpacked_below_the_folder_and_nowhere_else(tmp_path: Path) -> None:
    """The container may send whatever it likes."""
    for name, link in (("../outside", ""), ("/absolute", ""), ("link", "/etc")):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as made:
            member = tarfile.TarInfo(name)
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, link
            made.addfile(member, io.BytesIO())
        archive.seek(0)
        (tmp_path / "in").mkdir(exist_ok=True)
        if name == "/absolute":
            _extract(archive, tmp_path / "in", "x", "x")
            assert (tmp_path / "in" / "absolute").exists()
            assert not Path("/absolute").exists()
        else:
            with pytest.raises(PhalanxError, match="cannot be written"):
                _extract(archive, tmp_path / "in", "x", "x")
    assert not (tmp_path / "outside").exists()


def test_paths_as_users_write_them() -> None:
    assert _inside("./a:b") is None
    assert _inside("plain") is None
    found = _inside("team/train/3:/a/b")
    assert found is not None
    assert (found.job, str(found.path)) == ("team/train/3", "/a/b")
    with pytest.raises(PhalanxError, match="names no path"):
        _inside("train:")
