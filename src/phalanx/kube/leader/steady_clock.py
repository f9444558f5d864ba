"""The time of day, which never jumps.

Time limits, timeouts and usage are counted in the time of day, since they stand on objects and in records, and since
users say when a job may begin. But the clock of a machine is set now and then, by an hour or by years. Then every
timeout would be over at once and every start that is under way taken back; or, set back, none would ever be over.

So the scheduler's time goes on by the monotonic clock, and follows the machine's: while it is behind it goes twice as
fast, while it is ahead half as fast. An hour that the clock was set forward by is caught up with in an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_AHEAD, _BEHIND = 0.5, 2.0  # seconds of this clock in a second, until it agrees
_AGREES_S = 1.0  # adjustments by less, as time servers make them all the time, are taken over at once


class SteadyClock:
    """Called, it returns seconds since the epoch. `wall`: the machine's clock; `monotonic`: one that is never set."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._now_s, self._read_s = wall(), monotonic()

    def __call__(self) -> float:
        read_s, wall_s = self._monotonic(), self._wall()
        passed_s, self._read_s = read_s - self._read_s, read_s
        straight_s = self._now_s + passed_s
        if abs(wall_s - straight_s) < _AGREES_S:
            self._now_s = max(self._now_s, wall_s)
        elif wall_s > straight_s:
            self._now_s = min(wall_s, self._now_s + _BEHIND * passed_s)
        else:
            self._now_s = max(wall_s, self._now_s + _AHEAD * passed_s)
        return self._now_s
