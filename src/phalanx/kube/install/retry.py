"""Repeat a request until the API server answers, for requests without which the scheduler cannot begin.

Only for requests that may be repeated: reads, and creations of objects that may exist already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from phalanx.client.connection import ApiRefusal, ApiUnknown

log = logging.getLogger(__name__)

Found = TypeVar("Found")
_BACKOFF_S = (0.1, 0.5, 1.0, 2.0)
_REFUSED_S = (0.5, 1.0, 2.0)


async def until_answered(call: Callable[[], Awaitable[Found]]) -> Found:
    """Repeat the call until the server answers, and return the answer. A refusal is raised at once."""
    failures = 0
    while True:
        try:
            return await call()
        except ApiUnknown as error:
            log.warning("tried again: %s", error)
            await asyncio.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
            failures += 1


async def until_surely_refused(call: Callable[[], Awaitable[Found]]) -> Found:
    """Repeat the call as `until_answered` does, and raise a 403 only after several of them. An API server that has just
    started answers 403 until it has read all roles."""
    for pause_s in _REFUSED_S:
        try:
            return await until_answered(call)
        except ApiRefusal as error:
            if error.code != 403:
                raise
            log.info("asked again in %g s: %s", pause_s, error)
            await asyncio.sleep(pause_s)
    return await until_answered(call)
