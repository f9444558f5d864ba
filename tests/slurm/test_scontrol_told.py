"""scontrol on several jobs, and what --quiet keeps back, in the words of Slurm 22.05."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.slurm.commands.cluster import scontrol
from phalanx.slurm.commands.cluster.verbs import hold
from phalanx.slurm.commands.cluster.verbs import named as names
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from tests.slurm.few_jobs import PAIR, RUNS, TASKS, WAITS


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
    word: str, jobs: list[JobInfo], status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(hold.ApiClient, "open", lambda: None)
    monkeypatch.setattr(hold, "jobs", lambda api, numbers, **_: jobs)
    monkeypatch.setattr(hold, "recorded_of", lambda numbers: [])
    assert hold.wait_for([word]) == status
    assert capsys.readouterr().err == text + "\n"


def test_a_script_that_waits_cannot_be_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold.ApiClient, "open", lambda: None)
    monkeypatch.setattr(hold.running, "may", lambda api, job: True)
    monkeypatch.setattr(hold, "named", lambda api, text: [WAITS if text == "7" else RUNS])
    assert hold.notify(["8", "hello"]) == 0
    with pytest.raises(Usage, match="job notify failure: Requested operation is presently disabled"):
        hold.notify(["7", "hello"])


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
    monkeypatch.setattr(hold.ApiClient, "open", lambda: None)
    monkeypatch.setattr(hold, "jobs", lambda api, numbers, **_: [WAITS])
    assert scontrol.run(line.split())
    assert capsys.readouterr().err == text


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("-Q create", 1, "too few arguments for create keyword\n"),
        ("-Q write", 1, "too few arguments for keyword:write\n"),
        ("-Q errnumstr x", 1, "numeric arguments required for keyword:errnumstr\n"),
        ("-Q delete x", 1, "scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'\n"),
        ("-Q release", 1, ""),
        ("-Q show nothing", 1, ""),
        ("-Q all x", 0, ""),
        ("-Q requeue 9", 1, ""),
        ("-Q notify 0 x", 1, "Invalid job_id 0job notify failure: No error\n"),
    ],
)
def test_quiet_keeps_back_what_is_wrong_with_jobs(
    line: str, status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(hold.ApiClient, "open", lambda: None)
    monkeypatch.setattr(names, "jobs", lambda api, numbers, **_: [])
    assert scontrol.run(line.split()) == status
    assert capsys.readouterr().err == text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("suspend 7,x", "Invalid job id specified for job 7,x\n"),
        ("suspend 7,7", "Access/permission denied for job 7\n" * 2),
        ("resume 7,9", "Access/permission denied for job 7\nUnexpected message received for job 9\n"),
        ("suspend 10_3", "Access/permission denied for job 10_3\n"),
        ("suspend 9_[1-2]", "Unexpected message received for job 9_1-2\n"),
        ("requeue 10_2", "10_1-2: Job is pending execution\n"),
        ("requeue 9_[1-2],9", "9_1-2: Invalid job id specified\nInvalid job id specified for job 9\n"),
        ("requeuehold 7.0", "Invalid job id specified for job 7.0\n"),
    ],
)
def test_each_id_between_commas_is_answered(line: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    every = [WAITS, *PAIR]

    def found(api: object, numbers: list[int], **_: object) -> list[JobInfo]:
        return [job for job in every if job.base in numbers]

    monkeypatch.setattr(hold.ApiClient, "open", lambda: None)
    monkeypatch.setattr(hold.os, "getuid", lambda: 1000)
    monkeypatch.setattr(hold.running, "may", lambda api, job: True)
    for place in (hold, names):
        monkeypatch.setattr(place, "jobs", found)
    assert scontrol.run(line.split()) == 1
    assert capsys.readouterr().err == text
