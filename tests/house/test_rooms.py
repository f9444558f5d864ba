"""A folder's `__init__` lists its rooms (modules and folders), lowest first, and no room imports from one above it.

So whoever opens a folder reads in a few lines what is in it, and understands it from its first room to its last.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_structure import SOURCE, imports, module, where

# Packages that are built like this.
PACKAGES = ("embedded",)
ROOMS = 9

FOLDERS = [path.parent for package in PACKAGES for path in sorted((SOURCE / package).rglob("__init__.py"))]
PATHS = [path for package in PACKAGES for path in sorted((SOURCE / package).rglob("*.py"))]


def listed(folder: Path) -> list[str]:
    """The rooms that the folder's docstring names, in its order: a row each, or else in backticks."""
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    rows = re.findall(r"^ *([a-z_0-9]+) {2,}\S", said, flags=re.MULTILINE)
    return rows or [name for name in re.findall(r"`([a-z_0-9]+)`", said) if name in rooms(folder)]


def rooms(folder: Path) -> set[str]:
    return {
        path.stem
        for path in folder.iterdir()
        if not path.stem.startswith("__") and (path.suffix == ".py" or (path / "__init__.py").exists())
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=where)
def test_a_folder_lists_its_rooms(folder: Path) -> None:
    names = listed(folder)
    assert sorted(names) == sorted(rooms(folder)), f"{where(folder)}/__init__.py: list its rooms, each once"
    assert len(names) <= ROOMS, f"{where(folder)} has {len(names)} rooms (at most {ROOMS}); divide it by noun or verb"


def test_no_room_imports_from_one_above_it() -> None:
    wrong = [each for path in PATHS for each in upwards(path)]
    assert not wrong, "\n" + "\n".join(wrong)


def upwards(path: Path) -> Iterator[str]:
    own = ("phalanx", *path.relative_to(SOURCE).with_suffix("").parts)
    for line, name in module(path).imports:
        other = name.split(".")
        shared = next((n for n, (a, b) in enumerate(zip(own, other, strict=False)) if a != b), 0)
        if shared < 2:
            continue  # of another package
        folder = SOURCE.joinpath(*own[1:shared])
        order, here, there = listed(folder), own[shared], other[shared]
        if {here, there} <= set(order) and order.index(there) > order.index(here):
            yield f"{where(path)}:{line}: {here} is below {there} in {where(folder)}; pass it in or change places"


def test_no_import_is_hidden_from_the_interpreter() -> None:
    """`TYPE_CHECKING` is for what is slow to load, never for a module of ours: that would hide a circle."""
    wrong = [
        where(path)
        for path in PATHS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for _, name in imports(node.body, path)
        if name.startswith("phalanx")
    ]
    assert not wrong, f"import it plainly, from below: {', '.join(wrong)}"
