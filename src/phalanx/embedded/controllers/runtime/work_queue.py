"""A queue of keys that workers reconcile: a key is in the queue at most once, two workers never have it at a time, and
after a failure it comes back with a growing delay.

The contract is that of client-go's rate-limiting workqueue. A key that is added while a worker has it is reconciled
once more afterwards. A delayed key becomes ready at the earliest time that was requested.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from phalanx.client.connection import ApiError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The delay after a failure: `first_s`, doubled each time, at most `most_s`."""

    first_s: float = 1.0
    most_s: float = 60.0

    def after_s(self, failures: int) -> float:
        return min(self.first_s * 2.0 ** min(failures - 1, 30), self.most_s)


class WorkQueue:
    """`work(key)` is called for every added key. If it raises an exception, it is called again after a delay that
    grows. `on_defect(key, exception)`, if it is given, is called for exceptions that are no answer of the API."""

    def __init__(
        self,
        name: str,
        work: Callable[[str], Awaitable[None]],
        *,
        workers: int = 8,
        retry: Retry | None = None,
    ) -> None:
        self._name, self._work = name, work
        self._workers, self._retry = workers, retry or Retry()
        self._ready: deque[str] = deque()
        self._dirty: set[str] = set()
        self._running: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}
        self._wake = asyncio.Semaphore(0)
        self.on_defect: Callable[[str, Exception], None] | None = None

    def __len__(self) -> int:
        """Return the number of keys that are ready or being worked on. Delayed keys are not counted."""
        return len(self._ready) + len(self._running)

    def is_running(self, key: str) -> bool:
        """Return whether a worker has the key at this moment."""
        return key in self._running

    def add(self, key: str) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._running:
            self._push(key)

    def add_after(self, key: str, delay_s: float) -> None:
        if delay_s <= 0:
            self.add(key)
            return
        if key in self._dirty:
            return  # the key is reconciled before that
        loop = asyncio.get_running_loop()
        if (timer := self._timers.get(key)) is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self.add, key)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._worker())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _worker(self) -> None:
        while True:
            await self._wake.acquire()
            key = self._ready.popleft()
            self._dirty.discard(key)
            self._running.add(key)
            try:
                await self._work(key)
                self._failures.pop(key, None)
            except Exception as error:  # one key reveals a defect: it is logged and tried again, and other keys go on
                self._fail(key, error)
            finally:
                self._running.discard(key)
                if key in self._dirty:
                    self._push(key)

    def _fail(self, key: str, error: Exception) -> None:
        """Log the error of one object and go on, because a controller must outlive any single object. An error that is
        no response of the API is a defect."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay_s = self._retry.after_s(failures)
        if isinstance(error, ApiError):
            log.info("%s %s: %s; again in %.1f s", self._name, key, error, delay_s)
        else:
            # The traceback is logged once: users may create many objects that raise it.
            first = error if failures == 1 else None
            log.error("%s %s: %r; again in %.1f s", self._name, key, error, delay_s, exc_info=first)
            if self.on_defect is not None:
                self.on_defect(key, error)
        self.add_after(key, delay_s)

    def _push(self, key: str) -> None:
        self._ready.append(key)
        self._wake.release()
