"""sbatch: where the script and the options come from."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from phalanx.slurm.commands.launch import sbatch
from phalanx.slurm.options import Usage


def test_a_script_is_a_file_a_wrapped_line_or_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "job.sh"
    file.write_text("#!/bin/sh\nrun\n")
    assert sbatch._script({}, [str(file), "argument"]) == (str(file), "#!/bin/sh\nrun\n")
    path, text = sbatch._script({"wrap": "echo a"}, [])
    assert path is None
    assert text.startswith("#!")
    assert "echo a" in text


def test_a_wrapped_line_has_no_arguments() -> None:
    with pytest.raises(Usage, match="Script arguments not permitted with --wrap option"):
        sbatch._script({"wrap": "echo a"}, ["x"])


def test_a_script_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Usage, match=r"Unable to open file none\.sh"):
        sbatch._script({}, ["none.sh"])


def test_variables_are_options_unless_they_are_empty() -> None:
    around = {"SBATCH_PARTITION": "p", "SBATCH_QOS": "", "SBATCH_GPUS": "2", "OTHER": "x"}
    assert sbatch._in_environment(around) == {"partition": "p", "gpus": "2"}


def test_every_variable_names_an_option_that_there_is() -> None:
    known = {one.name for one in sbatch.OPTIONS}
    assert set(sbatch.ENVIRONMENT.values()) <= known


def test_help_asks_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert sbatch.run(["--help"]) == 0
    assert capsys.readouterr().err.startswith("Usage: sbatch [OPTIONS...]")
    assert sbatch.run(["--gres=help"]) == 0
    assert "gpu[[:type]:count]" in capsys.readouterr().out


def test_the_highest_exit_code_of_several_jobs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {7: [None, 0], 8: [3], 9: [1]}
    monkeypatch.setattr("phalanx.slurm.jobs.ended.ending", lambda api, number: ends[number].pop(0))
    monkeypatch.setattr(sbatch, "_LOOK_S", 0.0)
    monkeypatch.setattr(sbatch.sys, "stdout", io.StringIO())
    assert sbatch._wait(None, [7, 8, 9]) == 3  # type: ignore[arg-type]  # no server is asked
