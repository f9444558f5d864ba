"""`slurm/submission/environment.py`: the variables that Slurm sets for a batch script (sbatch(1)."""

from __future__ import annotations

import pytest

from phalanx.slurm.submission.environment import variables
from tests.slurm.test_command_lines import SITE, ask


@pytest.mark.parametrize(
    ("line", "tasks"), [("", "1"), ("-c2", "1"), ("--mincpus=4", "4"), ("--exclusive", "16"), ("-n3 -N1", "3")]
)
def test_without_a_number_of_tasks_there_are_as_many_as_have_room(line: str, tasks: str) -> None:
    asked = ask(line)
    found = variables(1, asked.ask, SITE, asked.said, "", None)
    assert (found["SLURM_TASKS_PER_NODE"], "SLURM_OVERCOMMIT" in found) == (tasks, False)
    assert variables(1, ask("-O").ask, SITE, {}, "", None)["SLURM_OVERCOMMIT"] == "1"
