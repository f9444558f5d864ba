"""Moments in the past, as users type them: in the time of this machine."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError

_AGO = re.compile(r"\d.*[a-z]")
_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def past_moment(option: str, text: str, now_s: float) -> float:
    """Return the seconds since the epoch of `7d` (7 days ago), of a time of day (the last one), or of a date or moment.
    Raises PhalanxError."""
    try:
        if _AGO.fullmatch(text) and "T" not in text:
            return now_s - duration_s(text)
        if clock := _TIME_OF_DAY.fullmatch(text):
            now = datetime.fromtimestamp(now_s)
            today = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
            return (today if today <= now else today - timedelta(days=1)).timestamp()
        return datetime.fromisoformat(text).timestamp()  # without a time zone it is the time of this machine
    except (Misread, ValueError, OverflowError):
        raise PhalanxError(
            f"{option} {text!r} is no time in the past: write for instance 10m or 7d (ago), 18:00, 2026-01-31 or "
            "2026-01-31T18:00."
        ) from None
