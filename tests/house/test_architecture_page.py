"""The page docs/guide/architecture.md shows the packages as they are: every name on it exists, and no package is
missing."""

from __future__ import annotations

import re

import pytest

from .test_rooms import listed, rooms_of
from .test_structure import ALLOWED, ROOT, SOURCE

PAGE = (ROOT / "docs" / "guide" / "architecture.md").read_text()
PATH = re.compile(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`")
ROW = re.compile(r"^\| `([a-z_]+)(?:/|\.py)` \| .* \| ([^|]+) \|$", re.MULTILINE)
WHOLE = ("model", "state", "core", "kube")  # packages of which the page names every part


def paths() -> set[str]:
    """Return the paths of folders (with a slash at the end) and of modules that the page names."""
    return set(PATH.findall(PAGE))


def inside(package: str) -> list[str]:
    """Return the parts of a package in the order of its table on the page, without the package and their endings."""
    table = PAGE.partition(f"## Inside `{package}/`")[2].partition("\n## ")[0]
    return re.findall(rf"^\| `{package}/([a-z_]+)(?:/|\.py)` \|", table, re.MULTILINE)


def test_what_the_page_names_exists() -> None:
    assert len(paths()) > 40
    assert [path for path in sorted(paths()) if not (SOURCE / path).exists()] == []


@pytest.mark.parametrize("package", WHOLE)
def test_no_part_is_left_out_and_the_lowest_comes_first(package: str) -> None:
    assert inside(package) == listed(SOURCE / package)


def test_its_table_says_who_may_import_whom() -> None:
    said: dict[str, str] = dict(ROW.findall(PAGE.partition("## The packages")[2].partition("##")[0]))
    shown = {"nothing of ours": "", "everything": "*"}
    rows = {package: set(shown.get(text, text).split(", ")) - {""} for package, text in said.items()}
    assert rows == {package: allowed for package, allowed in ALLOWED.items() if package in rows}
    assert set(rows) == set(rooms_of(SOURCE))
