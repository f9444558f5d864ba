"""An event loop whose time advances only when all tasks wait: a task that sleeps an hour is woken at once.

It is for tests without sockets and processes. Their time measurements are exact, whatever the load of the machine.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Skipping(selectors.SelectSelector):
    """Instead of waiting for the next timer it moves the clock there."""

    now_s = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """The loop's own pipe, and nothing else: what is real takes time that is real."""
        if self.get_map():
            raise AssertionError("a clockwork waits for no sockets and no processes: use asyncio.run")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class Clockwork(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s


def run(scene: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`."""
    with asyncio.Runner(loop_factory=Clockwork) as runner:
        return runner.run(scene)


async def settle(most: int) -> None:
    """Everybody goes on until nobody can unless time passes; at most so often."""
    ready, idle = asyncio.get_running_loop()._ready, 0  # type: ignore[attr-defined]  # each loop of asyncio has it
    for _ in range(most):
        await asyncio.sleep(0)
        idle = 0 if ready else idle + 1  # only this task is left; try once more for timers that were due at once
        if idle == 2:
            return
