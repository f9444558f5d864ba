"""When a cron schedule is due: five fields (crontab(5)), `@hourly` and its like, or `@every 1h30m`.

Where both the day of the month and the day of the week are restricted, either is enough. Source: the library of
Kubernetes, robfig/cron (`0` to `6` and names for days of the week, `?` as `*`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DURATION = re.compile(r"(\d+)([smh])")
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
# The most days that are searched: nearly always enough for a 29 February on a certain day of the week.
_MOST_DAYS = 366 * 8

Next = Callable[[datetime], datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def includes(self, day: datetime) -> bool:
        by_day, by_weekday = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        either = by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday
        return day.month in self.months and either

    def after(self, moment: datetime) -> datetime | None:
        """Return the first due time after `moment`, in its time zone; None: there is none for years."""
        start = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for number in range(_MOST_DAYS):
            day = start + timedelta(days=number)
            if not self.includes(day):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    due = day.replace(hour=hour, minute=minute)
                    if due >= start:
                        return due
        return None


def schedule(text: str) -> Next:
    """Return the function from a moment to the next due time after it. Raises ValueError for an invalid text."""
    if text.startswith("@every "):
        every = timedelta(seconds=sum(int(n) * _UNITS_S[unit] for n, unit in _DURATION.findall(text)))
        if not every:
            raise ValueError(f"{text!r} is no duration")
        return lambda moment: moment + every
    words = _MACROS.get(text, text).lower().split()
    if len(words) != len(_BOUNDS):
        raise ValueError(f"{text!r} has not five fields")
    names: tuple[tuple[str, ...], ...] = ((), (), (), _MONTHS, _DAYS)
    minutes, hours, days, months, weekdays = (
        _field(word, low, high, known) for word, (low, high), known in zip(words, _BOUNDS, names, strict=True)
    )
    return _Fields(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=weekdays,
        any_day=words[2][0] in "*?",
        any_weekday=words[4][0] in "*?",
    ).after


def _field(word: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, slash, step = part.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        else:
            begin, dash, end = span.partition("-")
            first = _number(begin, low, names)
            last = _number(end, low, names) if dash else high if slash else first
        stride = int(step) if slash else 1
        if not (low <= first <= last <= high and stride > 0):
            raise ValueError(f"{part!r} is not within {low} to {high}")
        found.update(range(first, last + 1, stride))
    return frozenset(found)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(text) + low if text in names else int(text)
