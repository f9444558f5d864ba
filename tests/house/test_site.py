"""The documentation as a site: each page has its place, and each link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def pages(entry: Any) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case list():
            for each in entry:
                yield from pages(each)
        case dict():
            yield from pages(list(entry.values()))


def test_each_page_of_the_guide_and_each_dialect_has_one_place() -> None:
    listed = list(pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert len(listed) == len(set(listed))
    here = {
        str(path.relative_to(ROOT))
        for folder in ("guide", "dialects")
        for path in (ROOT / "docs" / folder).glob("*.md")
    }
    assert here == {page for page in listed if page.startswith(("docs/guide/", "docs/dialects/"))}


@pytest.mark.slow
def test_it_builds_and_no_link_is_broken() -> None:
    command = (sys.executable, str(ROOT / "tools" / "site"), "--strict")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "guarantee" in (ROOT / "out" / "site" / "search.json").read_text()
