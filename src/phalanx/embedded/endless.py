"""Run a task for ever, and restart it after an unexpected error. So an error that one object causes does not prevent
the task from handling the other objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_FIRST_S, _MOST_S = 1.0, 60.0
_WELL_S = 300.0  # after this time without an error, the pause is reset to the shortest pause


async def endless(name: str, work: Callable[[], Awaitable[None]], *, first_s: float = _FIRST_S) -> None:
    """Run `work` until cancelled. When it ends or fails, run it again after a pause that grows with each failure.
    Failures are logged."""
    loop, pause_s = asyncio.get_running_loop(), first_s
    while True:
        began_s = loop.time()
        try:
            await work()
        except Exception:  # a defect; an object of a user may have triggered it
            log.exception("%s: again in %.0f s", name, pause_s)
        if loop.time() - began_s > _WELL_S:
            pause_s = first_s
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _MOST_S)
