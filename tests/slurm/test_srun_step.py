"""`slurm/commands/launch/srun_step.py`: the number, the record, the environment and the exit code of a step."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from phalanx.slurm.commands.launch import srun_step
from phalanx.slurm.commands.launch.srun_step import (
    begin_step,
    read_number,
    require_nodes,
    run_recorded,
    step_environment,
    step_record,
)
from phalanx.slurm.jobs.steps.booking import JobSteps
from phalanx.slurm.jobs.steps.records import OUT_OF_MEMORY, StepRecord
from phalanx.slurm.options import Usage


@pytest.mark.parametrize("text", ["0", "x", "1000001"])
def test_invalid_numbers_are_refused(text: str) -> None:
    with pytest.raises(Usage, match=f'Invalid numeric value "{text}" for --ntasks'):
        read_number({"ntasks": text}, "ntasks", "1")
    assert read_number({}, "ntasks", "3") == 3


def test_more_nodes_than_the_allocation_has_are_refused() -> None:
    require_nodes({"nodes": "2"}, 2)
    with pytest.raises(Usage, match="Only allocated 2 nodes asked for 3"):
        require_nodes({"nodes": "3"}, 2)
    with pytest.raises(Usage, match="invalid node count `x'"):
        require_nodes({"nodes": "x"}, 2)


def test_export_names_the_variables_of_tasks() -> None:
    around = {"SLURM_JOB_ID": "7", "HOME": "/home/ada", "A": "1"}
    found = step_environment({"export": "A,B=2"}, around, {"SLURM_STEP_ID": "0"})
    assert found == {"SLURM_JOB_ID": "7", "A": "1", "B": "2", "SLURM_STEP_ID": "0"}
    assert step_environment({}, around, {})["HOME"] == "/home/ada"


def test_a_step_holds_all_cpus_unless_it_shares_them(tmp_path: Path) -> None:
    steps = JobSteps(tmp_path / "7", 4)

    def begin(said: dict[str, str | None], tasks: int = 1) -> int:
        return begin_step(said | {"immediate": "0.01"}, "7", steps, tasks, 1, 4, lambda least: least)

    with pytest.raises(Usage, match="More processors requested than permitted"):
        begin({}, tasks=5)
    assert begin({"exact": None}) == 0
    steps.end()
    assert begin({}) == 1
    with pytest.raises(Usage, match="Requested nodes are busy"):
        begin({"exact": None})
    assert begin({"overlap": None}) == 2


@pytest.mark.parametrize(
    ("codes", "code"), [({0: 3, 1: 0}, 3), ({0: 128 + signal.SIGTERM}, 128 + signal.SIGTERM), ({0: 0}, 0)]
)
def test_the_exit_code_of_a_step_is_recorded(monkeypatch: pytest.MonkeyPatch, codes: dict[int, int], code: int) -> None:
    written: list[Any] = []
    monkeypatch.setattr(srun_step.records, "write", lambda *words: written.append(words))
    record = step_record({}, ["true"], 2, 1, 4, ["n1"])
    assert (record.name, record.cpus, record.layout) == ("true", 4, "Block")
    assert run_recorded(None, "jobs/7", 0, record, lambda: codes) == code
    [(_, path, number, ended)] = written
    assert (path, number, isinstance(ended, StepRecord)) == ("jobs/7", 0, True)


def test_a_task_without_memory_ends_as_if_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srun_step.records, "write", lambda *_: None)
    monkeypatch.setattr(srun_step, "highest", lambda _: (0, OUT_OF_MEMORY))
    record = step_record({}, ["true"], 1, 1, 1, ["n1"])
    assert run_recorded(None, "jobs/7", 0, record, dict) == 128 + signal.SIGKILL
