"""Points in time as reasons write them: Coordinated Universal Time, since the core knows no place."""

from __future__ import annotations

from math import isfinite

DAY_S = 86_400


def format_time(at_s: float, now_s: float) -> str:
    """`02:28:23 UTC`; if that is not on the day of `now_s`, `2026-11-23 02:28:23 UTC`."""
    if not isfinite(at_s):
        return "never" if at_s > 0 else "at once"
    days = int(at_s) // DAY_S
    return ("" if days == now_s // DAY_S else f"{format_date(days)} ") + format_time_of_day(at_s)


def format_date(days: int) -> str:
    """Of so many days since the epoch, in the Gregorian calendar, for any year. (Hinnant, "chrono-Compatible Low-Level
    Date Algorithms", civil_from_days: eras of 400 years, and years that begin in March.)"""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    year = year_of_era + 400 * era + (month >= 10)
    return f"{year:04}-{(month + 2) % 12 + 1:02}-{day:02}"


def format_time_of_day(at_s: float) -> str:
    """`02:28:23 UTC`, of whatever day."""
    seconds = int(at_s) % DAY_S
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"
