"""The coroutines of `phalanx.api.aio` as ordinary functions for scripts and notebooks. Each function waits for its
result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from phalanx.api import aio

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def _blocking(call: Callable[Parameters, Coroutine[Any, Any, Answer]]) -> Callable[Parameters, Answer]:
    """Return a function that runs the coroutine function `call` and waits for its result. If the caller's thread has a
    running event loop (as in notebooks), another thread runs the coroutine."""

    @wraps(call)
    def wait(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(call(*args, **kwargs))
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(lambda: asyncio.run(call(*args, **kwargs))).result()

    return wait


submit = _blocking(aio.submit)
wait = _blocking(aio.wait)
logs = _blocking(aio.logs)
explain = _blocking(aio.explain)
jobs = _blocking(aio.jobs)
queues = _blocking(aio.queues)
simulate = _blocking(aio.simulate)
