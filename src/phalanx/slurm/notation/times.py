"""Parse and print time limits, durations and points in time as Slurm does (sbatch(1), --time and --begin)."""

from __future__ import annotations

import re
import time

from phalanx.errors import PhalanxError

_LIMIT = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_COUNT = re.compile(r"(?:([+-])(\d+)([a-z]*))?\s*")
_UNITS = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_WORDS = {"midnight": (0, 0), "noon": (12, 0), "teatime": (16, 0), "elevenses": (11, 0), "fika": (15, 0)}
_DAYS = {"today": 0.0, "tomorrow": 86400.0}
_WORD = re.compile(r"[a-z]+")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*(am|pm)?(?!\d)")
_YEAR = re.compile(r"\d{4}-")
_DATES = (
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})(?:t(?=\d))?"),
    re.compile(r"(?P<month>\d{1,2})[/.](?P<day>\d{1,2})(?:[/.](?P<year>\d{4}|\d{2}))?(?![\d/.])"),
    re.compile(r"(?P<month>\d{2})(?P<day>\d{2})(?P<year>\d{4}|\d{2})?(?![\d-])"),
)


class TimeError(PhalanxError):
    """The error for a text that is not a time. `at`: the index of the first invalid character, if it is known."""

    def __init__(self, text: str, at: int = 0) -> None:
        super().__init__(text)
        self.at = at


def read_limit_min(text: str) -> int | None:
    """Return the time limit in minutes, rounded up; None for no limit. Raises TimeError.

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


_LAST_S = 253_402_300_800  # the beginning of the year 10000, which Python and Kubernetes cannot represent


def read_moment(text: str, now_s: float, *, past: bool = False) -> float:
    """Parse a point in time, and return it in seconds since the epoch. The text is in the time zone of this machine. A
    time of day without a date is its next occurrence. `past`: True to use the present day instead, as Slurm does for
    options about the past. Raises TimeError."""
    said = text.lower()
    date: tuple[int, int, int] | None = None
    clock: tuple[int, int, int] | None = None
    at = 0
    while at < len(said):
        if said[at] in " \t,":
            at += 1
        elif said.startswith("now", at):
            return _after(said, at + len("now"), now_s, text)
        elif word := _WORD.match(said, at):
            at = word.end()
            if word[0] in _DAYS:
                date = _day(now_s + _DAYS[word[0]])
            elif word[0] in _WORDS:
                clock = (*_WORDS[word[0]], 0)
            else:
                raise TimeError(text, word.start())
        elif found := _CLOCK.match(said, at):
            clock, at = _clock(found, text), found.end()
        else:
            date, at = _date(said, at, now_s, text)
    if date is None and clock is None:
        raise TimeError(text)
    if date is None:
        return (_at if past else _next)(now_s, *(clock or (0, 0, 0)))
    return time.mktime((*date, *(clock or (0, 0, 0)), 0, 0, -1))


def _after(said: str, at: int, now_s: float, text: str) -> float:
    """Return the point in time of a text such as `now+2hours`. `at`: the index of the first character after `now`.
    Raises TimeError."""
    found = _COUNT.fullmatch(said, at)
    if found is None:
        raise TimeError(text, at + 1 if said[at : at + 1] in ("+", "-") else at)
    unit = _UNITS.get((found[3] or "").removesuffix("s"))
    if unit is None:
        raise TimeError(text, at + 1)
    at_s = now_s + (-1 if found[1] == "-" else 1) * int((found[2] or "0")[:18]) * unit
    if not 0 <= at_s < _LAST_S:
        raise TimeError(text)
    return at_s


def _clock(found: re.Match[str], text: str) -> tuple[int, int, int]:
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if found[4]:
        hour = hour % 12 + (12 if found[4] == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise TimeError(text, found.start())
    return hour, minute, second


def _date(said: str, at: int, now_s: float, text: str) -> tuple[tuple[int, int, int], int]:
    """Return the date (year, month, day) at the index `at` of the text, and the index after it. Raises TimeError with
    the index of the first invalid character."""
    found = next((match for form in _DATES if (match := form.match(said, at))), None)
    if found is None:
        digits = re.compile(r"\d{0,2}").match(said, at)
        raise TimeError(text, at if digits is None or _YEAR.match(said, at) else digits.end())
    parts = {name: int(value) for name, value in found.groupdict().items() if value}
    this = time.localtime(now_s).tm_year
    year = parts.get("year", this)
    year += 2000 if year < 100 else 0
    try:
        time.strptime(f"{year:04}-{parts['month']}-{parts['day']}", "%Y-%m-%d")
    except ValueError:
        raise TimeError(text, at) from None
    return (year, parts["month"], parts["day"]), found.end()


def _day(at_s: float) -> tuple[int, int, int]:
    day = time.localtime(at_s)
    return day.tm_year, day.tm_mon, day.tm_mday


def _at(day_s: float, hour: int, minute: int, second: int) -> float:
    day = time.localtime(day_s)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, hour, minute, second, 0, 0, -1))


def _next(now_s: float, hour: int, minute: int, second: int) -> float:
    """Return the next point in time at which the clock shows this time of day."""
    today_s = _at(now_s, hour, minute, second)
    return today_s if today_s >= now_s else _at(now_s + 86400, hour, minute, second)


def elapsed(seconds: float) -> str:
    """Return a duration as squeue prints it in TIME and TIME_LIMIT: `0:05`, `1:02:03`, `2-03:04:05`."""
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def long_elapsed(seconds: float) -> str:
    """Return a duration as scontrol and sacct print it: `00:00:05`, `2-03:04:05`."""
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hour:02}:{minute:02}:{second:02}"


def limit(minutes: int | None, *, long: bool = False, none: str = "UNLIMITED") -> str:
    if minutes is None:
        return none
    return (long_elapsed if long else elapsed)(minutes * 60)


def moment(at_s: float | None, none: str = "N/A") -> str:
    """Return the time stamp of `at_s` (seconds since the epoch) in the time zone of this machine; `none` if it is
    None."""
    return none if at_s is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_s))
