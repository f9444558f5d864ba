"""`slurm/jobs/steps/booking.py`: which step of a job has which number, and how many of the job's CPUs steps hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phalanx.slurm.jobs.steps.booking import Busy, JobSteps


def test_a_step_that_died_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    steps = JobSteps.of("7", 2)
    if (pid := os.fork()) == 0:
        steps.begin(2, None)
        os._exit(0)
    os.waitpid(pid, 0)
    assert steps.begin(2, 0.0) == 1
    with pytest.raises(Busy):
        JobSteps.of("7", 2).begin(1, 0.0)
    steps.end()


def test_steps_of_a_script_whose_tmpdir_is_missing_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    assert JobSteps.of("7", 2).folder == Path(f"/tmp/phalanx-slurm-steps-{os.getuid()}/7")


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / f"phalanx-slurm-steps-{os.getuid()}").mkdir(mode=0o755)
    (tmp_path / f"phalanx-slurm-steps-{os.getuid()}").chmod(0o777)
    with pytest.raises(Exception, match="belongs to another user, or other users may access it"):
        JobSteps.of("7", 2)


def test_the_next_step_follows_one_that_began_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    steps = JobSteps.of("7", 4)
    steps.reach(5)
    assert steps.begin(1, None) == 6
