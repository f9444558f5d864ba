"""A decision record has context, choice and consequence on one page. The index lists every record with its title."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
LINES, CHARACTERS = 60, 120


def test_records_are_numbered_once() -> None:
    numbers = [path.name[:4] for path in RECORDS]
    assert len(set(numbers)) == len(numbers)
    assert [path.name for path in RECORDS if not path.read_text().startswith(f"# {int(path.name[:4])}. ")] == []


def test_the_index_lists_each_record_once_with_its_title() -> None:
    listed = re.findall(r"^- \[(.+)\]\((\S+)\)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    titles = [(path.read_text().partition("\n")[0].removeprefix("# "), path.name) for path in RECORDS]
    assert sorted(listed, key=lambda row: row[1]) == titles


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.name)
def test_a_record_is_a_page_with_context_choice_consequence(record: Path) -> None:
    text = record.read_text()
    parts = re.findall(r"^\*\*(Context|Choice|Consequence)\b", text, re.MULTILINE)
    order = [part for part, before in zip(parts, ["", *parts], strict=False) if part != before]
    assert order[:3] == ["Context", "Choice", "Consequence"], "write these three, in this order"
    fits = len(text.splitlines()) <= LINES and len(text) <= LINES * CHARACTERS
    assert fits, "move what was tried and measured to docs/benchmarks/"
