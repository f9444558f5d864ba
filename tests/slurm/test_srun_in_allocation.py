"""Steps of srun on the pods of an allocation."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.launch.srun_in_allocation import StepPart, run_in_allocation
from phalanx.slurm.options import Usage
from tests.slurm.test_place import HERE


def test_a_step_with_cpus_of_gpus_needs_gpus() -> None:
    part = StepPart(said={"cpus-per-gpu": "2"}, command=["true"], place=HERE, around={})
    with pytest.raises(Usage, match=r"create step for job 7: Invalid generic resource \(gres\) specification"):
        run_in_allocation([part], "7")
