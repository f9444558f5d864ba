"""`phalanx examples`: list, print or copy the examples that come with Phalanx."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from phalanx.cli.files.shipped import copy_out, shipped
from phalanx.cli.terminal.output import note, print_json, print_table
from phalanx.errors import PhalanxError

_HIDDEN = {"README.md", "needs.py", "stage.py", "__pycache__"}


def examples(name: str = "", /, *, output: Path | None = None, json: bool = False) -> None:
    """List the examples that come with Phalanx, or print or copy one of them.

    For example:

        phalanx examples
        phalanx examples gang.yaml | phalanx submit -
        phalanx examples ddp --output .

    Parameters
    ----------
    name
        The name of an example. If the example is a file, it is printed. If it is a folder, its files are listed.
    output
        Copy the example into this directory, which is created if it is missing.
    json
        Print the list as JSON: name, kind (file or folder), about.
    """
    root = shipped("examples")
    if not name:
        _list(root, json)
        return
    chosen = root / name
    if not chosen.resolve().is_relative_to(root.resolve()) or not chosen.exists():
        raise PhalanxError(
            f"there is no example {name!r}. The examples are: {', '.join(p.name for p in _entries(root))}."
        )
    if output is not None:
        note(f"copied to {copy_out(chosen, output)}")
    elif chosen.is_dir():
        _list(chosen, json)
    else:
        sys.stdout.write(chosen.read_text())


def _list(folder: Path, json: bool) -> None:
    rows = [(path.name, "folder" if path.is_dir() else "file", _about(path)) for path in _entries(folder)]
    if json:
        print_json([{"name": name, "kind": kind, "about": about} for name, kind, about in rows])
    else:
        print_table(("EXAMPLE", "KIND", "ABOUT"), rows)


def _entries(folder: Path) -> Iterator[Path]:
    yield from (path for path in sorted(folder.iterdir()) if path.name not in _HIDDEN)


def _about(path: Path) -> str:
    """Return the first comment in a file, or the first heading in the README of a folder."""
    file = path / "README.md" if path.is_dir() else path
    if not file.is_file():
        return ""
    for line in file.read_text(errors="replace").splitlines()[:5]:
        text = line.lstrip("#").strip(' "')
        if line.startswith(("#", '"""')) and not line.startswith("#!") and text:
            return text
    return ""
