"""Tables in the width of a terminal: columns that do not fit are left out, and no text is cut without a mark."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from phalanx.cli.terminal.output import table

COLUMNS = ("JOB", "USER", "PODS", "WHY")
ROWS = [("train", "ada", "83,079/83,079", "short"), ("日本", "bob", "1/2", "a reason of several words " * 4)]
REASON = ROWS[1][3].strip()


def lines(width: int | None, rows: list[tuple[str, ...]] = ROWS) -> list[str]:
    return table(COLUMNS, rows, width, ("USER", "PODS")).plain.splitlines()


def test_without_a_width_each_row_is_a_line() -> None:
    assert lines(None) == [
        "JOB     USER   PODS            WHY",
        "train   ada    83,079/83,079   short",
        f"日本    bob    1/2             {REASON}",
    ]


def test_a_text_is_folded_beside_its_row_where_there_is_room() -> None:
    found = lines(80)
    assert found[0] == "JOB     USER   PODS            WHY"
    assert found[2].startswith("日本    bob    1/2             a reason of several")
    assert [line[:31].strip() for line in found[3:]] == [""] * len(found[3:])
    assert " ".join(line[29 if "日本" in line else 31 :].strip() for line in found[2:]) == REASON


def test_a_text_has_its_own_lines_where_its_column_would_be_narrow() -> None:
    found = lines(60)
    assert found[:3] == ["JOB     USER   PODS", "train   ada    83,079/83,079", "    short"]
    assert found[3] == "日本    bob    1/2"
    assert " ".join(line.strip() for line in found[4:]) == REASON


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100, 140])
def test_no_number_and_no_name_is_cut(width: int) -> None:
    found = lines(width)
    text = "\n".join(found)
    assert "train" in text
    assert "83,079/83,079" in text or "PODS: in a wider terminal" in text
    assert all(cell_len(line) <= width for line in found if "wider terminal" not in line)
    assert " ".join(text.split()).count("reason") == 4


def test_columns_give_way_in_their_order_and_the_table_says_so() -> None:
    assert lines(24)[0] == "JOB     PODS"
    assert lines(24)[-1] == "(USER: in a wider terminal, or with --json)"
    assert lines(10)[0] == "JOB"
    assert lines(10)[-1] == "(USER, PODS: in a wider terminal, or with --json)"


def test_numbers_in_the_last_column_are_not_folded() -> None:
    found = table(("DAY", "JOBS", "HOURS"), [("2026-01-01", "1,234,567", "1,234,567.25")], 28, ("JOBS",))
    assert found.plain.splitlines()[:2] == ["DAY          HOURS", "2026-01-01   1,234,567.25"]


def test_a_text_without_end_has_a_mark_where_it_is_cut() -> None:
    found = lines(60, [("train", "ada", "1/2", "word " * 2000)])
    assert len(found) < 20
    assert found[-1].endswith("word …")
    assert len(lines(None, [("train", "ada", "1/2", "word " * 2000)])[1]) > 9000
