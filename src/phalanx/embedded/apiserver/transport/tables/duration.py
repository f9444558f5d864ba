"""Ages and durations as kubectl shows them: two to three significant figures.

Source of the thresholds: k8s.io/apimachinery/pkg/util/duration, HumanDuration.
"""

from __future__ import annotations

from datetime import datetime

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400

# (upper bound in seconds, unit in seconds, its letter, the second unit or 0, its letter)
_STEPS = (
    (2 * MINUTE, 1, "s", 0, ""),
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * YEAR, DAY, "d", 0, ""),
    (8 * YEAR, YEAR, "y", DAY, "d"),
)


def human(duration_s: float) -> str:
    """Return a duration as text: `93s`, `4m30s`, `27h`, `5d2h`. A negative duration of less than two seconds is `0s`,
    because clocks differ."""
    seconds = int(duration_s)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    for limit, unit, letter, beside, beside_letter in _STEPS:
        if seconds < limit:
            rest = seconds % unit // beside if beside else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{beside_letter}" if rest else "")
    return f"{seconds // YEAR}y"


def seconds_of(timestamp: str) -> float:
    """Return an RFC 3339 time in seconds since the epoch. Raises ValueError."""
    return datetime.fromisoformat(timestamp).timestamp()


def since(timestamp: str | None, now_s: float) -> str:
    """Return the age of a moment; `<unknown>` where there is none."""
    if not timestamp:
        return "<unknown>"
    return human(now_s - seconds_of(timestamp))
