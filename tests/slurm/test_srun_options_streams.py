"""`slurm/commands/launch/srun_options.py`: the files that srun's options name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phalanx.slurm.commands.launch.srun_options import named_by, outputs_of, source_of
from phalanx.slurm.options import Usage

AROUND = {"SLURM_JOB_USER": "ada", "SLURM_JOB_NAME": "x", "SLURMD_NODENAME": "n1"}


@pytest.mark.parametrize(
    ("pattern", "file"),
    [
        ("%j.%s.%t", "7.3.2"),
        ("%4t-%u-%x-%N-%%", "0002-ada-x-n1-%"),
        ("%q", "%q"),
        ("none", os.devnull),
        ("all", None),
        ("1", None),
        ("", None),
    ],
)
def test_patterns_name_a_file_for_each_task(pattern: str, file: str | None) -> None:
    assert named_by(AROUND, "7", 3)(pattern, 2) == file


def test_a_file_of_all_tasks_is_emptied_or_kept(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before")
    said = {"output": "out", "chdir": str(tmp_path), "open-mode": "append"}
    assert outputs_of(said, AROUND, "7", 0, 2)(1) == ("out", "out")
    assert (tmp_path / "out").read_text() == "before"
    outputs_of({**said, "open-mode": "truncate"}, AROUND, "7", 0, 2)
    assert (tmp_path / "out").read_text() == ""
    with pytest.raises(Usage, match="Could not open stderr file: No such file or directory"):
        outputs_of({**said, "error": "no/such"}, AROUND, "7", 0, 2)
    with pytest.raises(Usage, match="Could not open stdin file: No such file or directory"):
        source_of({**said, "input": "nosuch"}, named_by(AROUND, "7", 0), 0)
