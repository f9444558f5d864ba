"""Times, host lists, amounts and arrays, as Slurm writes them (expected: of a real Slurm 22.05, and its man pages)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from phalanx.slurm.notation import times


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("10", 10),
        ("5:30", 6),
        ("0:30", 1),
        ("1:00:00", 60),
        ("2-0", 2880),
        ("1-2:03", 1563),
        ("1-02:03:04", 1564),
        ("0", 0),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_limits(text: str, minutes: int | None) -> None:
    assert times.read_limit_min(text) == minutes


@pytest.mark.parametrize("text", ["abc", "", "1:2:3:4", "1-", "-5", "1.5"])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(times.TimeError):
        times.read_limit_min(text)


NOW_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", "2027-01-15T08:00:00"),
        ("now+1hour", "2027-01-15T09:00:00"),
        ("now+90", "2027-01-15T08:01:30"),
        ("now+2days", "2027-01-17T08:00:00"),
        ("now-10minutes", "2027-01-15T07:50:00"),
        ("16:00", "2027-01-15T16:00:00"),
        ("07:00", "2027-01-16T07:00:00"),
        ("4pm", None),
        ("teatime", "2027-01-15T16:00:00"),
        ("tomorrow", "2027-01-16T00:00:00"),
        ("2027-02-01", "2027-02-01T00:00:00"),
        ("2027-02-01T12:34:56", "2027-02-01T12:34:56"),
        ("02/03/27", "2027-02-03T00:00:00"),
        ("0203", "2027-02-03T00:00:00"),
        ("020327", "2027-02-03T00:00:00"),
        ("2.3 4:05pm", "2027-02-03T16:05:00"),
        ("2027-02-01T05", None),
        ("nonsense", None),
        ("now+1fortnight", None),
    ],
)
def test_moments(text: str, at: str | None) -> None:
    if at is None:
        with pytest.raises(times.TimeError):
            times.read_moment(text, NOW_S)
    else:
        assert times.moment(times.read_moment(text, NOW_S)) == at


def test_how_long_is_written() -> None:
    assert [times.elapsed(s) for s in (5, 65, 3665, 93784)] == ["0:05", "1:05", "1:01:05", "1-02:03:04"]
    assert [times.long_elapsed(s) for s in (5, 93784)] == ["00:00:05", "1-02:03:04"]
    assert (times.limit(None), times.limit(60), times.limit(60, long=True)) == ("UNLIMITED", "1:00:00", "01:00:00")


@pytest.mark.parametrize("text", ["now+99999999999999days", "now-99999999999days", f"now+{'9' * 5000}"])
def test_moments_that_no_calendar_has_are_none(text: str) -> None:
    with pytest.raises(times.TimeError):
        times.read_moment(text, 1.7e9)


def test_a_time_of_day_is_the_next_one_but_todays_where_the_past_is_meant() -> None:
    noon_s = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))
    for text, hour in (("10:00", 10), ("midnight", 0), ("19:00", 19)):
        today_s = time.mktime((2026, 3, 4, hour, 0, 0, 0, 0, -1))
        assert times.read_moment(text, noon_s, past=True) == today_s
        assert times.read_moment(text, noon_s) == (today_s if hour > 12 else today_s + 86400)
