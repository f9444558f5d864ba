"""Being stopped: Ctrl-C, SIGTERM and a closed terminal are one and the same wish."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_wish() -> Iterator[asyncio.Event]:
    """An event that is set by the first such signal. A second one is as if nobody listened."""
    loop, wish = asyncio.get_running_loop(), asyncio.Event()

    def forget() -> None:
        for number in STOPPING:
            loop.remove_signal_handler(number)

    def hear() -> None:
        wish.set()
        forget()

    for number in STOPPING:
        loop.add_signal_handler(number, hear)
    try:
        yield wish
    finally:
        forget()


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Do `work` until it ends, breaks (its error is raised) or a stop is wished."""
    with stop_wish() as wish:
        working, stopping = asyncio.create_task(work), asyncio.create_task(wish.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if working.done():
            working.result()
            return
        working.cancel()
        await asyncio.wait({working})
