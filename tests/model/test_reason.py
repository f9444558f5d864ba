"""`model/reason.py`: reasons whose text is made late, and times in sentences."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.model.reason import ALONE, NEVER, SHORT, LazyReason, Reason, ReasonCode, format_date, format_time

DAY_S = 86_400


@dataclass(frozen=True)
class Facts:
    missing: int
    asked: list[str]

    def text(self) -> str:
        self.asked.append("text")
        return f"{self.missing} gpu are missing"

    def numbers(self) -> Mapping[str, Any]:
        return {"missing": self.missing, "holders": {"big": 4}}

    def names(self, job: str) -> bool:
        return job == "big"


def test_a_text_is_made_once_and_only_if_it_is_read() -> None:
    facts = Facts(3, [])
    reason = LazyReason(ReasonCode.NO_ROOM, facts)
    assert reason.names("big")
    assert facts.asked == []
    assert (reason.text, reason.text) == ("3 gpu are missing",) * 2
    assert facts.asked == ["text"]


def test_a_late_reason_is_equal_to_the_same_reason_written_out() -> None:
    late = LazyReason(ReasonCode.NO_ROOM, Facts(3, []), more_nodes_help=True)
    written = Reason(
        code=ReasonCode.NO_ROOM,
        text="3 gpu are missing",
        numbers={"missing": 3, "holders": {"big": 4}},
        more_nodes_help=True,
    )
    assert late == written == late.plain()
    assert hash(late) == hash(written)
    assert pickle.loads(pickle.dumps(late)) == written
    assert late != LazyReason(ReasonCode.NO_ROOM, Facts(4, []), more_nodes_help=True)
    assert written.names("big")
    assert not written.names("small")


@given(st.integers(-719_162, 2_932_896))  # the years 1 to 9999
def test_a_date_is_that_of_the_calendar(days: int) -> None:
    assert format_date(days) == f"{datetime.fromordinal(719_163 + days):%Y-%m-%d}".rjust(10, "0")


@pytest.mark.parametrize(
    ("at_s", "text"),
    [
        (0.0, "00:00:00 UTC"),
        (8_903.9, "02:28:23 UTC"),
        (DAY_S, "1970-01-02 00:00:00 UTC"),
        (math.inf, "never"),
        (-math.inf, "at once"),
    ],
)
def test_a_time_has_its_date_only_on_another_day(at_s: float, text: str) -> None:
    assert format_time(at_s, 100.0) == text


def test_today_has_no_date() -> None:
    now_s = datetime(2026, 11, 28, 9, tzinfo=UTC).timestamp()
    assert format_time(now_s + 3600, now_s) == "10:00:00 UTC"
    assert format_time(now_s + DAY_S, now_s) == "2026-11-29 09:00:00 UTC"


def test_no_reason_is_both_for_ever_and_over_when_others_end() -> None:
    assert not NEVER & SHORT
    assert NEVER < ALONE
    assert {*ReasonCode} > ALONE | SHORT
