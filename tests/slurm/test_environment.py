"""`slurm/submission/environment.py`: the variables that Slurm sets for a batch script (sbatch(1)."""

from __future__ import annotations

import pytest

from phalanx.slurm.submission.environment import allocated, variables
from tests.slurm.test_command_lines import SITE, ask


@pytest.mark.parametrize(
    ("line", "tasks"), [("", "1"), ("-c2", "1"), ("--mincpus=4", "4"), ("--exclusive", "16"), ("-n3 -N1", "3")]
)
def test_without_a_number_of_tasks_there_are_as_many_as_have_room(line: str, tasks: str) -> None:
    asked = ask(line)
    found = variables(1, asked.ask, SITE, asked.said, "", None)
    assert (found["SLURM_TASKS_PER_NODE"], "SLURM_OVERCOMMIT" in found) == (tasks, False)
    assert variables(1, ask("-O").ask, SITE, {}, "", None)["SLURM_OVERCOMMIT"] == "1"


def test_srun_and_salloc_name_all_partitions_and_a_script_its_own() -> None:
    asked = ask("-p batch,wide -N2 -t 5-0")
    assert (asked.ask.partition, asked.ask.partitions) == ("batch", ["batch", "wide"])
    asked.ask.partition = "wide"
    assert allocated(1, asked.ask, "c", ["n1", "n2"])["SLURM_JOB_PARTITION"] == "wide,batch"
    assert variables(1, asked.ask, SITE, asked.said, "", None)["SLURM_JOB_PARTITION"] == "wide"
