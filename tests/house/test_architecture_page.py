"""docs/guide/architecture.md shows the packages as they are: what it names exists, and it leaves nothing out."""

from __future__ import annotations

import re
from pathlib import Path

from .test_structure import ALLOWED, ROOT, SOURCE

PAGE = (ROOT / "docs" / "guide" / "architecture.md").read_text()
PATH = re.compile(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`")
ROW = re.compile(r"^\| `([a-z_]+)(?:/|\.py)` \| .* \| ([^|]+) \|$", re.MULTILINE)
WHOLE = ("model", "state", "core", "kube")  # packages of which the page names every part


def paths() -> set[str]:
    """Return the paths of folders (with a slash at the end) and of modules that the page names."""
    return set(PATH.findall(PAGE))


def parts(folder: Path) -> set[str]:
    """Return the folders and modules of a package, as the page would name them within it."""
    modules = {path.name for path in folder.glob("*.py") if path.name != "__init__.py"}
    return modules | {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}


def test_what_the_page_names_exists() -> None:
    assert len(paths()) > 40
    assert [path for path in sorted(paths()) if not (SOURCE / path).exists()] == []


def test_no_package_is_left_out() -> None:
    assert parts(SOURCE) - paths() == set()


def test_no_part_of_the_scheduler_is_left_out() -> None:
    every = {f"{package}/{part}" for package in WHOLE for part in parts(SOURCE / package)}
    assert every - paths() == set()


def test_its_table_says_who_may_import_whom() -> None:
    said = dict(ROW.findall(PAGE.partition("## The packages")[2].partition("##")[0]))
    shown = {"nothing of ours": "", "everything": "*"}
    rows = {package: set(shown.get(text, text).split(", ")) - {""} for package, text in said.items()}
    assert rows == {package: allowed for package, allowed in ALLOWED.items() if package in rows}
    assert {part.removesuffix("/").removesuffix(".py") for part in parts(SOURCE)} == set(rows)
