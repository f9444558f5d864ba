"""`cli/commands/study/import_.py`: `phalanx import slurm`, which writes a Slurm site into a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.commands.study import import_ as module
from phalanx.cli.commands.study.import_ import slurm
from phalanx.errors import PhalanxError
from phalanx.slurm.accounts.tree import QUEUES
from phalanx.slurm.cluster.api import RequestRefused
from phalanx.slurm.cluster.site import PATH, SITE
from tests.slurm.fake_api import FakeApi

CONF = "ClusterName=lab\nAuthType=auth/munge\nNodeName=cn1 Feature=fast\nPartitionName=batch Nodes=cn1 Default=YES\n"
DUMP = """Cluster - 'lab'
Parent - 'root'
Account - 'b':Fairshare=7
Parent - 'b'
Account - 'a'
Parent - 'a'
User - 'ada':DefaultAccount='a'
"""


class Recorded(FakeApi):
    """`writes`: the paths that were written, in order. `full`: paths at which the server refuses writes."""

    def __init__(self, objects: dict[str, Any] | None = None, full: tuple[str, ...] = ()) -> None:
        super().__init__(objects)
        self.writes: list[str] = []
        self._full = full

    def create(self, path: str, body: Any) -> Any:
        self._wrote(f"{path}/{body['metadata']['name']}")
        return super().create(path, body)

    def patch(self, path: str, body: Any) -> Any:
        self._wrote(path)
        if path not in self.objects:
            raise RequestRefused(404, "there is no such object")
        return super().patch(path, body)

    def _wrote(self, path: str) -> None:
        if path.startswith(self._full):
            raise RequestRefused(403, "you may not")
        self.writes.append(path)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "slurm.conf").write_text(CONF)
    return tmp_path / "slurm.conf"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    (tmp_path / "dump.cfg").write_text(DUMP)
    return tmp_path / "dump.cfg"


def served(monkeypatch: pytest.MonkeyPatch, api: FakeApi | None) -> Any:
    """Let the command find this server; None: it must not look for one."""

    def open_api() -> FakeApi:
        assert api is not None
        return api

    monkeypatch.setattr(module.ApiClient, "open", open_api)
    return api


def rows(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], list[str]]:
    out, err = capsys.readouterr()
    return json.loads(out), err.splitlines()


def test_queues_are_written_before_their_children_and_the_site_last(
    conf: Path, dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = served(monkeypatch, Recorded({"/api/v1/nodes/cn1": {"metadata": {"name": "cn1"}}}))
    slurm(conf=conf, accounts=dump, json=True)
    ours = [path for path in api.writes if path.startswith((QUEUES, f"{PATH}/{SITE}", "/api/v1/nodes"))]
    assert ours == [f"{QUEUES}/b", f"{QUEUES}/a", f"{PATH}/{SITE}", "/api/v1/nodes/cn1"]
    assert api.objects[f"{QUEUES}/a"]["spec"]["parent"] == "b"
    assert api.objects[f"{QUEUES}/b"]["spec"]["weight"] == 7
    told, said = rows(capsys)
    assert [one["text"] for one in told if not one["taken"]] == ["AuthType=auth/munge", "NodeName=cn1"]
    assert said == [f"{len(told) - 2} lines imported, 2 not; now in effect"]


def test_a_dry_run_needs_no_server(
    conf: Path, dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served(monkeypatch, None)
    slurm(conf=conf, accounts=dump, dry_run=True)
    out, err = capsys.readouterr()
    assert "slurm.conf:2" in out
    assert "not imported:" in out
    assert err.endswith("; nothing was changed\n")


def test_each_row_names_its_file_and_line(
    conf: Path, dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served(monkeypatch, None)
    (gres := conf.with_name("gres.conf")).write_text("NodeName=cn1 Name=gpu Count=2\n")
    slurm(conf=conf, gres=gres, accounts=dump, dry_run=True, json=True)
    told, _ = rows(capsys)
    assert {one["file"] for one in told} == {"slurm.conf", "gres.conf", "dump.cfg"}
    assert {one["line"] for one in told if one["file"] == "slurm.conf"} == {1, 2, 3, 4}


def test_what_the_files_do_not_name_is_kept(
    conf: Path, dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = served(monkeypatch, Recorded())
    slurm(accounts=dump)
    before = dict(api.objects[f"{PATH}/{SITE}"]["data"])
    api.objects[f"{PATH}/{SITE}"]["metadata"]["resourceVersion"] = "1"
    slurm(conf=conf)
    after = api.objects[f"{PATH}/{SITE}"]["data"]
    assert {key for key in before if after.get(key) != before[key]} <= {"site"}
    assert "batch" in str(after)
    assert "batch" not in str(before)


def test_a_node_that_is_missing_is_told_and_the_rest_is_done(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = served(monkeypatch, Recorded())
    slurm(conf=conf, json=True)
    assert f"{PATH}/{SITE}" in api.objects
    assert rows(capsys)[1][0] == "NodeName=cn1: there is no such object"


def test_no_site_names_a_queue_that_could_not_be_written(
    conf: Path, dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = served(monkeypatch, Recorded(full=(f"{QUEUES}/a",)))
    with pytest.raises(RequestRefused, match="you may not"):
        slurm(conf=conf, accounts=dump)
    assert f"{PATH}/{SITE}" not in api.objects


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_changes_nothing(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = served(monkeypatch, Recorded())
    if content is not None:
        (tmp_path / "slurm.conf").write_bytes(content)
    with pytest.raises(PhalanxError, match=r"slurm\.conf cannot be read: .*Nothing was changed"):
        slurm(conf=tmp_path / "slurm.conf")
    assert api.writes == []


def test_a_file_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, None)
    with pytest.raises(PhalanxError, match="name a file to read: --conf, --gres or --accounts"):
        slurm()


def test_a_circle_of_accounts_ends() -> None:
    found = module.Site()
    found.accounts["x"] = module.site.Account(parent="y")
    found.accounts["y"] = module.site.Account(parent="x")
    assert module._depth(found, "x") > 0
