"""Being stopped: Ctrl-C, SIGTERM and a closed terminal are one and the same wish."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1
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


@contextmanager
def stop_asked() -> Iterator[Callable[[], bool]]:
    """For what computes and does not wait: whether such a signal has come. A second one is as if nobody listened; one
    that our parent wants us to ignore (`nohup`, `&`) is."""
    asked = False
    before = {number: signal.getsignal(number) for number in STOPPING}
    listened = [number for number, handler in before.items() if handler not in {signal.SIG_IGN, None}]

    def forget() -> None:
        for number in listened:
            signal.signal(number, before[number])

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        forget()

    for number in listened:
        signal.signal(number, hear)
    try:
        yield lambda: asked
    finally:
        forget()


def die_with(parent: int) -> None:
    """In a child: the kernel kills it when its parent dies without saying so (Linux: PR_SET_PDEATHSIG, prctl(2))."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died between fork and prctl
        os._exit(1)


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
