"""Read a time in the past that a user typed. Times without a zone are in the time zone of this machine."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError

_AGO = re.compile(r"\d.*[a-z]")
_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def past_moment(option: str, text: str, now_s: float) -> float:
    """Return a time as seconds since the epoch. `text` is an age such as `7d`, a time of day (its last occurrence), a
    date, or a date with a time. Raises PhalanxError, which names `option`, for any other text."""
    try:
        if _AGO.fullmatch(text) and "T" not in text:
            return now_s - duration_s(text)
        if clock := _TIME_OF_DAY.fullmatch(text):
            now = datetime.fromtimestamp(now_s)
            today = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
            return (today if today <= now else today - timedelta(days=1)).timestamp()
        # a text without a time zone is in the time zone of this machine
        return datetime.fromisoformat(text).timestamp()
    except (Misread, ValueError, OverflowError):
        raise PhalanxError(
            f"{option} {text!r} is not a time in the past: write for example 10m or 7d (ago), 18:00, 2026-01-31 or "
            "2026-01-31T18:00."
        ) from None
