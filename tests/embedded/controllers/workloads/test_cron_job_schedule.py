"""When schedules are due."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from phalanx.embedded.controllers.workloads.cron_job import schedule

AT = datetime(2026, 1, 31, 23, 59, 30, tzinfo=ZoneInfo("UTC"))  # a Saturday


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("* * * * *", "2026-02-01T00:00"),
        ("*/15 * * * *", "2026-02-01T00:00"),
        ("5-10/2 3 * * *", "2026-02-01T03:05"),
        ("0 12 29 2 *", "2028-02-29T12:00"),
        ("0 0 * * mon-fri", "2026-02-02T00:00"),
        ("0 0 13 * fri", "2026-02-06T00:00"),  # either day is enough
        ("0 0 13 * ?", "2026-02-13T00:00"),
        ("30 6 1 mar,dec *", "2026-03-01T06:30"),
        ("@weekly", "2026-02-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
        ("59/5 23 * * *", "2026-02-01T23:59"),
    ],
)
def test_the_next_due_time(text: str, due: str) -> None:
    found = schedule(text)(AT)
    assert found is not None
    assert found.isoformat()[:16] == due


def test_a_duration_counts_from_the_last_time() -> None:
    found = schedule("@every 1h30m")(AT)
    assert found is not None
    assert (found - AT).total_seconds() == 5400


def test_a_day_that_never_comes_is_never_due() -> None:
    assert schedule("0 0 31 2 *")(AT) is None


@pytest.mark.parametrize("text", ["", "* * * *", "60 * * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *", "x * * * *"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the library's words differ
        schedule(text)
