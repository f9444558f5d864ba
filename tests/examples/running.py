"""Run examples in tests: their output, their selection, and the required files of their folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Container, Iterable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ASKED = tuple(filter(None, os.environ.get("PHALANX_EXAMPLES", "").split(",")))  # empty: all that can be had


def run(name: str, *words: str, timeout_s: float = 550.0) -> str:
    """Run the example, and return its standard output."""
    command = [sys.executable, str(EXAMPLES / name / "run"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installing(names: Iterable[str], small: Container[str] = ()) -> list[object]:
    """Return parameters of a test: `FOLDER`, or `FOLDER --options`, whose packages are installed before it runs. All
    but the `small` ones are long."""

    def marks(name: str) -> list[pytest.MarkDecorator]:
        return [pytest.mark.installs(name.split()[0]), pytest.mark.slow if name in small else pytest.mark.long]

    return [pytest.param(name, id=name.rpartition("/")[2], marks=marks(name)) for name in names]


def pins(folder: str) -> list[str]:
    """Return the requirements of an example with a client of another project."""
    found = (EXAMPLES / folder / "requirements.txt").read_text().split()
    assert found
    return found


def folders_of(kind: str) -> set[str]:
    return {f"{kind}/{path.parent.name}" for path in EXAMPLES.glob(f"{kind}/*/run")}


def without_a_row(folders: Iterable[str]) -> list[str]:
    rows = (EXAMPLES / "README.md").read_text()
    return [folder for folder in folders if f"[`{folder}/run`]" not in rows]
