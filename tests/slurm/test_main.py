"""`slurm/main.py`: which command is meant."""

from __future__ import annotations

import sys
from pathlib import Path


def test_commands_are_links_to_this_phalanx(tmp_path: Path) -> None:
    from phalanx.slurm.main import COMMANDS, install

    assert {path.name for path in install(tmp_path / "bin")} == set(COMMANDS)
    assert (tmp_path / "bin" / "squeue").read_text().startswith(f"#!{sys.executable}")
    assert (tmp_path / "bin" / "squeue").stat().st_mode & 0o777 == 0o755
