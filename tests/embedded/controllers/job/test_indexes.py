"""Sets of completion indexes keep the API's text form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.embedded.controllers.job.view import Indexes


@pytest.mark.parametrize(
    ("members", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([2, 0, 1], "0-2"), ([0, 2, 3, 4, 7, 8], "0,2-4,7,8")],
)
def test_runs_of_three_and_more_are_shortened(members: list[int], text: str) -> None:
    assert str(Indexes.of(members)) == text


@pytest.mark.parametrize(
    ("text", "below", "kept"),
    [("0-2,5", 9, "0-2,5"), ("0-9", 4, "0-3"), ("7", 3, ""), ("x,1,-,3-y", 9, "1"), (None, 9, ""), ("0,1,2", 9, "0-2")],
)
def test_reading_leaves_out_what_is_too_large_or_no_number(text: str | None, below: int, kept: str) -> None:
    assert str(Indexes.parse(text, below)) == kept


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_they_behave_like_sets(one: set[int], other: set[int]) -> None:
    ours, theirs = Indexes.of(one), Indexes.of(other)
    union = ours | theirs
    assert union == Indexes.of(one | other) == Indexes.parse(str(union), 100)
    assert len(ours) == len(one)
    assert ours.common(theirs) == len(one & other)
    assert [number for number in range(61) if number in ours] == sorted(one)
    assert ours.missing(5, 61) == sorted(set(range(61)) - one)[:5]
