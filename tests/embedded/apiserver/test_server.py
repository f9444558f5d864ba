"""The server as a process: the files in its directory, authentication, and errors at its start."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.embedded.apiserver.process import ServerProcess


def refused(data: Path, *more: str) -> str:
    """The one line of a server that does not start."""
    command = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", str(data), *more]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    return found.stderr.strip()


def test_everything_secret_is_readable_by_the_owner_only(api_server: ServerProcess) -> None:
    names = ["tokens.csv", "kubeconfig", "kubelet.token", "apiserver.sqlite3", "pki/ca.key", "pki/server.key"]
    modes = {name: stat.S_IMODE((api_server.data / name).stat().st_mode) for name in names}
    assert modes == dict.fromkeys(names, 0o600)


def test_the_administrator_may_read_and_nobody_else(api_server: ServerProcess) -> None:
    path = "/api/v1/namespaces/default"
    assert api_server.ask("GET", path).code == 200
    anonymous = api_server.ask("GET", path, token="")
    assert anonymous.code == 403
    assert anonymous.body["message"] == (
        'namespaces "default" is forbidden: User "system:anonymous" cannot get resource "namespaces" in API group ""'
        ' in the namespace "default"'
    )
    assert api_server.ask("GET", path, token="wrong").code == 401


@pytest.mark.slow
def test_a_second_server_on_one_directory_is_refused(api_server: ServerProcess) -> None:
    line = refused(api_server.data)
    assert "is in use by another API server" in line
    assert str(api_server.process.pid) in line
    assert api_server.ask("GET", "/readyz").code == 200


@pytest.mark.slow
def test_a_damaged_database_is_told_apart_from_an_empty_one(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "apiserver.sqlite3").write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
    line = refused(data_dir)
    assert "cannot open the database" in line
    assert "move apiserver.sqlite3 and apiserver.acknowledged away" in line


@pytest.mark.slow
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "cannot write to the data directory" in refused(tmp_path / "file" / "data")
