"""`cli/commands/attend/nice.py`: `phalanx nice JOB... --value N`."""

from __future__ import annotations

import asyncio
import json

import pytest
from cyclopts import CycloptsError

from phalanx.cli.app import build
from phalanx.cli.cluster.jobs.changing import MOST_NICE
from phalanx.cli.cluster.target import Scope
from phalanx.cli.commands.attend import nice
from phalanx.client.kind import JOBS
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import NICE
from tests.cli.fake_target import with_jobs
from tests.kube.double import Api, job

DEFAULT = Scope(namespace="default")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    ended = job("over", 1)
    ended["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    return with_jobs(monkeypatch, nice, job("a", 1), job("b", 1), ended)


def nice_of(api: Api, name: str) -> str | None:
    meta = api.job(name)["metadata"]
    assert NICE not in meta["labels"]
    return (meta.get("annotations") or {}).get(NICE)


def test_the_value_is_written_and_zero_removes_it(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(nice.nice("a", "b", value=-500, scope=DEFAULT))
    assert [nice_of(api, name) for name in "ab"] == ["-500", "-500"]
    assert capsys.readouterr().out == "job default/a has the nice value -500\njob default/b has the nice value -500\n"
    asyncio.run(nice.nice("a", value=0, json=True, scope=DEFAULT))
    assert [nice_of(api, name) for name in "ab"] == [None, "-500"]
    assert json.loads(capsys.readouterr().out) == [{"job": "default/a", "kind": "job", "nice": 0}]


def test_a_value_in_a_label_gives_way(api: Api) -> None:
    api.put(JOBS, job("c", 1, nice="7"))
    asyncio.run(nice.nice("c", value=9, scope=DEFAULT))
    assert nice_of(api, "c") == "9"


def test_no_job_is_changed_if_one_of_them_has_ended(api: Api) -> None:
    with pytest.raises(PhalanxError, match=r"default/over is complete: .*Nothing was changed"):
        asyncio.run(nice.nice("a", "over", value=1, scope=DEFAULT))
    assert nice_of(api, "a") is None


@pytest.mark.parametrize("value", [str(MOST_NICE + 1), str(-MOST_NICE - 1), "much"])
def test_values_outside_of_slurms_bounds_are_refused(value: str) -> None:
    with pytest.raises(CycloptsError):
        build("nice")(["nice", "a", "--value", value], exit_on_error=False, print_error=False)
