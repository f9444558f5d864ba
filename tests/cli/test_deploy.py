"""`cli/commands/in_cluster/deploy.py`: the options that exclude each other, the files, and the printed command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.commands.in_cluster import deploy as module
from phalanx.cli.commands.in_cluster.deploy import deploy
from phalanx.errors import PhalanxError


@pytest.mark.parametrize(
    "options",
    [{}, {"render": True, "output": Path("a")}, {"output": Path("a"), "chart": Path("b")}, {"json": True}],
)
def test_exactly_one_way_is_chosen(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PhalanxError, match=r"--render .*, --output DIR .*, --chart DIR"):
        deploy(**options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overlay", ["mutating", "webhook", "validating"])
def test_the_printed_command_names_a_folder_that_was_written(
    overlay: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder := tmp_path / "my files").mkdir()
    deploy(overlay=overlay, output=folder, json=True)
    said = json.loads(capsys.readouterr().out)
    *words, place = shlex.split(said["apply"])
    assert words == ["kubectl", "apply", "--kustomize"]
    assert Path(place) == Path(said["directory"], "overlays", overlay)
    assert Path(place, "kustomization.yaml").is_file()


@pytest.mark.slow
def test_the_chart_gets_the_overlay_as_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder := tmp_path / "my files").mkdir()
    deploy(overlay="webhook", chart=folder)
    said = capsys.readouterr().out.strip()
    assert said.startswith(f"written to {folder / 'phalanx'}; to install: helm install phalanx ")
    words = shlex.split(said.partition("to install: ")[2])
    assert Path(words[3], "Chart.yaml").is_file()
    assert words[-2:] == ["--set", "admission=webhook"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH; it is empty."""
    (found := tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(found))
    return found


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_render_prints_what_kubectl_renders(programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program(programs, "kubectl", 'echo "kubectl $1 ${2##*/deploy/}"')
    program(programs, "kustomize", "echo no")
    deploy(render=True, overlay="webhook")
    assert capfd.readouterr().out == "kubectl kustomize overlays/webhook\n"


def test_without_kubectl_kustomize_renders(programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program(programs, "kustomize", 'echo "kustomize $1"')
    deploy(render=True)
    assert capfd.readouterr().out == "kustomize build\n"


def test_without_either_the_user_is_told_the_other_way(programs: Path) -> None:
    with pytest.raises(PhalanxError, match=r"needs kubectl or kustomize on the PATH\. `phalanx deploy --output DIR`"):
        deploy(render=True)


def test_an_error_of_the_program_is_passed_on(programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program(programs, "kubectl", "echo half; echo no such overlay >&2; exit 3")
    with pytest.raises(PhalanxError, match=r"^kubectl kustomize .*: no such overlay$"):
        deploy(render=True)
    assert capfd.readouterr().out == ""


def test_every_overlay_that_can_be_chosen_is_shipped() -> None:
    overlays = module.shipped("deploy") / "overlays"
    assert {"mutating", "webhook", "validating"} == {each.name for each in overlays.iterdir() if each.is_dir()}
