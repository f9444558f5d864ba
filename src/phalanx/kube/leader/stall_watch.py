"""Log the code that runs when the event loop is blocked for too long.

If the Lease is not renewed in time, the leadership is lost; a watch that is not read is disconnected. Afterwards the
cause cannot be found unless it was logged while the loop was blocked. So a separate thread checks the loop. For each
stall it logs the current stack once, and the length when the stall has ended.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

_FRAMES = 6  # frames of the stack that are logged, innermost last


@contextmanager
def stalls_logged(limit_s: float = 1.0) -> Iterator[None]:
    """Log a warning, as long as the context is open, whenever the running event loop is blocked for `limit_s`
    seconds."""
    watch = _StallWatch(asyncio.get_running_loop(), limit_s)
    watch.begin()
    try:
        yield
    finally:
        watch.end()


class _StallWatch:
    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
        self._loop, self._limit_s, self._thread_id = loop, limit_s, threading.get_ident()
        self._turned_s = time.monotonic()  # the time of the event loop's last known turn
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="stall watch", daemon=True)

    def begin(self) -> None:
        self._turn()
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._handle.cancel()

    def _turn(self) -> None:
        self._turned_s = time.monotonic()
        self._handle = self._loop.call_later(self._limit_s / 4, self._turn)

    def _look(self) -> None:
        told_s = 0.0  # the last turn before the logged stall; 0: no stall is logged
        while not self._over.wait(self._limit_s / 2):
            turned_s = self._turned_s
            if told_s and turned_s != told_s:
                log.warning("the event loop turns again, after %.1f s", turned_s - told_s)
                told_s = 0.0
            if not told_s and time.monotonic() - turned_s > self._limit_s:
                told_s = turned_s
                log.warning("the event loop made no turn for %.1f s; it is in\n%s", self._limit_s, self._stack())

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread_id)
        return "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame is not None else "a thread that is no more"
