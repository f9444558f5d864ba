"""scontrol update: which jobs and values it takes, in the words of Slurm 22.05."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.slurm.cluster.site import Site
from phalanx.slurm.commands.cluster.verbs import named as names
from phalanx.slurm.commands.cluster.verbs import update as changes
from phalanx.slurm.commands.cluster.verbs import update_asked as asked
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from tests.slurm.few_jobs import PLAIN, RUNS, TASKS, WAITS


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
    monkeypatch.setattr(changes.ApiClient, "open", lambda: None)
    monkeypatch.setattr(changes, "with_ended", lambda api, part: list(TASKS))
    with pytest.raises(Usage) as error:
        changes.update(line.split())
    assert error.value.text == text


@pytest.mark.parametrize(
    ("line", "mine", "text"),
    [
        ("jobid=7,9,9_1 name=x", True, "Invalid job id specified for job 9\n9_1: Invalid job id specified\n"),
        ("jobid=7 deadline=tomorrow", True, "Access/permission denied for job 7\n"),
        ("jobid=7 contiguous=1", False, "Invalid user id for job 7\n"),
        ("jobid=7 admincomment=x", False, "Access/permission denied for job 7\n"),
        ("jobid=7 burstbuffer=x", False, "Requested operation not supported on this system for job 7\n"),
    ],
)
def test_update_answers_for_each_job(
    line: str, mine: bool, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def found(api: object, numbers: list[int], **_: object) -> list[JobInfo]:
        return [job for job in (WAITS, RUNS) if job.number in numbers]

    monkeypatch.setattr(changes.ApiClient, "open", lambda: None)
    monkeypatch.setattr(names, "jobs", found)
    monkeypatch.setattr("phalanx.slurm.jobs.ended.recorded_of", lambda numbers: [])
    monkeypatch.setattr(changes, "refusal", lambda api, job: "" if mine else "Invalid user id")
    monkeypatch.setattr(changes, "_update_one", lambda *_: None)
    within = asked.Around(Site(), None, False)  # type: ignore[arg-type]  # no hardware is asked
    monkeypatch.setattr(asked, "around", lambda api, job, said: within)
    assert changes.update(line.split()) == 1
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("text", ["", "0", "9"])
def test_nodes_of_no_job_cannot_be_changed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes.ApiClient, "open", lambda: None)
    monkeypatch.setattr(names, "jobs", lambda api, numbers, **_: [])
    monkeypatch.setattr("phalanx.slurm.jobs.ended.recorded_of", lambda numbers: [])
    with pytest.raises(Usage) as error:
        changes.update([f"jobid={text}", "reqnodelist=cn1"])
    assert error.value.text == (
        f"scontrol: error: Could not load state information for job {text}: Invalid job id specified"
    )


@pytest.mark.parametrize(("value", "requeues"), [("5", True), ("1", True), ("0", False), ("", False)])
def test_any_number_but_0_lets_a_job_be_requeued(value: str, requeues: bool) -> None:
    ask, nothing = replace(PLAIN, requeue=not requeues), asked.Around(Site(), None, False)  # type: ignore[arg-type]  # no hardware is asked
    assert changes._require_readable({"requeue": value})
    changes._change(None, WAITS, ask, {"requeue": value}, nothing)  # type: ignore[arg-type]  # no server is asked
    assert ask.requeue == requeues
