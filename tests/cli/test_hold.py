"""`cli/commands/attend/hold.py`: `phalanx hold` and the change that `phalanx release` makes."""

from __future__ import annotations

import asyncio
import json

import pytest

from phalanx.cli.cluster.jobs.choosing import Filters
from phalanx.cli.cluster.target import Scope
from phalanx.cli.commands.attend import hold
from phalanx.client.kind import JOBS
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import HOLD
from tests.cli.fake_target import with_jobs
from tests.kube.double import Api, job

DEFAULT = Scope(namespace="default")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    running = job("runs", 1)
    running["spec"]["suspend"] = False
    running["status"] = {"active": 1, "startTime": "2026-01-01T00:00:00Z"}
    return with_jobs(monkeypatch, hold, job("a", 1), job("b", 1), running)


def held(api: Api) -> list[str]:
    jobs = api.objects[JOBS].values()
    return [one["metadata"]["name"] for one in jobs if (one["metadata"].get("annotations") or {}).get(HOLD) == "true"]


def test_hold_keeps_jobs_queued_and_names_each(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(hold.hold("a", "default/b", scope=DEFAULT))
    assert held(api) == ["a", "b"]
    assert capsys.readouterr().out == "job default/a held\njob default/b held\n"


def test_release_is_the_opposite_and_can_be_repeated(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(hold.hold("a", scope=DEFAULT))
    for _ in range(2):
        asyncio.run(hold.change(["a"], Filters(), DEFAULT, None, held=False, json=True))
        assert held(api) == []
    rows = capsys.readouterr().out.split("\n", 1)[1]
    decoder = json.JSONDecoder()
    assert decoder.raw_decode(rows)[0] == [{"job": "default/a", "kind": "job", "state": "queued"}]


def test_json_of_a_held_job(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(hold.hold("a", json=True, scope=DEFAULT))
    assert json.loads(capsys.readouterr().out) == [{"job": "default/a", "kind": "job", "state": "held"}]


@pytest.mark.parametrize("names", [("a", "runs"), ("a", "none")], ids=["running", "unknown"])
def test_no_job_is_held_if_one_of_them_cannot_be(api: Api, names: tuple[str, ...]) -> None:
    with pytest.raises(PhalanxError, match=r"only waiting jobs can be held\. Nothing was changed|none"):
        asyncio.run(hold.hold(*names, scope=DEFAULT))
    assert held(api) == []


def test_a_running_job_can_be_released(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.job("runs")["metadata"]["annotations"] = {HOLD: "true"}
    asyncio.run(hold.change(["runs"], Filters(), DEFAULT, None, held=False, json=False))
    assert held(api) == []
    assert capsys.readouterr().out == "job default/runs released\n"


def test_jobs_are_chosen_by_filters(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(hold.hold(filters=Filters(queue=("other",)), scope=DEFAULT))
    assert held(api) == []
    assert capsys.readouterr() == ("", "these options select no job; nothing was changed\n")
    with pytest.raises(PhalanxError, match="no job is named"):
        asyncio.run(hold.hold(scope=DEFAULT))


def test_json_of_no_job_is_an_empty_list(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(hold.hold(filters=Filters(queue=("other",)), json=True, scope=DEFAULT))
    assert json.loads(capsys.readouterr().out) == []
