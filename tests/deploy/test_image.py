"""The steps of the Containerfile, as far as they can be taken without an engine: the pins are what runs here, they
agree with each other, and the project installs from what is copied and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PINS = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE))


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_is_a_pin_and_it_is_what_the_tests_run_on() -> None:
    assert len(PINS) == len((ROOT / "requirements.txt").read_text().split())
    assert {name: version(name) for name in PINS} == PINS


@pytest.mark.parametrize("name", ["phalanx", *PINS])
def test_whatever_a_pinned_package_needs_is_pinned(name: str) -> None:
    """What `pip check` says in the image, where nothing is installed that is not listed."""
    if name == "phalanx":
        needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    else:
        needs = requires(name) or []
    pinned = {plain(each): pin for each, pin in PINS.items()}
    for need in map(Requirement, needs):
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            assert plain(need.name) in pinned, f"{name} needs {need}"
            assert need.specifier.contains(pinned[plain(need.name)], prereleases=True), f"{name} needs {need}"


@pytest.mark.slow
def test_what_is_copied_is_all_that_the_project_needs(tmp_path: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "opt"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    alone = ("--no-deps", "--no-build-isolation", "--no-index")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", *alone)
    subprocess.run((*pip, "--target", str(target), str(source)), check=True, timeout=500)
    # As in the container: a home that is not there, nothing that may be written.
    environment = {"PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent", "PATH": ""}
    asked = (sys.executable, "-P", "-m", "phalanx.cli.app", "scheduler", "--help")
    shown = subprocess.run(asked, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "--metrics-address" in shown.stdout, shown.stderr
    assert Path(target, "phalanx", "embedded").is_dir()
