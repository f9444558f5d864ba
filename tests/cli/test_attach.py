"""`cli/commands/attend/attach.py`: how `phalanx attach` follows a job, and its message at the end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from phalanx.cli.cluster.jobs.finding import FoundJob
from phalanx.cli.cluster.jobs.standing import Standing
from phalanx.cli.cluster.target import Namespace
from phalanx.cli.commands.attend import attach
from phalanx.client.kind import JOBS, PODS
from phalanx.ledger.entry import JobEntry, State
from tests.cli.fake_target import connect
from tests.kube.double import Api, job, pod

SPACE = Namespace(namespace="default")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    found = Api()
    found.put(JOBS, job("train", 1))
    connect(monkeypatch, found, attach)
    return found


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """How each job was followed, and what it was."""
    calls: list[tuple[str, Any]] = []

    async def as_run(connection: Any, made: Any, *, json: bool, interactive: bool) -> int:
        calls.append(("run", (made["metadata"]["name"], json, interactive)))
        return 7

    async def output(connection: Any, found: FoundJob, options: Any) -> Standing:
        calls.append(("output", found.id))
        return Standing(state="failed", exit_code=3)

    monkeypatch.setattr(attach, "follow", as_run)
    monkeypatch.setattr(attach, "follow_output", output)
    return calls


def test_a_job_is_followed_as_run_follows_it(api: Api, followed: list[tuple[str, Any]]) -> None:
    assert asyncio.run(attach.attach("train", space=SPACE, json=True)) == 7
    assert followed == [("run", ("train", True, False))]


def test_a_pod_is_followed_by_its_output(
    api: Api, followed: list[tuple[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    api.put(PODS, pod("alone", queue="default"))
    assert asyncio.run(attach.attach("alone", space=SPACE)) == 3
    assert followed == [("output", "default/alone")]
    assert capsys.readouterr() == ("", "phalanx: pod default/alone failed: exit code 3\n")


def test_a_pod_that_has_ended_is_not_followed(
    api: Api, followed: list[tuple[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    over = pod("over", queue="default")
    over["status"] = {"phase": "Succeeded"}
    api.put(PODS, over)
    assert asyncio.run(attach.attach("over", space=SPACE, json=True)) == 0
    assert followed == []
    said = json.loads(capsys.readouterr().out)
    assert (said["job"], said["state"]) == ("default/over", "complete")
    assert list(said) == ["job", "state", "exit_code", "why"]


def test_a_deleted_job_ends_as_the_ledger_says(
    api: Api, followed: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = JobEntry(uid="u", job="default/gone", state=State.FAILED, submit_s=1.0, end_s=2.0, exit_code=9)

    async def one(self: object, text: str) -> FoundJob:
        return FoundJob(kind="job", namespace="default", name="gone", entry=entry)

    monkeypatch.setattr(attach.Finder, "one", one)
    assert asyncio.run(attach.attach("gone", space=SPACE)) == 9
    assert followed == []
    assert capsys.readouterr().err.startswith("phalanx: job default/gone failed")
