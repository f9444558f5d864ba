"""The wheel works away from the repository, for a user who has nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("src", "examples", "deploy", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE")
NOBODY = 65534


def test_the_wheel_needs_what_the_requirements_name() -> None:
    """`pip install` reads pyproject.toml; `make setup` reads requirements.in, and would hide missing entries in
    pyproject.toml."""
    lines = (ROOT / "requirements.in").read_text().splitlines()
    wanted = {line.strip().lower() for line in lines if line.strip() and not line.startswith("#")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {text.partition(">=")[0].lower() for text in project["dependencies"]} == wanted


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty directory that anybody may enter, with the package of the wheel in `site`."""
    source = tmp_path_factory.mktemp("source")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    build = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    done = subprocess.run(
        (*build, "--wheel-dir", source / "dist", "."), cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [wheel] = (source / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="phalanx-wheel-") as folder:
        with zipfile.ZipFile(wheel) as archive:
            assert not [name for name in archive.namelist() if "__pycache__" in name or name.endswith(".pyc")]
            archive.extractall(Path(folder) / "site")
        home = Path(folder) / "home"
        home.mkdir()
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        yield Path(folder)


def reaches_python() -> bool:
    """Return True if every user may start this Python: in some places it lies in a home directory."""
    paths = (Path(sys.executable).resolve(), Path(sys.prefix), Path(sys.base_prefix))
    return all(part.stat().st_mode & 0o005 == 0o005 for path in paths for part in (path, *path.parents))


def command(installed: Path, *words: str) -> tuple[list[str], dict[str, Any]]:
    """Return the command line of `phalanx WORDS`, and how it is started: in an empty home, not as root if possible."""
    home = installed / "home"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(installed / "site")}
    how: dict[str, Any] = {"cwd": home, "env": environment}
    if os.geteuid() == 0 and reaches_python():
        how |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return [sys.executable, "-m", "phalanx.cli.app", *words], how


def phalanx(installed: Path, *words: str, text: str = "") -> str:
    line, how = command(installed, *words)
    done = subprocess.run(line, input=text, capture_output=True, text=True, timeout=240, check=False, **how)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.mark.slow
def test_the_wheel_has_its_examples_and_manifests(installed: Path) -> None:
    listed = json.loads(phalanx(installed, "examples", "--json"))
    assert {"gang.yaml", "queues", "ddp"} <= {one["name"] for one in listed}
    assert "kind: Job" in phalanx(installed, "examples", "gang.yaml")
    told = json.loads(phalanx(installed, "deploy", "--output", "there", "--json"))
    assert told["apply"] == "kubectl apply --kustomize there/deploy/overlays/mutating"
    assert (installed / "home" / "there" / "deploy" / "base" / "scheduler.yaml").exists()
    phalanx(installed, "examples", "ddp", "--output", "there")
    assert os.access(installed / "home" / "there" / "ddp" / "run", os.R_OK)
    assert (
        phalanx(installed, "--version").strip()
        == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    )


@pytest.mark.long
def test_the_readme_works_in_an_empty_directory(installed: Path) -> None:
    line, how = command(installed, "up", "--data", "data", "--port", "0", "--local-cpu", "4")
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)
    with process:
        assert process.stdout is not None
        try:
            said = ""
            while "Ctrl-C stops it" not in said:
                piece = process.stdout.readline()
                assert piece, said
                said += piece
            here = ("--kubeconfig", "data/kubeconfig")
            assert phalanx(installed, "run", *here, "--", "echo", "hello") == "hello\n"
            phalanx(installed, "submit", *here, "-", text=phalanx(installed, "examples", "gang.yaml"))
            phalanx(installed, "wait", *here, "gang")
            assert "complete" in phalanx(installed, "jobs", *here, "--finished")
            place = phalanx(installed, "shell", "--help")
            assert "phalanx shell train" in place
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
