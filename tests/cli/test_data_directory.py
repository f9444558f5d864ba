"""One data directory, one `phalanx up`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from phalanx.cli.local.data_directory import DataDirectory, default_directory, is_running, owned, unwritable
from phalanx.errors import PhalanxError


def test_the_default_is_a_hidden_directory_at_home() -> None:
    assert default_directory({"HOME": "/home/ann"}).path == Path("/home/ann/.phalanx")


def test_xdg_data_home_is_respected() -> None:
    found = default_directory({"HOME": "/home/ann", "XDG_DATA_HOME": "/data/ann"})
    assert found.kubeconfig == Path("/data/ann/phalanx/kubeconfig")


def test_a_second_up_on_one_directory_is_refused_and_told_what_to_do(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    with (
        owned(directory, 6443),
        pytest.raises(PhalanxError, match=rf"in use by another .*process {os.getpid()}, port 6443.*--data"),
        owned(directory, 7000),
    ):
        pass


def test_running_is_what_holds_the_lock_not_what_left_a_file(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    assert not is_running(directory)
    with owned(directory, 6443):
        assert is_running(directory)
    assert directory.lock.exists()
    assert not is_running(directory)


def test_the_directory_is_private(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    with owned(directory, 6443):
        assert directory.path.stat().st_mode & 0o777 == 0o700
        assert directory.lock.stat().st_mode & 0o777 == 0o600


def test_a_path_that_cannot_be_a_directory_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(PhalanxError, match=r"cannot write the data directory .*file/data: Not a directory.*--data"),
        owned(DataDirectory(tmp_path / "file" / "data"), 6443),
    ):
        pass


def test_a_full_disk_is_called_a_full_disk() -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "free some space" in str(unwritable(Path("/data"), error))


def test_a_directory_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir(mode=0o755)
    place.chmod(0o755)
    with owned(DataDirectory(place), 0):
        assert place.stat().st_mode & 0o777 == 0o700
