"""Limits, durations and moments, as Slurm reads and writes them (sbatch(1), --time and --begin)."""

from __future__ import annotations

import re
import time

from phalanx.errors import PhalanxError

_LIMIT = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_AFTER = re.compile(r"now(?:([+-])(\d+)([a-z]*))?")
_UNITS = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_WORDS = {"midnight": (0, 0), "noon": (12, 0), "teatime": (16, 0), "elevenses": (11, 0), "fika": (15, 0)}
_DATES = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%m/%d/%y", "%m/%d/%Y", "%m%d%y", "%m/%d")
_CLOCKS = ("%H:%M:%S", "%H:%M", "%I:%M:%S%p", "%I:%M%p", "%I%p")


class TimeError(PhalanxError):
    """A text that is no time."""


def read_limit_min(text: str) -> int | None:
    """Minutes, rounded up; None: no limit. Raises TimeError.

    The forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes,
    days-hours:minutes:seconds."""
    if text.strip().upper() in ("INFINITE", "UNLIMITED", "-1"):
        return None
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        raise TimeError(text)
    days, *rest = found.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    total_s = int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
    return -(-total_s // 60)


_LAST_S = 253_402_300_800  # the year 10000, for which neither Python nor Kubernetes has a moment


def read_moment(text: str, now_s: float, *, past: bool = False) -> float:
    """Seconds since the epoch, of a moment in this machine's time zone. A time of day without a date is the next one;
    `past`: today's, as Slurm reads what lies behind. Raises TimeError."""
    near = _at if past else _next
    said = text.strip()
    lower = said.lower()
    if found := _AFTER.fullmatch(lower):
        unit = _UNITS.get((found[3] or "").removesuffix("s"))
        if unit is None:
            raise TimeError(text)
        at_s = now_s + (-1 if found[1] == "-" else 1) * int((found[2] or "0")[:18]) * unit
        if not 0 <= at_s < _LAST_S:
            raise TimeError(text)
        return at_s
    if lower in ("today", "tomorrow"):
        day_s = 86400.0 if lower == "tomorrow" else 0.0
        return _at(now_s + day_s, 0, 0, 0)
    if lower in _WORDS:
        return near(now_s, *_WORDS[lower], 0)
    for form in _DATES:
        try:
            found_date = time.strptime(said if form != "%m/%d" else f"{said}/{time.localtime(now_s).tm_year}",
                                       form if form != "%m/%d" else "%m/%d/%Y")  # fmt: skip
        except ValueError:
            continue
        return time.mktime((*found_date[:6], 0, 0, -1))
    for form in _CLOCKS:
        try:
            clock = time.strptime(said.replace(" ", "").upper(), form)
        except ValueError:
            continue
        return near(now_s, clock.tm_hour, clock.tm_min, clock.tm_sec)
    raise TimeError(text)


def _at(day_s: float, hour: int, minute: int, second: int) -> float:
    day = time.localtime(day_s)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, hour, minute, second, 0, 0, -1))


def _next(now_s: float, hour: int, minute: int, second: int) -> float:
    """The next time that the clock shows that."""
    today_s = _at(now_s, hour, minute, second)
    return today_s if today_s >= now_s else _at(now_s + 86400, hour, minute, second)


def elapsed(seconds: float) -> str:
    """`0:05`, `1:02:03`, `2-03:04:05`: squeue's TIME and TIME_LIMIT."""
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def long_elapsed(seconds: float) -> str:
    """`00:00:05`, `2-03:04:05`: what scontrol and sacct write."""
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hour:02}:{minute:02}:{second:02}"


def limit(minutes: int | None, *, long: bool = False, none: str = "UNLIMITED") -> str:
    if minutes is None:
        return none
    return (long_elapsed if long else elapsed)(minutes * 60)


def moment(at_s: float | None, none: str = "N/A") -> str:
    """In this machine's time zone."""
    return none if at_s is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_s))
