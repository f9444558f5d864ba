"""`slurm/commands/launch/srun_options.py`: variables that stand for options of srun."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.launch.srun_options import preserved, with_variables


def test_variables_stand_for_options_that_are_not_typed() -> None:
    said: dict[str, str | None] = {"task-prolog": "/typed"}
    around = {"SLURM_TASK_PROLOG": "/own", "SLURM_LABELIO": "1", "SLURM_UNBUFFEREDIO": "0", "SLURM_PARTITION": "short",
              "SLURM_EXPORT_ENV": "NONE", "SRUN_EXPORT_ENV": "ALL"}  # fmt: skip
    with_variables(said, around)
    assert said == {"task-prolog": "/typed", "label": None, "partition": "short", "export": "ALL"}


def test_within_a_job_its_own_variables_are_no_options() -> None:
    said: dict[str, str | None] = {}
    with_variables(said, {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS": "4", "SLURM_WAIT": "3"})
    assert said == {"wait": "3"}


@pytest.mark.parametrize(
    ("said", "own", "sizes"),
    [
        ({}, {}, ["2", "2", "1"]),
        ({"preserve-env": None}, {}, [None, None, None]),
        ({"preserve-env": None}, {"SLURM_NTASKS": "5"}, ["5", None, None]),
    ],
)
def test_preserve_env_keeps_the_callers_sizes(
    said: dict[str, str | None], own: dict[str, str], sizes: list[str | None]
) -> None:
    environment = {"SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "SLURM_NNODES": "1", "SLURM_PROCID": "0"}
    found = preserved(said, environment, own)
    assert [found.get(name) for name in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES")] == sizes
    assert found["SLURM_PROCID"] == "0"
