"""Requirements of an example that this machine cannot meet are reported before the start, and are no failure."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.examples.running import EXAMPLES


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """examples/needs.py, which installs into a folder of the test's."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import needs

    monkeypatch.setattr(needs, "VENVS", tmp_path / "venvs")
    return needs


def packages(needs: ModuleType, **more: object) -> Any:
    known = {"name": "none", "requirements": ("phalanx-needs-no-such-package",), "size": "nothing", "proof": "none"}
    return needs.Packages(**{**known, "room_bytes": 1, **more})


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "program"), [("mpi", "mpirun"), ("spark", "java")])
def test_a_program_that_is_not_there_is_named_with_how_to_get_it(folder: str, program: str, tmp_path: Path) -> None:
    """And nothing is installed in vain."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / folder / "run"), "--install"],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stdout == ""
    assert f"cannot run here: there is no {program}: install" in done.stderr
    assert "apt-get install" in done.stderr


def test_a_disk_that_is_too_full_is_told_before_it_is_filled(needs: ModuleType) -> None:
    with pytest.raises(needs.Missing, match=r"too little room in .* 1000000000\.0 GB are needed"):
        packages(needs, room_bytes=10**18).install(60)


@pytest.mark.slow
def test_what_pip_cannot_get_is_missing_and_not_half_there(
    needs: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wanted = packages(needs)
    said = r"pip install phalanx-needs-no-such-package \(from the network\) failed:\n(.*\n)*.*No matching distribution"
    with pytest.raises(needs.Missing, match=said):
        wanted.install(120)
    assert not wanted.installed
    with pytest.raises(needs.Missing, match="took too long"):
        wanted.install(0)


@pytest.mark.slow
def test_while_another_process_installs_it_is_waited_for(needs: ModuleType) -> None:
    wanted = packages(needs)
    needs.VENVS.mkdir()
    with (needs.VENVS / "none.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(needs.Missing, match="another process installs it"):
            wanted.install(0.3)
        wanted.folder.mkdir()
        (wanted.folder / ".ready").touch()  # the other is done
    wanted.install(0)
