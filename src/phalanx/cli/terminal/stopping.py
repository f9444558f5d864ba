"""Stop a command on Ctrl-C, SIGTERM or the end of the terminal (SIGHUP). If `nohup` started the command, SIGHUP stays
ignored."""

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


class StopWish:
    """An event that the first stop signal sets. `number`: the number of the signal; None until it arrives."""

    def __init__(self) -> None:
        self.number: signal.Signals | None = None
        self._came = asyncio.Event()

    def set(self, number: signal.Signals) -> None:
        self.number = number
        self._came.set()

    def is_set(self) -> bool:
        return self._came.is_set()

    async def wait(self) -> None:
        await self._came.wait()


@contextmanager
def stop_wish() -> Iterator[StopWish]:
    """Yield a `StopWish`, which the first stop signal sets. A second signal has its default effect.

    A SIGHUP that was ignored before stays ignored. SIGINT has its effect even if it was ignored before: shells start
    background commands with an ignored SIGINT, but `kill -INT` must stop these commands too."""
    loop, wish = asyncio.get_running_loop(), StopWish()
    listened = [one for one in STOPPING if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]

    def forget() -> None:
        for number in listened:
            loop.remove_signal_handler(number)

    def hear(number: signal.Signals) -> None:
        wish.set(number)
        forget()

    for number in listened:
        loop.add_signal_handler(number, hear, number)
    try:
        yield wish
    finally:
        forget()


@contextmanager
def stop_asked() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after a stop signal has arrived. It is for code that computes without giving
    control to the event loop. A second signal has its default effect. A signal that the parent process set to be
    ignored (`nohup`, `&`) stays ignored."""
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
    """Request that the kernel kills this process when its parent process `parent` dies (Linux: PR_SET_PDEATHSIG,
    prctl(2))."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died between fork and prctl
        os._exit(1)


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends, or until a stop signal cancels it. Raise the error of `work` if there is one."""
    with stop_wish() as wish:
        working, stopping = asyncio.create_task(work), asyncio.create_task(wish.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if working.done():
            working.result()
            return
        working.cancel()
        await asyncio.wait({working})
