"""A decision record says context, choice, consequence, on one page; what was tried is in docs/benchmarks/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[2] / "docs" / "decisions").glob("*.md"))
TO_BE_REWRITTEN: set[str] = set()
LINES, CHARACTERS = 60, 120


def test_records_are_numbered_once() -> None:
    numbers = [path.name[:4] for path in RECORDS]
    assert len(set(numbers)) == len(numbers)
    assert [path.name for path in RECORDS if not path.read_text().startswith(f"# {int(path.name[:4])}. ")] == []


@pytest.mark.parametrize("record", [path for path in RECORDS if path.name not in TO_BE_REWRITTEN], ids=lambda p: p.name)
def test_a_record_is_a_page_that_says_context_choice_consequence(record: Path) -> None:
    text = record.read_text()
    parts = re.findall(r"^\*\*(Context|Choice|Consequence)\b", text, re.MULTILINE)
    order = [part for part, before in zip(parts, ["", *parts], strict=False) if part != before]
    assert order[:3] == ["Context", "Choice", "Consequence"], "say these three, in this order"
    fits = len(text.splitlines()) <= LINES and len(text) <= LINES * CHARACTERS
    assert fits, "move what was tried and measured to docs/benchmarks/"
