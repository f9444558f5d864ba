"""`slurm/commands/jobs/sstat.py`: sstat."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from phalanx.slurm.commands.jobs import sstat
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage

PLAIN = Ask(name="j", user="u", uid=0, gid=0, group="u", account="a", partition="p")
TASK = replace(PLAIN, array=10, task=1)
THERE = [JobInfo(number=7, ask=PLAIN, state="PENDING"), JobInfo(number=11, ask=TASK, state="PENDING")]


def answer(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Return the exit code and the lines of standard error."""
    monkeypatch.setattr(sstat.ApiClient, "open", lambda: None)
    monkeypatch.setattr(sstat, "jobs", lambda api, numbers=None, **_: list(THERE))
    try:
        return sstat.run(line.split()), capsys.readouterr().err.splitlines()
    except Usage as error:
        return error.status, error.text.splitlines()


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("-j 7", 0, ["sstat: error: No steps running for job 7"]),
        ("-j 7.0", 0, ["sstat: error: StepId=7.0 not found running."]),
        ("-j 99", 0, ["sstat: error: couldn't get steps for job 99"]),
        ("-j 10_1", 0, ["sstat: error: No steps running for job 10"]),
        ("-j 10_[1-2]", 1, ["sstat: fatal: Bad job array element specified: 10"]),
        ("-j 10_[1-2] -e", 1, ["sstat: fatal: Bad job array element specified: 10"]),
        ("-j x", 1, ["sstat: fatal: Bad job/step specified: x"]),
        ("-j 7 -j 99", 0, ["sstat: error: No steps running for job 7", "sstat: error: couldn't get steps for job 99"]),
        ("-o AveCPU:3 -o NTasks", 1, ['sstat: error: Invalid field requested: "AveCPU:3"']),
        ("", 1, ["sstat: error: You didn't give me any jobs to stat."]),
    ],
)  # fmt: skip
def test_it_reports_in_the_words_of_slurm(
    line: str, status: int, said: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(line, monkeypatch, capsys) == (status, said)
