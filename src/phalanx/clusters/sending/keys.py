"""A queue of keys. Each key is in the queue at most once, and at most one task at a time works on a key."""

from __future__ import annotations

import asyncio

from phalanx.clusters.copies.sendable import Key


class Keys:
    """A queue of keys, the oldest first. If a key is added while a task works on it, the key is taken once more
    afterwards."""

    def __init__(self) -> None:
        self._waiting: dict[Key, None] = {}
        self._busy: set[Key] = set()
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, key: Key) -> None:
        """Add a key."""
        self._waiting[key] = None
        self._wake()

    def later(self, key: Key, seconds: float) -> None:
        """Add a key after the given number of seconds."""
        asyncio.get_running_loop().call_later(seconds, self.put, key)

    async def take(self) -> Key:
        """Wait until there is a key on which no task works, and return it."""
        async with self._news:
            while True:
                for key in self._waiting:
                    if key not in self._busy:
                        del self._waiting[key]
                        self._busy.add(key)
                        return key
                await self._news.wait()

    def done(self, key: Key) -> None:
        """Mark the work on the key as finished."""
        self._busy.discard(key)
        if key in self._waiting:
            self._wake()

    @property
    def idle(self) -> bool:
        """Return whether the queue is empty and no task works on a key."""
        return not self._waiting and not self._busy

    def _wake(self) -> None:
        async def notify() -> None:
            async with self._news:
                self._news.notify()

        task = asyncio.ensure_future(notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
