"""A queue of keys: each key is in it once, and only one task at a time has a key."""

from __future__ import annotations

import asyncio

from phalanx.clusters.copies.sendable import Key


class Keys:
    """Keys to look at, the oldest first. A key that comes while a task has it is taken again afterwards."""

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
        """Add a key after some time."""
        asyncio.get_running_loop().call_later(seconds, self.put, key)

    async def take(self) -> Key:
        """Return the next key that no task has."""
        async with self._news:
            while True:
                for key in self._waiting:
                    if key not in self._busy:
                        del self._waiting[key]
                        self._busy.add(key)
                        return key
                await self._news.wait()

    def done(self, key: Key) -> None:
        """Give the key back."""
        self._busy.discard(key)
        if key in self._waiting:
            self._wake()

    @property
    def idle(self) -> bool:
        """Return whether no key waits, and no task has one."""
        return not self._waiting and not self._busy

    def _wake(self) -> None:
        async def notify() -> None:
            async with self._news:
                self._news.notify()

        task = asyncio.ensure_future(notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
