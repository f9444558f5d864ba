"""Files that come with Phalanx: the examples, and the manifests for clusters.

In a wheel they are within the package, in a checkout beside `src`."""

from __future__ import annotations

import shutil
from pathlib import Path

from phalanx.errors import PhalanxError

_PACKAGE = Path(__file__).parents[2]
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


def shipped(folder: str) -> Path:
    """Return the folder `examples` or `deploy`. Raises PhalanxError if it was not installed."""
    for place in (_PACKAGE / "shipped" / folder, _PACKAGE.parents[1] / folder):
        if place.is_dir():
            return place
    raise PhalanxError(f"this installation has no {folder}: install Phalanx from its wheel, or use a checkout.")


def copy_out(source: Path, directory: Path) -> Path:
    """Copy a shipped file or folder into a directory, under its own name; where it is then. Raises PhalanxError if that
    exists already."""
    there = directory / source.name
    if there.exists():
        raise PhalanxError(f"{there} exists already. Nothing was written: name another directory.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, there, ignore=_IGNORED)
        else:
            shutil.copy(source, there)
    except OSError as error:
        raise PhalanxError(f"{there} cannot be written: {error.strerror}.") from error
    return there
