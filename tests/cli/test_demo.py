"""`cli/commands/one_machine/demo.py`: `phalanx demo`, for real as `make demo` runs it, and how it ends."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from phalanx.cli.commands.one_machine import demo as module
from phalanx.cli.commands.one_machine.demo import demo
from phalanx.demo.play import DemoResult
from phalanx.demo.trial import APPLICATIONS, Trial
from phalanx.demo.words import Summary
from phalanx.errors import PhalanxError


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_none_of_six_finish_pod_by_pod_and_all_of_them_as_gangs(tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.svg"
    done = subprocess.run(
        (sys.executable, "-m", "phalanx.cli.app", "demo", "--json", "--timeline", str(timeline)),
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert (seen["pod_by_pod"]["finished"], seen["pod_by_pod"]["deadlocked"]) == (0, True)
    assert (seen["gangs"]["finished"], seen["gangs"]["counted_right"]) == (6, 6)
    assert seen["words"] > 100_000
    assert timeline.read_text().startswith("<?xml")


class Stopped:
    """A stop signal that has arrived if `asked`."""

    def __init__(self, *, asked: bool) -> None:
        self._asked = asked

    async def wait(self) -> None:
        if not self._asked:
            await asyncio.Event().wait()


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The data directories with which the demo was played."""
    found: list[Path] = []

    async def played(directory: Any, timeline: Path, json: bool) -> Any:
        found.append(directory.path)
        (directory.path / "data").touch()
        await asyncio.sleep(0)
        return SimpleNamespace(holds=True)

    monkeypatch.setattr(module, "_play", played)
    return found


def stopping(monkeypatch: pytest.MonkeyPatch, *, asked: bool) -> None:
    @contextmanager
    def wish() -> Any:
        yield Stopped(asked=asked)

    monkeypatch.setattr(module, "stop_wish", wish)


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_says_whether_the_demo_showed_what_it_should(
    holds: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping(monkeypatch, asked=False)

    async def played(*_: Any) -> Any:
        return SimpleNamespace(holds=holds)

    monkeypatch.setattr(module, "_play", played)
    assert asyncio.run(demo(timeline=tmp_path / "t.svg")) == code


def test_the_data_directory_is_deleted(
    tmp_path: Path, folders: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopping(monkeypatch, asked=False)
    asyncio.run(demo(timeline=tmp_path / "t.svg"))
    assert not folders[0].exists()
    assert capsys.readouterr().err == ""


def test_a_kept_data_directory_is_named_with_the_command_that_starts_it(
    tmp_path: Path, folders: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stopping(monkeypatch, asked=False)
    asyncio.run(demo(timeline=tmp_path / "t.svg", keep=True))
    [folder] = folders
    assert (folder / "data").exists()
    assert capsys.readouterr().err == f"kept: {folder} (phalanx up --data {folder} starts it again)\n"


def test_a_stop_signal_ends_the_demo_and_waits_for_its_cleaning_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []

    async def played(directory: Any, timeline: Path, json: bool) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            done.append("drained" if directory.path.exists() else "too late")

    monkeypatch.setattr(module, "_play", played)
    stopping(monkeypatch, asked=True)
    assert asyncio.run(demo(timeline=tmp_path / "t.svg")) == 130
    assert done == ["drained"]
    assert "phalanx demo: stopping" in capsys.readouterr().err


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_starts(tmp_path: Path, folders: list[Path]) -> None:
    with pytest.raises(PhalanxError, match="Nothing was started"):
        asyncio.run(demo(timeline=tmp_path / "t.gif"))
    assert folders == []


def result(*, finished: int) -> DemoResult:
    """A demo after which `finished` applications of the gangs had finished."""
    trials = [Trial(name="a", queue="q", cpus=6, deadlocked=True), Trial(name="b", queue="q", cpus=6)]
    ended: Any = SimpleNamespace(finished=True)
    trials[1].applications = dict.fromkeys(map(str, range(finished)), ended)
    reference = Summary(words=1234, distinct=9, most_common=[("the", 1000), ("a", 2)], digest="d")
    counts = dict.fromkeys(map(str, range(finished)), reference)
    return DemoResult(without=trials[0], gangs=trials[1], counts=counts, reference=reference)


def test_the_last_lines_say_what_happened(tmp_path: Path) -> None:
    good = module._conclusion(result(finished=APPLICATIONS), tmp_path / "t.svg").plain
    assert good.startswith("6 of 6 counts agree with the count of a single process: 1,234 words (the 1,000, a 2).\n")
    assert f"drawn in {tmp_path / 't.svg'}." in good
    assert good.endswith("0 of 6 finished pod by pod, 6 as gangs: all pods of a gang start together, or none of them.")
    bad = module._conclusion(result(finished=5), tmp_path / "t.svg").plain
    assert bad.endswith("5 as gangs: this is not the expected result.")
    assert [title for title, _ in module._titled(result(finished=5))] == [
        "pod by pod: 0 of 6 finished",
        "as gangs: 5 of 6 finished",
    ]


def test_pods_get_the_access_of_the_kubeconfig(tmp_path: Path) -> None:
    cluster = {"server": "https://here", "certificate-authority-data": base64.b64encode(b"PEM\n").decode()}
    config = {"clusters": [{"cluster": cluster}], "users": [{"user": {"token": "secret"}}]}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    found = module._access(tmp_path / "kubeconfig")
    assert (found.server, found.token, found.ca) == ("https://here", "secret", "PEM\n")
