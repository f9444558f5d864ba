"""scontrol wait_job, notify, and updates of one line of squeue, in the words of Slurm 22.05."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.slurm.commands.cluster import scontrol
from phalanx.slurm.commands.cluster.verbs import named as names
from phalanx.slurm.commands.cluster.verbs import told
from phalanx.slurm.commands.cluster.verbs.update import job as changes
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import Job
from phalanx.slurm.options import Usage

PLAIN = Ask(name="j", user="u", uid=0, gid=0, group="u", account="a", partition="p")
WAITS, RUNS = Job(number=7, ask=PLAIN, state="PENDING"), Job(number=8, ask=PLAIN, state="RUNNING", nodes=("n",))
TASKS = [
    Job(number=11, ask=replace(PLAIN, array=10, task=1), state="PENDING"),
    Job(number=12, ask=replace(PLAIN, array=10, task=2), state="RUNNING", nodes=("n",)),
]


@pytest.mark.parametrize(
    ("word", "jobs", "status", "text"),
    [
        ("8", [RUNS], 0, "scontrol: Nodes are ready for job 8"),
        ("7", [WAITS], 1, "scontrol: Job 7 no longer running"),
        ("10_[1-2]", TASKS[:1], 1, "scontrol: Job 10 no longer running"),
        ("99", [], 1, "scontrol: Problem running job 99"),
    ],
)
def test_wait_job(
    word: str, jobs: list[Job], status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(told.Api, "open", lambda: None)
    monkeypatch.setattr(told, "jobs", lambda api, numbers, **_: jobs)
    monkeypatch.setattr(told, "recorded_of", lambda numbers: [])
    assert told.wait_for([word]) == status
    assert capsys.readouterr().err == text + "\n"


def test_a_script_that_waits_cannot_be_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told.Api, "open", lambda: None)
    monkeypatch.setattr(told.running, "may", lambda api, job: True)
    monkeypatch.setattr(told, "named", lambda api, text: [WAITS if text == "7" else RUNS])
    assert told.notify(["8", "hello"]) == 0
    with pytest.raises(Usage, match="job notify failure: Requested operation is presently disabled"):
        told.notify(["7", "hello"])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("jobid=99.0 requeue=x", "scontrol: error: Invalid Requeue value: x"),
        ("jobid=10 reqnodelist=cn1", "scontrol: error: Job resizing not supported for job arrays"),
        ("jobid=10_[1-2] numnodes=2", "scontrol: error: Invalid job ID 10_[1-2]"),
        ("jobid=7,8 nodelist=cn1", "scontrol: error: Invalid job ID 7,8"),
    ],
)
def test_values_and_single_lines_are_checked_before_jobs_are_changed(
    line: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes.Api, "open", lambda: None)
    monkeypatch.setattr(changes, "with_ended", lambda api, part: list(TASKS))
    with pytest.raises(Usage) as error:
        changes.update(line.split())
    assert error.value.text == text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-Q wait_job 7", "scontrol: Job 7 no longer running\n"),
        ("-Q checkpoint", "invalid keyword: checkpoint\n"),
        ("-Q update jobid=7 network=x", "Update of this parameter is not supported: network=x\nRequest aborted\n"),
        ("-Q hold x", ""),
    ],
)
def test_what_quiet_does_not_keep_back(line: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(told.Api, "open", lambda: None)
    monkeypatch.setattr(told, "jobs", lambda api, numbers, **_: [WAITS])
    assert scontrol.run(line.split())
    assert capsys.readouterr().err == text


def test_an_empty_word_is_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """`scontrol hold "$JOB"` of a script whose variable is empty must not hold all jobs."""
    monkeypatch.setattr(names, "jobs", lambda api, numbers=None, **_: [WAITS, RUNS])
    api: Any = None
    assert [names.named(api, text) for text in ("", ",", "jobid=")] == [[], [], []]
    assert names.named(api, "7") == [WAITS]
