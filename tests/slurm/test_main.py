"""`slurm/main.py`: which command is meant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx.slurm.commands.jobs import squeue
from phalanx.slurm.commands.resident import compiled
from phalanx.slurm.main import COMMANDS, VERSION, install, main


def test_a_text_that_is_not_utf_8_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gc.set_threshold", lambda count: None)
    monkeypatch.setattr(sys, "argv", ["squeue", "-u", "\udcff"])
    monkeypatch.setattr(squeue, "run", lambda words: len("".join(words).encode()))
    assert main("squeue") == 1
    assert capsys.readouterr().err == "squeue: error: the text b'-u\\xff' is not UTF-8\n"


@pytest.mark.slow
def test_commands_are_programs_of_this_phalanx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a compiler and without, one installation after the other."""
    (folder := tmp_path / "bin").mkdir()
    for tools in (os.environ["PATH"], ""):
        monkeypatch.setenv("PATH", tools)
        assert {path.name for path in install(folder)} == set(COMMANDS)
        is_compiled = (folder / compiled.NAME).exists()
        assert is_compiled == any(map(shutil.which, ("cc", "gcc", "clang")))
        first = (folder / "squeue").read_text().partition("\n")[0]
        assert first == (f"#!{folder}/{compiled.NAME} squeue" if is_compiled else f"#!{sys.executable} -IS")
        assert (folder / "squeue").stat().st_mode & 0o777 == 0o755
        assert (folder / "srun").read_text().startswith(f"#!{sys.executable} -I\n")
        words = (str(folder / "squeue"), "--version")
        done = subprocess.run(words, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
        assert done.stdout == f"{VERSION}\n"


def test_no_caller_is_compiled_into_a_folder_that_a_first_line_cannot_name(tmp_path: Path) -> None:
    (folder := tmp_path / "two words").mkdir()
    assert compiled.compile_caller(folder) is None
    assert not list(folder.iterdir())
