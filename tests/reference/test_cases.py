"""The reference on the smallest worlds in which the core once decided wrongly. Each head says what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from .replay import first_fault, read_file

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_reads_and_states_what_is_right(path: Path) -> None:
    turns, policy = read_file(path)
    assert turns
    assert path.read_text().startswith("# ")
    first_fault(turns[:1], policy)
