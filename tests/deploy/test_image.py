"""The steps of the Containerfile that need no engine: the pinned versions are the installed ones and agree with each
other, and the project installs from the copied files alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.metadata import requires, version
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PIN, HASH = (
    re.compile(r"([A-Za-z0-9_.-]+)==(\S+)(?: ; [^\\]+)? \\"),
    re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?"),
)
LOCKS = ("requirements.txt", "requirements-dev.txt", "requirements-tools.txt")


def pins(name: str) -> dict[str, str]:
    """The versions of a lock file, of which every line is a pin or a hash, and every pin has hashes."""
    found = dict[str, str]()
    lines = (ROOT / name).read_text().splitlines()
    for at, line in enumerate(lines):
        if (pin := PIN.fullmatch(line)) is not None:
            found[pin[1]] = pin[2]
            assert HASH.fullmatch(lines[at + 1]), line
        else:
            assert HASH.fullmatch(line), f"{name}:{at + 1}: neither a pin nor a hash: {line}"
    return found


PINS = pins("requirements.txt")


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_is_a_pin_and_it_is_what_the_tests_run_on() -> None:
    assert {name: version(name) for name in PINS} == PINS


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_file_has_versions_and_hashes_and_no_index(name: str) -> None:
    wanted = {
        plain(line.partition(";")[0].strip())
        for line in (ROOT / f"{name[:-4]}.in").read_text().splitlines()
        if line[:1] not in {"", "#"}
    }
    both = pins(name) | (PINS if name == "requirements-dev.txt" else {})
    assert wanted <= {plain(each) for each in both}


def test_only_files_with_these_hashes_are_installed() -> None:
    for name in ("tools/setup", "tools/tool", "Containerfile"):
        text = (ROOT / name).read_text()
        installs = [line for line in text.splitlines() if "pip install" in line and "--requirement" in line]
        assert installs, name
        assert all("--require-hashes" in line for line in installs), name


AUDIT = SourceFileLoader("audit", str(ROOT / "tools" / "audit"))
CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([CLEAN], 0, "no known vulnerability in 1 packages"),
        ([CLEAN, BAD], 1, "b 2: CVE-1, mended in 2.1"),
        ([CLEAN, UNKNOWN], 2, "1 of 2 packages could not be looked up"),
        ([BAD, UNKNOWN], 1, "could not be looked up"),
        ([], 2, "0 of 0 packages could not be looked up"),
        (None, 2, "gave no answer"),
    ],
)
def test_an_audit_that_could_not_ask_is_no_clean_one(packages: list[object] | None, code: int, said: str) -> None:
    module = ModuleType("audit")
    module.__file__ = AUDIT.path
    AUDIT.exec_module(module)
    found, text = module.judge(["" if packages is None else json.dumps({"dependencies": packages})])
    assert (found, said in text) == (code, True), text


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


@pytest.mark.long
def test_what_is_copied_is_all_that_the_project_needs(tmp_path: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "opt"
    source.mkdir()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    for name in (each for line in copied for each in line.split()):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, source)
    alone = ("--no-deps", "--no-build-isolation", "--no-index")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", *alone)
    subprocess.run((*pip, "--target", str(target), str(source)), check=True, timeout=500)
    # As in the container: no home, and no writable directory.
    environment = {"PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent", "PATH": ""}
    asked = (sys.executable, "-P", "-m", "phalanx.cli.app", "scheduler", "--help")
    shown = subprocess.run(asked, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "--metrics-address" in shown.stdout, shown.stderr
    assert Path(target, "phalanx", "embedded").is_dir()
