"""Points in time as reasons write them: Coordinated Universal Time, since the core knows no place."""

from __future__ import annotations

from math import isfinite

DAY_S = 86_400


def clock(at_s: float) -> str:
    """`02:28:23 UTC`; `numbers` of the reason have the seconds since the epoch, and so the day."""
    if not isfinite(at_s):
        return "never" if at_s > 0 else "at once"
    seconds = int(at_s) % DAY_S
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def minute(at_s: float) -> str:
    """`02:29 UTC`: the next full minute."""
    minutes = -int(-at_s // 60)
    return f"{minutes // 60 % 24:02}:{minutes % 60:02} UTC"
