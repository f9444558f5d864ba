"""Waiting for something to become true, with an end."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

_LOOK_S = 0.02
_AT_MOST_S = 240.0  # nothing takes so long; a busy machine may stall for long


async def until(condition: Callable[[], Any]) -> Any:
    """The first true answer of `condition`, which may be a coroutine function."""
    async with asyncio.timeout(_AT_MOST_S):
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(_LOOK_S)
