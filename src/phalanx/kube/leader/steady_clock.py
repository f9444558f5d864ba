"""The time of day, which never jumps.

Time limits, timeouts and usage are counted in the time of day, because objects and records contain such times, and
users set the time at which a job may begin. But a machine's clock may be adjusted, by an hour or by years. If it is set
forward, all timeouts would end at once, and all starts under way would be taken back. If it is set back, no timeout
would ever end.

So the scheduler's time runs on the monotonic clock and follows the machine's clock: twice as fast while it is behind,
and half as fast while it is ahead. If the machine's clock is set forward by an hour, the scheduler's time catches up
within an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_AHEAD, _BEHIND = 0.5, 2.0  # the speed of this clock until it agrees with the machine's
_AGREES_S = 1.0  # smaller adjustments, as by time servers, take effect at once


class SteadyClock:
    """A clock; calling it returns seconds since the epoch. `wall`: the machine's clock. `monotonic`: a clock that is
    never adjusted."""

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
