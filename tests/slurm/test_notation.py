"""Times, host lists, amounts and arrays, as Slurm writes them (expected: of a real Slurm 22.05, and its man pages)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.notation import amounts, arrays, hostlist, times
from phalanx.slurm.notation.signals import number_of, read_warning


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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a[1-3,7],b02", ["a1", "a2", "a3", "a7", "b02"]),
        ("x[08-11]", ["x08", "x09", "x10", "x11"]),
        ("r[1-2]c[1-2]", ["r1c1", "r1c2", "r2c1", "r2c2"]),
        ("bad[1-", ["bad]"]),
        ("one", ["one"]),
        ("", []),
    ],
)
def test_host_lists_are_expanded(text: str, names: list[str]) -> None:
    assert hostlist.expand(text) == names


@pytest.mark.parametrize(
    ("names", "text", "ordered"),
    [
        (["a1", "a2", "a3", "b7"], "a[1-3],b7", False),
        (["a3", "a1", "a2", "a1"], "a[3,1-2,1]", False),
        (["a3", "a1", "a2", "b1"], "a[1-3],b1", True),
        (["n9", "n10", "n11"], "n[9-11]", True),
        (["n08", "n09", "n10"], "n[08-10]", True),
        (["login"], "login", True),
        ([], "", True),
    ],
)
def test_host_lists_are_written(names: list[str], text: str, ordered: bool) -> None:
    assert hostlist.compress(names, ordered=ordered) == text


@pytest.mark.parametrize(
    ("text", "mib"), [("1000", 1000), ("4G", 4096), ("1500M", 1500), ("1T", 1 << 20), ("2048K", 2)]
)
def test_memory(text: str, mib: int) -> None:
    assert amounts.read_mib(text) == mib


def test_memory_is_written_in_the_largest_unit() -> None:
    written = {1000: "1000M", 4096: "4G", 1 << 20: "1T", 1536: "1.50G", 64000: "62.50G", 16000: "16000M"}
    assert {mib: amounts.memory(mib) for mib in written} == written  # measured, 22.05
    with pytest.raises(amounts.AmountError):
        amounts.read_mib("lots")


def test_counts_per_node() -> None:
    assert amounts.per_node([3, 1, 1]) == "3,1(x2)"
    assert amounts.read_range("2-4") == (2, 4)
    with pytest.raises(amounts.AmountError):
        amounts.read_range("4-2")


@pytest.mark.parametrize(
    ("text", "tasks", "throttle"),
    [("0-3", (0, 1, 2, 3), 0), ("4-8:2", (4, 6, 8), 0), ("1,3,5-6%2", (1, 3, 5, 6), 2), ("1-3%0", (1, 2, 3), 0)],
)
def test_arrays(text: str, tasks: tuple[int, ...], throttle: int) -> None:
    found = arrays.read_array(text, 1001)
    assert (found.tasks, found.throttle) == (tasks, throttle)


@pytest.mark.parametrize("text", ["1-1001", "1-1000000000", "5-1", "abc", "1-", "1-3:0", "-1", "1001"])
def test_arrays_that_slurm_refuses(text: str) -> None:
    with pytest.raises(arrays.ArrayError):
        arrays.read_array(text, 1001)


def test_tasks_that_wait_together() -> None:
    assert arrays.shown([3, 4, 5, 6], 2) == "[3-6%2]"
    assert arrays.shown([1, 3]) == "[1,3]"
    assert arrays.shown([6], 2) == "6"


def test_signals_and_warnings() -> None:
    assert [number_of(text) for text in ("USR1", "sigterm", "9", "0", "NOPE", "65")] == [10, 15, 9, None, None, None]
    assert read_warning("USR2@90") == (12, 90, False)
    assert read_warning("B:10") == (10, 60, True)
    assert [read_warning(text) for text in ("", "USR9", "USR1@x")] == [None] * 3
    assert read_warning("R:USR1") == (10, 60, False)


@pytest.mark.parametrize("text", ["a[0-99999999999]", "a[0-999]b[0-999]", "a[1]" * 999, "a[0-65535],b"])
def test_host_lists_that_stand_for_too_many_are_refused(text: str) -> None:
    with pytest.raises(PhalanxError, match=r"a host list .*write fewer"):
        hostlist.expand(text)


@pytest.mark.parametrize("text", [f"a[{'9' * 5000}]", "a[\u00b2]"])
def test_numbers_that_are_none_stand_for_no_host(text: str) -> None:
    assert hostlist.expand(text) == []


def test_a_column_is_as_wide_as_a_screen_may_be() -> None:
    assert [amounts.read_width(text) for text in ("0", "20", "9" * 5000)] == [0, 20, 4096]


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
