"""When a waiting job is expected to start, as people and programs read it. Pure."""

from __future__ import annotations

from math import ceil, floor, inf
from typing import Any

from phalanx.client.moment import write_moment
from phalanx.model.reason import StartForecast, format_time


def said(expected: StartForecast, now_s: float) -> str:
    """Return the text `expected 14:20–15:05 UTC`; if only time limits are known, `expected by 15:40 UTC`."""
    if expected.nearly_sure_s[0] < expected.latest_s:
        return f"expected {interval(expected.likely_s, now_s)}"
    return f"expected by {interval((expected.latest_s, expected.latest_s), now_s)}"


def interval(from_to_s: tuple[float, float], now_s: float) -> str:
    """Return an interval as `14:20–15:05 UTC`. The start is rounded down and the end is rounded up to whole minutes. A
    date is shown where the day is not today."""
    from_s, to_s = from_to_s
    if from_s == to_s:
        return f"{_minute(ceil(to_s / 60) * 60, now_s)} UTC"
    first = _minute(floor(from_s / 60) * 60, now_s)
    return f"after {first} UTC" if to_s == inf else f"{first}–{_minute(ceil(to_s / 60) * 60, from_s)} UTC"


def _minute(at_s: float, now_s: float) -> str:
    return format_time(at_s, now_s).removesuffix(":00 UTC")


def start_record(found: StartForecast | None) -> dict[str, Any] | None:
    """Return an expected start, for `--json`."""
    if found is None:
        return None
    interval_known = found.latest_s < inf or found.nearly_sure_s[0] < found.nearly_sure_s[1]
    return {
        "at": _moment(found.start_s),
        "likely": [_moment(at_s) for at_s in found.likely_s] if interval_known else None,
        "nearly_sure": [_moment(at_s) for at_s in found.nearly_sure_s] if interval_known else None,
        "latest": _moment(found.latest_s),
        "after": found.after,
    }


def _moment(at_s: float) -> str | None:
    return write_moment(at_s) if at_s < inf else None
